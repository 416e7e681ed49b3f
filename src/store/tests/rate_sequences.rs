//! Random sequences of charges against an oracle: what is answered, who goes, who stays.

use std::collections::HashMap;

use proptest::prelude::*;

use super::rates::{SECOND, bucket, hit, now, rater, set_now, window};
use super::*;
use crate::limit::rating::{self, Decision, Limit};

const BUCKETS: u64 = 2;
const KEYS: u64 = 14;

#[derive(Clone, Debug)]
enum Op {
    /// By which process, in which bucket, which key.
    Charge(usize, u64, u64),
    /// The latest charge of this key is taken back.
    Refund(u64, u64),
    /// A look that charges nothing.
    Look(u64, u64),
    /// A key of the same bucket, which counts places.
    Hold(usize, u64, u64),
    Release(prop::sample::Index),
    /// So many seconds.
    Later(u32),
    /// The process is killed, noticed and replaced.
    Die(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        12 => (0usize..3, 0..BUCKETS, 0..KEYS).prop_map(|(who, bucket, n)| Op::Charge(who, bucket, n)),
        1 => (0..BUCKETS, 0..KEYS).prop_map(|(bucket, n)| Op::Refund(bucket, n)),
        2 => (0..BUCKETS, 0..KEYS).prop_map(|(bucket, n)| Op::Look(bucket, n)),
        2 => (0usize..3, 0..BUCKETS, 0u64..6).prop_map(|(who, bucket, n)| Op::Hold(who, bucket, n)),
        2 => any::<prop::sample::Index>().prop_map(Op::Release),
        3 => (0u32..4).prop_map(Op::Later),
        1 => (0usize..3).prop_map(Op::Die),
    ];
    prop::collection::vec(op, 1..150)
}

/// Keys of one kind have one limit each: some are spent soon, some freeze.
fn limit(n: u64) -> Limit {
    let time = Duration::from_secs;
    match n % 4 {
        0 => bucket(1, time(3), 2),
        1 => bucket(1, time(30), 3),
        2 => window(2, time(4), None),
        _ => window(1, time(5), Some(time(9))),
    }
}

/// Rates are keys 0 to 13 of a bucket, counts of places 100 and up.
fn place_key(bucket: u64, n: u64) -> Keyed<'static> {
    key_in(bucket, BUCKETS, 100 + n)
}

#[derive(Clone, Copy, Debug)]
struct Known {
    word: u64,
    count: u32,
    seen: u32,
}

impl Known {
    fn stays(&self) -> bool {
        self.count > 0 || rating::frozen_for(self.word, now()).is_some()
    }

    fn turn(&self) -> (bool, u32) {
        (!rating::is_spent(self.word, now()), self.seen)
    }
}

/// What a table of these sizes should know.
#[derive(Default)]
struct Oracle {
    buckets: [HashMap<u64, Known>; BUCKETS as usize],
    evictions: u64,
    untracked: u64,
}

impl Oracle {
    /// Makes room for a new key; the table tells who went. None: there is none.
    fn room(&mut self, bucket: u64, new: u64, segment: &Segment) -> Result<(), TestCaseError> {
        let known = &mut self.buckets[bucket as usize];
        let is_there = |n: u64| {
            segment
                .table
                .find(key_in(bucket, BUCKETS, n).digest)
                .is_some()
        };
        let gone: Vec<u64> = known.keys().copied().filter(|n| !is_there(*n)).collect();
        if known.len() < BUCKET {
            prop_assert!(is_there(new));
            prop_assert_eq!(gone, Vec::<u64>::new());
            return Ok(());
        }
        if known.values().all(Known::stays) {
            prop_assert!(!is_there(new));
            prop_assert_eq!(gone, Vec::<u64>::new());
            self.untracked += 1;
            return Ok(());
        }
        prop_assert!(is_there(new));
        prop_assert_eq!(gone.len(), 1);
        let gone = known.remove(&gone[0]).expect("it was known");
        prop_assert!(!gone.stays(), "{:?} went", gone);
        let others = known.values().filter(|other| !other.stays());
        prop_assert!(
            others.map(Known::turn).all(|turn| turn >= gone.turn()),
            "{:?} went",
            gone
        );
        self.evictions += 1;
        Ok(())
    }
}

