//! Rates between any two steps: somebody else's work, a kill -9, and both. Whatever comes,
//! a charge is of its own key, a frozen one stays, and the next one finds no lock closed.

use super::processes::{killed_at, killed_later};
use super::rates::{frozen, hit, now, window};
use super::steps::interleaved;
use super::*;
use crate::limit::rate::LONGEST;
use crate::limit::rating::{self, Decision, Limit};

/// The clock stands: keys that were charged equally often have the same word.
fn limit() -> Limit {
    window(9, LONGEST, None)
}

/// How often a word says that it was charged.
fn charges(word: u64) -> u32 {
    (0..=9)
        .find(|n| word == (0..*n).fold(0, |word, _| limit().charge(word, now())))
        .unwrap_or_else(|| panic!("{word:x} is no word of these tests"))
}

/// False where it has no room.
fn charge(holder: &Holder, n: u64, seen: u32) -> bool {
    let said = hit(holder, &key(n), &limit(), seen);
    // Nobody is over who is not frozen.
    assert!(!matches!(said, Some(Decision::Over(over)) if !over.frozen));
    said.is_some()
}

/// Freezes a key that has a cell, and says whether it did.
fn freeze(holder: &Holder, n: u64) -> bool {
    let did = std::cell::Cell::new(false);
    holder.change_known_rate(key(n).digest, |_| {
        did.set(true);
        Some(frozen())
    });
    did.get()
}

/// Key 0 was charged twice and is the stalest but one; 1 to 6 were charged once; 7 is frozen.
struct Scene {
    us: Holder,
    other: Holder,
    segment: Mapped,
}

impl Scene {
    fn new() -> Scene {
        let segment = segment(SMALL);
        // Neither waits: what they meet is a lock of their own thread, or of the dead.
        let [us, other] =
            [2, 1].map(|pid| Holder::new(&segment, pid, now).with_patience(Duration::ZERO));
        (0..7).for_each(|n| assert!(charge(&other, n, 10 + n as u32)));
        assert!(charge(&other, 0, 10));
        other.change_rate(&key(7), 1, |_| (Some(frozen()), ()));
        Scene { us, other, segment }
    }

    fn rate(&self, n: u64) -> u64 {
        self.other.rate(key(n).digest, 0)
    }

    /// When all is over: key 7 is frozen, and so are those that were; each of the others was
    /// charged as often as can be; and there is room for a new key.
    fn check(&self, case: &str, most_of_subject: u32, most_of_new: u32) {
        assert_sound(&self.segment);
        // Nobody left a lock that is not had at once. Who gets it finishes what the dead have
        // begun: until then a key that was about to go is not found.
        let is_new_there = charge(&self.other, 60, 99);
        let frozen_since = self.segment.flags();
        let mut all_frozen = 0;
        for n in (0..8).chain(20..22).chain(30..50) {
            let word = self.rate(n);
            let is_frozen = rating::frozen_for(word, now()).is_some();
            all_frozen += u32::from(is_frozen);
            assert!(
                is_frozen || n != 7 && (n > 7 || frozen_since & 1 << n == 0),
                "{case}: key {n} is frozen no more"
            );
            if is_frozen {
                assert!(n < 8 && word == frozen(), "{case}: who froze key {n}?");
                continue;
            }
            let most = match n {
                0 => most_of_subject,
                20 | 21 => most_of_new,
                _ => 1,
            };
            let charges = charges(word);
            assert!(charges <= most, "{case}: key {n} has {charges}");
        }
        assert_eq!(is_new_there, all_frozen < 8, "{case}");
        assert_eq!(charges(self.rate(60)), u32::from(is_new_there), "{case}");
        assert_sound(&self.segment);
    }
}

type Work = fn(&Holder);

