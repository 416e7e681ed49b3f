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
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn statuses_are_those_that_were_added() {
        let mut set = Statuses::default();
        assert!(set.is_empty());
        for (status, is_one) in [
            (0, false),
            (99, false),
            (100, true),
            (163, true),
            (164, true),
            (401, true),
            (599, true),
            (600, false),
            (612, false),
            (u16::MAX, false),
        ] {
            assert_eq!(set.add(status), is_one, "{status}");
            assert_eq!(set.contains(status), is_one, "{status}");
        }
        assert!(!set.is_empty());
        let added: Vec<u16> = set.iter().collect();
        assert_eq!(added, [100, 163, 164, 401, 599]);
        let contained = (0..=u16::MAX).filter(|status| set.contains(*status));
        assert_eq!(contained.collect::<Vec<u16>>(), added);
        assert!(!set.contains_slow());
    }

    #[test]
    fn slow_is_no_status() {
        let mut set = Statuses::default();
        set.add_slow();
        assert!(set.contains_slow() && !set.is_empty());
        assert_eq!(set.iter().count(), 0);
        assert!((0..=u16::MAX).all(|status| !set.contains(status)));
        assert!((100..=599).all(|status| set.add(status)));
        assert_eq!(set.iter().count(), 500);
        assert_ne!(set, Statuses::default());
    }

    #[test]
    fn seconds_are_whole_and_at_least_one() {
        const SECOND: u64 = 1_000_000_000;
        for (nanoseconds, seconds) in [
            (0, 1),
            (1, 1),
            (SECOND, 1),
            (SECOND + 1, 2),
            (7 * SECOND - 1, 7),
            (7 * SECOND, 7),
            (u64::from(u32::MAX) * SECOND, u32::MAX),
            (u64::from(u32::MAX) * SECOND + 1, u32::MAX),
            (u64::MAX, u32::MAX),
        ] {
            assert_eq!(whole_seconds(nanoseconds), seconds, "{nanoseconds}");
        }
    }

    /// Rates, their number in nanoseconds small enough that what is random comes near.
    fn any_limit() -> impl Strategy<Value = Limit> {
        let rate = (1u32..9, 1u64..9000).prop_map(|(number, millis)| Rate {
            number,
            period: Duration::from_millis(millis),
        });
        let bucket =
            (rate.clone(), 1u32..9, prop::option::of(0u32..9)).prop_map(|(rate, burst, delay)| {
                Limit::Bucket(Bucket::new(rate, burst, delay).unwrap())
            });
        let freeze = prop::option::of((1u64..9000).prop_map(Duration::from_millis));
        let window = (rate, freeze, any::<bool>()).prop_map(|(rate, freeze, extend)| {
            Limit::Window(Window {
                rate,
                freeze,
                extend,
            })
        });
        prop_oneof![bucket, window]
    }

    /// A decision, but for the state of one that is charged later.
    fn but_for_the_state(decision: Decision) -> Decision {
        match decision {
            Decision::Pass(pass) => Decision::Pass(Pass { next: 0, ..pass }),
            over => over,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        /// And what is not spent is not forgotten for nothing.
        #[test]
        fn to_forget_what_is_spent_changes_nothing(
            limit in any_limit(), gaps in prop::collection::vec(0u64..5_000_000_000, 1..20),
            idle in 0u64..20_000_000_000, later in 0u64..20_000_000_000, on: bool,
        ) {
            let (mut word, mut now) = (0, 1_000_000_000_000_000);
            for gap in gaps {
                now += gap;
                word = match limit.decide(word, now) {
                    _ if on => limit.charge(word, now),
                    Decision::Pass(pass) => pass.next,
                    Decision::Over(over) => over.next.unwrap_or(word),
                };
                prop_assert!(!is_spent(word, now));
            prop_assert!(!matches!(limit.check(word, now), Decision::Pass(pass) if pass.next != word));
            prop_assert!(is_spent(now, now) && !is_spent(now + 1, now));
                prop_assert_eq!(frozen_for(0, now), None);
            }
            now += idle;
            if is_spent(word, now) {
                for now in [now, now + later] {
                    prop_assert_eq!(limit.decide(word, now), limit.decide(0, now));
                    prop_assert_eq!(but_for_the_state(limit.check(word, now)), but_for_the_state(limit.check(0, now)));
                    prop_assert_eq!(limit.charge(word, now), limit.charge(0, now));
                    prop_assert_eq!(limit.refund(word, now, word, now), None);
                    prop_assert_eq!(frozen_for(word, now), None);
                }
            } else {
                prop_assert_ne!(limit.decide(word, now), limit.decide(0, now));
            }
        }

        #[test]
        fn no_state_is_too_strange(limit in any_limit(), word: u64, now in 0u64..1 << 60, charged: u64) {
            for decision in [limit.decide(word, now), limit.check(word, now)] {
                if let Decision::Pass(pass) = decision {
                    prop_assert!(pass.left <= limit.most());
                }
            }
            let next = limit.charge(word, now);
            prop_assert_eq!(next >> 63, u64::from(matches!(limit, Limit::Window(_))));
            limit.refund(word, now, charged, now);
        }

        #[test]
        fn as_many_as_it_says_come_at_once(limit in any_limit()) {
            let now = 1_000_000_000_000_000;
            let mut word = 0;
            for left in (0..limit.most()).rev() {
                let Decision::Pass(pass) = limit.decide(word, now) else { panic!() };
                prop_assert_eq!(pass.left, left);
                word = pass.next;
            }
            prop_assert!(matches!(limit.decide(word, now), Decision::Over(_)));
        }
    }
}
