//! One count: a word that holds the number and names who changed it last.
//!
//! `state = count:17 | dead:1 | lease:22 | nonce:24`. Because the number and the
//! name change in one step, whoever finds a process dead between two steps can
//! tell whether its change happened. The lease field is the lease's index plus 1,
//! so that memory full of zeros is a table of free cells.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::label::{KeyName, Label};
use super::step;
use super::table::Keyed;
use crate::limit::key::CountId;

const NONCE_BITS: u32 = 24;
const LEASE_BITS: u32 = 22;
const DEAD: u64 = 1 << (NONCE_BITS + LEASE_BITS);
const COUNT_SHIFT: u32 = NONCE_BITS + LEASE_BITS + 1;

/// Nonces are taken modulo this plus one.
pub const NONCE: u32 = (1 << NONCE_BITS) - 1;
/// A lease names a cell in 24 bits.
pub const MAX_CELLS: u32 = 1 << 24;
/// A state names a lease in 22 bits, and 0 is nobody; whole chunks of 64.
pub const MAX_LEASES: u32 = (1 << LEASE_BITS) - 64;
/// The highest count that a state can hold.
pub const MAX_COUNT: u32 = (1 << (u64::BITS - COUNT_SHIFT)) - 1;

/// A cell's state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct State(pub u64);

impl State {
    /// How many hold a place here.
    pub fn count(self) -> u32 {
        (self.0 >> COUNT_SHIFT) as u32
    }

    /// Whether the cell is between two keys.
    pub fn dead(self) -> bool {
        self.0 & DEAD != 0
    }

    /// The lease that changed it last. Nobody is a number that no lease has.
    pub fn lease(self) -> u32 {
        ((self.0 >> NONCE_BITS) as u32 & ((1 << LEASE_BITS) - 1)).wrapping_sub(1)
    }

    /// Which use of that lease it was.
    pub fn nonce(self) -> u32 {
        self.0 as u32 & NONCE
    }

    /// Whether this very step of this lease changed it last.
    pub fn names(self, lease: u32, nonce: u32) -> bool {
        self.lease() == lease && self.nonce() == nonce
    }

    /// The count one higher; the caller has seen that it is under [`MAX_COUNT`].
    pub fn up(self, lease: u32, nonce: u32) -> State {
        State::by(self.count() + 1, lease, nonce)
    }

    /// The count one lower; the caller has seen that it is above 0.
    pub fn down(self, lease: u32, nonce: u32) -> State {
        State::by(self.count() - 1, lease, nonce)
    }

    /// Evicted: no key, no count, nobody named.
    pub fn evicted(nonce: u32) -> State {
        State(DEAD | u64::from(nonce))
    }

    /// A new key's first state.
    pub fn fresh(nonce: u32) -> State {
        State(u64::from(nonce))
    }

    fn by(count: u32, lease: u32, nonce: u32) -> State {
        let name = u64::from(lease + 1) << NONCE_BITS | u64::from(nonce);
        State(u64::from(count) << COUNT_SHIFT | name)
    }
}

/// A cell, as read, and whatever was read beside it.
pub struct Entry<T> {
    pub state: State,
    pub tag: u64,
    pub count: CountId,
    pub rate: u64,
    pub beside: T,
}

/// A cell of the table; one cache line.
#[repr(C, align(64))]
pub struct Cell {
    /// See [`State`].
    pub state: AtomicU64,
    /// The key's tag; 0 in a cell that never had a key.
    pub tag: AtomicU64,
    /// When a place was last taken or given back, or a rate asked, in seconds: who goes
    /// first when room is needed. Plain stores, in any order: only a hint.
    pub seen: AtomicU64,
    /// What is known of the key's rate, mixed with its tag; 0 for nothing, as in a cell
    /// that counts places. Mixed, because two keys that came in one millisecond have the
    /// same word: so an exchange that was meant for the key before never fits the next.
    rate: AtomicU64,
    count: AtomicU64,
}

impl Cell {
    /// The state, if the cell belongs to this key: tag and state of one moment.
    #[inline]
    pub fn look(&self, tag: u64) -> Option<State> {
        loop {
            // Acquire: pairs with the Release of every change of state: what was
            // stored before it (the tag, lease words) is seen after it.
            let state = State(self.state.load(Acquire));
            step();
            // Acquire: the second load of state stays behind it, and whoever
            // sees a new tag also sees that the old state is gone.
            if state.dead() || self.tag.load(Acquire) != tag {
                return None;
            }
            step();
            if self.state.load(Relaxed) == state.0 {
                return Some(state);
            }
        }
    }

    /// Replaces the state if it is still this one.
    #[inline]
    pub fn change(&self, from: State, to: State) -> bool {
        // AcqRel: Release pairs with the Acquire of `look`; Acquire so that
        // nothing of a later step moves before this one.
        self.state
            .compare_exchange(from.0, to.0, AcqRel, Relaxed)
            .is_ok()
    }

    /// Notes the time of a use; a process that knows only an older time adds nothing.
    #[inline]
    pub fn touch(&self, now: u32) {
        if self.seen.load(Relaxed) < u64::from(now) {
            self.seen.store(u64::from(now), Relaxed);
        }
    }

    /// The word of the rate of the key that has this tag.
    #[inline]
    pub fn rate(&self, tag: u64) -> u64 {
        // Acquire: the caller looks at the state after it; and whoever sees the word of the
        // next key, or none, also sees that the state before is gone.
        mixed(self.rate.load(Acquire), tag)
    }

    /// Replaces the word if it is still this one.
    #[inline]
    pub fn change_rate(&self, tag: u64, from: u64, to: u64) -> bool {
        // AcqRel: the word stands for all that is known of the key, and as in `rate`.
        self.rate
            .compare_exchange(mixed(from, tag), mixed(to, tag), AcqRel, Relaxed)
            .is_ok()
    }

    /// Writes what this cell is about; only under the insert lock, while dead.
    pub fn become_of(&self, key: &Keyed<'_>, label: &Label, rate: u64, now: u32) {
        // Release, here and in the label: whoever reads one of these words also sees that
        // the state before is gone, and reads again.
        self.tag.store(key.digest.tag, Release);
        step();
        self.count.store(key.count.0, Release);
        label.write(key.name);
        self.rate.store(mixed(rate, key.digest.tag), Release);
        step();
        self.seen.store(u64::from(now), Relaxed);
        step();
    }

    /// All of one moment, with what its key is called; none for a cell without a key.
    pub fn read(&self, label: &Label) -> Option<Entry<KeyName>> {
        self.read_with(|| label.read())
    }

    /// All of one moment, with what `beside` reads in it; none for a cell without a key.
    pub fn read_with<T>(&self, beside: impl Fn() -> T) -> Option<Entry<T>> {
        loop {
            let state = State(self.state.load(Acquire));
            let tag = self.tag.load(Acquire);
            if state.dead() || tag == 0 {
                return None;
            }
            step();
            let count = CountId(self.count.load(Acquire));
            step();
            let (rate, beside) = (self.rate(tag), beside());
            step();
            // The loads above are Acquire, so this one comes last.
            if self.state.load(Relaxed) == state.0 {
                return Some(Entry {
                    state,
                    tag,
                    count,
                    rate,
                    beside,
                });
            }
        }
    }
}

/// A word and its tag in one, and back again; nothing stays nothing.
#[inline]
fn mixed(word: u64, tag: u64) -> u64 {
    if word == 0 { 0 } else { word ^ tag }
}
