//! What workers are at, read while they write it, after they were killed, and cut where it
//! does not fit.

use super::super::desk::{HOST, PATH, Work};
use super::super::ledger::RecordIndex;
use super::processes::{End, fork};
use super::*;

const OWNER: u64 = 7 << 32 | 1;

/// How much of a room the number `n` fills.
fn length(n: u64, room: usize) -> usize {
    1 + n as usize % room
}

/// What is read of a worker that has written the number `n` everywhere.
fn work(n: u64) -> Work {
    let text = |room| vec![n as u8; length(n, room)];
    Work {
        since: n,
        rule: Some(RecordIndex(n as u32)),
        request: Some((text(HOST), text(PATH))),
        taken: None,
    }
}

/// Writes it, and allocates nothing.
fn write(desks: &Desks, slot: u32, n: u64) {
    desks.take(slot, OWNER, n);
    let (host, path) = ([n as u8; HOST], [n as u8; PATH]);
    let (host, path) = (&host[..length(n, HOST)], &path[..length(n, PATH)]);
    desks.describe((slot, OWNER), Some(RecordIndex(n as u32)), host, path);
}

#[test]
fn slot_tells_what_its_worker_is_at() {
    let segment = segment(SMALL);
    let desks = segment.desks();
    assert_eq!(desks.read(3), Some(Work::default()));
    write(&desks, 3, 7);
    assert_eq!(desks.read(3), Some(work(7)));
    desks.measure((3, OWNER), 0, 12);
    assert_eq!(desks.read(3).unwrap().taken, Some((0, 12)));
    desks.begin(3, OWNER, 8);
    let begun = Work {
        since: 8,
        ..Work::default()
    };
    assert_eq!(desks.read(3), Some(begun));
    assert_eq!(desks.read(2), Some(Work::default()));
}

#[test]
fn slots_that_do_not_exist_are_nobody() {
    let segment = segment(SMALL);
    let desks = segment.desks();
    for slot in [SMALL.slots, u32::MAX] {
        write(&desks, slot, 1);
        desks.measure((slot, OWNER), 1, 1);
        desks.mark_slow((slot, OWNER), Some(1));
        assert_eq!(desks.read(slot), None);
    }
    assert_eq!(desks.slower_than(u32::MAX, u64::MAX, |_| true), 0);
}

#[test]
fn texts_that_do_not_fit_are_cut_and_empty_ones_are_texts() {
    let segment = segment(SMALL);
    let desks = segment.desks();
    desks.take(0, OWNER, 1);
    let long: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    for length in [1, 7, 8, 9, HOST - 1, HOST, HOST + 1, PATH, PATH + 1, 10_000] {
        desks.describe((0, OWNER), None, &long[..length], &long[1..length]);
        let (host, path) = desks.read(0).unwrap().request.unwrap();
        assert_eq!(host, long[..length.min(HOST)], "{length}");
        assert_eq!(path, long[1..length.min(PATH + 1)], "{length}");
    }
    desks.describe((0, OWNER), None, b"", b"/");
    let said = (Vec::new(), b"/".to_vec());
    assert_eq!(desks.read(0).unwrap().request, Some(said));
}

#[test]
fn reader_never_sees_half_of_two_requests() {
    let segment = segment(SMALL);
    let desks = segment.desks();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut whole = 0;
            while whole < 100 {
                let Some(read) = desks.read(5) else {
                    continue;
                };
                match read.request {
                    None => assert_eq!((read.rule, read.taken), (None, None)),
                    Some(_) => {
                        assert_eq!(read, work(read.since));
                        whole += 1;
                    }
                }
            }
        });
        // However the two are scheduled, it is written for as long as it is read.
        let mut n = 0;
        while n < 200_000 || !reader.is_finished() {
            n += 1;
            write(&desks, 5, n);
        }
        assert_eq!(desks.read(5), Some(work(n)));
        reader.join().unwrap();
    });
}

/// Killed in the middle, a worker leaves the slot unreadable until the next one begins.
#[test]
fn killed_writer_blocks_nobody() {
    let segment = segment(SMALL);
    let desks = segment.desks();
    let mut unreadable = 0;
    for round in 0..200 {
        let writer = fork(|| {
            (1..u64::MAX).for_each(|n| write(&desks, 1, n));
            0
        });
        std::thread::sleep(Duration::from_micros(100 + 7 * round));
        writer.kill();
        assert_eq!(writer.wait(), End::Killed);
        match desks.read(1) {
            None => unreadable += 1,
            Some(read) => assert!(read.request.is_none() || read == work(read.since)),
        }
        write(&desks, 1, round);
        assert_eq!(desks.read(1), Some(work(round)));
    }
    assert!(unreadable < 200, "it is never read");
}

#[test]
fn slower_clients_of_busy_workers_come_first_and_each_has_a_place_of_its_own() {
    let segment = segment(SMALL);
    let desks = segment.desks();
    for slot in 0..SMALL.slots {
        desks.take(slot, OWNER, 1);
    }
    for (slot, rate) in [(2, 50), (4, 0), (6, 50), (9, 700)] {
        desks.mark_slow((slot, OWNER), Some(rate));
    }
    let place = |slot, rate| desks.slower_than(slot, rate, |_| true);
    assert_eq!(
        [place(4, 0), place(2, 50), place(6, 50), place(9, 700)],
        [0, 1, 2, 3]
    );
    assert_eq!(desks.slower_than(9, 700, |slot| slot != 4), 2);
    assert_eq!(place(u32::MAX, 0), 1);
    desks.mark_slow((4, OWNER), None);
    desks.begin(2, OWNER, 1);
    assert_eq!(place(9, 700), 1);
    desks.mark_slow((0, OWNER), Some(u64::MAX));
    assert_eq!(place(u32::MAX, u64::MAX), 3);
}

/// In an old child that finishes gracefully a worker may think that it has the slot still.
#[test]
fn who_has_lost_the_slot_writes_nothing_there() {
    let segment = segment(SMALL);
    let desks = segment.desks();
    const OTHER: u64 = 8 << 32 | 1;
    desks.take(3, OTHER, 1);
    desks.mark_slow((3, OTHER), Some(9));
    write(&desks, 3, 7);
    let is_mine = |desks: &Desks| {
        assert_eq!(desks.read(3), Some(work(7)));
        assert_eq!(desks.slower_than(u32::MAX, u64::MAX, |_| true), 0);
    };
    is_mine(&desks);
    desks.begin(3, OTHER, 9);
    desks.describe((3, OTHER), None, b"other", b"/other");
    desks.measure((3, OTHER), 1, 1);
    desks.mark_slow((3, OTHER), Some(1));
    is_mine(&desks);
    desks.mark_slow((3, OWNER), Some(5));
    desks.mark_slow((3, OTHER), None);
    assert_eq!(desks.slower_than(u32::MAX, u64::MAX, |_| true), 1);
}
