//! The table of counts: buckets of eight cells, and how a key gets one.
//!
//! A known key is found without a lock. A new key takes the insert lock of its
//! stripe; when its bucket is full the key with count 0 that was used longest
//! ago makes room. If all eight are in flight, or the lock cannot be had, the
//! caller learns that the key cannot be counted. Invariants: see [`count`](super::count).

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use super::cell::{Cell, State};
use super::count::Up;
use super::header::{Counter, Tally};
use super::layout::{BUCKET, STRIPE};
use super::lock::{Guard, Lock};
use super::step;
use crate::limit::address::Address;
use crate::limit::key::{CountId, Digest};

/// What is counted: one client in one count.
#[derive(Clone, Copy, Debug)]
pub struct Keyed {
    /// The client's digest, already [`within`](Digest::within) the count.
    pub digest: Digest,
    /// The count.
    pub count: CountId,
    /// The client, for whoever reads the table.
    pub client: Address,
}

/// Views of the segment's cells, lease words and locks.
#[derive(Clone, Copy)]
pub struct Table {
    /// All cells, by the number that leases know them by.
    pub cells: &'static [Cell],
    /// The same cells, in buckets.
    buckets: &'static [[Cell; BUCKET]],
    pub words: &'static [AtomicU64],
    pub locks: &'static [Lock],
    pub tally: Tally,
}

/// A key's cell, and the state in which it was found.
#[derive(Clone, Copy)]
pub struct Found {
    pub at: u32,
    pub cell: &'static Cell,
    pub state: State,
}

impl Table {
    pub fn new(
        cells: &'static [Cell],
        words: &'static [AtomicU64],
        locks: &'static [Lock],
        tally: Tally,
    ) -> Table {
        Table {
            cells,
            buckets: cells.as_chunks().0,
            words,
            locks,
            tally,
        }
    }

    /// The number of the key's bucket.
    #[inline]
    fn bucket(&self, digest: Digest) -> usize {
        // The high half of a product: uniform, and cheaper than a division.
        ((u128::from(digest.place) * self.buckets.len() as u128) >> 64) as usize
    }

    /// The cells of the key's bucket and their numbers, in the key's own order:
    /// each starts elsewhere, so that most are found at the first look.
    fn cells(&self, digest: Digest) -> impl Iterator<Item = (u32, &'static Cell)> {
        let bucket = self.bucket(digest);
        let first = digest.place as usize % BUCKET;
        let cells = self.buckets.get(bucket).map_or(&[][..], |cells| cells);
        (0..cells.len()).map(move |i| {
            let i = (first + i) % BUCKET;
            ((bucket * BUCKET + i) as u32, &cells[i])
        })
    }

    /// The key's cell and its state, if it is where new keys go first.
    #[inline]
    pub fn find_at_once(&self, digest: Digest) -> Option<Found> {
        let bucket = self.bucket(digest);
        let first = digest.place as usize % BUCKET;
        let cell = &self.buckets.get(bucket)?[first];
        if cell.tag.load(Relaxed) != digest.tag {
            return None;
        }
        step();
        Some(Found {
            at: (bucket * BUCKET + first) as u32,
            cell,
            state: cell.look(digest.tag)?,
        })
    }

    /// The key's cell and its state.
    pub fn find(&self, digest: Digest) -> Option<Found> {
        self.cells(digest).find_map(|(at, cell)| {
            if cell.tag.load(Relaxed) != digest.tag {
                return None;
            }
            step();
            let state = cell.look(digest.tag)?;
            Some(Found { at, cell, state })
        })
    }

    /// Takes a place for a key that `find` did not find.
    #[cold]
    pub fn insert_up(&self, key: &Keyed, cap: u32, lease: u32, now: u32, patience: Duration) -> Up {
        let stripe = self.bucket(key.digest) * BUCKET / STRIPE;
        step();
        let Some(lock) = self.locks.get(stripe).and_then(|lock| lock.lock(patience)) else {
            return Up::NoRoom;
        };
        step();
        // Invariant 7: whoever inserted this key before held this lock.
        let found = self
            .find(key.digest)
            .or_else(|| self.insert(&lock, key, now));
        // Counted while the lock is held, so that no other insert can evict the
        // key again before: one attempt is enough.
        let up = match found {
            Some(found) if found.state.count() >= cap => Up::Full(found.state.count()),
            Some(found) => self.up(found, key.digest.tag, cap, lease),
            None => Up::NoRoom,
        };
        drop(lock);
        step();
        up
    }

    /// Makes a cell for a new key. Each step is one word: whoever dies here
    /// leaves a dead cell, which the next insert takes.
    fn insert(&self, lock: &Guard<'_>, key: &Keyed, now: u32) -> Option<Found> {
        loop {
            let Found { at, cell, state } = self.room(key.digest)?;
            if !state.dead() {
                self.help(at, state); // Invariant 2, for the release that made it 0.
                step();
                // Invariant 6: only a state with count 0 is replaced, and the new
                // nonce makes every increment that looked before fail.
                if !cell.change(state, State::evicted(lock.nonce())) {
                    continue; // Used again meanwhile: choose anew.
                }
                step();
                if cell.tag.load(Relaxed) != 0 {
                    self.tally.add(Counter::Evictions, 1);
                }
            }
            cell.label(key, now);
            let state = State::fresh(lock.nonce());
            // Release: pairs with the Acquire of Cell::look, which then sees the label.
            cell.state.store(state.0, Release);
            step();
            return Some(Found { at, cell, state });
        }
    }

    /// The cell that a new key gets: free, or else with count 0 and stalest.
    fn room(&self, digest: Digest) -> Option<Found> {
        let mut stalest: Option<(u64, Found)> = None;
        for (at, cell) in self.cells(digest) {
            let state = State(cell.state.load(Acquire));
            let found = Found { at, cell, state };
            if state.dead() || cell.tag.load(Relaxed) == 0 {
                return Some(found);
            }
            let seen = cell.seen.load(Relaxed);
            step();
            // Invariant 6: keys in flight never go.
            if state.count() == 0 && stalest.is_none_or(|(oldest, _)| seen < oldest) {
                stalest = Some((seen, found));
            }
        }
        stalest.map(|(_, found)| found)
    }
}
