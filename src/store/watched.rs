//! The responses of this child that are watched for slow clients: what their workers say,
//! and what the watch has found.
//!
//! An entry is taken when a response begins and given back when it ends, by stores to this
//! process's memory and nothing else. Its generation is odd while it is in use: whoever
//! reads it on another thread reads the generation before and after.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};
use std::time::Duration;

use crate::limit::slow::{MaxTime, MinRate, Taken};

/// Entries whose bits share a word.
const GROUP: usize = 64;

/// No descriptor, no slot.
const NONE: u32 = u32::MAX;

/// The responses of a child.
pub struct Watched {
    entries: Box<[Entry]>,
    /// Free entries, a bit each.
    free: Box<[AtomicU64]>,
    recent: AtomicU32,
}

/// One use of an entry. Once that is over it says and finds nothing, whose the entry may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchedIndex {
    at: u32,
    generation: u64,
}

/// One response.
pub struct Entry {
    generation: AtomicU64,
    fd: AtomicI32,
    slot: AtomicU32,
    started: AtomicU64,
    is_stream: AtomicU8,
    is_sent: AtomicU8,
    is_dry_run: AtomicU8,
    min_bytes: AtomicU64,
    after: AtomicU64,
    window: AtomicU64,
    min_busy: AtomicU8,
    longest: AtomicU64,
    longest_busy: AtomicU8,
    /// When a stream began to wait for its client; 0 while it does not.
    blocked: AtomicU64,
    verdict: AtomicU64,
    bytes: AtomicU64,
    time: AtomicU64,
}

/// What is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// `IPLimitMinRate`
    pub min_rate: Option<MinRate>,
    /// `IPLimitMaxTime`
    pub max_time: Option<MaxTime>,
    /// Whether what is found is only told.
    pub is_dry_run: bool,
}

/// An entry in use, as read at one moment.
#[derive(Clone, Copy)]
pub struct Response {
    /// Of this use of the entry.
    pub generation: u64,
    /// The socket of its connection.
    pub fd: i32,
    /// The scoreboard slot of its worker, if it has one.
    pub slot: Option<u32>,
    /// When it began, in nanoseconds.
    pub started: u64,
    /// Whether it is a stream of HTTP/2, which shares its connection.
    pub is_stream: bool,
    /// What it is watched for.
    pub bounds: Bounds,
    /// Since when a stream waits for its client, in nanoseconds.
    pub blocked: Option<u64>,
    /// Whether something was found already.
    pub is_decided: bool,
}

/// What the watch has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The client takes it too slowly: so much over the window.
    TooSlow(Taken),
    /// It lasts too long.
    TooLong(Duration),
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

impl Watched {
    /// Room for so many responses at a time.
    pub fn new(room: usize) -> Watched {
        let groups = room.div_ceil(GROUP).max(1);
        Watched {
            entries: (0..groups * GROUP).map(|_| Entry::new()).collect(),
            free: (0..groups).map(|_| AtomicU64::new(u64::MAX)).collect(),
            recent: AtomicU32::new(0),
        }
    }

    /// A response begins; None where there is no room, and then it is not watched.
    pub fn begin(
        &self,
        fd: i32,
        slot: Option<u32>,
        is_stream: bool,
        now: u64,
    ) -> Option<WatchedIndex> {
        let at = self.take()?;
        let entry = &self.entries[at as usize];
        entry.fd.store(fd, Relaxed);
        entry.slot.store(slot.unwrap_or(NONE), Relaxed);
        entry.started.store(now, Relaxed);
        entry.is_stream.store(is_stream.into(), Relaxed);
        entry.is_sent.store(0, Relaxed);
        for word in [&entry.blocked, &entry.bytes, &entry.time] {
            word.store(0, Relaxed);
        }
        let generation = entry.generation.load(Relaxed) + 1;
        entry.verdict.store(verdict(generation, OPEN), Relaxed);
        entry.set(&Bounds {
            min_rate: None,
            max_time: None,
            is_dry_run: false,
        });
        // Release: pairs with the Acquire of `read`: all of the above is seen.
        entry.generation.store(generation, Release);
        Some(WatchedIndex { at, generation })
    }

    /// The entry, while it is in this use.
    fn of(&self, index: WatchedIndex) -> Option<&Entry> {
        let entry = self.entries.get(index.at as usize)?;
        (entry.generation.load(Relaxed) == index.generation).then_some(entry)
    }

    /// What is watched for from now on.
    pub fn bound(&self, index: WatchedIndex, bounds: &Bounds) {
        if let Some(entry) = self.of(index) {
            entry.set(bounds);
        }
    }

    /// The response has ended. Callable from a signal handler.
    pub fn end(&self, index: WatchedIndex) {
        let (at, Some(entry)) = (index.at, self.of(index)) else {
            return;
        };
        // AcqRel: nothing of the next use comes before, nothing of this one after.
        entry.generation.fetch_add(1, AcqRel);
        let (group, bit) = (at as usize / GROUP, 1u64 << (at as usize % GROUP));
        // Release: pairs with the Acquire of `take`.
        self.free[group].fetch_or(bit, Release);
        self.recent.store(group as u32, Relaxed);
    }

    /// What the watch has found.
    pub fn found(&self, index: WatchedIndex) -> Option<Found> {
        let entry = self.of(index)?;
        // Acquire: pairs with the Release of `decide`.
        let word = entry.verdict.load(Acquire);
        let time = entry.time.load(Relaxed);
        match word & WHAT {
            _ if word >> 2 != index.generation => None,
            TOO_SLOW => Some(Found::TooSlow(Taken {
                bytes: entry.bytes.load(Relaxed),
                time,
            })),
            TOO_LONG => Some(Found::TooLong(Duration::from_nanos(time))),
            _ => None,
        }
    }

