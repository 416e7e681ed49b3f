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

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::cell::{Cell, State};
use super::header::Counter;
use super::lease::{Kind, LeaseIndex, Word};
use super::step;
use super::table::{Found, Table};

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
        step();
        if seen.nonce() == state.nonce() && seen.is_waiting() {
            self.finish(word, seen, at, state);
        }
    }

    #[cold]
    #[inline(never)]
    fn finish(&self, word: &AtomicU64, seen: Word, at: u32, state: State) {
        // Invariant 1: a helper only finishes what the state proves; the word of
        // an owner that has gone on is another one, and the exchange fails.
        if let Some(done) = seen.happened()
            && seen.is_about(at, state.nonce())
        {
            step();
            // Release: pairs with the reaper's second look at the word.
            let _ = word.compare_exchange(seen.0, done.0, Release, Relaxed);
            step();
        }
    }

    /// Takes a place in the cell that was found with room under `cap`, for a
    /// lease that is free and the caller's.
    #[inline]
    pub fn up(&self, found: Found, tag: u64, cap: u32, lease: u32) -> Up {
        let Found { at, cell, state } = found;
        let Some(word) = self.words.get(lease as usize) else {
            return Up::NoRoom;
        };
        debug_assert!(state.count() < cap);
        let pending = Word(word.load(Relaxed)).next(Kind::Pending, at);
        step();
        // Release, here and at every store to a lease: in the order of the
        // owner's steps for whoever sees the state that follows.
        word.store(pending.0, Release);
        step();
        self.help(at, state); // Invariant 2: nobody overwrites a name unsaid.
        step();
        // Invariant 5: the limit was tested on the very word that this replaces.
        // Invariant 3: from this word on the lease counts, whatever comes.
        let (up, last) = if cell.change(state, state.up(lease, pending.nonce())) {
            (Up::Held, Kind::Held)
        } else {
            match self.up_again(cell, pending, tag, cap, lease) {
                Up::Held => (Up::Held, Kind::Held),
                refused => (refused, Kind::Free),
            }
        };
        step();
        word.store(pending.now(last).0, Release);
        step();
        up
    }

    /// The same after somebody else was faster; as often as it takes.
    #[cold]
    #[inline(never)]
    fn up_again(&self, cell: &Cell, pending: Word, tag: u64, cap: u32, lease: u32) -> Up {
        loop {
            let Some(state) = cell.look(tag) else {
                return Up::Gone;
            };
            step();
            if state.count() >= cap {
                return Up::Full(state.count());
            }
            self.help(pending.cell(), state);
            step();
            if cell.change(state, state.up(lease, pending.nonce())) {
                return Up::Held;
            }
        }
    }

    /// Gives a held place back. The caller is the lease's owner or its reaper.
    /// False if the lease holds none: then nothing is done.
    #[inline]
    pub fn down(&self, lease: u32, now: u32) -> bool {
        let Some(word) = self.words.get(lease as usize) else {
            return false;
        };
        let held = Word(word.load(Acquire));
        // Invariant 4: a lease that was given back is not HELD, so it subtracts once.
        let Some(cell) = self.cells.get(held.cell() as usize) else {
            return false;
        };
        if held.kind() != Kind::Held {
            return false;
        }
        cell.touch(now); // Our place keeps the cell ours until it is back.
        let releasing = held.next(Kind::Releasing, held.cell());
        step();
        word.store(releasing.0, Release);
        step();
        if !self.try_down(cell, releasing, lease) {
            self.finish_down(cell, releasing, lease);
        }
        step();
        word.store(releasing.now(Kind::Free).0, Release);
        step();
        true
    }

    /// The one step of a release that changes the count; as often as it takes.
    #[cold]
    #[inline(never)]
    fn finish_down(&self, cell: &Cell, releasing: Word, lease: u32) {
        while !self.try_down(cell, releasing, lease) {}
    }

    #[inline]
    fn try_down(&self, cell: &Cell, releasing: Word, lease: u32) -> bool {
        // Acquire: as in Cell::look.
        let state = State(cell.state.load(Acquire));
        step();
        // Invariant 4: our own place is in this number, so it is not 0.
        // Whoever wrote over the segment must not make it wrap.
        if state.count() == 0 {
            self.tally.add(Counter::Faults, 1);
            return true;
        }
        self.help(releasing.cell(), state); // Invariant 2.
        step();
        cell.change(state, state.down(lease, releasing.nonce()))
    }

    /// Settles a lease whose owner is dead, and says what it was found doing.
    /// Only the parent, only after the owner's death (invariant 1).
    pub fn settle(&self, lease: LeaseIndex) -> Kind {
        let LeaseIndex(lease) = lease;
        let Some(word) = self.words.get(lease as usize) else {
            return Kind::Free;
        };
        let found = Word(word.load(Acquire));
        if found.kind() == Kind::Free {
            return Kind::Free;
        }
        step();
        let cell = self.cells.get(found.cell() as usize);
        // The state names the step: it happened. It does not: then it either
        // never happened, or was overwritten, but not before a helper wrote so
        // into the word (invariant 2); the word read AFTER the state tells.
        let happened = |said: Kind| {
            // Acquire: pairs with the Release of whoever overwrote the name.
            let state = cell.map(|cell| State(cell.state.load(Acquire)));
            step();
            state.is_some_and(|state| state.names(lease, found.nonce()))
                || Word(word.load(Acquire)).kind() == said
        };
        match found.kind() {
            Kind::Pending if happened(Kind::Held) => {
                word.store(found.now(Kind::Held).0, Release);
                self.down(lease, 0);
            }
            Kind::Held => {
                self.down(lease, 0);
            }
            Kind::Releasing if !happened(Kind::Released) => {
                if let Some(cell) = cell {
                    self.finish_down(cell, found, lease);
                }
            }
            Kind::Pending | Kind::Releasing | Kind::Released | Kind::Free => {}
        }
        let last = Word(word.load(Acquire));
        word.store(last.now(Kind::Free).0, Release);
        found.kind()
    }
}
