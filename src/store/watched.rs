//! The responses of this child that are watched for slow clients: what their workers say,
//! and what the watch has found.
//!
//! An entry is taken when a response begins and given back when it ends, by stores to this
//! process's memory and nothing else. Its generation is odd while it is in use: whoever
//! reads it on another thread reads the generation before and after. Of HTTP/2 a connection
//! that has streams with bounds has an entry, and of those each that has a worker still or is
//! of use without.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use super::words;
use crate::limit::slow::{MaxTime, MinRate, Taken};
use entry::Entry;

mod entry;
mod streams;

/// Entries whose bits share a word.
const GROUP: usize = 64;

/// Of so many groups streams of HTTP/2 leave one to all else: a client has many.
const RESERVE: usize = 4;

/// No descriptor, no slot, no entry.
const NONE: u32 = u32::MAX;

/// The responses of a child.
pub struct Watched {
    entries: Box<[Entry]>,
    /// Free entries, a bit each.
    free: Box<[AtomicU64]>,
    /// How many entries are of streams that hold no worker.
    free_streams: AtomicU32,
    recent: AtomicU32,
}

/// One use of an entry. Once that is over it says and finds nothing, whose the entry may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchedIndex {
    at: u32,
    generation: u64,
}

/// What an entry is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A response that has its connection for itself.
    Response,
    /// A connection of HTTP/2.
    Carrier,
    /// A stream of the connection that has this entry.
    Stream(WatchedIndex),
}

/// What is said when something begins to be watched.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// The socket of its connection.
    pub fd: i32,
    /// The scoreboard slot of its worker, if it has one, and who sits there.
    pub seat: Option<(u32, u64)>,
    /// What it is.
    pub kind: Kind,
    /// When it began, in nanoseconds.
    pub now: u64,
}

/// What is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    /// `IPLimitMinRate`
    pub min_rate: Option<MinRate>,
    /// `IPLimitMaxTime`
    pub max_time: Option<MaxTime>,
    /// Whether what is found is only told.
    pub is_dry_run: bool,
}

impl Bounds {
    /// Whether nothing is watched for.
    pub fn is_idle(&self) -> bool {
        self.min_rate.is_none() && self.max_time.is_none()
    }

    /// The minimum, where to miss it is to be cut.
    pub fn min_rate_in_earnest(&self) -> Option<MinRate> {
        self.min_rate.filter(|_| !self.is_dry_run)
    }
}

/// How many streams of a connection have not gone out whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carried {
    /// That do not wait for its client.
    pub active: u32,
    /// That do.
    pub waiting: u32,
    /// Of both, those that nobody may cut for being slow.
    pub spared: u32,
    /// Of these, those of which a dry run tells.
    pub dry: u32,
}

/// An entry in use, as read at one moment.
#[derive(Clone, Copy)]
pub struct Response {
    /// Which use of which entry.
    pub index: WatchedIndex,
    /// The socket of its connection.
    pub fd: i32,
    /// The scoreboard slot of its worker, if it has one, and who sits there.
    pub seat: Option<(u32, u64)>,
    /// When it began, in nanoseconds.
    pub started: u64,
    /// What it is.
    pub kind: Kind,
    /// What it is watched for.
    pub bounds: Bounds,
    /// Since when a stream waits for its client, or all of a connection, in nanoseconds.
    pub blocked: Option<u64>,
    /// For how long it has waited in all, until then.
    pub waited: u64,
    /// Bytes of bodies that went out, of a stream or of all streams of a connection.
    pub data: u64,
    /// What else went out on a connection of HTTP/2.
    pub other: u64,
    /// Whether no worker of HTTP/2 is with it any more.
    pub is_free: bool,
    /// What a connection of HTTP/2 carries.
    pub carried: Carried,
    /// Whether it is over, or something was found already.
    pub is_decided: bool,
    /// Whether a dry run has found it too slow already, and too long.
    pub is_marked: [bool; 2],
}

/// What the watch has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The client takes it too slowly: so much over the window.
    TooSlow(Taken),
    /// It lasts too long.
    TooLong(Duration),
}

/// All that was found of one response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Why it was cut.
    pub cut: Option<Found>,
    /// Why a dry run would have cut it.
    pub marks: [Option<Found>; 2],
    /// Whether the cut was charged already.
    pub is_charged: bool,
}

impl WatchedIndex {
    /// The number of the entry.
    pub fn at(self) -> usize {
        self.at as usize
    }
}

impl Watched {
    /// Room for so many responses at a time.
    pub fn new(room: usize) -> Watched {
        let groups = room.div_ceil(GROUP).max(1);
        Watched {
            entries: (0..groups * GROUP).map(|_| Entry::new()).collect(),
            free: (0..groups).map(|_| AtomicU64::new(u64::MAX)).collect(),
            free_streams: AtomicU32::new(0),
            recent: AtomicU32::new(0),
        }
    }

