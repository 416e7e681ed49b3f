//! What a flood of keys that nobody has seen costs: as much as one key, and never more.

use std::collections::HashSet;

use super::rates::{bucket, hit, now, rater, set_now};
use super::*;
use crate::limit::rate::LONGEST;

const COUNT: CountId = CountId(0x5eed);

fn address(n: u64) -> Address {
    Address::from_words([0x2001_0db8 << 32, n])
}

fn keyed(segment: &Segment, n: u64) -> Keyed<'static> {
    Keyed {
        digest: segment.secret().digest(address(n)).within(COUNT),
        count: COUNT,
        name: Name::Client(address(n)),
    }
}

/// The number of the cell that a key got when it was charged.
fn place(segment: &Segment, key: &Keyed<'_>) -> Option<u32> {
    segment.table.find(key.digest).map(|found| found.at)
}

/// As `step` sees them: loads and stores of shared words that are not of the search. The
/// search itself looks at the eight cells of one bucket and at no other (see the place).
#[test]
fn the_millionth_key_costs_what_the_first_did() {
    const KEYS: u32 = 1 << 16;
    const MILLION: u64 = 1_000_000;
    set_now(1);
    let segment = segment(Size {
        keys: KEYS,
        ..SMALL
    });
    let holder = rater(&segment, 1);
    let limit = bucket(1, LONGEST, 100);
    let (mut insert, mut evict, mut known) = (0, 0, 0);
    let mut looks = [0u64; BUCKET];
    for n in 0..MILLION {
        let key = keyed(&segment, n);
        let evictions = segment.read(Counter::Evictions);
        let steps = steps::taken(|| {
            assert!(hit(&holder, &key, &limit, n as u32).is_some());
        });
        match segment.read(Counter::Evictions) - evictions {
            0 => insert = steps.max(insert),
            _ => evict = steps.max(evict),
        }
        known = known.max(steps::taken(|| {
            assert!(hit(&holder, &key, &limit, n as u32).is_some());
        }));
        let at = place(&segment, &key).expect("it was charged just now") as u64;
        let first = key.digest.place % BUCKET as u64;
        let home = (u128::from(key.digest.place) * u128::from(KEYS / 8)) >> 64;
        assert_eq!(u128::from(at / 8), home, "key {n} is not in its bucket");
        looks[((at % 8 + 8 - first) % 8) as usize] += 1;
    }
    println!(
        "steps: {insert} to insert, {evict} to evict, {known} of a known key; looks {looks:?}"
    );
    // One for each thing that is done, and eight at most of each that is done to all cells.
    assert!(known <= 8, "{known}");
    assert!(insert <= 30, "{insert}");
    assert!(evict <= 40, "{evict}");
    assert_eq!(looks.iter().sum::<u64>(), MILLION);
    assert_eq!(read(&segment, now()).keys.used, u64::from(KEYS));
    assert_eq!(segment.read(Counter::Evictions), MILLION - u64::from(KEYS));
    assert_eq!(segment.read(Counter::Untracked), 0);
}

/// Who has found out which of its addresses share a bucket has found out nothing about the
/// next start.
#[test]
fn addresses_that_meet_in_one_bucket_are_spread_after_a_restart() {
    let size = Size {
        keys: 1 << 15,
        ..SMALL
    };
    let (before, after) = (segment(size), segment(size));
    let limit = bucket(1, LONGEST, 1);
    let buckets = |segment: &Segment, numbers: &[u64]| -> Vec<u32> {
        let holder = rater(segment, 1);
        let place = |n: &u64| {
            let key = keyed(segment, *n);
            assert!(hit(&holder, &key, &limit, 1).is_some());
            place(segment, &key).expect("it was charged just now") / 8
        };
        numbers.iter().map(place).collect()
    };
    let all: Vec<u64> = (0..1 << 20).collect();
    let of_one: Vec<u64> = all
        .iter()
        .copied()
        .zip(buckets(&before, &all))
        .filter(|(_, bucket)| *bucket == 0)
        .map(|(n, _)| n)
        .collect();
    // 256 are to be expected in each of 4096 buckets.
    assert!((150..400).contains(&of_one.len()), "{}", of_one.len());
    let spread: HashSet<u32> = buckets(&after, &of_one).into_iter().collect();
    assert!(
        spread.len() > of_one.len() * 8 / 10,
        "{} of {} buckets",
        spread.len(),
        of_one.len()
    );
}
