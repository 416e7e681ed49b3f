//! The thinning of floods: what gets a line, and that nothing is lost.

use std::sync::Barrier;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::super::flood::{LINES_A_SECOND, WORDS};
use super::*;

const ALL: u64 = LINES_A_SECOND as u64;

/// Key number `n`, in word number `place`.
fn at(place: u64, n: u64) -> Digest {
    let tag = n << 40 | n; // As with a real digest, not only the low half differs.
    Digest { tag, place }
}

#[test]
fn a_key_has_one_line_a_second_and_it_tells_what_was_left_out() {
    let segment = segment(SMALL);
    let flood = segment.flood();
    let (hoge, fuga) = (at(1, 1), at(2, 2));
    assert_eq!(flood.tell(hoge, 100), Some(0));
    assert_eq!(flood.tell(fuga, 100), Some(0));
    assert_eq!([(); 3].map(|()| flood.tell(hoge, 100)), [None; 3]);
    assert_eq!(flood.tell(hoge, 101), Some(3));
    assert_eq!(flood.tell(fuga, 101), Some(0), "they were told already");
    assert_eq!(flood.take_left_out(), 0);
    assert_eq!(read(&segment, 0).left_out, 3, "told or not");
}

#[test]
fn the_parent_tells_what_no_line_told() {
    let segment = segment(SMALL);
    let flood = segment.flood();
    flood.tell(at(1, 1), 100);
    flood.tell(at(1, 1), 100);
    assert_eq!((flood.take_left_out(), flood.take_left_out()), (1, 0));
    assert_eq!(flood.tell(at(1, 1), 101), Some(0));
}

#[test]
fn a_second_has_fifty_lines_in_all_and_the_next_fifty_more() {
    let segment = segment(SMALL);
    let flood = segment.flood();
    for second in 100..110 {
        let told: Vec<Option<u64>> = (0..2 * ALL).map(|n| flood.tell(at(n, n), second)).collect();
        let (lines, left_out) = told.split_at(ALL as usize);
        assert!(lines.iter().all(Option::is_some), "{second}: {lines:?}");
        assert!(left_out.iter().all(Option::is_none), "{second}");
        let before = if second == 100 { 0 } else { ALL };
        assert_eq!(lines.iter().flatten().sum::<u64>(), before);
    }
}

#[test]
fn another_key_in_the_same_word_has_its_line_and_both_are_bounded() {
    let segment = segment(SMALL);
    let flood = segment.flood();
    let (one, other) = (at(7, 1), at(7 + WORDS as u64, 2));
    assert_eq!(flood.tell(one, 100), Some(0));
    assert_eq!(flood.tell(other, 100), Some(0));
    let mut lines = 2;
    for _ in 0..ALL {
        for key in [one, other] {
            lines += u64::from(flood.tell(key, 100).is_some());
        }
    }
    assert_eq!(lines, ALL);
    assert_eq!(flood.take_left_out(), 2 + 2 * ALL - ALL);
}

#[test]
fn a_clock_that_jumps_silences_nobody() {
    let segment = segment(SMALL);
    let flood = segment.flood();
    let key = at(1, 1);
    // From the first second of any clock on, and over its end.
    for now in [0, 1, 1_000_000, 5, u32::MAX, 0, 1, u32::MAX - 9] {
        assert!(flood.tell(key, now).is_some(), "at {now}");
        for n in 1..ALL {
            assert!(flood.tell(at(9 + n, n), now).is_some(), "at {now}");
        }
        assert_eq!(flood.tell(at(500, 500), now), None, "at {now}");
    }
}

/// Or two processes at a border of seconds could open it again and again.
#[test]
fn who_comes_a_moment_late_belongs_to_the_second_that_is() {
    let segment = segment(SMALL);
    let flood = segment.flood();
    for n in 0..ALL {
        assert_eq!(flood.tell(at(n, n), 100 - n as u32 % 2), Some(0));
    }
    for late in 0..=2 {
        assert_eq!(flood.tell(at(60, 60), 100 - late), None);
        assert_eq!(flood.tell(at(1, 1), 100 - late), None);
    }
    assert_eq!(flood.tell(at(70, 70), 101), Some(6));
}

#[test]
fn a_key_whose_tag_is_zero_is_a_key() {
    let segment = segment(SMALL);
    let zero = Digest { tag: 0, place: 0 };
    assert_eq!(segment.flood().tell(zero, 0), Some(0));
    assert_eq!(segment.flood().tell(zero, 0), None);
}

#[test]
fn a_reload_keeps_the_second_and_what_is_untold() {
    let before = segment(SMALL);
    before.flood().tell(at(1, 1), 100);
    before.flood().tell(at(1, 1), 100);
    // SAFETY: the parts of a segment that is mapped.
    let after = unsafe { Segment::from_parts(before.parts()) }.unwrap();
    assert_eq!(after.flood().tell(at(1, 1), 100), None);
    assert_eq!(after.flood().tell(at(1, 1), 101), Some(2));
}

/// Whatever races: each refusal is a line, or told once, or still to be told.
#[test]
fn lines_and_left_out_add_up_under_threads() {
    const THREADS: usize = 8;
    const SECONDS: u32 = 200;
    const KEYS: u64 = 80;
    const ROUNDS: u64 = 3;
    let segment = segment(SMALL);
    let barrier = Barrier::new(THREADS);
    let (lines, told) = (AtomicU64::new(0), AtomicU64::new(0));
    let of_key: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (flood, barrier) = (segment.flood(), &barrier);
            let (lines, told, of_key) = (&lines, &told, &of_key);
            // No assertion in here: it would leave the others at the barrier.
            scope.spawn(move || {
                for second in 0..SECONDS {
                    // So that some are a second behind others, and never more than one.
                    if second % 2 == 0 {
                        barrier.wait();
                    }
                    for n in 0..KEYS * ROUNDS {
                        let n = (n + thread * 11) % KEYS;
                        if let Some(before) = flood.tell(at(n, n), second) {
                            lines.fetch_add(1, SeqCst);
                            of_key[n as usize].fetch_add(1, SeqCst);
                            told.fetch_add(before, SeqCst);
                        }
                        if thread == 0 && n == 0 {
                            told.fetch_add(flood.take_left_out(), SeqCst);
                        }
                    }
                }
            });
        }
    });
    let lines = lines.load(SeqCst);
    assert_eq!(lines, ALL * u64::from(SECONDS));
    assert!(of_key.iter().all(|lines| lines.load(SeqCst) <= SECONDS));
    let calls = THREADS as u64 * u64::from(SECONDS) * KEYS * ROUNDS;
    assert_eq!(read(&segment, 0).left_out, calls - lines);
    let told = told.load(SeqCst) + segment.flood().take_left_out();
    assert_eq!(lines + told, calls);
}