    /// Something begins; None where there is no room, and then it is not watched.
    pub fn begin(&self, begun: Begun) -> Option<WatchedIndex> {
        let groups = self.free.len();
        let at = self.take(match begun.kind {
            Kind::Stream(_) => (groups - groups.div_ceil(RESERVE)).max(1),
            Kind::Response | Kind::Carrier => groups,
        })?;
        let entry = &self.entries[at as usize];
        let generation = entry.generation.load(Relaxed) + 1;
        entry.fill(&begun, generation);
        // Release: pairs with the Acquire of `read`: all of the above is seen.
        entry.generation.store(generation, Release);
        Some(WatchedIndex { at, generation })
    }

    /// The entry, while it is in this use.
    fn of(&self, index: WatchedIndex) -> Option<&Entry> {
        let entry = self.entries.get(index.at())?;
        (entry.generation.load(Relaxed) == index.generation).then_some(entry)
    }

    /// What is watched for from now on.
    pub fn bound(&self, index: WatchedIndex, bounds: &Bounds) {
        if let Some(entry) = self.of(index) {
            entry.set(bounds);
        }
    }

    /// It has ended. Callable from a signal handler.
    pub fn end(&self, index: WatchedIndex) {
        let Some(entry) = self.of(index) else {
            return;
        };
        if entry.is_free.load(Relaxed) {
            self.free_streams.fetch_sub(1, Relaxed);
        }
        // AcqRel: nothing of the next use comes before, nothing of this one after.
        entry.generation.fetch_add(1, AcqRel);
        let (group, bit) = (index.at() / GROUP, 1u64 << (index.at() % GROUP));
        // Release: pairs with the Acquire of `take`.
        self.free[group].fetch_or(bit, Release);
        self.recent.store(group as u32, Relaxed);
    }

    /// Why it was cut, if it was.
    pub fn found(&self, index: WatchedIndex) -> Option<Found> {
        self.of(index)?.found(index.generation)
    }

    /// What is watched for in a response that is under way.
    pub fn bounds(&self, index: WatchedIndex) -> Option<Bounds> {
        Some(self.of(index)?.bounds())
    }

    /// The response is over, and nothing is found any more; what was.
    pub fn close(&self, index: WatchedIndex) -> Findings {
        let Some(entry) = self.of(index) else {
            return Findings::default();
        };
        entry.close(index.generation);
        Findings {
            cut: entry.found(index.generation),
            marks: entry.marks(index.generation),
            is_charged: false,
        }
    }

    /// Another worker carries the response now, or none does.
    pub fn moves(&self, index: WatchedIndex, seat: Option<(u32, u64)>) {
        if let Some(entry) = self.of(index) {
            entry.sit(seat);
        }
    }

    /// How many entries there are.
    pub fn room(&self) -> usize {
        self.entries.len()
    }

    /// The entry of this number, if it is in use.
    pub fn read(&self, at: usize) -> Option<Response> {
        let entry = self.entries.get(at)?;
        // Acquire: pairs with the Release of `begin`.
        let generation = entry.generation.load(Acquire);
        if generation % 2 == 0 {
            return None;
        }
        // Acquire: pairs with the Releases of `blocks` and `goes_on`.
        let blocked = entry.blocked.load(Acquire);
        let index = WatchedIndex {
            at: at as u32,
            generation,
        };
        let response = Response {
            index,
            fd: entry.fd.load(Relaxed),
            seat: entry.seat(),
            started: entry.started.load(Relaxed),
            kind: entry.kind(),
            bounds: entry.bounds(),
            blocked: (blocked != 0).then_some(blocked),
            waited: entry.waited.load(Relaxed),
            data: entry.data.load(Relaxed),
            other: entry.other.load(Relaxed),
            is_free: entry.is_free.load(Relaxed),
            carried: entry.carried(),
            is_decided: !entry.is_open(generation),
            is_marked: entry.is_marked(generation),
        };
        self.is_still(index).then_some(response)
    }

    /// Whether the entry is still in this use.
    pub fn is_still(&self, index: WatchedIndex) -> bool {
        let entry = self.entries.get(index.at());
        // AcqRel by way of an exchange of nothing: no load before it moves behind it.
        entry.is_some_and(|entry| entry.generation.fetch_add(0, AcqRel) == index.generation)
    }

    /// Notes what was found in this use of the entry, for whoever ends the response. False,
    /// and nothing is found, if it has ended, or something was found before.
    pub fn decide(&self, index: WatchedIndex, found: Found) -> bool {
        let entry = self.entries.get(index.at());
        entry.is_some_and(|entry| entry.decide(index.generation, found))
    }

    /// Notes what a dry run has found, once of each kind; the looking goes on.
    pub fn mark(&self, index: WatchedIndex, found: Found) -> bool {
        let entry = self.entries.get(index.at());
        entry.is_some_and(|entry| entry.mark(index.generation, found))
    }

    /// Nothing is found any more in this use: another response was cut with it.
    pub fn spare(&self, index: WatchedIndex) {
        if let Some(entry) = self.entries.get(index.at()) {
            entry.close(index.generation);
        }
    }

    /// A free entry of the first so many groups.
    fn take(&self, groups: usize) -> Option<u32> {
        let first = self.recent.load(Relaxed) as usize;
        for i in 0..groups {
            let group = (first + i) % groups;
            // Its Acquire pairs with the Release of `end`.
            if let Some(bit) = words::take_bit(&self.free[group]) {
                self.recent.store(group as u32, Relaxed);
                return Some((group * GROUP) as u32 + bit);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