const WORKS: [(&str, Work); 7] = [
    ("charge", |us| {
        charge(us, 0, 5);
    }),
    ("insert", |us| {
        charge(us, 20, 50);
    }),
    ("two inserts", |us| {
        charge(us, 20, 50);
        charge(us, 21, 51);
    }),
    ("freeze", |us| {
        us.change_rate(&key(0), 5, |_| (Some(frozen()), ()));
    }),
    ("refund", |us| {
        us.change_known_rate(key(0).digest, |word| {
            limit().refund(word, now(), limit().charge(0, now()), now())
        });
    }),
    ("look", |us| {
        us.rate(key(0).digest, 5);
    }),
    ("place", |us| {
        drop(us.acquire(&key(22), None, 50));
    }),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meanwhile {
    Nothing,
    /// The key that most works are about, twice.
    Charge,
    /// A key that the work may be inserting too.
    Insert,
    /// So many new keys that all who can have gone; they have the same words.
    Crowd,
    /// All who have a cell.
    Freeze,
    /// Both.
    FreezeAndCrowd,
}

const MEANWHILE: [Meanwhile; 6] = [
    Meanwhile::Nothing,
    Meanwhile::Charge,
    Meanwhile::Insert,
    Meanwhile::Crowd,
    Meanwhile::Freeze,
    Meanwhile::FreezeAndCrowd,
];

/// Allocates nothing: it may be a child that does this.
fn meanwhile(what: Meanwhile, scene: &Scene) {
    let Scene { other, segment, .. } = scene;
    let crowd = || {
        (30..50).for_each(|n| {
            charge(other, n, n as u32 + 30);
        })
    };
    let freeze = || {
        for n in 0..7 {
            if freeze(other, n) {
                segment.raise(1 << n);
            }
        }
    };
    match what {
        Meanwhile::Nothing => {}
        Meanwhile::Charge => (0..2).for_each(|_| {
            charge(other, 0, 60);
        }),
        Meanwhile::Insert => {
            charge(other, 20, 60);
        }
        Meanwhile::Crowd => crowd(),
        Meanwhile::Freeze => freeze(),
        Meanwhile::FreezeAndCrowd => {
            freeze();
            crowd();
        }
    }
}

#[test]
fn others_work_between_any_two_steps() {
    for (name, work) in WORKS {
        for what in MEANWHILE {
            for k in 1.. {
                let scene = Scene::new();
                let came = interleaved(k, || meanwhile(what, &scene), || work(&scene.us));
                let case = format!("{name}, {what:?} at step {k}");
                if what == Meanwhile::Charge && name == "charge" && came {
                    assert_eq!(charges(scene.rate(0)), 5, "{case}");
                }
                if what == Meanwhile::Insert && name == "insert" {
                    // Who found the lock closed was admitted, and counted as such.
                    let untracked = scene.segment.read(Counter::Untracked) as u32;
                    let expected = if came { 2 } else { 1 };
                    assert_eq!(charges(scene.rate(20)) + untracked, expected, "{case}");
                }
                scene.check(&case, 5, 2);
                if !came {
                    assert!(k > 3, "{case}: where are the steps?");
                    break;
                }
            }
        }
    }
}

/// A process that is killed at any step; then others work, and find all in order.
#[test]
fn killed_between_any_two_steps() {
    for (name, work) in WORKS {
        for what in MEANWHILE {
            for k in 1.. {
                let scene = Scene::new();
                let killed = killed_at(k, || work(&scene.us));
                let case = format!("{name} killed at step {k}, then {what:?}");
                reap(&scene.segment, 2);
                meanwhile(what, &scene);
                scene.check(&case, 5, 2);
                if !killed {
                    break;
                }
            }
        }
    }
}

/// Others work at one step, and at a later one comes the end; of all pairs every third.
#[test]
fn others_work_and_then_it_is_killed() {
    const CAME: u32 = 1 << 31;
    for (name, work) in WORKS {
        for what in MEANWHILE.into_iter().skip(1) {
            for k in 1.. {
                let mut came = false;
                for j in (1 + k % 3..).step_by(3) {
                    let scene = Scene::new();
                    let then = || {
                        scene.segment.raise(CAME);
                        meanwhile(what, &scene);
                    };
                    let killed = killed_later(k, j, then, || work(&scene.us));
                    reap(&scene.segment, 2);
                    let case = format!("{name}, {what:?} at step {k}, killed {j} later");
                    scene.check(&case, 5, 2);
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

/// The cell that was found may be another key's by the time it is charged, and that key
/// may have the very same word; and whoever has charged it may die of it.
#[test]
fn no_charge_is_of_the_key_that_came_after() {
    /// Charges each of those who take all cells twice, as key 0 was.
    fn crowd(scene: &Scene) {
        for n in 30..50 {
            for _ in 0..2 {
                charge(&scene.other, n, n as u32 + 30);
            }
        }
    }
    let twice_or_gone = |scene: &Scene, case: &str| {
        for n in 30..50 {
            let charges = charges(scene.rate(n));
            assert!([0, 2].contains(&charges), "{case}: key {n} has {charges}");
        }
        assert_sound(&scene.segment);
    };
    let works: [Work; 3] = [WORKS[0].1, WORKS[3].1, WORKS[4].1];
    for work in works {
        for k in 1.. {
            let scene = Scene::new();
            let came = interleaved(k, || crowd(&scene), || work(&scene.us));
            twice_or_gone(&scene, &format!("step {k}"));
            // Let in once: on what it had, or anew.
            let word = scene.rate(0);
            if rating::frozen_for(word, now()).is_none() {
                assert!(charges(word) <= 1 || !came, "step {k}: {word:x}");
            }
            for j in (1..).take_while(|_| came) {
                let scene = Scene::new();
                let killed = killed_later(k, j, || crowd(&scene), || work(&scene.us));
                twice_or_gone(&scene, &format!("step {k}, killed {j} later"));
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

/// Whoever evicts the key dies at any of its steps, at any step of a charge: the charge is
/// made of a key that stays, on what it had or anew, and never of one that is half gone.
#[test]
fn who_evicts_the_key_dies_between_any_two_steps_of_a_charge() {
    for (name, work) in [WORKS[0], WORKS[3]] {
        for j in 1.. {
            let killed = std::cell::Cell::new(true);
            for k in 1.. {
                let scene = Scene::new();
                let then = || killed.set(killed_at(j, || charge(&scene.other, 30, 60)));
                let came = interleaved(k, then, || work(&scene.us));
                let case = format!("{name}, killed at step {j} of an insert at step {k}");
                let word = scene.rate(0);
                if name == "freeze" {
                    assert_eq!(word, frozen(), "{case}");
                } else {
                    assert!([1, 3].contains(&charges(word)), "{case}: {word:x}");
                }
                scene.check(&case, 3, 1);
                if !came {
                    break;
                }
            }
            if !killed.get() {
                break;
            }
        }
    }
}
