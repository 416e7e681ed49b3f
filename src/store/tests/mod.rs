//! Tests of the store: against the oracle, by threads, by processes that are
//! killed between any two steps, and at random.
//!
//! Forked children allocate nothing, print nothing and end by `_exit`: the test
//! program has other threads, which do not exist in the child.

use std::time::Duration;

use super::layout::BUCKET;
use super::*;
use crate::limit::address::Address;
use crate::limit::key::{CountId, Digest};
use rows::{KeyCount, read};

mod desk;
mod flood;
mod full;
mod hand;
mod identity;
mod interleavings;
mod kills;
mod labels;
mod ledger;
mod processes;
mod random_kills;
mod rate_kills;
mod rate_looks;
mod rate_sequences;
mod rates;
mod reading;
mod rows;
mod scene;
mod segment;
mod sequences;
pub(super) mod steps;
mod threads;

const SMALL: Size = Size {
    keys: 128,
    leases: 256,
    slots: 16,
    rules: 8,
};

/// A segment that ends with its test: they make thousands, and each mapping makes
/// every fork slower.
struct Mapped(Segment);

impl std::ops::Deref for Mapped {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        &self.0
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let Parts { base, len, .. } = self.0.parts();
        // SAFETY: tests declare a segment before the holders that look into it,
        // and so drop it after them; nothing else knows this memory.
        unsafe { libc::munmap(base.cast(), len) };
    }
}

fn segment(size: Size) -> Mapped {
    let segment = Segment::create(size).expect("memory for a test");
    segment.close_fd();
    Mapped(segment)
}

/// A holder that waits for locks as long as a loaded machine needs, so that no
/// test depends on how fast the machine is.
fn holder(segment: &Segment, pid: u32) -> Holder {
    Holder::new(segment, pid, || 0).with_patience(Duration::from_secs(60))
}

/// Key number `n` in `bucket` of a table of `buckets`.
fn key_in(bucket: u64, buckets: u64, n: u64) -> Keyed<'static> {
    let wide = (u128::from(bucket) << 64).div_ceil(u128::from(buckets));
    Keyed {
        digest: Digest {
            // As a digest has it: odd steps of 2^64, none of them 0.
            tag: ((n + 1) * buckets + bucket).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            place: wide as u64 + n % BUCKET as u64,
        },
        count: CountId(n / 2),
        name: Name::Client(Address::from_words([bucket, n])),
    }
}

/// Key number `n` of the first bucket of a SMALL table.
fn key(n: u64) -> Keyed<'static> {
    key_in(0, 16, n)
}

/// The number of a key that [`key_in`] has made.
fn number_of(name: &KeyName) -> u64 {
    match name {
        KeyName::Client(address) => address.words()[1],
        other => panic!("no client but {other:?}"),
    }
}

/// The name of a client as it is read.
fn read_name(name: Name<'_>) -> KeyName {
    match name {
        Name::Client(address) => KeyName::Client(address),
        other => panic!("no client but {other:?}"),
    }
}

#[track_caller]
fn held(acquired: Acquired<'_>) -> Lease<'_> {
    match acquired {
        Acquired::Held(lease) => lease,
        other => panic!("not held but {other:?}"),
    }
}

#[track_caller]
fn refused(acquired: Acquired<'_>) -> u32 {
    match acquired {
        Acquired::Refused { count } => count,
        other => panic!("not refused but {other:?}"),
    }
}

/// Nothing is held, nothing is half done, the books agree.
#[track_caller]
fn assert_quiet(segment: &Segment) {
    let reading = read(segment, 0);
    assert_eq!(reading.counts, []);
    let LeaseTally {
        capacity: _,
        pending,
        held,
        releasing,
        released,
    } = reading.leases;
    assert_eq!([pending, held, releasing, released], [0; 4]);
    assert_sound(segment);
}

/// The books agree, no fault was found, and no key has two cells (invariant 7).
#[track_caller]
fn assert_sound(segment: &Segment) {
    assert_eq!(audit(segment), 0, "the audit found a mismatch");
    assert_eq!(segment.read(Counter::Faults), 0);
    use std::sync::atomic::Ordering::Acquire;
    let table = &segment.table;
    let cells: Vec<_> = table.cells.iter().zip(table.labels).collect();
    for bucket in cells.chunks(BUCKET) {
        let live = bucket
            .iter()
            .filter(|(cell, label)| cell.read(label).is_some());
        let mut tags: Vec<u64> = live.map(|(cell, _)| cell.tag.load(Acquire)).collect();
        tags.sort_unstable();
        assert!(
            tags.windows(2).all(|pair| pair[0] != pair[1]),
            "a key has two cells: {tags:?}"
        );
    }
}
