//! Records keep what was put in.

use super::*;

#[track_caller]
fn keeps(what: What) {
    for dry_run in [false, true] {
        for family in [0, u64::MAX] {
            let meta = Meta {
                what,
                family,
                dry_run,
            };
            assert_eq!(Meta::unpack(meta.pack()), Some(meta));
            if let What::Places { limit, meaning } = what {
                let first = Meta::first_of_places(limit, meaning, dry_run);
                assert_eq!(meta.pack(), [first, 0, 0, family]);
            }
        }
    }
}

#[test]
fn a_record_keeps_what_the_rule_says() {
    let busy = [None, Some(1), Some(100)];
    for scope in SCOPES {
        for count in COUNTS {
            for limit in [0, 1, u16::MAX] {
                for busy in busy {
                    let meaning = Meaning { scope, count, busy };
                    keeps(What::Places { limit, meaning });
                }
            }
        }
        let freezes = [None, Some(Duration::from_secs(31_622_400))];
        let windows = freezes.map(|freeze| Kind::Window { freeze });
        let buckets = [None, Some(0), Some(1_000_000)].map(|delay| Kind::Bucket {
            burst: 1_000_000,
            delay,
        });
        for (kind, is_late) in windows
            .into_iter()
            .chain(buckets)
            .zip([false, true].repeat(3))
        {
            keeps(What::Rate(Rate {
                number: 1_000_000,
                period: Duration::from_millis(1),
                scope,
                is_late,
                kind,
            }));
        }
    }
    keeps(What::Shared);
    for busy in busy {
        keeps(What::Guard(Guard::MinRate(MinRate {
            bytes: u64::MAX,
            after: Duration::from_secs(86_400),
            window: Duration::from_secs(3600),
            busy,
        })));
        keeps(What::Guard(Guard::MaxTime(MaxTime {
            time: Duration::from_secs(30 * 86_400),
            busy,
        })));
    }
    keeps(What::Guard(Guard::Alarm(90)));
    assert_eq!(Meta::unpack([0; META]), None);
}

#[test]
fn what_no_directive_can_say_is_no_rate() {
    let rate = |number, period| {
        let kind = Kind::Window { freeze: None };
        let (scope, is_late) = (Scope::Server, false);
        Meta {
            what: What::Rate(Rate {
                number,
                period,
                scope,
                is_late,
                kind,
            }),
            family: 0,
            dry_run: false,
        }
    };
    for (number, period, expected) in [
        (0, Duration::from_secs(1), true),
        (rate::MOST, rate::LONGEST, true),
        (rate::MOST + 1, rate::LONGEST, false),
        (1, Duration::ZERO, false),
        (1, rate::LONGEST + Duration::from_millis(1), false),
    ] {
        let read = Meta::unpack(rate(number, period).pack());
        assert_eq!(read.is_some(), expected, "{number} in {period:?}");
    }
}
