//! Proves the token bucket: tables of conversations, and oracles of another kind.

use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
/// Some time of the clock.
const T: u64 = 1_000_000 * SECOND;

fn bucket(rate: &str, burst: u32, delay: Option<u32>) -> Bucket {
    Bucket::new(Rate::parse(rate).unwrap(), burst, delay).unwrap()
}

/// A request, and the bucket after it: how long it waits, or the next one has to.
fn hit(bucket: &Bucket, tat: &mut u64, now: u64) -> Result<u64, u64> {
    match bucket.decide(*tat, now) {
        Decision::Pass(pass) => {
            *tat = pass.next;
            Ok(pass.wait)
        }
        Decision::Over(over) => {
            *tat = over.next.unwrap_or(*tat);
            Err(over.wait)
        }
    }
}

/// Milliseconds, as they are written here, in nanoseconds.
fn millis(word: &str) -> u64 {
    (word.parse::<f64>().unwrap() * 1e6).round() as u64
}

#[test]
fn requests_pass_or_wait_or_are_refused_as_the_manual_says() {
    // Rate, burst and delay; then when requests come, and what becomes of each.
    for row in [
        "2/s 4 - | 0 ok ok ok ok over=500 over=500",
        "2/s 2 - | 0 ok ok over=500 | 499.999999 over=0.000001 | 500 ok over=500",
        // Ten in 5 s.
        "1/s 2 - | 0 ok | 500 ok | 1000 ok | 1500 over=500 | 2000 ok | 2500 over=500 \
         | 3000 ok | 3500 over=500 | 4000 ok | 4500 over=500",
        "1000/s 3 - | 0 ok ok ok over=1 | 946080000000 ok ok ok over=1",
        "1/min 1 - | 0 ok over=60000 | 59999.999999 over=0.000001 | 60000 ok \
         | 119999.999999 over=0.000001 | 120000 ok",
        // What is refused costs nothing (nginx, test 8).
        "2/s 1 - | 0 ok | 0.000001 over=499.999999 | 500 ok",
        "2/s 3 2 | 0 ok ok wait=500 over=500 | 500 wait=500",
        // A full bucket keeps nobody waiting, and no delay is longer than its burst.
        "1/min 2 0 | 0 ok over=55000 | 55000 wait=5000",
        "1/d 2 4294967295 | 0 ok ok over=86400000",
        // Nobody waits for more than 5 s.
        "2/s 20 8 | 0 ok ok ok ok ok ok ok ok wait=500 wait=1000 wait=1500 wait=2000 \
         wait=2500 wait=3000 wait=3500 wait=4000 wait=4500 wait=5000 over=500 \
         | 0.000001 over=499.999999 | 500 wait=5000",
        // The bucket is empty, and would have them wait too long besides.
        "20/min 3 1 | 0 ok wait=3000 | 1000 wait=5000 over=3000 \
         | 3999.999999 over=0.000001 | 4000 wait=5000",
    ] {
        let (rule, conversation) = row.split_once(" | ").unwrap();
        let rule: Vec<_> = rule.split(' ').collect();
        let bucket = bucket(rule[0], rule[1].parse().unwrap(), rule[2].parse().ok());
        let mut tat = 0;
        for (at, word) in conversation.split(" | ").flat_map(|moment| {
            let (at, words) = moment.split_once(' ').unwrap();
            words.split_whitespace().map(move |word| (at, word))
        }) {
            let expected = match word.split_once('=') {
                Some(("over", wait)) => Err(millis(wait)),
                Some((_, wait)) => Ok(millis(wait)),
                None => Ok(0),
            };
            let became = hit(&bucket, &mut tat, T + millis(at));
            assert_eq!(became, expected, "{row}: {at} {word}");
        }
    }
}

#[test]
fn what_another_bucket_left_is_empty_and_not_worse() {
    let bucket = bucket("10/s", 5, None);
    let tenth = SECOND / 10;
    for left in [T + SECOND, T + 1_000_000 * SECOND, u64::MAX] {
        let mut tat = left;
        let became = [0, tenth - 1, tenth, tenth].map(|at| hit(&bucket, &mut tat, T + at));
        assert_eq!(became, [Err(tenth), Err(1), Ok(0), Err(tenth)]);
        assert_eq!(bucket.charge(left, T), T + 5 * tenth);
        assert_eq!(bucket.refund(left, T, left, T), Some(T + 4 * tenth));
    }
}