/// The same as [`hit`], as one would write it down.
fn decided(limit: &Limit, word: u64) -> (u64, Decision) {
    let said = limit.decide(word, now());
    match said {
        Decision::Pass(pass) => (pass.next, said),
        Decision::Over(over) => (over.next.unwrap_or(word), said),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_charges_goes_as_in_the_oracle(ops in ops()) {
        let size = Size { keys: 8 * BUCKETS as u32, leases: 640, slots: 0, rules: 0 };
        let segment = segment(size);
        let mut pids = 1..;
        let mut holders: Vec<(u32, Holder)> =
            pids.by_ref().take(3).map(|pid| (pid, rater(&segment, pid))).collect();
        let mut oracle = Oracle::default();
        let mut places: Vec<(usize, u64, u64, LeaseIndex)> = Vec::new();
        let (mut seconds, mut clocks) = (1, [0; 3]);
        let mut charged: HashMap<(u64, u64), u64> = HashMap::new();
        set_now(1_000 * SECOND);
        for op in ops {
            match op {
                Op::Charge(who, bucket, n) => {
                    let key = key_in(bucket, BUCKETS, n);
                    let said = hit(&holders[who].1, &key, &limit(n), seconds);
                    let before = oracle.buckets[bucket as usize].get(&n).copied();
                    if before.is_none() {
                        oracle.room(bucket, n, &segment)?;
                    }
                    let (word, expected) = decided(&limit(n), before.map_or(0, |known| known.word));
                    let has_cell = segment.table.find(key.digest).is_some();
                    prop_assert_eq!(said, has_cell.then_some(expected));
                    if has_cell {
                        let seen = before.map_or(seconds, |known| known.seen.max(seconds));
                        oracle.buckets[bucket as usize].insert(n, Known { word, count: 0, seen });
                        if let Decision::Pass(pass) = expected {
                            charged.insert((bucket, n), pass.next);
                        }
                    }
                }
                Op::Refund(bucket, n) => {
                    let Some(charged) = charged.remove(&(bucket, n)) else { continue };
                    let digest = key_in(bucket, BUCKETS, n).digest;
                    let refund = |word| limit(n).refund(word, now(), charged, now());
                    holders[0].1.change_known_rate(digest, refund);
                    if let Some(known) = oracle.buckets[bucket as usize].get_mut(&n) {
                        known.word = refund(known.word).unwrap_or(known.word);
                    }
                }
                Op::Look(bucket, n) => {
                    let word = holders[0].1.rate(key_in(bucket, BUCKETS, n).digest, seconds);
                    let known = oracle.buckets[bucket as usize].get_mut(&n);
                    prop_assert_eq!(word, known.as_ref().map_or(0, |known| known.word));
                    if let Some(known) = known {
                        known.seen = known.seen.max(seconds);
                    }
                }
                Op::Hold(who, bucket, n) => {
                    clocks[who] = seconds;
                    let key = place_key(bucket, n);
                    let acquired = holders[who].1.acquire(&key, None, seconds);
                    if !oracle.buckets[bucket as usize].contains_key(&(100 + n)) {
                        oracle.room(bucket, 100 + n, &segment)?;
                    }
                    match acquired {
                        Acquired::Held(lease) => {
                            let new = Known { word: 0, count: 0, seen: 0 };
                            let known = oracle.buckets[bucket as usize].entry(100 + n).or_insert(new);
                            known.count += 1;
                            known.seen = known.seen.max(seconds);
                            places.push((who, bucket, n, lease.keep()));
                        }
                        other => {
                            let is_untracked = matches!(other, Acquired::Untracked);
                            prop_assert!(is_untracked && segment.table.find(key.digest).is_none());
                        }
                    }
                }
                Op::Release(which) => {
                    if !places.is_empty() {
                        let (who, bucket, n, lease) = places.remove(which.index(places.len()));
                        holders[who].1.release(lease);
                        let known = oracle.buckets[bucket as usize].get_mut(&(100 + n)).unwrap();
                        known.count -= 1;
                        known.seen = known.seen.max(clocks[who]);
                    }
                }
                Op::Later(later) => {
                    seconds += later;
                    set_now(now() + u64::from(later) * SECOND);
                }
                Op::Die(who) => {
                    reap(&segment, holders[who].0);
                    places.retain(|(owner, bucket, n, _)| {
                        let stays = *owner != who;
                        if !stays {
                            oracle.buckets[*bucket as usize].get_mut(&(100 + n)).unwrap().count -= 1;
                        }
                        stays
                    });
                    let pid = pids.next().unwrap();
                    holders[who] = (pid, rater(&segment, pid));
                }
            }
            let reading = read(&segment, now());
            prop_assert_eq!(reading.evictions, oracle.evictions);
            prop_assert_eq!(reading.untracked, oracle.untracked);
            let all = || oracle.buckets.iter().flat_map(HashMap::values);
            prop_assert_eq!(reading.keys.used as usize, all().count());
            let rated = all().filter(|known| !rating::is_spent(known.word, now())).count();
            prop_assert_eq!(reading.keys.rated as usize, rated);
            prop_assert_eq!(reading.counts.len(), all().filter(|known| known.count > 0).count());
            let frozen = all().filter_map(|known| rating::frozen_for(known.word, now()));
            let (mut frozen, mut shown): (Vec<_>, Vec<_>) =
                (frozen.collect(), reading.frozen.iter().map(|row| row.left).collect());
            frozen.sort_unstable();
            shown.sort_unstable();
            prop_assert_eq!(frozen, shown);
            assert_sound(&segment);
        }
    }
}
