//! Limits of both kinds by tables and by what must always hold.

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
    let bucket = (rate.clone(), 1u32..9, prop::option::of(0u32..9))
        .prop_map(|(rate, burst, delay)| Limit::Bucket(Bucket::new(rate, burst, delay).unwrap()));
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

#[test]
fn what_is_used_is_what_was_let_in() {
    let rate = Rate {
        number: 4,
        period: Duration::from_secs(4),
    };
    let limits = [
        Limit::Bucket(Bucket::new(rate, 4, None).unwrap()),
        Limit::Window(Window {
            rate,
            freeze: Some(Duration::from_secs(9)),
            extend: false,
        }),
    ];
    let now = 1_000_000_000_000_000;
    for (limit, other) in limits.iter().zip(limits.iter().rev()) {
        let mut word = 0;
        for used in 0..4 {
            assert_eq!(limit.used(word, now), used, "{limit:?}");
            word = limit.charge(word, now);
        }
        assert_eq!((limit.used(word, now), other.used(word, now)), (4, 0));
        if let Decision::Over(Over {
            next: Some(frozen), ..
        }) = limit.decide(word, now)
        {
            assert_eq!(limit.used(frozen, now + 8_000_000_000), 4);
        }
        assert_eq!(limit.used(word, now + 4_000_000_000), 0, "{limit:?}");
    }
    // Half of one has grown back.
    assert_eq!(
        limits[0].used(limits[0].charge(0, now), now + 500_000_000),
        1
    );
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
