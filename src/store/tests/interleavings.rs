//! Somebody else's work between any two steps of ours: the races that threads
//! meet once in a million, each on purpose.

use std::cell::{Cell, RefCell};

use super::super::table::Found;
use super::scene::{CHILD, LIMIT, MEANWHILE, Meanwhile, Scene, WORKS, subject, take_and_keep};
use super::*;

/// Runs `work` with `then` at its k-th step; false when it has no such step.
fn interleaved(k: u32, then: impl Fn(), work: impl FnOnce()) -> bool {
    let came = Cell::new(false);
    let then = || {
        came.set(true);
        then();
    };
    steps::at(k, &then, work);
    came.get()
}

#[test]
fn others_work_between_any_two_steps() {
    for (name, work) in WORKS {
        for meanwhile in MEANWHILE {
            for k in 1.. {
                let scene = Scene::new();
                let (us, lease) = scene.set(true);
                let came = interleaved(k, || scene.meanwhile(meanwhile), || work(&us, lease));
                let case = format!("{name}, {meanwhile:?} at step {k}");
                assert_eq!(audit(&scene.segment), 0, "{case}");
                reap(&scene.segment, CHILD);
                scene.check(&case);
                if !came {
                    break;
                }
            }
        }
    }
}

/// The key that was found may be another's cell by the time it is counted.
#[test]
fn a_place_is_of_the_key_that_was_asked_for_whatever_is_evicted_meanwhile() {
    for k in 1.. {
        let scene = Scene::new();
        let (us, lease) = scene.set(true);
        us.release(lease);
        let mut taken = None;
        let came = interleaved(
            k,
            || {
                scene.meanwhile(Meanwhile::Crowd);
                // Somebody else sits in the cell that was the subject's.
                for n in 30..34 {
                    take_and_keep(&scene.other, &key(n));
                }
            },
            || taken = take_and_keep(&us, &subject()),
        );
        assert!(taken.is_some(), "step {k}");
        assert_eq!(us.count(subject().digest) as usize, 1 + scene.places());
        for n in 30..34 {
            assert_eq!(us.count(key(n).digest), u32::from(came), "step {k}");
        }
        assert_sound(&scene.segment);
        if !came {
            break;
        }
    }
}

/// Somebody dies in the middle of our step, having changed the cell unsaid.
#[test]
fn others_die_between_any_two_steps() {
    for (name, work) in [WORKS[0], WORKS[1], WORKS[4]] {
        for (killed, dying) in [WORKS[0], WORKS[1]] {
            // From its first step after the look to its last.
            for j in 1.. {
                let another = Cell::new(true);
                for k in 1.. {
                    let scene = Scene::new();
                    let (us, lease) = scene.set(true);
                    let them = holder(&scene.segment, 3);
                    let theirs = held(them.acquire(&subject(), None, 9)).keep();
                    let came = interleaved(
                        k,
                        || another.set(scene.killed_at(j, dying, &them, theirs)),
                        || work(&us, lease),
                    );
                    reap(&scene.segment, 3);
                    let case = format!("{killed} killed at step {j}, at step {k} of {name}");
                    assert_eq!(audit(&scene.segment), 0, "{case}");
                    reap(&scene.segment, CHILD);
                    scene.check(&case);
                    if !came {
                        break;
                    }
                }
                if !another.get() {
                    break;
                }
            }
        }
    }
}

/// Others help the dead at the same time as the parent reaps them.
#[test]
fn others_help_between_any_two_steps_of_the_reaper() {
    for (name, work) in [WORKS[0], WORKS[1]] {
        for meanwhile in MEANWHILE {
            for j in 1.. {
                let mut killed = true;
                for k in 1.. {
                    let scene = Scene::new();
                    let (child, lease) = scene.set(true);
                    killed = scene.killed_at(j, work, &child, lease);
                    let came = interleaved(
                        k,
                        || scene.meanwhile(meanwhile),
                        || {
                            reap(&scene.segment, CHILD);
                        },
                    );
                    let case = format!("{name} killed at {j}, {meanwhile:?} at the reaper's {k}");
                    scene.check(&case);
                    if !came {
                        break;
                    }
                }
                if !killed {
                    break;
                }
            }
        }
    }
}

