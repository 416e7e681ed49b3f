//! The count window with a freeze: so many in each period, counted from the first; the one
//! beyond is refused until the period ends, or freezes the client for a time of its own.
//!
//! One word holds all of it, in milliseconds of a clock that never goes back:
//! `window:1 | frozen:1 | count:22 | end:40`.

use std::time::Duration;

use super::rate::Rate;
use super::rating::{Decision, Over, Pass};

const WINDOW: u64 = 1 << 63;
const FROZEN: u64 = 1 << 62;
const END_BITS: u32 = 40;
const END: u64 = (1 << END_BITS) - 1;
const COUNT: u64 = (1 << 22) - 1;
const MILLI: u64 = 1_000_000;

/// A count within a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// How many in which time.
    pub rate: Rate,
    /// How long the one beyond freezes the client; none: until the period ends.
    pub freeze: Option<Duration>,
    /// Whether hits during the freeze begin it anew.
    pub extend: bool,
}

/// What a word says: until when so many were counted, or nobody is let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Whether the client is frozen until the end.
    pub frozen: bool,
    /// How many were counted.
    pub count: u64,
    /// When it ends, in milliseconds.
    pub end: u64,
}

impl State {
    /// What the word of a window says, over or not.
    #[inline]
    pub fn of(word: u64) -> State {
        State {
            frozen: word & FROZEN != 0,
            count: word >> END_BITS & COUNT,
            end: word & END,
        }
    }

    /// What the word says at this time: None where nothing was counted, or the time is over.
    #[inline]
    fn read(word: u64, now: u64) -> Option<State> {
        let state = State::of(word);
        (is_window(word) && state.end > now).then_some(state)
    }

    /// The word.
    #[inline]
    pub fn word(self) -> u64 {
        let frozen = if self.frozen { FROZEN } else { 0 };
        WINDOW | frozen | self.count.min(COUNT) << END_BITS | self.end.min(END)
    }

    /// Nobody is let in until its end. The state has to be remembered where it is another
    /// than the word's: a freeze, or an end that was too late and would be put off again
    /// and again.
    #[inline]
    fn over(self, word: u64, now: u64, frozen: bool) -> Decision {
        Decision::Over(Over {
            next: Some(self.word()).filter(|next| *next != word),
            wait: (self.end - now) * MILLI,
            frozen,
        })
    }
}

impl Window {
    fn number(&self) -> u64 {
        u64::from(self.rate.number)
    }

    fn period(&self) -> u64 {
        self.rate.period.as_millis() as u64
    }

    /// The window that a hit at this time finds: a new one where the last is over. One that
    /// was begun under a longer period ends as the present one would.
    #[inline]
    fn at(&self, word: u64, now: u64) -> State {
        let latest = now + self.period();
        match State::read(word, now) {
            Some(state) if state.frozen => state,
            Some(state) => State {
                end: state.end.min(latest),
                ..state
            },
            None => State {
                frozen: false,
                count: 0,
                end: latest,
            },
        }
    }

    fn frozen_until(&self, time: Duration, now: u64) -> State {
        State {
            frozen: true,
            count: self.number(),
            end: now + time.as_millis() as u64,
        }
    }

    /// What a hit of a frozen client finds, and makes of the freeze.
    #[inline]
    fn frozen(&self, state: State, word: u64, now: u64) -> Decision {
        let state = match self.freeze {
            // Never shorter than it is: somebody may have frozen the key by hand.
            Some(time) if self.extend => {
                let anew = self.frozen_until(time, now);
                if anew.end > state.end { anew } else { state }
            }
            _ => state,
        };
        state.over(word, now, true)
    }

    /// How many of its number have come; all, while the client is frozen.
    pub fn used(&self, word: u64, now: u64) -> u32 {
        let used = match State::read(word, now / MILLI) {
            None => 0,
            Some(state) if state.frozen => self.number(),
            Some(state) => state.count.min(self.number()),
        };
        used as u32
    }

    /// What becomes of a request that is counted.
    #[inline]
    pub fn decide(&self, word: u64, now: u64) -> Decision {
        let now = now / MILLI;
        let state = self.at(word, now);
        if state.frozen {
            return self.frozen(state, word, now);
        }
        if state.count < self.number() {
            let count = state.count + 1;
            return Decision::Pass(Pass {
                next: State { count, ..state }.word(),
                wait: 0,
                left: (self.number() - count) as u32,
                resets_in: (state.end - now) * MILLI,
            });
        }
        let state = match self.freeze {
            Some(time) => self.frozen_until(time, now),
            None => state,
        };
        state.over(word, now, false)
    }

    /// What becomes of a request that is counted only once its status is known.
    #[inline]
    pub fn check(&self, word: u64, now: u64) -> Decision {
        let now = now / MILLI;
        let state = self.at(word, now);
        if state.frozen {
            return self.frozen(state, word, now);
        }
        if state.count > self.number() {
            return state.over(word, now, false);
        }
        Decision::Pass(Pass {
            next: word,
            wait: 0,
            left: (self.number() - state.count) as u32,
            resets_in: (state.end - now) * MILLI,
        })
    }

    /// The window after a hit that nobody asked for before: the one beyond the number
    /// freezes, or is counted too.
    #[inline]
    pub fn charge(&self, word: u64, now: u64) -> u64 {
        let now = now / MILLI;
        let state = self.at(word, now);
        let counted = match self.freeze {
            _ if state.frozen => state,
            Some(time) if state.count >= self.number() => self.frozen_until(time, now),
            _ => State {
                count: (state.count + 1).min(self.number() + 1),
                ..state
            },
        };
        counted.word()
    }

    /// The window with a hit taken back that left it at `charged`; none where that window
    /// is over, or the client is frozen.
    #[inline]
    pub fn refund(&self, word: u64, now: u64, charged: u64) -> Option<u64> {
        let state = State::read(word, now / MILLI)?;
        let count = state.count.checked_sub(1)?;
        let is_the_same = word & END == charged & END && !state.frozen;
        is_the_same.then(|| State { count, ..state }.word())
    }
}

/// The word of a window that is over.
pub(super) const OVER: u64 = WINDOW;

/// The word of a key that is frozen for this time, which every window takes for its own.
pub(super) fn frozen(time: Duration, now: u64) -> u64 {
    State {
        frozen: true,
        count: 0,
        end: now / MILLI + time.as_millis() as u64,
    }
    .word()
}

/// What the word says at this time: whether the key is frozen, how many were counted, and in
/// how many nanoseconds that ends; none where it is over.
pub(super) fn look(word: u64, now: u64) -> Option<(bool, u32, u64)> {
    let now = now / MILLI;
    let state = State::read(word, now)?;
    Some((state.frozen, state.count as u32, (state.end - now) * MILLI))
}

/// Whether the word is a window's.
#[inline]
pub(super) fn is_window(word: u64) -> bool {
    word & WINDOW != 0
}

/// Whether a window's time, or its freeze, is over.
pub(super) fn is_over(word: u64, now: u64) -> bool {
    State::read(word, now / MILLI).is_none()
}

/// How long the client is still frozen; none where it is not.
pub(super) fn frozen_for(word: u64, now: u64) -> Option<Duration> {
    let (frozen, _, left) = look(word, now)?;
    frozen.then(|| Duration::from_nanos(left))
}

#[cfg(test)]
mod tests;
