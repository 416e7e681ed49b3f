//! The places that a child can hold in shared counts: which are free, and which were given
//! back and wait for the courier.
//!
//! Two bits a place. A request takes one and gives it back by a single step on a word, so a
//! signal handler may do that; what the place is for only the courier knows.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use super::super::words;

/// The number of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct PlaceIndex(pub(super) u32);

/// All of them.
pub struct Places {
    free: Box<[AtomicU64]>,
    returned: Box<[AtomicU64]>,
}

impl Places {
    /// So many, rounded up to a multiple of 64, all free.
    pub fn new(number: usize) -> Places {
        let words = |bits| (0..number.div_ceil(64)).map(move |_| AtomicU64::new(bits));
        Places {
            free: words(u64::MAX).collect(),
            returned: words(0).collect(),
        }
    }

    pub fn room(&self) -> usize {
        self.free.len() * 64
    }

    /// Takes a free one.
    pub fn take(&self) -> Option<PlaceIndex> {
        // Its Acquire pairs with the Release of `give`: the courier has forgotten it.
        let mut free = (0..).zip(&self.free);
        free.find_map(|(at, word)| Some(PlaceIndex(at * 64 + words::take_bit(word)?)))
    }

    /// Makes one free that nobody has.
    pub fn give(&self, PlaceIndex(index): PlaceIndex) {
        let (at, bit) = (index as usize / 64, 1u64 << (index % 64));
        // Release: pairs with the Acquire of `take`.
        self.free[at].fetch_or(bit, Release);
    }

    /// Leaves one for the courier.
    #[inline]
    pub fn release(&self, PlaceIndex(index): PlaceIndex) {
        let (at, bit) = (index as usize / 64, 1u64 << (index % 64));
        if let Some(word) = self.returned.get(at) {
            // Release: pairs with the AcqRel of `returned`.
            word.fetch_or(bit, Release);
        }
    }

    /// Takes those that were left.
    pub fn returned(&self, mut each: impl FnMut(PlaceIndex)) {
        for (at, word) in self.returned.iter().enumerate() {
            if word.load(Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, AcqRel);
            while bits != 0 {
                each(PlaceIndex(at as u32 * 64 + bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
    }
}
