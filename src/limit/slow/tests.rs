//! Who is found slow and who never is, with an oracle that keeps all looks.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

fn at_least(bytes: u64) -> MinRate {
    MinRate {
        bytes,
        after: Duration::ZERO,
        window: Duration::from_secs(30),
        busy: None,
    }
}

/// What happens until the next look.
#[derive(Clone, Copy, Debug)]
struct Step {
    gap: u64,
    taken: u64,
    /// Thousandths of the time in which data waited.
    waited: u64,
    waits: bool,
}

fn step(gap: u64, taken: u64, waited: u64, waits: bool) -> Step {
    Step {
        gap,
        taken,
        waited,
        waits,
    }
}

/// One look after another, from the first at 5 s.
fn samples(steps: &[Step]) -> Vec<Sample> {
    let mut sample = Sample {
        now: 5 * S,
        taken: 1000,
        waiting: S,
        waits: true,
    };
    let mut all = vec![sample];
    for step in steps {
        sample.now += step.gap;
        sample.taken += step.taken;
        sample.waiting += step.gap / 1000 * step.waited;
        sample.waits = step.waits;
        all.push(sample);
    }
    all
}

fn looks(samples: &[Sample], window: u64) -> Vec<Option<Taken>> {
    let mut progress = Progress::new();
    let look = |sample: &Sample| progress.look(*sample, window);
    samples.iter().map(look).collect()
}

#[test]
fn a_client_is_judged_once_the_window_is_whole() {
    let steps = [step(S, 10, 1000, true); 35];
    let looks = looks(&samples(&steps), 30 * S);
    for (at, look) in looks.iter().enumerate() {
        assert_eq!(look.is_some(), at >= 30, "{at}");
    }
    let taken = looks[30].unwrap();
    assert_eq!((taken.bytes, taken.time, taken.rate()), (300, 30 * S, 10));
    assert!(at_least(11).is_missed(taken) && !at_least(10).is_missed(taken));
}

#[test]
fn whoever_waits_for_the_server_is_never_slow() {
    let event = [step(S, 10, 50, false), step(S, 0, 0, false)];
    let flush = [step(1500 * MS, 10, 100, true), step(500 * MS, 0, 0, false)];
    let nearly = [step(S, 10, 1000, true), step(S, 0, 899, true)];
    let nothing = [step(100 * MS, 0, 1000, false); 2];
    for steps in [event, flush, nearly, nothing] {
        let steps = steps.repeat(100);
        assert!(looks(&samples(&steps), 2 * S).iter().all(Option::is_none));
    }
}

#[test]
fn nine_tenths_of_the_time_are_enough() {
    let steps = [step(S, 0, 900, true); 10];
    assert!(looks(&samples(&steps), 10 * S).last().unwrap().is_some());
}

#[test]
fn another_socket_begins_anew() {
    type Change = fn(&mut Sample);
    let changes: [Change; 3] = [
        |sample| sample.taken = 0,
        |sample| sample.waiting = 0,
        |sample| sample.now = 0,
    ];
    for change in changes {
        let mut progress = Progress::new();
        let steps = [step(S, 1000, 1000, true); 9];
        for sample in samples(&steps) {
            assert_eq!(progress.look(sample, 10 * S), None);
        }
        let mut sample = *samples(&steps).last().unwrap();
        sample.now += S;
        change(&mut sample);
        for _ in 0..10 {
            assert_eq!(progress.look(sample, 10 * S), None);
            sample.now += S;
            sample.waiting += S;
        }
        let time = 10 * S;
        assert_eq!(progress.look(sample, time), Some(Taken { bytes: 0, time }));
    }
}

