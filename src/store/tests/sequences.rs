//! Random sequences against the oracle: what is answered, counted, evicted.

use proptest::prelude::*;

use super::super::memory::{Answer, Memory};
use super::*;

const BUCKETS: u64 = 2;

#[derive(Clone, Debug)]
enum Op {
    /// By which process, which key, which limit; how much later than the last.
    Acquire(usize, u64, u64, Option<u16>, u32),
    /// Of the places held, this one.
    Release(prop::sample::Index),
    /// The process is killed, noticed and replaced.
    Die(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let limit = prop_oneof![Just(None), (0u16..4).prop_map(Some)];
    let op = prop_oneof![
        6 => (0usize..3, 0..BUCKETS, 0u64..12, limit, 0u32..2)
            .prop_map(|(who, bucket, n, limit, later)| Op::Acquire(who, bucket, n, limit, later)),
        3 => any::<prop::sample::Index>().prop_map(Op::Release),
        1 => (0usize..3).prop_map(Op::Die),
    ];
    prop::collection::vec(op, 1..120)
}

/// Everything that the oracle can tell is told alike by the table.
fn agree(segment: &Segment, oracle: &Memory, holder: &Holder) -> Result<(), TestCaseError> {
    let reading = read(segment, 0);
    let mut counts = oracle.counts();
    prop_assert_eq!(reading.counts.len(), counts.len());
    for bucket in 0..BUCKETS {
        for n in 0..12 {
            let key = key_in(bucket, BUCKETS, n);
            let row = reading
                .counts
                .iter()
                .find(|row| row.name == read_name(key.name) && row.count == key.count);
            let expected = counts.remove(&key.digest.tag);
            prop_assert_eq!(row.map(|row| row.value), expected);
            prop_assert_eq!(holder.count(key.digest), expected.unwrap_or(0));
        }
    }
    prop_assert_eq!(reading.keys.used, oracle.used() as u64);
    prop_assert_eq!(reading.evictions, oracle.evictions);
    prop_assert_eq!(reading.untracked, oracle.untracked);
    prop_assert_eq!(reading.audit_mismatches, 0);
    prop_assert_eq!(audit(segment), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariants 3 to 7, seen from outside.
    #[test]
    fn any_sequence_goes_as_in_the_oracle(ops in ops()) {
        let size = Size { keys: 8 * BUCKETS as u32, leases: 640, slots: 0, rules: 0 };
        let segment = segment(size);
        let mut pids = 1..;
        let mut holders: Vec<(u32, Holder)> =
            pids.by_ref().take(3).map(|pid| (pid, holder(&segment, pid))).collect();
        let mut oracle = Memory::new(640);
        let mut places: Vec<(usize, u64, Keyed, LeaseIndex)> = Vec::new();
        let mut now = 1;
        let mut clocks = [0; 3];
        for op in ops {
            match op {
                Op::Acquire(who, bucket, n, limit, later) => {
                    now += later;
                    clocks[who] = now;
                    let key = key_in(bucket, BUCKETS, n);
                    let before: Vec<Keyed> = (0..12)
                        .map(|n| key_in(bucket, BUCKETS, n))
                        .filter(|key| segment.table.find(key.digest).is_some())
                        .collect();
                    let expected = oracle.acquire(bucket, key.digest, limit, now);
                    match (holders[who].1.acquire(&key, limit, now), expected) {
                        (Acquired::Held(lease), Answer::Held) => {
                            places.push((who, bucket, key, lease.keep()));
                        }
                        (Acquired::Refused { count }, Answer::Refused { count: expected }) => {
                            prop_assert_eq!(count, expected);
                        }
                        (Acquired::Untracked, Answer::Untracked) => {}
                        (other, expected) => prop_assert!(false, "{other:?}, not {expected:?}"),
                    }
                    for gone in before {
                        if segment.table.find(gone.digest).is_none() {
                            let right = oracle.evict(bucket, gone.digest, key.digest);
                            prop_assert_eq!(right, Ok(()));
                        }
                    }
                }
                Op::Release(which) => {
                    if !places.is_empty() {
                        let (who, bucket, key, lease) = places.remove(which.index(places.len()));
                        oracle.release(bucket, key.digest, clocks[who]);
                        holders[who].1.release(lease);
                    }
                }
                Op::Die(who) => {
                    let mut held = 0;
                    places.retain(|(owner, bucket, key, _)| {
                        let dies = *owner == who;
                        if dies {
                            oracle.release(*bucket, key.digest, 0);
                            held += 1;
                        }
                        !dies
                    });
                    let found = reap(&segment, holders[who].0);
                    prop_assert_eq!(found, Reaped { held, ..Reaped::default() });
                    let pid = pids.next().unwrap();
                    holders[who] = (pid, holder(&segment, pid));
                }
            }
            agree(&segment, &oracle, &holders[0].1)?;
        }
        for (who, _, _, lease) in places {
            holders[who].1.release(lease);
        }
        assert_quiet(&segment);
    }
}
