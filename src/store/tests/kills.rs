//! kill -9 between any two steps. A child does one thing and dies at its k-th
//! step, for every k until it gets to its end; then the parent reaps it and
//! everything must be as if it had never been there.

use super::super::table::Found;
use super::processes::{End, fork};
use super::*;

const CHILD: u32 = 2;
const LIMIT: u16 = 4;

/// What the child does: with its own holder, and a place that it got before.
type Work = fn(&Holder, LeaseIndex);

/// What others do between the child's death and the reaping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meanwhile {
    Nothing,
    /// Take and give back a place of the same key.
    Use,
    /// Give back a place that was taken before.
    Release,
    /// So many new keys that every key without places is evicted.
    Crowd,
}

const MEANWHILE: [Meanwhile; 4] = [
    Meanwhile::Nothing,
    Meanwhile::Use,
    Meanwhile::Release,
    Meanwhile::Crowd,
];

/// The key that all is about; `fresh` keys come and go in the same bucket.
fn subject() -> Keyed {
    key(0)
}

fn take_and_keep(holder: &Holder, key: &Keyed) -> bool {
    match holder.acquire(key, Some(LIMIT), 7) {
        Acquired::Held(lease) => {
            lease.keep();
            true
        }
        _ => false,
    }
}

const WORKS: [(&str, Work); 6] = [
    ("acquire of a known key", |holder, _| {
        take_and_keep(holder, &subject());
    }),
    ("release", |holder, lease| holder.release(lease)),
    ("release and acquire again", |holder, lease| {
        holder.release(lease);
        take_and_keep(holder, &subject());
    }),
    ("insert", |holder, _| {
        take_and_keep(holder, &key(20));
    }),
    ("insert, release, insert again", |holder, _| {
        for n in [20, 21] {
            drop(holder.acquire(&key(n), Some(LIMIT), 7));
        }
    }),
    ("a refused acquire", |holder, _| {
        let mut places = [const { None }; 5];
        for place in &mut places {
            *place = Some(holder.acquire(&subject(), Some(LIMIT), 7));
        }
    }),
];

/// The state of affairs before a child does its work: a bucket in which the
/// subject is held by `other` and by the child, and idle keys fill the rest.
struct Scene {
    segment: Segment,
    other: Holder,
    /// Places that the other process holds on the subject.
    places: Vec<LeaseIndex>,
    clock: u32,
}

impl Scene {
    fn new() -> Self {
        let segment = segment(SMALL);
        let other = holder(&segment, 1);
        Scene {
            segment,
            other,
            places: Vec::new(),
            clock: 10,
        }
    }

    /// Fills the bucket and gives both processes a place each.
    fn set(&mut self, full: bool) -> (Holder, LeaseIndex) {
        self.clock += 1;
        if full {
            (1..8).for_each(|n| drop(held(self.other.acquire(&key(n), None, self.clock))));
        }
        self.places
            .push(held(self.other.acquire(&subject(), None, self.clock)).keep());
        let child = holder(&self.segment, CHILD);
        let lease = held(child.acquire(&subject(), None, self.clock)).keep();
        (child, lease)
    }

    fn meanwhile(&mut self, what: Meanwhile) {
        match what {
            Meanwhile::Nothing => {}
            Meanwhile::Use => drop(held(self.other.acquire(&subject(), None, self.clock))),
            Meanwhile::Release => self.places.drain(..).for_each(|p| self.other.release(p)),
            Meanwhile::Crowd => {
                self.places.drain(..).for_each(|p| self.other.release(p));
                for n in 30..50 {
                    self.clock += 1;
                    // What the dead child still holds may leave no room: then untracked.
                    drop(self.other.acquire(&key(n), None, self.clock));
                }
            }
        }
    }

    /// After the reaping: the subject's count is what the other process holds,
    /// the limit admits exactly the rest, inserts work, then all is quiet.
    fn check(&mut self, case: &str) {
        let Scene { segment, other, .. } = self;
        assert_eq!(
            other.count(subject().digest) as usize,
            self.places.len(),
            "{case}"
        );
        assert_eq!(audit(segment), 0, "{case}");
        let room = usize::from(LIMIT) - self.places.len();
        let more: Vec<Lease> = (0..room)
            .map(|_| held(other.acquire(&subject(), Some(LIMIT), 9)))
            .collect();
        assert_eq!(
            refused(other.acquire(&subject(), Some(LIMIT), 9)),
            u32::from(LIMIT),
            "{case}"
        );
        drop(more);
        self.clock += 1;
        drop(held(other.acquire(
            &key(u64::from(100 + self.clock)),
            Some(1),
            self.clock,
        )));
        self.places.drain(..).for_each(|place| other.release(place));
        assert_quiet(segment);
    }
}

