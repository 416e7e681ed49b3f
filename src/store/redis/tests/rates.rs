//! Rates: whatever comes when, the scripts make the same states of them as the functions that
//! this side decides with.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use redis::Value;

use super::Scripts;
use crate::limit::gcra::Bucket;
use crate::limit::key::Digest;
use crate::limit::rate::Rate;
use crate::limit::rating::{Decision, Limit};
use crate::limit::window::Window;
use crate::store::fleet::{Command, Reply, Step};
use crate::store::redis::scripts::{EPOCH, reply};

const SECOND: u64 = 1_000_000_000;

fn any_limit() -> impl Strategy<Value = Limit> {
    let rate = (1u32..9, 1u64..9000).prop_map(|(number, millis)| Rate {
        number,
        period: Duration::from_millis(millis),
    });
    // And such as take years to fill: beyond what Lua's numbers hold in nanoseconds.
    let slow = (1u32..4, 1u64..366).prop_map(|(number, days)| Rate {
        number,
        period: Duration::from_secs(days * 24 * 3600),
    });
    let any_rate = prop_oneof![rate.clone(), slow];
    let bucket = (any_rate, 1u32..9, prop::option::of(0u32..9))
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

#[derive(Clone, Copy, Debug)]
enum Does {
    Decides,
    Checks,
    Charges,
    /// Takes the last charge back.
    Refunds,
}

fn any_step() -> impl Strategy<Value = (u64, Does)> {
    let gap = prop_oneof![Just(0), 0u64..50_000_000, 0u64..5 * SECOND];
    let does = prop_oneof![
        4 => Just(Does::Decides),
        1 => Just(Does::Checks),
        1 => Just(Does::Charges),
        1 => Just(Does::Refunds),
    ];
    // The server's clock tells microseconds.
    (gap.prop_map(|gap| gap / 1000 * 1000), does)
}

/// The state that this side makes of one.
fn model(limit: &Limit, step: Step, word: u64, now: u64) -> u64 {
    let of = |decision| match decision {
        Decision::Pass(pass) => pass.next,
        Decision::Over(over) => over.next.unwrap_or(word),
    };
    match step {
        Step::Decide => of(limit.decide(word, now)),
        Step::Check => of(limit.check(word, now)),
        Step::Charge => limit.charge(word, now),
        Step::Refund { charged, at } => limit.refund(word, now, charged, at).unwrap_or(word),
    }
}

#[test]
fn scripts_decide_as_this_side_does() {
    let scripts = RefCell::new((Scripts::new(), 0));
    proptest!(ProptestConfig::with_cases(400), |(
        limits in prop::collection::vec(any_limit(), 1..3),
        steps in prop::collection::vec(any_step(), 1..30),
    )| {
        let (scripts, number) = &mut *scripts.borrow_mut();
        *number += 1;
        let key = Digest { tag: *number, place: 7 };
        // A reload may give the same state to another rate of its kind.
        let is_bucket = |limit: &Limit| matches!(limit, Limit::Bucket(_));
        let first = limits[0];
        let limits: Vec<Limit> = limits.into_iter().filter(|limit| is_bucket(limit) == is_bucket(&first)).collect();
        let begun = Instant::now();
        let (mut now, mut word, mut charge) = (2 * 365 * 24 * 3600 * SECOND, 0, None);
        for (at, (gap, does)) in steps.into_iter().enumerate() {
            now += gap;
            let limit = limits[at % limits.len()];
            let step = match (does, charge) {
                (Does::Decides, _) => Step::Decide,
                (Does::Checks, _) => Step::Check,
                (Does::Charges, _) => Step::Charge,
                (Does::Refunds, Some((charged, at))) => Step::Refund { charged, at },
                (Does::Refunds, None) => continue,
            };
            let reply = scripts.run(&Command::Rate { key, limit, step }, Some(now));
            // By the server's own clock the state may be forgotten after a second.
            prop_assume!(begun.elapsed() < Duration::from_secs(1));
            prop_assert_eq!(reply, Reply::Rated { word, now }, "{:?}", step);
            word = model(&limit, step, word, now);
            charge = match step {
                Step::Decide | Step::Charge => Some((word, now)),
                Step::Refund { .. } => None,
                Step::Check => charge,
            };
        }
        // What the last step has made shows in a look.
        let look = Command::Rate { key, limit: limits[0], step: Step::Check };
        let reply = scripts.run(&look, Some(now));
        prop_assume!(begun.elapsed() < Duration::from_secs(1));
        prop_assert_eq!(reply, Reply::Rated { word, now });
    });
}

#[test]
fn state_lasts_as_long_as_it_matters_and_a_second_more() {
    let mut scripts = Scripts::new();
    let rate = Rate {
        number: 1,
        period: Duration::from_millis(1_500_500),
    };
    let window = |freeze| {
        Limit::Window(Window {
            rate,
            freeze,
            extend: false,
        })
    };
    let freeze = Some(Duration::from_secs(6000));
    let limits = [
        (
            Limit::Bucket(Bucket::new(rate, 2, None).unwrap()),
            1,
            1_501_500,
        ),
        (window(None), 1, 1_501_500),
        (window(freeze), 2, 6_001_000),
    ];
    for (at, (limit, times, lasts)) in limits.into_iter().enumerate() {
        let key = Digest {
            tag: at as u64,
            place: 0,
        };
        let name = super::super::names::rate("test:", key);
        let begun = Instant::now();
        for _ in 0..times {
            let step = Step::Decide;
            scripts.run(&Command::Rate { key, limit, step }, None);
        }
        let left = scripts.redis.number(&["PTTL", &name]);
        let passed = begun.elapsed().as_millis() as i64;
        // The server's clock, which may be set right meanwhile, tells milliseconds.
        let least = lasts - passed - 100;
        assert!((least..=lasts).contains(&left), "{left} of {lasts}");
    }
}

#[test]
fn the_clock_is_the_servers_unless_another_is_given() {
    let mut scripts = Scripts::new();
    let rate = Rate {
        number: 1,
        period: Duration::from_secs(3600),
    };
    let limit = Limit::Bucket(Bucket::new(rate, 1, None).unwrap());
    let key = Digest { tag: 1, place: 1 };
    let step = Step::Decide;
    let Reply::Rated { word: 0, now } = scripts.run(&Command::Rate { key, limit, step }, None)
    else {
        panic!("the first finds a full bucket");
    };
    let since_1970 = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_secs();
    let said = now / SECOND + super::super::scripts::EPOCH;
    assert!(said.abs_diff(since_1970) < 60, "{said} and {since_1970}");
    let Reply::Rated { word, now } = scripts.run(&Command::Rate { key, limit, step }, None) else {
        panic!("no rate");
    };
    let Decision::Over(over) = limit.decide(word, now) else {
        panic!("the second is one too many");
    };
    assert!(over.wait > 3500 * SECOND && over.wait <= 3600 * SECOND);
}

/// Somebody who only says that he is a Redis, or one whose clock is wrong by years.
#[test]
fn times_that_no_clock_says_are_no_answer() {
    let rate = Rate {
        number: 1,
        period: Duration::from_secs(1),
    };
    let limit = Limit::Bucket(Bucket::new(rate, 1, None).unwrap());
    let key = Digest { tag: 1, place: 2 };
    let step = Step::Decide;
    let command = Command::Rate { key, limit, step };
    let good = EPOCH as i64 + 1;
    for (numbers, is_answer) in [
        ([good, 5, 0, 0], true),
        ([good, 5, good, 7], true),
        ([i64::MAX, 0, 0, 0], false),
        ([good, 0, i64::MAX, i64::MAX], false),
        ([good, i64::MAX, 0, 0], false),
        ([1, 0, 1, 0], false),
    ] {
        let value = Value::Array(numbers.map(Value::Int).to_vec());
        let answer = reply(&command, &value);
        assert_eq!(answer.is_some(), is_answer, "{numbers:?}: {answer:?}");
    }
}
