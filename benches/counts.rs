//! What the store costs: taking a place and giving it back, and the scan of the
//! scoreboard's slots. Run with `cargo bench --no-default-features --bench counts`.
//!
//! Times are of one thread on a quiet table; the number of keys shows what the
//! processor's caches make of it, since the steps are the same for any number.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mod_limitipconn::limit::address::Address;
use mod_limitipconn::limit::key::{CountId, Secret};
use mod_limitipconn::store::{Acquired, Holder, Identity, Keyed, Lease, Name, Segment, Size};

const COUNT: CountId = CountId(0x5eed);

fn segment(keys: u32, slots: u32) -> Segment {
    let size = Size {
        keys,
        leases: 4096,
        slots,
        rules: 16,
    };
    let segment = Segment::create(size).expect("memory for a benchmark");
    segment.close_fd();
    segment
}

fn address(n: u32) -> Address {
    Address::from_v4((0x7f00_0000 + n).to_be_bytes())
}

fn keyed(secret: Secret, n: u32) -> Keyed<'static> {
    Keyed {
        digest: secret.digest(address(n)).within(COUNT),
        count: COUNT,
        name: Name::Client(address(n)),
    }
}

fn held(acquired: Acquired<'_>) -> Lease<'_> {
    match acquired {
        Acquired::Held(lease) => lease,
        other => panic!("{other:?}"),
    }
}

/// A place of a known key, taken and given back.
fn acquire_and_release(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("acquire and release");
    for number in [10, 1_000, 100_000] {
        let segment = segment(262_144, 1);
        let holder = Holder::new(&segment, std::process::id(), || 0);
        let keys: Vec<Keyed> = (0..number).map(|n| keyed(segment.secret(), n)).collect();
        for key in &keys {
            drop(held(holder.acquire(key, Some(10), 0)));
        }
        // Neighbours in time are no neighbours in memory: keys are digests.
        let mut next = keys.iter().cycle();
        group.bench_function(BenchmarkId::new("keys", number), |bencher| {
            bencher.iter(|| {
                let key = black_box(next.next().expect("a cycle does not end"));
                drop(held(holder.acquire(key, Some(10), 0)));
            });
        });
    }
    group.finish();
}

/// What happens at the limit, and where nothing can be counted.
fn refusals(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("no place");
    // One bucket, and eight keys in flight in it.
    let segment = segment(8, 1);
    let holder = Holder::new(&segment, std::process::id(), || 0);
    let keys: Vec<Keyed> = (0..9).map(|n| keyed(segment.secret(), n)).collect();
    let places: Vec<Lease> = keys[..8]
        .iter()
        .map(|key| held(holder.acquire(key, Some(1), 0)))
        .collect();
    group.bench_function("refused", |bencher| {
        bencher.iter(|| holder.acquire(black_box(&keys[0]), Some(1), 0));
    });
    group.bench_function("bucket full, untracked", |bencher| {
        bencher.iter(|| holder.acquire(black_box(&keys[8]), Some(1), 0));
    });
    drop(places);
    let mut time = 0;
    group.bench_function("new key, evicts the stalest", |bencher| {
        bencher.iter_batched(
            || {
                time += 1;
                (keyed(segment.secret(), time), time)
            },
            |(key, time)| drop(held(holder.acquire(&key, Some(1), time))),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// Slots of one client among those of strangers, all busy.
fn scans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scan of slots");
    for slots in [256, 4_096] {
        let segment = segment(8, slots);
        let identity: Identity = segment.identity();
        let tag = |n: u32| (segment.secret().digest(address(n)).tag as u8).max(1);
        for slot in 0..slots {
            // Every hundredth is our client's.
            let who = if slot % 100 == 0 { 0 } else { slot };
            identity.seat(slot, 1 << 32 | 1, address(who), tag(who));
        }
        group.throughput(Throughput::Elements(u64::from(slots)));
        group.bench_function(BenchmarkId::new("all of", slots), |bencher| {
            bencher.iter(|| identity.count(black_box(address(0)), tag(0), u32::MAX, |_| true));
        });
    }
    group.finish();
}

criterion_group!(benches, acquire_and_release, refusals, scans);
criterion_main!(benches);
