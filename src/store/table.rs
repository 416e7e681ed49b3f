//! The table of counts: buckets of eight cells, and how a key gets one.
//!
//! A known key is found without a lock. A new key takes the insert lock of its
//! stripe; when its bucket is full another one makes room: first a key of which nothing is
//! lost (no place held, its rate back at the beginning), then the one that was used longest
//! ago; never one that is in flight or frozen. If all eight are, or the lock cannot be had,
//! the caller learns that the key cannot be counted. Invariants: see
//! [`count`](super::count).

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use super::cell::{Cell, State};
use super::count::Up;
use super::header::{Counter, Tally};
use super::label::{Label, Name};
use super::layout::{BUCKET, STRIPE};
use super::lock::{Guard, Lock};
use super::step;
use crate::limit::key::{CountId, Digest};
use crate::limit::rating;

/// What is counted: one key in one count.
#[derive(Clone, Copy, Debug)]
pub struct Keyed<'a> {
    /// The key's digest, already [`within`](Digest::within) the count.
    pub digest: Digest,
    /// The count.
    pub count: CountId,
    /// The key, for whoever reads the table.
    pub name: Name<'a>,
}

/// What became of an attempt to give a key its first rate.
pub enum Rated<T> {
    /// It has it.
    Done(T),
    /// Somebody else was faster: here it is.
    Known(Found),
    /// There is no room, or not in time.
    NoRoom,
}

/// Views of the segment's cells, lease words and locks.
#[derive(Clone, Copy)]
pub struct Table {
    /// All cells, by the number that leases know them by.
    pub cells: &'static [Cell],
    /// The same cells, in buckets.
    buckets: &'static [[Cell; BUCKET]],
    /// What the keys of the cells are called, by the same numbers.
    pub labels: &'static [Label],
    pub words: &'static [AtomicU64],
    pub locks: &'static [Lock],
    pub tally: Tally,
}

/// The time of an insertion.
#[derive(Clone, Copy)]
pub struct When {
    /// Of the clock that decides who is stalest.
    pub seconds: u32,
    /// Of the clock of rates.
    pub nanos: u64,
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
        labels: &'static [Label],
        words: &'static [AtomicU64],
        locks: &'static [Lock],
        tally: Tally,
    ) -> Table {
        Table {
            cells,
            buckets: cells.as_chunks().0,
            labels,
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
    pub fn insert_up(
        &self,
        key: &Keyed<'_>,
        cap: u32,
        lease: u32,
        when: When,
        patience: Duration,
    ) -> Up {
        let Some(lock) = self.lock(key, when, patience) else {
            return Up::NoRoom;
        };
        // Invariant 7: whoever inserted this key before held this lock.
        let found = self
            .find(key.digest)
            .or_else(|| self.insert(&lock, key, 0, when));
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

    /// Gives a key that `find` did not find its first rate.
    #[cold]
    pub fn insert_rate<T>(
        &self,
        key: &Keyed<'_>,
        word: u64,
        said: T,
        when: When,
        patience: Duration,
    ) -> Rated<T> {
        let Some(lock) = self.lock(key, when, patience) else {
            return Rated::NoRoom;
        };
        // Invariant 7, as above.
        if let Some(found) = self.find(key.digest) {
            return Rated::Known(found);
        }
        match self.insert(&lock, key, word, when) {
            Some(_) => Rated::Done(said),
            None => Rated::NoRoom,
        }
    }

    /// The insert lock of a key.
    fn lock(&self, key: &Keyed<'_>, when: When, patience: Duration) -> Option<Guard<'static>> {
        let stripe = self.bucket(key.digest) * BUCKET / STRIPE;
        step();
        let lock = self.locks.get(stripe)?.lock(patience)?;
        step();
        if lock.owner_died {
            self.finish_evictions(&lock, stripe, when.nanos);
        }
        Some(lock)
    }

    /// Finishes what somebody who died with the lock had begun: a key that was frozen just
    /// before it was to go lives again; all other dead cells have no rate.
    #[cold]
    fn finish_evictions(&self, lock: &Guard<'_>, stripe: usize, now: u64) {
        for cell in self.cells.iter().skip(stripe * STRIPE).take(STRIPE) {
            let state = State(cell.state.load(Acquire));
            if state.dead() && !self.clear_rate(cell, now) {
                self.revive(lock, cell);
            }
        }
    }

    /// Gives a cell that was made dead back to the key that it still has.
    fn revive(&self, lock: &Guard<'_>, cell: &Cell) {
        // Release: pairs with the Acquire of Cell::look.
        cell.state.store(State::fresh(lock.nonce()).0, Release);
        step();
    }

    /// Makes a cell for a new key. Each step is one word: whoever dies here
    /// leaves a dead cell, which the next insert takes or gives back.
    fn insert(&self, lock: &Guard<'_>, key: &Keyed<'_>, rate: u64, when: When) -> Option<Found> {
        loop {
            let Found { at, cell, state } = self.room(key.digest, when.nanos)?;
            let label = self.labels.get(at as usize)?;
            if !state.dead() {
                self.help(at, state); // Invariant 2, for the release that made it 0.
                step();
                // Invariant 6: only a state with count 0 is replaced, and the new
                // nonce makes every increment that looked before fail.
                if !cell.change(state, State::evicted(lock.nonce())) {
                    continue; // Used again meanwhile: choose anew.
                }
                step();
                if !self.clear_rate(cell, when.nanos) {
                    self.revive(lock, cell); // Frozen since we chose it.
                    continue;
                }
                if cell.tag.load(Relaxed) != 0 {
                    self.tally.add(Counter::Evictions, 1);
                }
            }
            cell.become_of(key, label, rate, when.seconds);
            let state = State::fresh(lock.nonce());
            // Release: pairs with the Acquire of Cell::look, which then sees the label.
            cell.state.store(state.0, Release);
            step();
            return Some(Found { at, cell, state });
        }
    }

    /// Empties the rate of a dead cell whose key is still the one that had it, so that
    /// every change that looked before fails. False, and nothing is done, if it is frozen.
    fn clear_rate(&self, cell: &Cell, now: u64) -> bool {
        let tag = cell.tag.load(Relaxed); // Changes only under the lock, which we have.
        loop {
            let word = cell.rate(tag);
            if rating::frozen_for(word, now).is_some() {
                return false;
            }
            step();
            if cell.change_rate(tag, word, 0) {
                return true;
            }
        }
    }

    /// The cell that a new key gets: free, or else one of which nothing is lost, or else
    /// the stalest; of equals the stalest. Rates go on meanwhile: who is charged between
    /// the choice and the eviction goes all the same, who is frozen does not.
    fn room(&self, digest: Digest, now: u64) -> Option<Found> {
        let mut first: Option<((bool, u64), Found)> = None;
        for (at, cell) in self.cells(digest) {
            let state = State(cell.state.load(Acquire));
            let found = Found { at, cell, state };
            let tag = cell.tag.load(Relaxed);
            if state.dead() || tag == 0 {
                return Some(found);
            }
            let (seen, rate) = (cell.seen.load(Relaxed), cell.rate(tag));
            step();
            // Invariant 6: keys in flight never go, and neither do frozen ones.
            if state.count() > 0 || rating::frozen_for(rate, now).is_some() {
                continue;
            }
            let turn = (!rating::is_spent(rate, now), seen);
            if first.is_none_or(|(before, _)| turn < before) {
                first = Some((turn, found));
            }
        }
        first.map(|(_, found)| found)
    }
}
