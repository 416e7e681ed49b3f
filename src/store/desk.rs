//! What the workers of the scoreboard's slots are at: since when, and for what request.
//!
//! Written by the worker in its slot, read by anybody: a number that is odd while it
//! writes, and that readers compare before and after. A text that does not fit is cut.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::ledger::RecordIndex;
use super::words;

/// Bytes of a path that are kept.
pub const PATH: usize = 96;
/// Bytes of a virtual host's name that are kept.
pub const HOST: usize = 40;

/// One slot.
#[repr(C, align(64))]
pub struct Desk {
    version: AtomicU64,
    /// Whose it is, as of a seat: in a child that finishes gracefully a worker may think
    /// that it has the slot still.
    owner: AtomicU64,
    /// Microseconds of the wall clock; 0 for never.
    since: AtomicU64,
    /// The record of a rule that governs the request, plus 1.
    rule: AtomicU64,
    /// `path:32 | host:32`, in bytes.
    lengths: AtomicU64,
    /// What the watch has measured: bytes that the client took, and in how many
    /// milliseconds; plus 1, 0 for nothing.
    taken: AtomicU64,
    millis: AtomicU64,
    /// The rate of a client that is too slow, in bytes a second, plus 1; 0 for none.
    slow: AtomicU64,
    host: [AtomicU64; HOST / 8],
    path: [AtomicU64; PATH / 8],
}

/// The slots, by number.
#[derive(Clone, Copy)]
pub struct Desks {
    desks: &'static [Desk],
}

/// What a worker is at, as read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Since when, in microseconds of the wall clock.
    pub since: u64,
    /// The rule that governs the request.
    pub rule: Option<RecordIndex>,
    /// Its virtual host and its path, cut; where a rule governs it.
    pub request: Option<(Vec<u8>, Vec<u8>)>,
    /// Bytes that the client took, and in how many milliseconds, where that is watched.
    pub taken: Option<(u64, u64)>,
}

impl Desks {
    pub(super) fn new(desks: &'static [Desk]) -> Self {
        Desks { desks }
    }

    /// The desk of this slot, while it is this owner's.
    #[inline]
    fn of(&self, slot: u32, owner: u64) -> Option<&'static Desk> {
        let desk = self.desks.get(slot as usize)?;
        (desk.owner.load(Relaxed) == owner).then_some(desk)
    }

    /// Somebody sits down in this slot, whose it is from now on, and begins with something.
    /// `owner` is that of the seat, `since` as in [`Work`].
    #[inline]
    pub fn take(&self, slot: u32, owner: u64, since: u64) {
        if let Some(desk) = self.desks.get(slot as usize) {
            desk.owner.store(owner, Relaxed);
            self.begin(slot, owner, since);
        }
    }

    /// The worker of this slot begins with something new.
    #[inline]
    pub fn begin(&self, slot: u32, owner: u64, since: u64) {
        if let Some(desk) = self.of(slot, owner) {
            let version = desk.open();
            desk.since.store(since, Release);
            desk.rule.store(0, Release);
            desk.lengths.store(0, Release);
            desk.taken.store(0, Release);
            desk.slow.store(0, Relaxed);
            desk.close(version);
        }
    }

    /// What the request is that the worker of this slot serves.
    #[inline]
    pub fn describe(
        &self,
        (slot, owner): (u32, u64),
        rule: Option<RecordIndex>,
        host: &[u8],
        path: &[u8],
    ) {
        if let Some(desk) = self.of(slot, owner) {
            let version = desk.open();
            let rule = rule.map_or(0, |RecordIndex(at)| u64::from(at) + 1);
            desk.rule.store(rule, Release);
            let (host, path) = (
                words::write(&desk.host, host),
                words::write(&desk.path, path),
            );
            desk.lengths.store((host | path << 32) as u64, Release);
            desk.close(version);
        }
    }

    /// What the watch has measured. Not the worker's own doing: it only adds.
    pub fn measure(&self, (slot, owner): (u32, u64), bytes: u64, millis: u64) {
        if let Some(desk) = self.of(slot, owner) {
            desk.millis.store(millis, Relaxed);
            desk.taken.store(bytes.saturating_add(1), Relaxed);
        }
    }

    /// Whether the client of this slot's worker is too slow, and at which rate.
    pub fn mark_slow(&self, (slot, owner): (u32, u64), rate: Option<u64>) {
        if let Some(desk) = self.of(slot, owner) {
            let mark = rate.map_or(0, |rate| rate.saturating_add(1));
            desk.slow.store(mark, Relaxed);
        }
    }

    /// How many busy workers have a client that is marked as slower than this one's; of
    /// those that are as slow, each has the lower slots before it. A worker that is not busy
    /// may have kept its mark: its process was killed.
    pub fn slower_than(&self, slot: u32, rate: u64, is_busy: impl Fn(u32) -> bool) -> usize {
        let is_before = |other: u32, desk: &Desk| {
            let mark = desk.slow.load(Relaxed);
            let other_rate = mark.checked_sub(1);
            other_rate.is_some_and(|other_rate| (other_rate, other) < (rate, slot))
        };
        let desks = (0..).zip(self.desks);
        desks
            .filter(|(other, desk)| is_before(*other, desk) && is_busy(*other))
            .count()
    }

    /// What the worker of this slot is at; None while that changes all the time.
    pub fn read(&self, slot: u32) -> Option<Work> {
        const ENOUGH: usize = 100;
        let desk = self.desks.get(slot as usize)?;
        (0..ENOUGH).find_map(|_| desk.read())
    }
}

impl Desk {
    #[inline]
    fn open(&self) -> u64 {
        // A killed worker may have left it open.
        let version = self.version.load(Relaxed) | 1;
        self.version.store(version, Relaxed);
        version
    }

    #[inline]
    fn close(&self, version: u64) {
        // Release: pairs with the Acquire of `read`: what it closes is whole. The stores
        // between are Release too: whoever sees one of them sees the desk open.
        self.version.store(version.wrapping_add(1), Release);
    }

    fn read(&self) -> Option<Work> {
        let version = self.version.load(Acquire);
        if version % 2 == 1 {
            return None;
        }
        let (rule, lengths) = (self.rule.load(Acquire), self.lengths.load(Acquire));
        let (taken, millis) = (self.taken.load(Acquire), self.millis.load(Acquire));
        let work = Work {
            since: self.since.load(Acquire),
            rule: rule.checked_sub(1).map(|at| RecordIndex(at as u32)),
            request: (lengths != 0).then(|| {
                (
                    words::read(&self.host, lengths as u32 as usize),
                    words::read(&self.path, (lengths >> 32) as usize),
                )
            }),
            taken: taken.checked_sub(1).map(|bytes| (bytes, millis)),
        };
        // The loads above are Acquire, so this one comes last.
        (self.version.load(Relaxed) == version).then_some(work)
    }
}
