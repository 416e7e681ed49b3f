//! One entry of the registry: what its worker says, word by word, and what was found.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64};
use std::time::Duration;

use super::{Begun, Bounds, Carried, Found, Kind, NONE};
use crate::limit::slow::{MaxTime, MinRate, Taken};

/// What is watched, word by word. Its generation is odd while it is in use.
pub struct Entry {
    pub generation: AtomicU64,
    pub fd: AtomicI32,
    slot: AtomicU32,
    owner: AtomicU64,
    pub started: AtomicU64,
    kind: AtomicU8,
    /// Of a stream: the entry of its connection, and the use of that.
    carrier: AtomicU32,
    carrier_generation: AtomicU64,
    is_dry_run: AtomicU8,
    min_bytes: AtomicU64,
    after: AtomicU64,
    window: AtomicU64,
    min_busy: AtomicU8,
    longest: AtomicU64,
    longest_busy: AtomicU8,
    /// When a stream began to wait for its client; 0 while it does not.
    pub blocked: AtomicU64,
    /// For how long it had waited before.
    pub waited: AtomicU64,
    /// Bytes of bodies that went out, of a stream or of all on a connection.
    pub data: AtomicU64,
    /// All else that went out on a connection of HTTP/2.
    pub other: AtomicU64,
    /// As in [`Carried`].
    active: AtomicU32,
    waiting: AtomicU32,
    spared: AtomicU32,
    dry: AtomicU32,
    /// Whether the worker of a stream is done with it.
    pub is_free: AtomicBool,
    /// Whether streams of a connection are to be ended.
    pub is_due: AtomicBool,
    verdict: AtomicU64,
    /// What only a dry run has found: `generation:62 | TOO_SLOW, TOO_LONG`.
    marks: AtomicU64,
    slow_bytes: AtomicU64,
    slow_time: AtomicU64,
    held: AtomicU64,
}

/// A verdict is `generation:62 | what:2`: one that comes too late is of no other response.
const WHAT: u64 = 3;
const OPEN: u64 = 0;
const TOO_SLOW: u64 = 1;
const TOO_LONG: u64 = 2;
/// The response has ended, and nothing was found.
const CLOSED: u64 = 3;

