//! kill -9 between any two steps. A child does one thing and dies at its k-th
//! step, for every k until it gets to its end; then the parent reaps it and
//! everything must be as if it had never been there.

use super::processes::{End, fork};
use super::scene::{CHILD, MEANWHILE, Meanwhile, Scene, WORKS, subject, take_and_keep};
use super::*;

#[test]
fn killed_between_any_two_steps() {
    let mut found = Reaped::default();
    for (name, work) in WORKS {
        for meanwhile in MEANWHILE {
            for full in [false, true] {
                for k in 1.. {
                    let scene = Scene::new();
                    let (child, lease) = scene.set(full);
                    let killed = scene.killed_at(k, work, &child, lease);
                    scene.meanwhile(meanwhile);
                    found += reap(&scene.segment, CHILD);
                    let case = format!("{name}, full {full}, killed at step {k}, {meanwhile:?}");
                    scene.check(&case);
                    if !killed {
                        assert!(k > 5, "{case}: where are the steps?");
                        break;
                    }
                }
            }
        }
    }
    println!("found {found:?}");
    let Reaped {
        pending,
        held,
        releasing,
        released,
    } = found;
    assert!(pending > 0 && held > 0 && releasing > 0 && released > 0);
}

/// Whoever finishes a dead one's step may die of it too: both are reaped later.
#[test]
fn killed_while_helping_the_dead() {
    for (name, work) in WORKS {
        for k in (1..).step_by(3) {
            let scene = Scene::new();
            let (child, lease) = scene.set(true);
            let killed = scene.killed_at(k, work, &child, lease);
            for j in 1.. {
                let helper = holder(&scene.segment, 3);
                let also_killed = scene.killed_at(
                    j,
                    |helper, _| {
                        take_and_keep(helper, &subject());
                    },
                    &helper,
                    lease,
                );
                // Now and then, and not in order of death.
                reap(&scene.segment, 3);
                let case = format!("{name} killed at {k}, helper at {j}");
                assert_eq!(audit(&scene.segment), 0, "{case}");
                if !also_killed {
                    break;
                }
            }
            reap(&scene.segment, CHILD);
            scene.check(&format!("{name} killed at step {k}, helped"));
            if !killed {
                break;
            }
        }
    }
}

/// prefork gives places back in its SIGTERM handler, whatever that interrupts.
#[test]
fn a_signal_handler_releases_at_any_step_and_dies_at_any_of_its_own() {
    for (name, work) in WORKS {
        let mut interrupted = true;
        for k in 1.. {
            // A release has about ten steps; beyond them the handler gets to its end.
            for j in (1..15).step_by(2) {
                let scene = Scene::new();
                let (child, lease) = scene.set(true);
                // What the handler releases is another place than the one in work.
                let own = held(child.acquire(&subject(), None, 7)).keep();
                let end = fork(|| {
                    let handler = || {
                        steps::at(j, &steps::die, || child.release(own));
                        steps::die();
                    };
                    steps::at(k, &handler, || work(&child, lease));
                    0
                })
                .wait();
                interrupted = end == End::Killed;
                scene.meanwhile(if k % 2 == 0 {
                    Meanwhile::Use
                } else {
                    Meanwhile::Nothing
                });
                reap(&scene.segment, CHILD);
                scene.check(&format!(
                    "{name}, handler at step {k}, killed at its step {j}"
                ));
                if !interrupted {
                    break;
                }
            }
            if !interrupted {
                break;
            }
        }
    }
}

/// Chunks are claimed when needed and returned when two are wholly free.
#[test]
fn killed_while_claiming_and_returning_chunks() {
    for k in (1..).step_by(23) {
        let scene = Scene::new();
        let child = holder(&scene.segment, CHILD);
        let killed = scene.killed_at(
            k,
            |child, _| {
                let mut places = [const { None }; 130];
                for place in &mut places {
                    *place = child.acquire(&subject(), None, 7).into();
                }
            },
            &child,
            LeaseIndex(0),
        );
        reap(&scene.segment, CHILD);
        assert_quiet(&scene.segment);
        let all: Vec<Lease> = (0..SMALL.leases)
            .map(|_| held(scene.other.acquire(&subject(), None, 8)))
            .collect();
        drop(all);
        if !killed {
            break;
        }
    }
}

#[test]
fn a_second_reaping_finds_nothing() {
    let scene = Scene::new();
    scene.set(false);
    assert_eq!(reap(&scene.segment, CHILD).held, 1);
    assert_eq!(reap(&scene.segment, CHILD), Reaped::default());
    scene.check("reaped twice");
}

#[test]
fn reconcile_reaps_those_who_are_not_alive_and_nobody_else() {
    let segment = segment(SMALL);
    let holders: Vec<Holder> = (1..=3).map(|pid| holder(&segment, pid)).collect();
    let kept: Vec<LeaseIndex> = holders
        .iter()
        .map(|holder| held(holder.acquire(&subject(), None, 0)).keep())
        .collect();
    assert_eq!(reconcile(&segment, |_| true), Reaped::default());
    assert_eq!(reconcile(&segment, |pid| pid == 2).held, 2);
    assert_eq!(segment.read(Counter::ReapedHeld), 2);
    assert_eq!(holders[1].count(subject().digest), 1);
    holders[1].release(kept[1]);
    assert_quiet(&segment);
}
