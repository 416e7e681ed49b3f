//! Somebody else's work between any two steps of ours: the races that threads
//! meet once in a million, each on purpose.

use std::cell::{Cell, RefCell};

use super::super::table::Found;
use super::scene::{CHILD, LIMIT, MEANWHILE, Meanwhile, Scene, WORKS, subject, take_and_keep};
use super::steps::interleaved;
use super::*;

#[test]
fn others_work_between_any_two_steps() {
    for (name, work) in WORKS {
        for meanwhile in MEANWHILE {
            for k in 1.. {
                let scene = Scene::new();
                let (us, lease) = scene.set(true);
                let came = interleaved(k, || scene.meanwhile(meanwhile), || work(&us, lease));
                let case = format!("{name}, {meanwhile:?} at step {k}");
                let count = us.count(subject().digest);
                assert!(count <= u32::from(LIMIT), "{case}: {count}");
                assert_sound(&scene.segment);
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

/// Invariant 6, at every step of an insert: the key that was chosen to go is
/// used again.
#[test]
fn a_key_that_is_used_again_is_not_evicted() {
    for k in 1.. {
        let scene = Scene::new();
        let (us, _) = scene.set(true);
        let use_again = || {
            for n in 1..8 {
                take_and_keep(&scene.other, &key(n));
            }
        };
        let mut taken = None;
        let came = interleaved(k, use_again, || taken = take_and_keep(&us, &key(20)));
        let counts: u32 = (1..8).map(|n| us.count(key(n).digest)).sum();
        // One of eight made room, or none.
        let expected = if came {
            7 - u32::from(taken.is_some())
        } else {
            0
        };
        assert_eq!(counts, expected, "step {k}");
        assert_eq!(us.count(key(20).digest), u32::from(taken.is_some()));
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
    let insert = |scene: &Scene, n: u32, k: u32| {
        let them = holder(&scene.segment, 3);
        let work = |them: &Holder, LeaseIndex(n): LeaseIndex| {
            take_and_keep(them, &key(n.into()));
        };
        scene.killed_at(k, work, &them, LeaseIndex(n));
        reap(&scene.segment, 3);
    };
    let is_new = |scene: &Scene, n: u64| {
        let found = scene.segment.table.find(key(n).digest);
        found.is_some_and(|Found { state, .. }| state.count() == 0 && state.lease() == u32::MAX)
    };
    // Seven keys in flight: one cell for all others. Key 20 has it, and was never
    // counted; one more child dies at step `k` of inserting key 21.
    let scene = |first: u32, second: u32| {
        let scene = Scene::new();
        for n in 1..8 {
            take_and_keep(&scene.other, &key(n));
        }
        insert(&scene, 20, first);
        if second > 0 {
            insert(&scene, 21, second);
        }
        scene
    };
    let first = (1..99).find(|k| is_new(&scene(*k, 0), 20)).unwrap();
    let second = (1..99).find(|k| is_new(&scene(first, *k), 21)).unwrap();
    for k in 1.. {
        let scene = scene(first, 0);
        let us = holder(&scene.segment, CHILD);
        let mut taken = None;
        let came = interleaved(
            k,
            || insert(&scene, 21, second),
            || taken = take_and_keep(&us, &key(20)),
        );
        assert!(taken.is_some());
        assert_eq!(us.count(key(20).digest), 1, "step {k}");
        assert_eq!(us.count(key(21).digest), 0, "step {k}");
        assert_sound(&scene.segment);
        if !came {
            assert!(k > 8, "where are the steps?");
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