#[test]
fn what_takes_146_years_to_fill_is_no_bucket() {
    let rate = Rate::parse("1/366d").unwrap();
    let burst = |burst| Bucket::new(rate, burst, None).map(|bucket| bucket.burst);
    let bursts = [0, 145, 146, u32::MAX].map(burst);
    assert_eq!(bursts, [Some(1), Some(145), None, None]);
}

#[test]
fn a_token_is_put_back_as_far_as_it_has_not_grown_back() {
    let bucket = bucket("1/s", 2, None);
    // The state, the time, the state that the charge made, and the one without it.
    for (tat, at, taken, expected) in [
        (1000, 0, 1000, Some(0)),
        (2000, 0, 1000, Some(1000)),
        (2000, 0, 2000, Some(1000)),
        // The second came when nine tenths of the first had grown back.
        (2000, 950, 1000, Some(1950)),
        (2000, 1000, 1000, None),
        (1000, 999, 1000, Some(999)),
        // Somebody else put it back, and it grew.
        (500, 600, 1000, None),
    ] {
        let [tat, at, taken] = [tat, at, taken].map(|millis| T + millis * 1_000_000);
        let expected = expected.map(|millis: u64| T + millis * 1_000_000);
        assert_eq!(bucket.refund(tat, at, taken, T), expected, "{tat} {at}");
    }
    assert_eq!(bucket.refund(0, T, T + SECOND, T), None);
}

/// A bucket that takes its tokens one after the other, in units of which a token is
/// `interval` and one grows in a nanosecond: nothing is rounded.
struct Tokens {
    level: u128,
    at: u64,
}

impl Tokens {
    fn hit(&mut self, bucket: &Bucket, now: u64) -> Result<u64, u64> {
        let token = u128::from(bucket.rate.interval());
        let full = token * u128::from(bucket.burst);
        self.level = full.min(self.level + u128::from(now - self.at));
        self.at = now;
        // The tokens that may be out without a wait, and with one of 5 s.
        let at_once = u128::from(bucket.delay.unwrap_or(u32::MAX).max(1)) * token;
        let most = full.min(at_once + 5_000_000_000);
        let out = full - self.level + token;
        if out > most {
            return Err((out - most) as u64);
        }
        self.level -= token;
        Ok(out.saturating_sub(at_once) as u64)
    }
}

fn any_bucket() -> impl Strategy<Value = Bucket> {
    let long = prop::sample::select(vec![1u64, 1000, 60_000, 86_400_000]);
    let rate = prop_oneof![(1u32..20, long), (1u32..=1_000_000, 1000u64..1_000_000)];
    let burst = prop_oneof![1u32..6, 1u32..1000];
    (rate, burst, prop::option::of(0u32..6)).prop_map(|((number, millis), burst, delay)| {
        let period = Duration::from_millis(millis);
        Bucket::new(Rate { number, period }, burst, delay).unwrap()
    })
}

/// When requests come: gaps in 24ths of the interval and some nanoseconds beside.
fn any_times() -> impl Strategy<Value = Vec<(u64, i64)>> {
    let gap = prop_oneof![4 => Just(0), 4 => 0u64..48, 1 => 0u64..500];
    prop::collection::vec((gap, -1i64..=1), 1..80)
}

/// Which of the last that passed is refunded, if one is.
fn any_refunds() -> impl Strategy<Value = Vec<Option<usize>>> {
    prop::collection::vec(prop::option::weighted(0.4, 1usize..8), 80)
}