#[test]
fn killed_between_any_two_steps() {
    let mut found = Reaped::default();
    for (name, work) in WORKS {
        for meanwhile in MEANWHILE {
            for full in [false, true] {
                let mut scene = Scene::new();
                for k in 1.. {
                    let (child, lease) = scene.set(full);
                    let end = fork(|| {
                        steps::die_at(k);
                        work(&child, lease);
                        0
                    })
                    .wait();
                    scene.meanwhile(meanwhile);
                    add(&mut found, reap(&scene.segment, CHILD));
                    let case = format!("{name}, full {full}, killed at step {k}, {meanwhile:?}");
                    scene.check(&case);
                    if end == End::Exit(0) {
                        assert!(k > 5, "{case}: where are the steps?");
                        break;
                    }
                    assert_eq!(end, End::Killed, "{case}");
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
    assert!(
        pending > 0 && held > 0 && releasing > 0 && released > 0,
        "{found:?}"
    );
}

/// Whoever finishes a dead one's step may die of it too: both are reaped later.
#[test]
fn killed_while_helping_the_dead() {
    for (name, work) in WORKS {
        for k in (1..).step_by(3) {
            let mut scene = Scene::new();
            let (child, lease) = scene.set(true);
            let first = fork(|| {
                steps::die_at(k);
                work(&child, lease);
                0
            })
            .wait();
            for j in 1.. {
                let helper = holder(&scene.segment, 3);
                let second = fork(|| {
                    steps::die_at(j);
                    if take_and_keep(&helper, &subject()) {
                        // The second time there is nothing left to help with.
                        drop(helper.acquire(&subject(), None, 7));
                    }
                    0
                })
                .wait();
                // Now and then, and not in order of death.
                reap(&scene.segment, 3);
                assert_eq!(
                    audit(&scene.segment),
                    0,
                    "{name} killed at {k}, helper at {j}"
                );
                if second == End::Exit(0) {
                    break;
                }
                assert_eq!(second, End::Killed);
            }
            reap(&scene.segment, CHILD);
            scene.check(&format!("{name} killed at step {k}, helped"));
            if first == End::Exit(0) {
                break;
            }
        }
    }
}

/// prefork gives places back in its SIGTERM handler, whatever that interrupts.
#[test]
fn a_signal_handler_releases_at_any_step_and_dies_at_any_of_its_own() {
    for (name, work) in WORKS {
        let mut finished = false;
        for k in 1.. {
            for j in (0..).step_by(2) {
                let mut scene = Scene::new();
                let (child, lease) = scene.set(true);
                // What the handler releases is another place than the one in work.
                let own = held(child.acquire(&subject(), None, 7)).keep();
                let end = fork(|| {
                    steps::die_at(k);
                    steps::interrupt(&child, own, j);
                    work(&child, lease);
                    0
                })
                .wait();
                scene.meanwhile(if k % 2 == 0 {
                    Meanwhile::Use
                } else {
                    Meanwhile::Nothing
                });
                reap(&scene.segment, CHILD);
                scene.check(&format!(
                    "{name}, handler at step {k}, killed at its step {j}"
                ));
                finished |= end == End::Exit(0);
                // A release has ten steps; beyond them the handler gets to its end.
                if finished || j > 10 {
                    break;
                }
            }
            if finished {
                break;
            }
        }
    }
}

#[test]
fn a_second_reaping_finds_nothing() {
    let mut scene = Scene::new();
    let (child, lease) = scene.set(false);
    drop(child);
    let _ = lease;
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
        .map(|h| held(h.acquire(&subject(), None, 0)).keep())
        .collect();
    assert_eq!(reconcile(&segment, |_| true), Reaped::default());
    assert_eq!(reconcile(&segment, |pid| pid == 2).held, 2);
    assert_eq!(segment.read(Counter::ReapedHeld), 2);
    assert_eq!(holders[1].count(subject().digest), 1);
    holders[1].release(kept[1]);
    assert_quiet(&segment);
}

#[test]
fn an_audit_finds_a_planted_mismatch_and_leaves_it() {
    use std::sync::atomic::Ordering::SeqCst;
    let segment = segment(SMALL);
    let holder = holder(&segment, 1);
    let lease = held(holder.acquire(&subject(), None, 0));
    assert_eq!(audit(&segment), 0);
    let Found { cell, state, .. } = segment.table.find(subject().digest).unwrap();
    // One more than its leases say, then one less; a count without any lease.
    for (planted, mismatches) in [(state.up(63, 9), 1), (state.down(63, 9), 1), (state, 0)] {
        cell.state.store(planted.0, SeqCst);
        assert_eq!(audit(&segment), mismatches);
        assert_eq!(cell.state.load(SeqCst), planted.0);
    }
    drop(lease);
    let Found { state, .. } = segment.table.find(subject().digest).unwrap();
    cell.state.store(state.up(63, 9).0, SeqCst);
    assert_eq!(audit(&segment), 1);
    assert_eq!(segment.read(Counter::AuditMismatches), 3);
}

fn add(sum: &mut Reaped, more: Reaped) {
    sum.pending += more.pending;
    sum.held += more.held;
    sum.releasing += more.releasing;
    sum.released += more.released;
}