/// Two keys may have the same cell in the same state, both new and never
/// counted, if those who made them died at once. Only the nonce tells.
#[test]
fn a_new_key_is_not_mistaken_for_the_one_before_it() {
    // Inserting ends with: state stored, step, count, step; find its steps.
    let dies_when_new = |scene: &Scene, n: u64| {
        for k in 1.. {
            let them = holder(&scene.segment, 3);
            let work = |them: &Holder, n: LeaseIndex| {
                take_and_keep(them, &key(u64::from(n.0)));
            };
            let killed = scene.killed_at(k, work, &them, LeaseIndex(n as u32));
            reap(&scene.segment, 3);
            if !killed {
                return; // There was no room: the other is in flight.
            }
            let found = scene.segment.table.find(key(n).digest);
            if let Some(Found { state, .. }) = found {
                assert_eq!(state.count(), 0);
                if state.lease() == u32::MAX {
                    return;
                }
            }
        }
    };
    for k in 1.. {
        let scene = Scene::new();
        // Seven keys in flight: one cell for all others.
        let stay: Vec<Lease> = (1..8)
            .map(|n| held(scene.other.acquire(&key(n), None, 1)))
            .collect();
        dies_when_new(&scene, 20);
        let us = holder(&scene.segment, CHILD);
        let mut taken = None;
        let came = interleaved(
            k,
            || {
                dies_when_new(&scene, 21);
            },
            || taken = take_and_keep(&us, &key(20)),
        );
        if taken.is_some() {
            assert_eq!(us.count(key(20).digest), 1, "step {k}");
        }
        assert_eq!(us.count(key(21).digest), 0, "step {k}");
        assert_sound(&scene.segment);
        drop(stay);
        if !came {
            break;
        }
    }
}

/// A count is of one moment: not the state of the cell's last key under the
/// name of the next.
#[test]
fn a_count_is_not_that_of_the_keys_former_neighbour() {
    thread_local! {
        static WORLD: RefCell<Option<(Scene, Vec<LeaseIndex>)>> = const { RefCell::new(None) };
    }
    /// Key 21 takes the cell of key 20, three times over.
    fn replace() {
        WORLD.with_borrow_mut(|world| {
            let (scene, places) = world.as_mut().unwrap();
            *places = (0..3)
                .map(|_| take_and_keep(&scene.other, &key(21)).unwrap())
                .collect();
        });
    }
    /// And gives it back.
    fn restore() {
        WORLD.with_borrow_mut(|world| {
            let (scene, places) = world.as_mut().unwrap();
            places
                .drain(..)
                .for_each(|place| scene.other.release(place));
            drop(scene.other.acquire(&key(20), None, 9));
        });
    }
    let mut asked = 0;
    for first in 1..8 {
        for second in 1..8 {
            let scene = Scene::new();
            // In flight, so that keys 20 and 21 have one cell between them.
            for n in 1..8 {
                take_and_keep(&scene.other, &key(n));
            }
            drop(scene.other.acquire(&key(20), None, 9));
            let us = holder(&scene.segment, CHILD);
            WORLD.set(Some((scene, Vec::new())));
            let then = || {
                replace();
                steps::after(second, &restore);
            };
            let limit = if first % 2 == 0 { Some(3) } else { None };
            steps::at(first, &then, || match limit {
                Some(_) => match us.acquire(&key(20), limit, 9) {
                    Acquired::Refused { count } => panic!("refused at {count}"),
                    _ => asked += 1,
                },
                None => assert_eq!(us.count(key(20).digest), 0),
            });
            WORLD.set(None);
        }
    }
    assert!(asked > 0);
}