fn times<'a>(bucket: &Bucket, gaps: &'a [(u64, i64)]) -> impl Iterator<Item = u64> + 'a {
    let interval = bucket.interval;
    gaps.iter().scan(T, move |now, (gap, beside)| {
        *now += (interval * gap / 24).saturating_add_signed(*beside);
        Some(*now)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn it_admits_what_a_bucket_of_tokens_does(bucket in any_bucket(), gaps in any_times()) {
        let full = u128::from(bucket.interval) * u128::from(bucket.burst);
        let mut tokens = Tokens { level: full, at: T };
        let mut tat = 0;
        for now in times(&bucket, &gaps) {
            prop_assert_eq!(hit(&bucket, &mut tat, now), tokens.hit(&bucket, now));
        }
    }

    #[test]
    fn what_it_says_of_later_requests_comes_true(bucket in any_bucket(), gaps in any_times()) {
        let mut tat = 0;
        for now in times(&bucket, &gaps) {
            let checked = bucket.check(tat, now);
            match bucket.decide(tat, now) {
                Decision::Pass(pass) => {
                    let mut then = pass.next;
                    let more = (0..=pass.left).filter(|_| hit(&bucket, &mut then, now).is_ok());
                    prop_assert_eq!(more.count(), pass.left as usize);
                    prop_assert!(pass.wait <= 5 * SECOND);
                    let reset = now + pass.resets_in;
                    prop_assert_eq!(bucket.missing(pass.next, reset), 0);
                    prop_assert_eq!(bucket.missing(pass.next, reset - 1), 1);
                    let Decision::Pass(fresh) = bucket.decide(pass.next, reset) else { panic!() };
                    prop_assert_eq!(fresh.left + 1, bucket.most());
                    let Decision::Pass(checked) = checked else { panic!() };
                    prop_assert_eq!((checked.next, checked.wait), (tat, pass.wait));
                    prop_assert_eq!(checked.left, pass.left + 1);
                    prop_assert_eq!(checked.resets_in, bucket.missing(tat, now));
                    prop_assert_eq!(bucket.charge(tat, now), pass.next);
                    tat = pass.next;
                }
                Decision::Over(over) => {
                    prop_assert_eq!(checked, Decision::Over(over));
                    prop_assert_eq!((over.next, over.frozen), (None, false));
                    prop_assert!(hit(&bucket, &mut tat.clone(), now + over.wait).is_ok());
                    prop_assert_eq!(hit(&bucket, &mut tat, now + over.wait - 1), Err(1));
                }
            }
            prop_assert!(bucket.missing(bucket.charge(tat, now), now) <= bucket.depth);
        }
    }

    /// Some of what passes is refunded some requests later. What was kept is never more
    /// than burst + rate * t and, where a refund at once overtook another, what grew between
    /// charge and refund.
    #[test]
    fn never_more_than_the_rate_is_kept(
        bucket in any_bucket(), gaps in any_times(), refunds in any_refunds(), in_order: bool,
    ) {
        // When each came, which state it made, and whether it is kept, or final.
        let mut run: Vec<(u64, u64, bool, bool)> = Vec::new();
        let (mut tat, mut slack) = (0, 0);
        for (now, back) in times(&bucket, &gaps).zip(refunds) {
            if hit(&bucket, &mut tat, now).is_ok() {
                run.push((now, tat, true, false));
            }
            let index = run.len().wrapping_sub(back.unwrap_or(0));
            let Some((came, taken, kept, last)) = run.get_mut(index) else { continue };
            if !*kept || *last {
                continue;
            }
            *kept = false;
            if !in_order {
                let out = now - *came;
                slack += u128::from(if out <= nanoseconds(AT_ONCE) { out } else { 0 });
            }
            tat = bucket.refund(tat, now, *taken, *came).unwrap_or(tat);
            run[index..].iter_mut().for_each(|hit| hit.3 = in_order);
        }
        let kept: Vec<u64> = run.iter().filter(|hit| hit.2).map(|hit| hit.0).collect();
        let period = bucket.rate.period.as_nanos();
        for (first, from) in kept.iter().enumerate() {
            for (last, to) in kept.iter().enumerate().skip(first) {
                let grown = (u128::from(to - from) + slack) * u128::from(bucket.rate.number);
                let number = (last - first + 1) as u128;
                prop_assert!(number * period <= u128::from(bucket.burst) * period + grown);
            }
        }
    }

    #[test]
    fn what_was_refunded_has_never_been(
        bucket in any_bucket(), gaps in any_times(), later in any_times(), after in 0u64..30,
    ) {
        let (mut tat, mut now) = (0, T);
        for at in times(&bucket, &gaps) {
            now = at;
            let _ = hit(&bucket, &mut tat, now);
        }
        if let Decision::Pass(pass) = bucket.decide(tat, now) {
            let charged = now;
            now += (bucket.interval * after / 24).min(nanoseconds(AT_ONCE));
            let mut refunded = bucket
                .refund(pass.next, now, pass.next, charged)
                .unwrap_or(pass.next);
            for at in times(&bucket, &later).map(|at| at - T + now) {
                prop_assert_eq!(hit(&bucket, &mut refunded, at), hit(&bucket, &mut tat, at));
            }
        }
    }
}
