//! A lease: one place held in one count, by a process that may die.
//!
//! `word = kind:3 | cell:24 | nonce:24`. The word says what its owner is about
//! to do before the owner does it; the cell's state says whether it was done.
//! A free word keeps its nonce, so that the next use has the next one.

use super::cell::NONCE;

const NONCE_BITS: u32 = 24;
const KIND_SHIFT: u32 = 48;
const CELL: u32 = (1 << (KIND_SHIFT - NONCE_BITS)) - 1;

/// The name of a lease: what [`Lease::keep`](super::Lease::keep) hands out and
/// [`Holder::release`](super::Holder::release) takes back, once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct LeaseIndex(pub u32);

/// What a lease is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nobody uses it.
    Free,
    /// About to be counted, or counted just now.
    Pending,
    /// Counted.
    Held,
    /// About to be given back, or given back just now.
    Releasing,
    /// Given back, by the word of whoever changed the cell next.
    Released,
}

/// A lease's word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word(pub u64);

impl Word {
    /// The word of this kind about that cell.
    pub fn new(kind: Kind, cell: u32, nonce: u32) -> Word {
        Word((kind as u64) << KIND_SHIFT | u64::from(cell) << NONCE_BITS | u64::from(nonce))
    }

    /// What it is doing.
    pub fn kind(self) -> Kind {
        match self.0 >> KIND_SHIFT {
            1 => Kind::Pending,
            2 => Kind::Held,
            3 => Kind::Releasing,
            4 => Kind::Released,
            _ => Kind::Free,
        }
    }

    /// The cell that it is about.
    pub fn cell(self) -> u32 {
        (self.0 >> NONCE_BITS) as u32 & CELL
    }

    /// Which use of the lease this is.
    pub fn nonce(self) -> u32 {
        self.0 as u32 & NONCE
    }

    /// The next use of the lease: this kind about that cell.
    pub fn next(self, kind: Kind, cell: u32) -> Word {
        Word::new(kind, cell, (self.0 as u32).wrapping_add(1) & NONCE)
    }

    /// The same use, as another kind.
    pub fn now(self, kind: Kind) -> Word {
        Word(self.0 & ((1 << KIND_SHIFT) - 1) | (kind as u64) << KIND_SHIFT)
    }

    /// What this word becomes once the state has shown that its step happened;
    /// none for a word that waits for nothing.
    pub fn happened(self) -> Option<Word> {
        match self.kind() {
            Kind::Pending => Some(self.now(Kind::Held)),
            Kind::Releasing => Some(self.now(Kind::Released)),
            _ => None,
        }
    }

    /// Whether it waits for its step to be seen: one test, for the usual no.
    pub fn is_waiting(self) -> bool {
        const { assert!(Kind::Pending as u64 & Kind::Releasing as u64 == 1) };
        const { assert!((Kind::Free as u64 | Kind::Held as u64 | Kind::Released as u64) & 1 == 0) };
        self.0 & (1 << KIND_SHIFT) != 0
    }

    /// Whether it speaks of this cell and this use.
    pub fn is_about(self, cell: u32, nonce: u32) -> bool {
        self.now(Kind::Free) == Word::new(Kind::Free, cell, nonce)
    }
}
