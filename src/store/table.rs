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
    pub cells: &'static [Cell],
    pub words: &'static [AtomicU64],
    pub locks: &'static [Lock],
    pub tally: Tally,
}

impl Table {
    /// The key's bucket: the index of its first cell, and its cells.
    #[inline]
    fn bucket(&self, place: u64) -> (u32, &'static [Cell]) {
        let buckets = self.cells.len() / BUCKET;
        // The high half of a product: uniform, and cheaper than a division.
        let first = ((u128::from(place) * buckets as u128) >> 64) as usize * BUCKET;
        (first as u32, &self.cells[first..first + BUCKET])
    }

    /// The key's cell and its state.
    #[inline]
    pub fn find(&self, digest: Digest) -> Option<(u32, State)> {
        let (first, cells) = self.bucket(digest.place);
        // New keys go where the digest points, if that is free: look there first.
        let hint = digest.place as usize;
        (0..BUCKET).find_map(|i| {
            let i = (hint + i) % BUCKET;
            let cell = &cells[i];
            if cell.tag.load(Relaxed) != digest.tag {
                return None;
            }
            Some((first + i as u32, cell.look(digest.tag)?))
        })
    }

    /// Takes a place for a key that `find` did not find.
    #[cold]
    pub fn insert_up(&self, key: &Keyed, cap: u32, lease: u32, now: u32, patience: Duration) -> Up {
        let (first, _) = self.bucket(key.digest.place);
        step();
        let Some(lock) = self.locks[first as usize / STRIPE].lock(patience) else {
            return Up::NoRoom;
        };
        step();
        // Invariant 7: whoever inserted this key before held this lock.
        let at = match self.find(key.digest) {
            Some((at, _)) => Some(at),
            None => self.insert(&lock, key, now),
        };
        // Counted while the lock is held, so that no other insert can evict the
        // key again before: one attempt is enough.
        let up = at.map_or(Up::NoRoom, |at| self.up(at, key.digest.tag, cap, lease));
        drop(lock);
        step();
        up
    }

    /// Makes a cell for a new key. Each step is one word: whoever dies here
    /// leaves a dead cell, which the next insert takes.
    fn insert(&self, lock: &Guard<'_>, key: &Keyed, now: u32) -> Option<u32> {
        let (first, cells) = self.bucket(key.digest.place);
        loop {
            let (i, state) = Self::room(cells, key.digest.place as usize)?;
            let (at, cell) = (first + i as u32, &cells[i]);
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
            // Release: pairs with the Acquire of Cell::look, which then sees the label.
            cell.state.store(State::fresh(lock.nonce()).0, Release);
            step();
            return Some(at);
        }
    }

    /// The cell that a new key gets: free, or else with count 0 and stalest.
    fn room(cells: &[Cell], hint: usize) -> Option<(usize, State)> {
        let mut stalest: Option<(u64, usize, State)> = None;
        for i in 0..BUCKET {
            let i = (hint + i) % BUCKET;
            let cell = &cells[i];
            let state = State(cell.state.load(Acquire));
            if state.dead() || cell.tag.load(Relaxed) == 0 {
                return Some((i, state));
            }
            let seen = cell.seen.load(Relaxed);
            // Invariant 6: keys in flight never go.
            if state.count() == 0 && stalest.is_none_or(|(oldest, ..)| seen < oldest) {
                stalest = Some((seen, i, state));
            }
        }
        stalest.map(|(_, i, state)| (i, state))
    }
}
