//! What is done to the state of a rate by hand, and what is read out of it without its rule.
//!
//! A state that a key has is never replaced by 0: that is the word of cells that count places,
//! and an exchange that was meant for a key which just went could then fit a cell of those.

use std::time::Duration;

use super::window;

/// What a state says at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Nothing: a full bucket, or a window that is over.
    Nothing,
    /// A bucket.
    Bucket {
        /// When it is full again, in nanoseconds.
        full_in: u64,
    },
    /// A window.
    Window {
        /// How many were counted.
        count: u32,
        /// When it ends, in nanoseconds.
        ends_in: u64,
    },
    /// A window whose key is frozen.
    Frozen {
        /// For how long still, in nanoseconds.
        left: u64,
    },
}

/// What this state says.
pub fn seen(word: u64, now: u64) -> Seen {
    match (window::is_window(word), window::look(word, now)) {
        (true, Some((true, _, left))) => Seen::Frozen { left },
        (true, Some((false, count, ends_in))) => Seen::Window { count, ends_in },
        (false, _) if word > now => Seen::Bucket {
            full_in: word - now,
        },
        _ => Seen::Nothing,
    }
}

/// The state of a key that is frozen for this time, in every window; a bucket has none.
pub fn frozen(time: Duration, now: u64) -> u64 {
    window::frozen(time, now)
}

/// The state in which all is as at the beginning, of the kind that this one is.
pub fn forgotten(word: u64) -> u64 {
    match window::is_window(word) {
        true => window::OVER,
        // Full again since the first nanosecond.
        false => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limit::gcra::Bucket;
    use crate::limit::rate::Rate;
    use crate::limit::rating::{Decision, Limit, frozen_for, is_spent};
    use crate::limit::window::Window;

    const NOW: u64 = 1_000_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn bucket(number: u32, burst: u32) -> Limit {
        let period = Duration::from_secs(1);
        Limit::Bucket(Bucket::new(Rate { number, period }, burst, None).unwrap())
    }

    fn window(number: u32, freeze: Option<u64>, extend: bool) -> Limit {
        Limit::Window(Window {
            rate: Rate {
                number,
                period: Duration::from_secs(10),
            },
            freeze: freeze.map(Duration::from_secs),
            extend,
        })
    }

    fn next(decision: Decision, word: u64) -> u64 {
        match decision {
            Decision::Pass(pass) => pass.next,
            Decision::Over(over) => over.next.unwrap_or(word),
        }
    }

    #[test]
    fn a_state_tells_what_it_is() {
        let charged =
            |limit: Limit, times| (0..times).fold(0, |word, _| next(limit.decide(word, NOW), word));
        for (word, expected) in [
            (0, Seen::Nothing),
            (1, Seen::Nothing),
            (NOW, Seen::Nothing),
            (
                charged(bucket(2, 9), 3),
                Seen::Bucket {
                    full_in: 3 * SECOND / 2,
                },
            ),
            (
                charged(window(5, None, false), 3),
                Seen::Window {
                    count: 3,
                    ends_in: 10 * SECOND,
                },
            ),
            (
                charged(window(5, Some(60), false), 6),
                Seen::Frozen { left: 60 * SECOND },
            ),
        ] {
            assert_eq!(seen(word, NOW), expected, "{word:x}");
        }
        let over = charged(window(5, None, false), 3);
        assert_eq!(seen(over, NOW + 10 * SECOND), Seen::Nothing);
    }

    fn any_limit() -> impl Strategy<Value = Limit> {
        let freeze = prop::option::of(1u64..9000);
        prop_oneof![
            (1u32..9, 1u32..9).prop_map(|(number, burst)| bucket(number, burst)),
            (1u32..9, freeze, any::<bool>())
                .prop_map(|(number, freeze, extend)| window(number, freeze, extend)),
        ]
    }

    proptest! {
        #[test]
        fn what_is_forgotten_is_as_never_seen(limit in any_limit(), hits in 1u32..20, later in 0..90 * SECOND) {
            let word = (0..hits).fold(0, |word, _| next(limit.decide(word, NOW), word));
            let forgotten = forgotten(word);
            prop_assert!(forgotten != 0 && is_spent(forgotten, NOW));
            prop_assert_eq!(frozen_for(forgotten, NOW), None);
            prop_assert_eq!(seen(forgotten, NOW), Seen::Nothing);
            let now = NOW + later;
            prop_assert_eq!(limit.decide(forgotten, now), limit.decide(0, now));
            prop_assert_eq!(limit.charge(forgotten, now), limit.charge(0, now));
            prop_assert_eq!(limit.refund(forgotten, now, word, NOW), None);
        }

        /// Whether it freezes by itself or not; and then all starts anew.
        #[test]
        fn every_window_knows_who_is_frozen(
            number in 1u32..9, freeze in prop::option::of(1u64..9), extend: bool, time in 1u64..900,
        ) {
            let (limit, length) = (window(number, freeze, extend), Duration::from_secs(time));
            let word = frozen(length, NOW);
            prop_assert_eq!(seen(word, NOW), Seen::Frozen { left: time * SECOND });
            prop_assert_eq!(frozen_for(word, NOW), Some(length));
            for decision in [limit.decide(word, NOW), limit.check(word, NOW)] {
                let Decision::Over(over) = decision else { panic!("{decision:?}") };
                prop_assert!(over.frozen && over.wait >= time * SECOND);
            }
            let over = NOW + time * SECOND;
            prop_assert_eq!(limit.decide(word, over), limit.decide(0, over));
        }
    }
}
