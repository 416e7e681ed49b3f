//! What a rate rule says, and the one word of state that is kept for a key of it.
//!
//! A word is 0 where nothing is known of the key, or belongs to a [`Bucket`] or to a
//! [`Window`]. Times are nanoseconds of a clock that never goes back.

use std::time::Duration;

use super::gcra::Bucket;
use super::rate::Rate;
use super::rule::Scope;
use super::window::{self, Window};

/// How a rate is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// `MaxRatePerIP`, `MaxRatePerKey`
    Bucket(Bucket),
    /// `MaxHitsPerIP`, `MaxHitsPerKey`
    Window(Window),
}

/// What a rate rule says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rating {
    /// The rate; `None` is `off`.
    pub limit: Option<Limit>,
    /// `scope=`: location, vhost or zone.
    pub scope: Scope,
    /// `on=`: what is charged; empty for every request.
    pub on: Statuses,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It is let in.
    Pass(Pass),
    /// It is one too many.
    Over(Over),
}

/// A request that is let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pass {
    /// The state that charges it; the same as before where it is charged later.
    pub next: u64,
    /// How long it has to wait for its turn, in nanoseconds.
    pub wait: u64,
    /// How many more could come at once.
    pub left: u32,
    /// When all is as at the beginning, in nanoseconds.
    pub resets_in: u64,
}

/// A request that is one too many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Over {
    /// The state after it, where it changes any.
    pub next: Option<u64>,
    /// When the next one may come, in nanoseconds.
    pub wait: u64,
    /// Whether its key was frozen when it came.
    pub frozen: bool,
}

/// What `on=` charges: a set of the statuses 100 to 599, and perhaps whatever is cut as too
/// slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statuses([u64; 8]);

/// The last bit, which is no status.
const SLOW: u64 = 1 << 63;

impl Statuses {
    /// Adds one; false for what is no status.
    pub fn add(&mut self, status: u16) -> bool {
        let is_one = (100..=599).contains(&status);
        if is_one {
            let bit = usize::from(status) - 100;
            self.0[bit / 64] |= 1 << (bit % 64);
        }
        is_one
    }

    /// Adds what is cut as too slow.
    pub fn add_slow(&mut self) {
        self.0[7] |= SLOW;
    }

    /// Whether what is cut as too slow is in it.
    pub fn contains_slow(&self) -> bool {
        self.0[7] & SLOW != 0
    }

    /// Whether there are none, and not what is cut either.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 8]
    }

    /// Whether this is one of them.
    pub fn contains(&self, status: u16) -> bool {
        let bit = usize::from(status).wrapping_sub(100);
        bit < 500 && self.0[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// All of the statuses, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        let set = *self;
        (100..600).filter(move |status| set.contains(*status))
    }
}

impl Limit {
    /// So many in so long.
    pub fn rate(&self) -> Rate {
        match self {
            Limit::Bucket(bucket) => bucket.rate,
            Limit::Window(window) => window.rate,
        }
    }

    /// The same bucket, whatever a rule says about waiting.
    pub fn without_delay(self) -> Limit {
        match self {
            Limit::Bucket(bucket) => {
                Limit::Bucket(Bucket::new(bucket.rate, bucket.burst, None).unwrap_or(bucket))
            }
            Limit::Window(_) => self,
        }
    }

    /// How many may come at once from the beginning.
    pub fn most(&self) -> u32 {
        match self {
            Limit::Bucket(bucket) => bucket.most(),
            Limit::Window(window) => window.rate.number,
        }
    }

    /// How many of [`Limit::most`] a key has used.
    pub fn used(&self, word: u64, now: u64) -> u32 {
        match (self, window::is_window(word)) {
            (Limit::Bucket(bucket), false) => bucket.used(word, now),
            (Limit::Window(window), true) => window.used(word, now),
            // Of the other kind: it is taken for a key of which nothing is known.
            _ => 0,
        }
    }

    /// What becomes of a request that is charged now.
    #[inline]
    pub fn decide(&self, word: u64, now: u64) -> Decision {
        match self {
            Limit::Bucket(bucket) => bucket.decide(word, now),
            Limit::Window(window) => window.decide(word, now),
        }
    }

    /// What becomes of a request that is charged later, if at all.
    #[inline]
    pub fn check(&self, word: u64, now: u64) -> Decision {
        match self {
            Limit::Bucket(bucket) => bucket.check(word, now),
            Limit::Window(window) => window.check(word, now),
        }
    }

    /// What there is to tell of a request that passes without a charge of its own.
    pub fn pass_without(&self, word: u64, now: u64) -> Pass {
        match self.check(word, now) {
            Decision::Pass(pass) => Pass { wait: 0, ..pass },
            Decision::Over(over) => Pass {
                next: word,
                wait: 0,
                left: 0,
                resets_in: over.wait,
            },
        }
    }

    /// The state after a charge that [`Limit::check`] did not know of.
    #[inline]
    pub fn charge(&self, word: u64, now: u64) -> u64 {
        match self {
            Limit::Bucket(bucket) => bucket.charge(word, now),
            Limit::Window(window) => window.charge(word, now),
        }
    }

    /// The state with a charge taken back that had made it `charged` at that time; none where
    /// there is nothing to take back.
    #[inline]
    pub fn refund(&self, word: u64, now: u64, charged: u64, at: u64) -> Option<u64> {
        match self {
            Limit::Bucket(bucket) => bucket.refund(word, now, charged, at),
            Limit::Window(window) => window.refund(word, now, charged),
        }
    }
}

/// Whether nothing would be lost if this state were forgotten.
pub fn is_spent(word: u64, now: u64) -> bool {
    match window::is_window(word) {
        true => window::is_over(word, now),
        false => word <= now,
    }
}

/// How long the key of this state is still frozen; none where it is not.
pub fn frozen_for(word: u64, now: u64) -> Option<Duration> {
    window::frozen_for(word, now)
}

/// A time in whole seconds, rounded up, at least 1: what `Retry-After` says.
pub fn whole_seconds(nanoseconds: u64) -> u32 {
    u32::try_from(nanoseconds.div_ceil(1_000_000_000).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