    /// What is watched for in a response that is under way.
    pub fn bounds(&self, index: WatchedIndex) -> Option<Bounds> {
        Some(self.of(index)?.bounds())
    }

    /// Notes what its own worker has found; false if something was found before.
    pub fn decide_own(&self, index: WatchedIndex, found: Found) -> bool {
        self.decide(index.at as usize, index.generation, found)
    }

    /// The response is over, and nothing is found any more; what was.
    pub fn close(&self, index: WatchedIndex) -> Option<Found> {
        let entry = self.of(index)?;
        let [open, closed] = [OPEN, CLOSED].map(|what| verdict(index.generation, what));
        // AcqRel: whoever decides now comes too late, whoever did is seen.
        let _ = entry
            .verdict
            .compare_exchange(open, closed, AcqRel, Relaxed);
        self.found(index)
    }

    /// A stream begins to wait for its client, or has waited.
    pub fn blocks(&self, index: WatchedIndex, since: Option<u64>) {
        if let Some(entry) = self.of(index) {
            entry.blocked.store(since.unwrap_or(0), Relaxed);
        }
    }

    /// The last byte of a stream has gone out; its request may end much later.
    pub fn sent(&self, index: WatchedIndex) {
        if let Some(entry) = self.of(index) {
            entry.is_sent.store(1, Relaxed);
        }
    }

    /// Another worker carries the response now, or none does.
    pub fn moves(&self, index: WatchedIndex, slot: Option<u32>) {
        if let Some(entry) = self.of(index) {
            entry.slot.store(slot.unwrap_or(NONE), Relaxed);
        }
    }

    /// How many entries there are.
    pub fn room(&self) -> usize {
        self.entries.len()
    }

    /// The entry of this number, if it is in use and not all of it is sent.
    pub fn read(&self, at: usize) -> Option<Response> {
        let entry = self.entries.get(at)?;
        // Acquire: pairs with the Release of `begin`.
        let generation = entry.generation.load(Acquire);
        if generation % 2 == 0 || entry.is_sent.load(Relaxed) != 0 {
            return None;
        }
        let slot = entry.slot.load(Relaxed);
        let blocked = entry.blocked.load(Relaxed);
        let response = Response {
            generation,
            fd: entry.fd.load(Relaxed),
            slot: (slot != NONE).then_some(slot),
            started: entry.started.load(Relaxed),
            is_stream: entry.is_stream.load(Relaxed) != 0,
            bounds: entry.bounds(),
            blocked: (blocked != 0).then_some(blocked),
            is_decided: entry.verdict.load(Relaxed) & WHAT != OPEN,
        };
        self.is_still(at, generation).then_some(response)
    }

    /// Whether the entry is still in the same use.
    pub fn is_still(&self, at: usize, generation: u64) -> bool {
        let entry = self.entries.get(at);
        // AcqRel by way of an exchange of nothing: no load before it moves behind it.
        entry.is_some_and(|entry| entry.generation.fetch_add(0, AcqRel) == generation)
    }

    /// Notes what was found in this use of the entry, for whoever ends the response. False,
    /// and nothing is found, if it has ended, or something was found before.
    pub fn decide(&self, at: usize, generation: u64, found: Found) -> bool {
        let Some(entry) = self.entries.get(at) else {
            return false;
        };
        let open = verdict(generation, OPEN);
        if entry.verdict.load(Relaxed) != open {
            return false;
        }
        let (what, bytes, time) = match found {
            Found::TooSlow(taken) => (TOO_SLOW, taken.bytes, taken.time),
            Found::TooLong(time) => (TOO_LONG, 0, time.as_nanos() as u64),
        };
        entry.bytes.store(bytes, Relaxed);
        entry.time.store(time, Relaxed);
        // Release: pairs with the Acquire of `found`.
        entry
            .verdict
            .compare_exchange(open, verdict(generation, what), Release, Relaxed)
            .is_ok()
    }

    fn take(&self) -> Option<u32> {
        let groups = self.free.len();
        let first = self.recent.load(Relaxed) as usize;
        for i in 0..groups {
            let group = (first + i) % groups;
            let free = &self.free[group];
            let mut bits = free.load(Relaxed);
            while bits != 0 {
                // Acquire: pairs with the Release of `end`.
                match free.compare_exchange_weak(bits, bits & (bits - 1), Acquire, Relaxed) {
                    Ok(_) => {
                        self.recent.store(group as u32, Relaxed);
                        return Some((group * GROUP) as u32 + bits.trailing_zeros());
                    }
                    Err(now) => bits = now,
                }
            }
        }
        None
    }
}

impl Entry {
    fn new() -> Entry {
        Entry {
            generation: AtomicU64::new(0),
            fd: AtomicI32::new(-1),
            slot: AtomicU32::new(NONE),
            started: AtomicU64::new(0),
            is_stream: AtomicU8::new(0),
            is_sent: AtomicU8::new(0),
            is_dry_run: AtomicU8::new(0),
            min_bytes: AtomicU64::new(0),
            after: AtomicU64::new(0),
            window: AtomicU64::new(0),
            min_busy: AtomicU8::new(0),
            longest: AtomicU64::new(0),
            longest_busy: AtomicU8::new(0),
            blocked: AtomicU64::new(0),
            verdict: AtomicU64::new(OPEN),
            bytes: AtomicU64::new(0),
            time: AtomicU64::new(0),
        }
    }

    fn set(&self, bounds: &Bounds) {
        let nanos = |time: Duration| time.as_nanos() as u64;
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

    fn bounds(&self) -> Bounds {
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
}

#[cfg(test)]
mod tests;
