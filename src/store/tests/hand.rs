//! What is done by hand, between any two steps of others, and by somebody who is killed at any
//! step: a freeze or a pardon happened or did not, no other key has it, and no lock stays closed.

use std::time::Duration;

use super::processes::{killed_at, killed_later};
use super::rates::{frozen, hit, now, window};
use super::steps::interleaved;
use super::*;
use crate::limit::hand::{self, Seen, seen};
use crate::limit::rate::LONGEST;
use crate::limit::rating::{self, Limit};

fn limit() -> Limit {
    window(9, LONGEST, None)
}

fn charge(holder: &Holder, n: u64, at: u32) -> bool {
    hit(holder, &key(n), &limit(), at).is_some()
}

fn spot(segment: &Segment, n: u64) -> Option<Spot> {
    let Keyed { digest, count, .. } = key(n);
    segment
        .spots(|other, tag| other == count && tag == digest.tag)
        .pop()
}

fn forget(segment: &Segment, n: u64, concerns: fn(u64) -> bool) {
    if let Some(spot) = spot(segment, n) {
        segment.change_rate(&spot, |word| concerns(word).then(|| hand::forgotten(word)));
    }
}

fn is_frozen(word: u64) -> bool {
    rating::frozen_for(word, now()).is_some()
}

fn freeze(segment: &Segment, n: u64, patience: Duration) -> bool {
    segment
        .set_rate(&key(n), frozen(), (50, now()), patience)
        .is_ok()
}

/// Keys 0 to 5 were charged once, 0 is the stalest; 6 holds a place, 7 is frozen.
struct Scene {
    other: Holder,
    segment: Mapped,
    place: LeaseIndex,
}

impl Scene {
    fn new() -> Scene {
        let segment = segment(SMALL);
        let other = Holder::new(&segment, 1, now).with_patience(Duration::ZERO);
        (0..6).for_each(|n| assert!(charge(&other, n, 10 + n as u32)));
        let place = held(other.acquire(&key(6), None, 20)).keep();
        assert!(freeze(&segment, 7, Duration::ZERO));
        Scene {
            other,
            segment,
            place,
        }
    }

    fn rate(&self, n: u64) -> u64 {
        self.other.rate(key(n).digest, 0)
    }

    /// Whatever came: the place is held, no key has another key's state, who was frozen is,
    /// unless `pardoned`, and who has the lock next finds all in order.
    fn check(&self, case: &str, pardoned: Option<u64>) {
        let new = charge(&self.other, 60, 99);
        for n in (0..8).chain(20..22).chain(30..50) {
            let word = self.rate(n);
            match seen(word, now()) {
                Seen::Nothing => {}
                Seen::Window { count, .. } => assert!(count <= 2, "{case}: key {n}: {word:x}"),
                Seen::Frozen { .. } => {
                    let may = [0, 7, 20].contains(&n) && word == frozen();
                    assert!(may, "{case}: who froze key {n}?");
                }
                Seen::Bucket { .. } => panic!("{case}: key {n}: {word:x}"),
            }
        }
        assert!(pardoned == Some(7) || is_frozen(self.rate(7)), "{case}");
        let frozen = [0, 7, 20].iter().filter(|n| is_frozen(self.rate(**n)));
        assert_eq!(
            frozen.count() as u64,
            read(&self.segment, now()).frozen.len() as u64,
            "{case}"
        );
        assert!(new, "{case}: no room though few are frozen");
        let count = self.other.count(key(6).digest);
        assert_eq!(count, 1, "{case}: the place in flight");
        assert_sound(&self.segment);
        self.other.release(self.place);
        assert_quiet(&self.segment);
    }
}

