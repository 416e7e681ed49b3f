//! Threads that want the same few things at once.

use std::sync::Barrier;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use super::*;

const THREADS: usize = 4;

#[test]
fn never_over_the_limit_and_zero_at_the_end() {
    const LIMIT: u16 = 3;
    let segment = segment(SMALL);
    // Two processes of two threads each.
    let holders = [holder(&segment, 1), holder(&segment, 2)];
    let inside: [AtomicU32; 3] = Default::default();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (holder, inside) = (&holders[thread % 2], &inside);
            scope.spawn(move || {
                let mut kept = Vec::new();
                for round in 0..20_000usize {
                    let which = (round * 7 + thread) % inside.len();
                    match holder.acquire(&key(which as u64), Some(LIMIT), 0) {
                        Acquired::Held(lease) => {
                            let now = inside[which].fetch_add(1, SeqCst) + 1;
                            assert!(now <= u32::from(LIMIT), "{now} are inside");
                            kept.push((which, lease));
                        }
                        Acquired::Refused { count } => assert_eq!(count, u32::from(LIMIT)),
                        Acquired::Untracked => panic!("there is room for all"),
                    }
                    if kept.len() == 4 || round % 3 == 0 {
                        for (which, lease) in kept.drain(..) {
                            inside[which].fetch_sub(1, SeqCst);
                            drop(lease);
                        }
                    }
                }
                for (which, lease) in kept {
                    inside[which].fetch_sub(1, SeqCst);
                    drop(lease);
                }
            });
        }
    });
    assert_quiet(&segment);
}

/// Invariants 5 and 7: whoever comes first, N arrivals of a new key admit L.
#[test]
fn a_new_key_that_all_insert_at_once_has_one_cell() {
    const ROUNDS: usize = 500;
    let segment = segment(SMALL);
    let holders: Vec<Holder> = (1..=THREADS as u32)
        .map(|pid| holder(&segment, pid))
        .collect();
    let barrier = Barrier::new(THREADS);
    let admitted: Vec<AtomicU32> = (0..ROUNDS).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for holder in &holders {
            // No assertion in here: it would leave the others at the barrier.
            let (barrier, admitted) = (&barrier, &admitted);
            scope.spawn(move || {
                for (n, admitted) in admitted.iter().enumerate() {
                    barrier.wait();
                    let acquired = holder.acquire(&key(n as u64), Some(2), n as u32);
                    if let Acquired::Held(_) = &acquired {
                        admitted.fetch_add(1, SeqCst);
                    }
                    barrier.wait();
                }
            });
        }
    });
    assert!(admitted.iter().all(|admitted| admitted.load(SeqCst) == 2));
    assert_quiet(&segment);
}

/// Invariant 6: more keys than cells, so that every acquire races an eviction.
#[test]
fn evictions_lose_no_increment() {
    let segment = segment(SMALL);
    let holders: Vec<Holder> = (1..=THREADS as u32)
        .map(|pid| holder(&segment, pid))
        .collect();
    let inside: Vec<AtomicU32> = (0..12).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for (thread, holder) in holders.iter().enumerate() {
            let inside = &inside;
            scope.spawn(move || {
                let mut random = thread as u64 + 1;
                for round in 0..10_000 {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let which = (random >> 33) as usize % inside.len();
                    // Four threads hold one each, so there is always room for one more.
                    match holder.acquire(&key(which as u64), Some(1), round) {
                        Acquired::Held(lease) => {
                            assert_eq!(inside[which].fetch_add(1, SeqCst), 0);
                            inside[which].fetch_sub(1, SeqCst);
                            drop(lease);
                        }
                        Acquired::Refused { count } => assert_eq!(count, 1),
                        Acquired::Untracked => panic!("there is room for all"),
                    }
                }
            });
        }
    });
    assert!(segment.read(Counter::Evictions) > 0);
    assert_quiet(&segment);
}

#[test]
fn reading_and_auditing_while_all_move_finds_nothing_wrong() {
    let segment = segment(SMALL);
    let holders: Vec<Holder> = (1..=2).map(|pid| holder(&segment, pid)).collect();
    let work = |holder: &Holder| {
        for round in 0..20_000u64 {
            drop(held(holder.acquire(&key(round % 3), None, 0)));
            if round % 16 == 0 {
                drop(holder.acquire(&key(100 + round), None, round as u32));
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = holders
            .iter()
            .map(|holder| scope.spawn(|| work(holder)))
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            assert_eq!(audit(&segment), 0);
            for row in read(&segment, 0).counts {
                let n = number_of(&row.name);
                assert_eq!(row.count, key(n).count, "a label of two keys");
                assert!((1..=2).contains(&row.value));
            }
        }
    });
    assert_quiet(&segment);
}

#[test]
fn a_lease_taken_by_one_thread_is_released_by_another() {
    let segment = segment(SMALL);
    let holder = holder(&segment, 1);
    let (send, receive) = std::sync::mpsc::sync_channel(64);
    std::thread::scope(|scope| {
        let holder = &holder;
        scope.spawn(move || {
            for _ in 0..10_000 {
                // A closed channel means that the other thread has failed.
                let _ = send.send(held(holder.acquire(&key(0), None, 0)).keep());
            }
        });
        scope.spawn(move || receive.iter().for_each(|lease| holder.release(lease)));
    });
    assert_quiet(&segment);
}

#[test]
fn releasing_twice_is_a_fault_and_takes_nothing_from_others() {
    let segment = segment(SMALL);
    let (one, other) = (holder(&segment, 1), holder(&segment, 2));
    let kept = held(one.acquire(&key(0), None, 0)).keep();
    let stays = held(other.acquire(&key(0), None, 0));
    one.release(kept);
    one.release(kept);
    one.release(LeaseIndex(u32::MAX));
    assert_eq!(one.count(key(0).digest), 1);
    assert_eq!(segment.read(Counter::Faults), 2);
    drop(stays);
    assert_eq!(one.count(key(0).digest), 0);
}