#[test]
fn rates_are_exact_and_do_not_overflow() {
    let taken = |bytes, time| Taken { bytes, time };
    for (bytes, time, rate) in [
        (0, 0, 0),
        (1, 0, S),
        (0, S, 0),
        (999, S, 999),
        (1, 3 * S, 0),
        (u64::MAX, S, u64::MAX),
        (u64::MAX, 1, u64::MAX),
        (u64::MAX, u64::MAX, S),
    ] {
        assert_eq!(taken(bytes, time).rate(), rate, "{bytes} in {time}");
    }
    for (minimum, bytes, time, missed) in [
        (1, 0, 0, false),
        (1000, 30_000, 30 * S, false),
        (1000, 30_000, 30 * S + 1, true),
        (u64::MAX, u64::MAX, u64::MAX, true),
        (1, u64::MAX, u64::MAX, false),
    ] {
        assert_eq!(at_least(minimum).is_missed(taken(bytes, time)), missed);
    }
}

#[test]
fn a_window_that_becomes_longer_is_whole_only_later() {
    let mut progress = Progress::new();
    let steps = [
        [step(100 * MS, 0, 1000, true); 20],
        [step(S, 0, 1000, true); 20],
    ]
    .concat();
    for (at, sample) in samples(&steps).into_iter().enumerate() {
        let window = if at <= 20 { S } else { 15 * S };
        let look = progress.look(sample, window);
        assert_eq!(look.is_some(), (10..=20).contains(&at) || at >= 35, "{at}");
        assert!(look.is_none_or(|taken| taken.time >= window));
    }
}

/// All looks since the window began anew, that of the beginning included.
fn since_the_beginning(samples: &[Sample]) -> Vec<Sample> {
    let mut all: Vec<Sample> = Vec::new();
    for sample in samples {
        if let Some(last) = all.last()
            && (!sample.waits
                || sample.taken < last.taken
                || (sample.waiting - last.waiting) * 10 < (sample.now - last.now) * 9)
        {
            all.clear();
        }
        all.push(*sample);
    }
    all
}

fn any_step() -> impl Strategy<Value = Step> {
    let gap = prop_oneof![50 * MS..200 * MS, 50 * MS..5 * S];
    let waited = prop_oneof![9 => 900u64..=1000, 1 => 0u64..=1000];
    (gap, 0u64..1_000_000, waited, prop::bool::weighted(0.97))
        .prop_map(|(gap, taken, waited, waits)| step(gap, taken, waited, waits))
}