/// What the command does, and the key that it may pardon.
type Work = (&'static str, fn(&Segment), Option<u64>);

const WORKS: [Work; 6] = [
    (
        "freeze a known key",
        |us| _ = freeze(us, 0, Duration::ZERO),
        None,
    ),
    (
        "freeze a new key",
        |us| _ = freeze(us, 20, Duration::ZERO),
        None,
    ),
    ("unfreeze", |us| forget(us, 7, is_frozen), Some(7)),
    ("clear", |us| forget(us, 0, |_| true), None),
    ("clear a frozen key", |us| forget(us, 7, |_| true), Some(7)),
    // It has no rate: nothing happens.
    (
        "clear a key that holds a place",
        |us| forget(us, 6, |_| true),
        None,
    ),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meanwhile {
    Nothing,
    Charge,
    Insert,
    /// So many new keys that every key that may go goes.
    Crowd,
    /// So many places, of keys whose word is none.
    CrowdOfPlaces,
}

const MEANWHILE: [Meanwhile; 5] = [
    Meanwhile::Nothing,
    Meanwhile::Charge,
    Meanwhile::Insert,
    Meanwhile::Crowd,
    Meanwhile::CrowdOfPlaces,
];

fn meanwhile(what: Meanwhile, scene: &Scene) {
    let other = &scene.other;
    match what {
        Meanwhile::Nothing => {}
        Meanwhile::Charge => _ = charge(other, 0, 60),
        Meanwhile::Insert => _ = charge(other, 20, 60),
        Meanwhile::Crowd => (30..50).for_each(|n| _ = charge(other, n, 30 + n as u32)),
        Meanwhile::CrowdOfPlaces => {
            (30..50).for_each(|n| drop(other.acquire(&key(n), None, 30 + n as u32)));
        }
    }
}

#[test]
fn others_work_between_any_two_steps() {
    for (name, work, pardoned) in WORKS {
        for what in MEANWHILE {
            for k in 1.. {
                let scene = Scene::new();
                let came = interleaved(k, || meanwhile(what, &scene), || work(&scene.segment));
                scene.check(&format!("{name}, {what:?} at step {k}"), pardoned);
                if !came {
                    assert!(k > 2, "{name}: where are the steps?");
                    break;
                }
            }
        }
    }
}

#[test]
fn killed_between_any_two_steps() {
    for (name, work, pardoned) in WORKS {
        for what in MEANWHILE {
            for k in 1.. {
                let scene = Scene::new();
                let killed = killed_at(k, || work(&scene.segment));
                meanwhile(what, &scene);
                scene.check(
                    &format!("{name} killed at step {k}, then {what:?}"),
                    pardoned,
                );
                if !killed {
                    break;
                }
            }
        }
    }
}

/// Others work at one step, and at a later one comes the end.
#[test]
fn others_work_and_then_it_is_killed() {
    const CAME: u32 = 1 << 31;
    for (name, work, pardoned) in WORKS {
        for what in MEANWHILE.into_iter().skip(1) {
            for k in 1.. {
                let mut came = false;
                for j in (1 + k % 3..).step_by(3) {
                    let scene = Scene::new();
                    let then = || {
                        scene.segment.raise(CAME);
                        meanwhile(what, &scene);
                    };
                    let killed = killed_later(k, j, then, || work(&scene.segment));
                    // The other process of this scene is our own: nothing to reap.
                    let case = format!("{name}, {what:?} at step {k}, killed {j} later");
                    scene.check(&case, pardoned);
                    came = scene.segment.flags() & CAME != 0;
                    if !killed {
                        break;
                    }
                }
                if !came {
                    break;
                }
            }
        }
    }
}

/// A freeze that was said to be there is there, whoever inserts at any step of it.
#[test]
fn a_freeze_that_is_told_holds() {
    for n in [0, 20] {
        for what in MEANWHILE {
            for k in 1.. {
                let scene = Scene::new();
                let mut told = false;
                let came = interleaved(
                    k,
                    || meanwhile(what, &scene),
                    || told = freeze(&scene.segment, n, Duration::ZERO),
                );
                meanwhile(Meanwhile::Crowd, &scene);
                let word = scene.rate(n);
                assert!(!told || is_frozen(word), "key {n}, {what:?} at step {k}");
                // The lock of a new key is its own only when nobody has it.
                assert!(told || !(what == Meanwhile::Nothing), "key {n} at step {k}");
                if !came {
                    break;
                }
            }
        }
    }
}

#[test]
fn what_is_pardoned_is_as_never_seen_and_may_go() {
    let scene = Scene::new();
    for n in [0, 7] {
        forget(&scene.segment, n, |_| true);
        assert_eq!(seen(scene.rate(n), now()), Seen::Nothing);
        assert!(
            spot(&scene.segment, n).is_some(),
            "the cell is still its own"
        );
    }
    assert_eq!(read(&scene.segment, now()).frozen, []);
    assert!(charge(&scene.other, 7, 30));
    assert!(matches!(
        seen(scene.rate(7), now()),
        Seen::Window { count: 1, .. }
    ));
    (30..50).for_each(|n| assert!(charge(&scene.other, n, 30 + n as u32)));
    assert!(spot(&scene.segment, 0).is_none());
}

#[test]
fn a_full_bucket_of_the_table_has_no_room_to_freeze_in() {
    let scene = Scene::new();
    for n in 0..6 {
        assert!(freeze(&scene.segment, n, Duration::ZERO));
    }
    let untracked = scene.segment.read(Counter::Untracked);
    assert!(!freeze(&scene.segment, 20, Duration::ZERO));
    assert_eq!(scene.segment.read(Counter::Untracked), untracked);
    assert!(freeze(&scene.segment, 0, Duration::ZERO));
}