#[test]
fn reading_and_auditing_are_right_whatever_happens_meanwhile() {
    for meanwhile in MEANWHILE {
        for k in 1.. {
            let scene = Scene::new();
            let (us, lease) = scene.set(true);
            let held: Vec<_> = (1..4).map(|n| take_and_keep(&us, &key(n))).collect();
            let then = || {
                // Their own, so that cells and labels change hands.
                held.iter().flatten().for_each(|lease| us.release(*lease));
                us.release(lease);
                scene.meanwhile(meanwhile);
                for n in 60..63 {
                    take_and_keep(&us, &key(n));
                }
                take_and_keep(&us, &subject());
            };
            let audited = interleaved(k, then, || assert_eq!(audit(&scene.segment), 0));
            reap(&scene.segment, CHILD);
            let (us, _) = scene.set(true);
            let then = || {
                scene.meanwhile(Meanwhile::Crowd);
                for n in 70..73 {
                    take_and_keep(&us, &key(n));
                }
            };
            let was_read = interleaved(k, then, || {
                for row in read(&scene.segment).counts {
                    let n = row.client.words()[1];
                    assert_eq!(row.count, key(n).count, "step {k}");
                    assert!(row.value <= u32::from(LIMIT), "step {k}");
                }
            });
            if !audited && !was_read {
                break;
            }
        }
    }
}

#[test]
fn an_audit_finds_a_planted_mismatch_and_leaves_it() {
    use std::sync::atomic::Ordering::SeqCst;
    let segment = segment(SMALL);
    let holder = holder(&segment, 1);
    let lease = held(holder.acquire(&subject(), None, 0));
    assert_eq!(audit(&segment), 0);
    let Found { cell, state, .. } = segment.table.find(subject().digest).unwrap();
    // One more than its leases say, then one less.
    for (planted, mismatches) in [(state.up(63, 9), 1), (state.down(63, 9), 1), (state, 0)] {
        cell.state.store(planted.0, SeqCst);
        assert_eq!(audit(&segment), mismatches);
        assert_eq!(cell.state.load(SeqCst), planted.0);
    }
    drop(lease);
    // A count without any lease.
    let Found { state, .. } = segment.table.find(subject().digest).unwrap();
    cell.state.store(state.up(63, 9).0, SeqCst);
    assert_eq!(audit(&segment), 1);
    assert_eq!(segment.read(Counter::AuditMismatches), 3);
}

/// Whatever two threads do to one slot, its tag fits its owner in the end.
#[test]
fn a_slots_tag_fits_its_owner_whoever_comes_between() {
    let owner = |serial: u64| 1 << 32 | serial;
    let who = |n: u64| Address::from_words([0, n]);
    for late in [1, 2] {
        for k in 1.. {
            let segment = segment(SMALL);
            let identity = segment.identity();
            identity.seat(3, owner(1), who(1), 1);
            // The cleanup of connection 1 (or of 2, late), then 2 moves in and
            // learns its client's real address.
            let came = interleaved(
                k,
                || {
                    identity.seat(3, owner(2), who(2), 2);
                    identity.seat(3, owner(2), who(3), 3);
                },
                || identity.vacate(3, owner(late)),
            );
            let expected = u32::from(came);
            assert_eq!(identity.count(who(3), 3, 9, |_| true), expected);
            if came {
                assert_eq!(identity.seated(3), Some(who(3)));
            } else {
                break;
            }
        }
    }
    // And the other way round: the cleanup comes while the next moves in.
    for k in 1.. {
        let segment = segment(SMALL);
        let identity = segment.identity();
        identity.seat(3, owner(1), who(1), 1);
        let came = interleaved(
            k,
            || identity.vacate(3, owner(1)),
            || identity.seat(3, owner(2), who(2), 2),
        );
        assert_eq!(identity.seated(3), Some(who(2)));
        assert_eq!(identity.count(who(2), 2, 9, |_| true), 1);
        assert_eq!(identity.count(who(1), 1, 9, |_| true), 0);
        if !came {
            break;
        }
    }
}
