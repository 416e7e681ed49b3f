//! Rates of keys: who makes room, what is never forgotten, and that so many are let in and
//! no more, whoever asks at once.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::processes::{End, fork};
use super::*;
use crate::limit::gcra::Bucket;
use crate::limit::rate::{LONGEST, Rate};
use crate::limit::rating::{self, Decision, Limit};
use crate::limit::window::Window;

pub const SECOND: u64 = 1_000_000_000;

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(1_000 * SECOND) };
}

/// The clock of rates, which stands until it is set.
pub fn now() -> u64 {
    NOW.get()
}

pub fn set_now(now: u64) {
    NOW.set(now);
}

/// As [`holder`], with the clock that can be set.
pub fn rater(segment: &Segment, pid: u32) -> Holder {
    Holder::new(segment, pid, now).with_patience(Duration::from_secs(60))
}

pub fn bucket(number: u32, period: Duration, burst: u32) -> Limit {
    Limit::Bucket(Bucket::new(Rate { number, period }, burst, None).expect("it fills some day"))
}

pub fn window(number: u32, period: Duration, freeze: Option<Duration>) -> Limit {
    let rate = Rate { number, period };
    Limit::Window(Window {
        rate,
        freeze,
        extend: false,
    })
}

/// A word that freezes from now on, for longer than any test.
pub fn frozen() -> u64 {
    let limit = window(1, LONGEST, Some(LONGEST));
    limit.charge(limit.charge(0, now()), now())
}

/// A request of this key; none where it has no room.
pub fn hit(holder: &Holder, key: &Keyed<'_>, limit: &Limit, seen: u32) -> Option<Decision> {
    holder.change_rate(key, seen, |word| match limit.decide(word, now()) {
        said @ Decision::Pass(pass) => (Some(pass.next), said),
        said @ Decision::Over(over) => (over.next, said),
    })
}

#[track_caller]
fn passes(holder: &Holder, n: u64, limit: &Limit, seen: u32) {
    let said = hit(holder, &key(n), limit, seen);
    assert!(matches!(said, Some(Decision::Pass(_))), "key {n}: {said:?}");
}

fn freeze(holder: &Holder, n: u64, seen: u32) {
    let done = holder.change_rate(&key(n), seen, |_| (Some(frozen()), ()));
    assert_eq!(done, Some(()), "key {n}");
}

fn has_cell(segment: &Segment, n: u64) -> bool {
    segment.table.find(key(n).digest).is_some()
}

#[test]
fn first_what_is_free_then_what_is_spent_then_the_stalest() {
    let (short, long) = (Duration::from_secs(1), Duration::from_secs(3600));
    for limit in [
        |period| bucket(1, period, 1),
        |period| window(1, period, None),
    ] {
        let segment = segment(SMALL);
        let holder = rater(&segment, 1);
        // Who is spent soon is no staler than others.
        for (n, period, seen) in [
            (0, long, 3),
            (1, long, 9),
            (2, short, 10),
            (3, long, 4),
            (4, long, 8),
            (5, short, 12),
            (6, long, 6),
            (7, long, 5),
        ] {
            passes(&holder, n, &limit(period), seen);
            assert_eq!(segment.read(Counter::Evictions), 0);
        }
        set_now(now() + 2 * SECOND);
        assert_eq!(read(&segment, now()).keys.rated, 6);
        for (newcomer, gone) in [(10, 2), (11, 5), (12, 0), (13, 3)] {
            assert!(has_cell(&segment, gone), "{gone} went before {newcomer}");
            passes(&holder, newcomer, &limit(long), 20);
            assert!(!has_cell(&segment, gone), "{gone} stayed");
            assert_eq!(holder.rate(key(gone).digest, 0), 0);
        }
        assert_eq!(segment.read(Counter::Evictions), 4);
        assert_sound(&segment);
    }
}

#[test]
fn an_idle_count_goes_before_a_rate_that_is_staler() {
    let segment = segment(SMALL);
    let holder = rater(&segment, 1);
    let limit = window(9, LONGEST, None);
    (0..7).for_each(|n| passes(&holder, n, &limit, 1));
    drop(held(holder.acquire(&key(7), None, 50)));
    passes(&holder, 10, &limit, 51);
    assert!(!has_cell(&segment, 7));
    assert!((0..7).all(|n| has_cell(&segment, n)));
}

