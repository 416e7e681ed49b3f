//! A count going up and down: the steps that cannot leak a place.
//!
//! Every change is written into the lease first, then into the cell together
//! with the lease's name, then into the lease again. Whoever dies between two of
//! these leaves behind what tells whether the change happened:
//!
//! 1. One actor per lease: its owner; after the owner's death the parent.
//!    Helpers only finish what the state proves.
//! 2. Nobody overwrites a (lease, nonce) in a state before the lease says so.
//! 3. So at every instant, killed or not: count = leases HELD, and PENDING that
//!    happened, and RELEASING that did not happen yet.
//! 4. Each lease adds once and subtracts once: never negative, never stuck.
//! 5. The limit test and the increment are one exchange: N arrivals at limit L
//!    without a release admit exactly L.
//! 6. Eviction needs count 0 and changes the nonce: no increment is lost.
//! 7. One cell per key: inserts look again under the lock.
//!
//! A nonce comes again after 2^24 uses of one lease. To be mistaken for the old
//! one, a step would have to sleep exactly that long, between two instructions.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::cell::State;
use super::header::Counter;
use super::lease::{Kind, LeaseIndex, Word};
use super::step;
use super::table::Table;

/// What became of an attempt to take a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Up {
    /// Taken.
    Held,
    /// So many held one already.
    Full(u32),
    /// The cell is another key's by now.
    Gone,
    /// A new key found no room, or not in time.
    NoRoom,
}

impl Table {
    /// Writes into the word of the lease that a state names that its step
    /// happened. Everybody does this before replacing a state.
    #[inline]
    pub fn help(&self, at: u32, state: State) {
        let Some(word) = self.words.get(state.lease() as usize) else {
            return; // Nobody is named.
        };
        let seen = Word(word.load(Acquire));
        if !seen.is_about(at, state.nonce()) {
            return; // Its owner has gone on since.
        }
        // Invariant 1: a helper only finishes what the state proves; the word of
        // an owner that has gone on is another one, and the exchange fails.
        if let Some(done) = seen.happened() {
            step();
            // Release: pairs with the reaper's second look at the word.
            let _ = word.compare_exchange(seen.0, done.0, Release, Relaxed);
        }
    }

    /// Takes a place in the cell for this lease, which is free and the caller's.
    #[inline]
    pub fn up(&self, at: u32, tag: u64, cap: u32, lease: u32) -> Up {
        let (cell, word) = (&self.cells[at as usize], &self.words[lease as usize]);
        let nonce = Word(word.load(Relaxed)).next_nonce();
        step();
        // Release, here and at every store to a lease: in the order of the
        // owner's steps for whoever sees the state that follows.
        word.store(Word::new(Kind::Pending, at, nonce).0, Release);
        step();
        let refused = loop {
            let Some(state) = cell.look(tag) else {
                break Up::Gone;
            };
            step();
            if state.count() >= cap {
                break Up::Full(state.count());
            }
            // Invariant 2: nobody overwrites a name before its lease says so.
            self.help(at, state);
            step();
            // Invariant 5: the limit was tested on the very word that this replaces.
            // Invariant 3: from this word on the lease counts, whatever comes.
            if cell.change(state, state.up(lease, nonce)) {
                step();
                word.store(Word::new(Kind::Held, at, nonce).0, Release);
                step();
                return Up::Held;
            }
        };
        word.store(Word::new(Kind::Free, at, nonce).0, Release);
        step();
        refused
    }

    /// Gives a held place back. The caller is the lease's owner or its reaper.
    /// False if the lease holds none: then nothing is done.
    #[inline]
    pub fn down(&self, lease: u32, now: Option<u32>) -> bool {
        let Some(word) = self.words.get(lease as usize) else {
            return false;
        };
        let held = Word(word.load(Acquire));
        // Invariant 4: a lease that was given back is not HELD, so it subtracts once.
        if held.kind() != Kind::Held {
            return false;
        }
        let (at, nonce) = (held.cell(), held.next_nonce());
        if let (Some(now), Some(cell)) = (now, self.cells.get(at as usize)) {
            cell.touch(now); // Our place keeps the cell ours until it is back.
        }
        step();
        word.store(Word::new(Kind::Releasing, at, nonce).0, Release);
        step();
        self.finish_down(at, lease, nonce);
        step();
        word.store(Word::new(Kind::Free, at, nonce).0, Release);
        step();
        true
    }

    /// The one step of a release that changes the count.
    #[inline]
    fn finish_down(&self, at: u32, lease: u32, nonce: u32) {
        let Some(cell) = self.cells.get(at as usize) else {
            return self.tally.add(Counter::Faults, 1);
        };
        loop {
            // Acquire: as in Cell::look.
            let state = State(cell.state.load(Acquire));
            step();
            // Invariant 4: our own place is in this number, so it is not 0.
            // Whoever wrote over the segment must not make it wrap.
            if state.count() == 0 {
                return self.tally.add(Counter::Faults, 1);
            }
            self.help(at, state); // Invariant 2.
            step();
            if cell.change(state, state.down(lease, nonce)) {
                return;
            }
        }
    }

    /// Settles a lease whose owner is dead, and says what it was found doing.
    /// Only the parent, only after the owner's death (invariant 1).
    pub fn settle(&self, lease: LeaseIndex) -> Kind {
        let LeaseIndex(lease) = lease;
        let Some(word) = self.words.get(lease as usize) else {
            return Kind::Free;
        };
        let found = Word(word.load(Acquire));
        let (at, nonce) = (found.cell(), found.nonce());
        // The state names the step: it happened. It does not: then it either
        // never happened, or was overwritten, but not before a helper wrote so
        // into the word (invariant 2); the word read AFTER the state tells.
        let named = || {
            let cell = self.cells.get(at as usize);
            // Acquire: pairs with the Release of whoever overwrote the name.
            cell.is_some_and(|cell| State(cell.state.load(Acquire)).names(lease, nonce))
        };
        let now_is = |kind| Word(word.load(Acquire)).kind() == kind;
        match found.kind() {
            Kind::Free => return Kind::Free,
            Kind::Pending if named() || now_is(Kind::Held) => {
                word.store(Word::new(Kind::Held, at, nonce).0, Release);
                self.down(lease, None);
            }
            Kind::Held => {
                self.down(lease, None);
            }
            Kind::Releasing if !named() && !now_is(Kind::Released) => {
                self.finish_down(at, lease, nonce);
            }
            Kind::Pending | Kind::Releasing | Kind::Released => {}
        }
        let nonce = Word(word.load(Acquire)).nonce();
        word.store(Word::new(Kind::Free, at, nonce).0, Release);
        found.kind()
    }
}