fn any_window() -> impl Strategy<Value = u64> {
    prop_oneof![S..=10 * S, S..=100 * S]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// With an oracle that keeps all looks.
    #[test]
    fn a_whole_window_is_judged_and_nothing_else(
        steps in prop::collection::vec(any_step(), 0..150), window in any_window(),
        back in prop::option::of(0usize..150),
    ) {
        let mut samples = samples(&steps);
        if let Some(back) = back && let Some(others) = samples.get_mut(back..) {
            others.iter_mut().for_each(|sample| sample.taken -= 1000.min(sample.taken));
        }
        let longest = steps.iter().map(|step| step.gap).max().unwrap_or(0);
        for (at, look) in looks(&samples, window).into_iter().enumerate() {
            let sample = samples[at];
            let all = since_the_beginning(&samples[..=at]);
            prop_assert_eq!(look.is_some(), sample.now - all[0].now >= window);
            if let Some(taken) = look {
                prop_assert!(taken.time >= window);
                prop_assert!(taken.time <= window + window.div_ceil(12) + longest);
                let begin = sample.now - taken.time;
                let start = all.iter().find(|sample| sample.now == begin).unwrap();
                prop_assert_eq!(taken.bytes, sample.taken - start.taken);
            }
        }
    }

    #[test]
    fn whoever_takes_the_minimum_is_never_missed(
        minimum in 1u64..10_000_000, window in any_window(),
        steps in prop::collection::vec((any_step(), 0u64..100), 0..150),
    ) {
        let enough = |(step, more): &(Step, u64)| Step {
            taken: (minimum * step.gap).div_ceil(S) + more,
            ..*step
        };
        let steps: Vec<Step> = steps.iter().map(enough).collect();
        for taken in looks(&samples(&steps), window).into_iter().flatten() {
            prop_assert!(!at_least(minimum).is_missed(taken));
            prop_assert!(taken.rate() >= minimum);
        }
    }

    #[test]
    fn whoever_takes_nothing_is_found(
        before in prop::collection::vec(any_step(), 0..50), window in any_window(),
        gaps in prop::collection::vec(50 * MS..5 * S, 2..300),
    ) {
        let stalled = gaps.iter().map(|gap| step(*gap, 0, 1000, true));
        let steps: Vec<Step> = before.iter().copied().chain(stalled).collect();
        let longest = gaps.iter().chain(before.iter().map(|step| &step.gap)).max().unwrap();
        let looks = looks(&samples(&steps), window);
        let mut time = 0;
        for (look, gap) in looks[before.len() + 1..].iter().zip(&gaps) {
            time += gap;
            if time >= window + window.div_ceil(12) + longest {
                prop_assert_eq!(look.unwrap().bytes, 0);
                prop_assert!(at_least(1).is_missed(look.unwrap()));
            }
        }
    }

    #[test]
    fn an_idle_server_is_no_slow_client(
        steps in prop::collection::vec(any_step(), 0..150), window in any_window(), waited in 0u64..900,
    ) {
        for idle in [
            |step: Step, _| Step { waits: false, ..step },
            |step: Step, waited| Step { waited, ..step },
        ] {
            let steps: Vec<Step> = steps.iter().map(|step| idle(*step, waited)).collect();
            prop_assert!(looks(&samples(&steps), window).iter().all(Option::is_none));
        }
    }

    #[test]
    fn no_look_is_too_strange(
        all in prop::collection::vec(
            (any::<[u64; 4]>(), 0u32..64, any::<bool>()), 0..100,
        ),
    ) {
        let mut progress = Progress::new();
        for ([now, taken, waiting, window], small, waits) in all {
            let sample = Sample { now: now >> small, taken, waiting, waits };
            progress.look(sample, window >> small);
            // A rush of looks under a window that becomes longer and longer.
            for next in 1..20 {
                let now = sample.now.saturating_add(next * TOO_SOON);
                let waiting = waiting.saturating_add(next * TOO_SOON);
                progress.look(Sample { now, waiting, waits: true, ..sample }, next * next * TOO_SOON / 12);
            }
        }
    }
}

#[test]
fn two_responses_together_have_the_lower_minimum_over_the_longer_time() {
    let min = |bytes, after, window, busy| MinRate {
        bytes,
        after: Duration::from_secs(after),
        window: Duration::from_secs(window),
        busy,
    };
    let cases = [
        (
            min(5, 9, 3, Some(8)),
            min(7, 1, 4, Some(9)),
            min(5, 9, 4, Some(9)),
        ),
        (
            min(5, 9, 3, None),
            min(5, 1, 3, Some(9)),
            min(5, 9, 3, Some(9)),
        ),
        (min(5, 9, 3, None), min(5, 9, 3, None), min(5, 9, 3, None)),
    ];
    for (one, other, both) in cases {
        assert_eq!((one.with(other), other.with(one)), (both, both));
    }
}

#[test]
fn at_the_mark_one_is_too_many_and_below_it_none() {
    // Busy, all, percent.
    let cases = [
        ([0, 4, 75], 0),
        ([2, 4, 75], 0),
        ([3, 4, 75], 1),
        ([4, 4, 75], 1),
        // The mark is between three and four.
        ([3, 4, 80], 0),
        ([4, 4, 80], 1),
        ([3, 4, 100], 0),
        ([4, 4, 100], 1),
        // More than there are said to be.
        ([9, 4, 100], 5),
        ([0, 1, 1], 0),
        ([1, 1, 1], 1),
        ([1, 1, 100], 1),
        ([25, 25, 60], 10),
        ([15, 25, 60], 1),
        ([u32::MAX, u32::MAX, 50], u32::MAX / 2),
    ];
    for ([busy, all, percent], number) in cases {
        let found = too_many(busy, all, percent as u8);
        assert_eq!(found, number, "{busy} of {all}, {percent} %");
    }
}
