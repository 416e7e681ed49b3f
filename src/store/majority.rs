//! Whether nearly all that is noted is one and the same: a majority vote in one word,
//! after Boyer and Moore (1981), with a higher price for everything else.
//!
//! Each note of the candidate adds one, each other note takes [`PRICE`] away; so only
//! what makes up more than four fifths of all notes can ever reach [`ENOUGH`].

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// What a note of something else takes away.
const PRICE: u32 = 4;
/// At this score the candidate is nearly all there is.
const ENOUGH: u32 = 32;

/// The vote: `candidate:32 | score:32`. The word holds all of it, so Relaxed is enough.
#[derive(Clone, Copy)]
pub struct Majority(&'static AtomicU64);

impl Majority {
    pub(super) fn new(word: &'static AtomicU64) -> Self {
        Majority(word)
    }

    /// Notes one with this tag; true when it is nearly all there is, and the vote begins
    /// anew.
    pub fn note(self, tag: u64) -> bool {
        let tag = tag >> 32;
        let next = |word: u64| match (word >> 32, word as u32) {
            (_, 0) => (tag << 32 | 1, false),
            (candidate, score) if candidate == tag && score + 1 >= ENOUGH => (0, true),
            (candidate, score) if candidate == tag => {
                (candidate << 32 | u64::from(score + 1), false)
            }
            (candidate, score) => (
                candidate << 32 | u64::from(score.saturating_sub(PRICE)),
                false,
            ),
        };
        match self
            .0
            .fetch_update(Relaxed, Relaxed, |word| Some(next(word).0))
        {
            Ok(before) | Err(before) => next(before).1,
        }
    }

    /// Notes one that can be no candidate.
    pub fn note_other(self) {
        let next = |word: u64| {
            let score = word as u32;
            (score > 0).then(|| word >> 32 << 32 | u64::from(score.saturating_sub(PRICE)))
        };
        let _ = self.0.fetch_update(Relaxed, Relaxed, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote() -> Majority {
        Majority::new(Box::leak(Box::new(AtomicU64::new(0))))
    }

    const PROXY: u64 = 7 << 32;
    const OTHER: u64 = 8 << 32;

    #[test]
    fn one_that_is_alone_is_found_again_and_again() {
        let vote = vote();
        let found: Vec<usize> = (1..=64).filter(|_| vote.note(PROXY)).collect();
        assert_eq!(found, [32, 64]);
    }

    #[test]
    fn one_among_many_others_is_not() {
        for others in [4, 2, 1] {
            let vote = vote();
            for turn in 0..1000 {
                if turn % (others + 1) == 0 {
                    vote.note_other();
                } else {
                    assert!(!vote.note(PROXY), "{others} of {}", others + 1);
                }
            }
        }
    }

    #[test]
    fn two_proxies_are_no_majority() {
        let vote = vote();
        assert!((0..1000).all(|turn| !vote.note(if turn % 2 == 0 { PROXY } else { OTHER })));
    }

    #[test]
    fn a_few_others_do_not_hide_it() {
        let vote = vote();
        let found = (0..1000).any(|turn| {
            if turn % 20 == 0 {
                vote.note_other();
                false
            } else {
                vote.note(PROXY)
            }
        });
        assert!(found);
    }
}