#[test]
fn who_is_frozen_or_in_flight_never_goes_and_others_are_untracked() {
    let segment = segment(SMALL);
    let holder = rater(&segment, 1);
    let places: Vec<Lease> = (0..4)
        .map(|n| held(holder.acquire(&key(n), None, 1)))
        .collect();
    (4..8).for_each(|n| freeze(&holder, n, 1));
    let word = frozen();
    for n in 8..108 {
        assert_eq!(
            hit(&holder, &key(n), &window(1, LONGEST, None), 1000),
            None,
            "{n}"
        );
        assert_eq!(holder.rate(key(n).digest, 1000), 0);
        assert!(matches!(
            holder.acquire(&key(n), None, 1000),
            Acquired::Untracked
        ));
    }
    let reading = read(&segment, now());
    assert_eq!((reading.untracked, reading.evictions), (200, 0));
    assert_eq!((reading.counts.len(), reading.frozen.len()), (4, 4));
    assert!(reading.frozen.iter().all(|row| row.left == LONGEST));
    assert!((4..8).all(|n| holder.rate(key(n).digest, 0) == word));
    // The freeze is over: all four may go, and no one in flight.
    set_now(now() + LONGEST.as_nanos() as u64);
    (10..14).for_each(|n| passes(&holder, n, &window(1, LONGEST, None), 1001));
    assert_eq!(segment.read(Counter::Evictions), 4);
    assert!((0..4).all(|n| holder.count(key(n).digest) == 1));
    drop(places);
    assert_quiet(&segment);
}

/// Or a flood of strangers would let those begin anew who have had all that they may.
#[test]
fn who_is_refused_again_and_again_is_not_stale() {
    let limit = window(1, LONGEST, None);
    let segment = segment(SMALL);
    let holder = rater(&segment, 1);
    passes(&holder, 0, &limit, 1);
    passes(&holder, 1, &limit, 1);
    for seen in 2..200 {
        passes(&holder, u64::from(seen), &limit, seen);
        let said = hit(&holder, &key(0), &limit, seen);
        assert!(matches!(said, Some(Decision::Over(_))), "{said:?}");
        // As where a rule looks and charges later.
        assert_ne!(holder.rate(key(1).digest, seen), 0);
    }
    assert_eq!(segment.read(Counter::Evictions), 192);
}

/// Limits that let in exactly 100, since nothing comes back while a test runs.
fn hundreds() -> [Limit; 3] {
    [
        bucket(1, LONGEST, 100),
        window(100, LONGEST, None),
        window(100, LONGEST, Some(LONGEST)),
    ]
}

#[test]
fn threads_that_charge_one_key_are_let_in_so_often_and_no_more() {
    for limit in hundreds() {
        for round in 0..20 {
            let segment = segment(SMALL);
            let passed = |pid| {
                let holder = rater(&segment, pid);
                let said = (0..200).filter_map(|_| hit(&holder, &key(0), &limit, round));
                said.filter(|said| matches!(said, Decision::Pass(_)))
                    .count()
            };
            let sum: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (1..5).map(|pid| scope.spawn(move || passed(pid))).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .sum()
            });
            assert_eq!(sum, 100, "{limit:?}");
            assert_sound(&segment);
        }
    }
}

/// More new keys than cells, in the one bucket, without end.
fn flood(holder: &Holder, turn: u64) {
    let limit = window(3, LONGEST, Some(LONGEST));
    hit(holder, &key(100 + turn % 64), &limit, 1);
}