fn verdict(generation: u64, what: u64) -> u64 {
    generation << 2 | what
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

impl Entry {
    pub fn new() -> Entry {
        Entry {
            generation: AtomicU64::new(0),
            fd: AtomicI32::new(-1),
            slot: AtomicU32::new(NONE),
            owner: AtomicU64::new(0),
            started: AtomicU64::new(0),
            kind: AtomicU8::new(0),
            carrier: AtomicU32::new(NONE),
            carrier_generation: AtomicU64::new(0),
            is_dry_run: AtomicU8::new(0),
            min_bytes: AtomicU64::new(0),
            after: AtomicU64::new(0),
            window: AtomicU64::new(0),
            min_busy: AtomicU8::new(0),
            longest: AtomicU64::new(0),
            longest_busy: AtomicU8::new(0),
            blocked: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            data: AtomicU64::new(0),
            other: AtomicU64::new(0),
            active: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            spared: AtomicU32::new(0),
            dry: AtomicU32::new(0),
            is_free: AtomicBool::new(false),
            is_due: AtomicBool::new(false),
            verdict: AtomicU64::new(OPEN),
            marks: AtomicU64::new(OPEN),
            slow_bytes: AtomicU64::new(0),
            slow_time: AtomicU64::new(0),
            held: AtomicU64::new(0),
        }
    }

    /// Fills a free entry, all but its generation.
    pub fn fill(&self, begun: &Begun, generation: u64) {
        self.fd.store(begun.fd, Relaxed);
        self.sit(begun.seat);
        self.started.store(begun.now, Relaxed);
        let (kind, carrier) = match begun.kind {
            Kind::Response => (0, None),
            Kind::Carrier => (1, None),
            Kind::Stream(carrier) => (2, Some(carrier)),
        };
        self.kind.store(kind, Relaxed);
        self.carrier
            .store(carrier.map_or(NONE, |index| index.at), Relaxed);
        self.carrier_generation
            .store(carrier.map_or(0, |index| index.generation), Relaxed);
        let numbers = [&self.blocked, &self.waited, &self.data, &self.other];
        let found = [&self.slow_bytes, &self.slow_time, &self.held];
        for word in numbers.into_iter().chain(found) {
            word.store(0, Relaxed);
        }
        self.carry(Carried::default());
        self.is_free.store(false, Relaxed);
        self.is_due.store(false, Relaxed);
        self.verdict.store(verdict(generation, OPEN), Relaxed);
        self.marks.store(verdict(generation, OPEN), Relaxed);
        self.set(&Bounds::default());
    }

    /// Whoever reads the two meanwhile writes nothing at a desk: that has one owner.
    pub fn sit(&self, seat: Option<(u32, u64)>) {
        let (slot, owner) = seat.unwrap_or((NONE, 0));
        self.owner.store(owner, Relaxed);
        self.slot.store(slot, Relaxed);
    }

    pub fn seat(&self) -> Option<(u32, u64)> {
        let slot = self.slot.load(Relaxed);
        (slot != NONE).then(|| (slot, self.owner.load(Relaxed)))
    }

    pub fn carry(&self, carried: Carried) {
        self.active.store(carried.active, Relaxed);
        self.waiting.store(carried.waiting, Relaxed);
        self.spared.store(carried.spared, Relaxed);
        self.dry.store(carried.dry, Relaxed);
    }

    pub fn carried(&self) -> Carried {
        Carried {
            active: self.active.load(Relaxed),
            waiting: self.waiting.load(Relaxed),
            spared: self.spared.load(Relaxed),
            dry: self.dry.load(Relaxed),
        }
    }

    pub fn kind(&self) -> Kind {
        match self.kind.load(Relaxed) {
            0 => Kind::Response,
            1 => Kind::Carrier,
            _ => Kind::Stream(super::WatchedIndex {
                at: self.carrier.load(Relaxed),
                generation: self.carrier_generation.load(Relaxed),
            }),
        }
    }

    pub fn set(&self, bounds: &Bounds) {
        let min = bounds.min_rate;
        // Off while the rest changes: whoever reads it half changed finds nothing to end.
        // Release, here and at the end: the rest is of before or after.
        self.min_bytes.store(0, Release);
        self.longest.store(0, Release);
        self.is_dry_run.store(bounds.is_dry_run.into(), Relaxed);
        self.after
            .store(min.map_or(0, |min| nanos(min.after)), Relaxed);
        self.window
            .store(min.map_or(0, |min| nanos(min.window)), Relaxed);
        self.min_busy
            .store(min.and_then(|min| min.busy).unwrap_or(0), Relaxed);
        let max = bounds.max_time;
        self.longest_busy
            .store(max.and_then(|max| max.busy).unwrap_or(0), Relaxed);
        self.min_bytes
            .store(min.map_or(0, |min| min.bytes), Release);
        self.longest
            .store(max.map_or(0, |max| nanos(max.time)), Release);
    }

    pub fn bounds(&self) -> Bounds {
        let percent = |busy: &AtomicU8| Some(busy.load(Acquire)).filter(|percent| *percent != 0);
        let time = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Acquire));
        // Acquire: pairs with the Releases of `set`; what changes meanwhile is no bound yet.
        let bytes = self.min_bytes.load(Acquire);
        let longest = time(&self.longest);
        let read = Bounds {
            min_rate: (bytes != 0).then(|| MinRate {
                bytes,
                after: time(&self.after),
                window: time(&self.window),
                busy: percent(&self.min_busy),
            }),
            max_time: (!longest.is_zero()).then(|| MaxTime {
                time: longest,
                busy: percent(&self.longest_busy),
            }),
            is_dry_run: self.is_dry_run.load(Acquire) != 0,
        };
        let is_whole = self.min_bytes.load(Relaxed) == bytes && time(&self.longest) == longest;
        match is_whole {
            true => read,
            false => Bounds {
                min_rate: None,
                max_time: None,
                ..read
            },
        }
    }

    pub fn is_open(&self, generation: u64) -> bool {
        self.verdict.load(Relaxed) == verdict(generation, OPEN)
    }

    /// Which of the two a dry run has found already: too slow, too long.
    pub fn is_marked(&self, generation: u64) -> [bool; 2] {
        let word = self.marks.load(Relaxed);
        [TOO_SLOW, TOO_LONG].map(|what| word >> 2 == generation && word & what != 0)
    }

    fn write(&self, found: Found) -> u64 {
        match found {
            Found::TooSlow(taken) => {
                self.slow_bytes.store(taken.bytes, Relaxed);
                self.slow_time.store(taken.time, Relaxed);
                TOO_SLOW
            }
            Found::TooLong(time) => {
                self.held.store(nanos(time), Relaxed);
                TOO_LONG
            }
        }
    }

    fn read(&self, what: u64) -> Option<Found> {
        match what {
            TOO_SLOW => Some(Found::TooSlow(Taken {
                bytes: self.slow_bytes.load(Relaxed),
                time: self.slow_time.load(Relaxed),
            })),
            TOO_LONG => Some(Found::TooLong(Duration::from_nanos(
                self.held.load(Relaxed),
            ))),
            _ => None,
        }
    }

    pub fn decide(&self, generation: u64, found: Found) -> bool {
        let open = verdict(generation, OPEN);
        if self.verdict.load(Relaxed) != open {
            return false;
        }
        let what = self.write(found);
        // Release: pairs with the Acquire of `found`.
        self.verdict
            .compare_exchange(open, verdict(generation, what), Release, Relaxed)
            .is_ok()
    }

    pub fn mark(&self, generation: u64, found: Found) -> bool {
        let before = self.marks.load(Relaxed);
        let what = match found {
            Found::TooSlow(_) => TOO_SLOW,
            Found::TooLong(_) => TOO_LONG,
        };
        if before >> 2 != generation || before & what != 0 || !self.is_open(generation) {
            return false;
        }
        self.write(found);
        // Release: pairs with the Acquire of `marks`.
        self.marks
            .compare_exchange(before, before | what, Release, Relaxed)
            .is_ok()
    }

    pub fn close(&self, generation: u64) {
        let [open, closed] = [OPEN, CLOSED].map(|what| verdict(generation, what));
        // AcqRel: whoever decides now comes too late, whoever did is seen.
        let _ = self.verdict.compare_exchange(open, closed, AcqRel, Relaxed);
    }

    pub fn found(&self, generation: u64) -> Option<Found> {
        // Acquire: pairs with the Release of `decide`.
        let word = self.verdict.load(Acquire);
        self.read(word & WHAT).filter(|_| word >> 2 == generation)
    }

    pub fn marks(&self, generation: u64) -> [Option<Found>; 2] {
        // Acquire: pairs with the Release of `mark`.
        let word = self.marks.load(Acquire);
        [TOO_SLOW, TOO_LONG].map(|what| self.read(word & what).filter(|_| word >> 2 == generation))
    }
}