#[test]
fn a_flood_of_keys_takes_no_word_from_who_is_used_or_frozen() {
    for limit in hundreds() {
        let segment = segment(SMALL);
        let holder = rater(&segment, 1);
        freeze(&holder, 1, 0);
        let over = AtomicBool::new(false);
        // Later than all that the flood sees: so it is never the stalest.
        let charge = |pid| {
            let holder = rater(&segment, pid);
            let said = (0..2000).map(|_| hit(&holder, &key(0), &limit, 1000).expect("room"));
            said.filter(|said| matches!(said, Decision::Pass(_)))
                .count()
        };
        let (sum, word) = std::thread::scope(|scope| {
            for pid in 5..7 {
                let (segment, over) = (&segment, &over);
                scope.spawn(move || {
                    let holder = rater(segment, pid);
                    let mut turn = u64::from(pid) * 31;
                    while !over.load(SeqCst) {
                        turn += 7;
                        flood(&holder, turn);
                        assert_eq!(holder.rate(key(1).digest, 0), frozen());
                    }
                });
            }
            let charge = &charge;
            let threads: Vec<_> = (2..4).map(|pid| scope.spawn(move || charge(pid))).collect();
            let sums: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            over.store(true, SeqCst);
            let sum: usize = sums.into_iter().map(|sum| sum.unwrap()).sum();
            (sum, holder.rate(key(1).digest, 0))
        });
        assert_eq!((sum, word), (100, frozen()), "{limit:?}");
        assert_sound(&segment);
    }
}

/// The same by processes, some of which are killed while they flood.
#[test]
fn processes_are_let_in_so_often_and_no_more() {
    for limit in hundreds() {
        let segment = segment(SMALL);
        let holder = rater(&segment, 1);
        freeze(&holder, 1, 0);
        // Before the flood: then it has a cell, and keeps it.
        passes(&holder, 0, &limit, 1000);
        let floods: Vec<_> = (10..12)
            .map(|pid| {
                let holder = rater(&segment, pid);
                fork(move || {
                    for turn in u64::from(pid) * 31.. {
                        flood(&holder, turn);
                    }
                    0
                })
            })
            .collect();
        let children: Vec<_> = (2..5)
            .map(|pid| {
                let holder = rater(&segment, pid);
                let limit = &limit;
                fork(move || {
                    let said = (0..3000).filter_map(|_| hit(&holder, &key(0), limit, 1000));
                    said.filter(|said| matches!(said, Decision::Pass(_)))
                        .count() as i32
                })
            })
            .collect();
        let mut sum = 1;
        for child in children {
            match child.wait() {
                End::Exit(passed) => sum += passed,
                end => panic!("{end:?}"),
            }
        }
        for flood in floods {
            flood.kill();
            assert_eq!(flood.wait(), End::Killed);
        }
        assert_eq!(sum, 100, "{limit:?}");
        assert_eq!(holder.rate(key(1).digest, 0), frozen());
        assert!(matches!(
            hit(&holder, &key(0), &limit, 1),
            Some(Decision::Over(_))
        ));
        assert_sound(&segment);
    }
}

/// All at once want the first token of one key, which has one.
#[test]
fn a_new_key_that_all_charge_at_once_has_one_cell() {
    const ROUNDS: u64 = 500;
    let limit = window(2, LONGEST, None);
    let segment = segment(SMALL);
    let barrier = std::sync::Barrier::new(4);
    let (segment_ref, barrier, limit) = (&segment, &barrier, &limit);
    let passed = move |pid| {
        let holder = rater(segment_ref, pid);
        let one = |n| {
            barrier.wait();
            let said = hit(&holder, &key(n), limit, n as u32);
            barrier.wait();
            u64::from(matches!(said, Some(Decision::Pass(_))))
        };
        (0..ROUNDS).map(one).sum::<u64>()
    };
    let sum: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..5).map(|pid| scope.spawn(move || passed(pid))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(sum, 2 * ROUNDS);
    assert_sound(&segment);
}

#[test]
fn a_charge_is_taken_back_where_the_key_is_still_there() {
    let limit = window(5, LONGEST, None);
    let segment = segment(SMALL);
    let holder = rater(&segment, 1);
    passes(&holder, 0, &limit, 1);
    let one = holder.rate(key(0).digest, 1);
    passes(&holder, 0, &limit, 1);
    let two = holder.rate(key(0).digest, 1);
    holder.change_known_rate(key(0).digest, |word| limit.refund(word, now(), two, now()));
    assert_eq!(holder.rate(key(0).digest, 1), one);
    // Nothing comes of one that is not.
    holder.change_known_rate(key(1).digest, |_| panic!("of which word?"));
    assert!(!has_cell(&segment, 1));
    assert!(rating::frozen_for(one, now()).is_none());
}
