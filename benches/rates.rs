//! What a decision about a rate costs: of a known key, of a new one, and of one for which
//! another has to go; and what it costs to start with a great table. Run with
//! `cargo bench --no-default-features --bench rates`.
//!
//! Times are of one thread on a quiet table, without the digest of the key. The steps are
//! the same for any number of keys; what differs is what the processor's caches make of it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use mod_limitipconn::limit::address::Address;
use mod_limitipconn::limit::gcra::Bucket;
use mod_limitipconn::limit::key::{CountId, Secret};
use mod_limitipconn::limit::rate::Rate;
use mod_limitipconn::limit::rating::{Decision, Limit};
use mod_limitipconn::limit::window::Window;
use mod_limitipconn::store::{Counter, Holder, Keyed, Name, Parts, Segment, Size};

const COUNT: CountId = CountId(0x5eed);
const NUMBERS: [u32; 3] = [1_000, 100_000, 1_000_000];
/// When it all happens, in nanoseconds.
const NOW: u64 = 1_000_000_000_000;

/// A segment that ends with its benchmark: some make hundreds.
struct Mapped(Segment);

impl Mapped {
    fn new(keys: u32) -> Mapped {
        let size = Size {
            keys,
            leases: 64,
            slots: 1,
            rules: 16,
        };
        let segment = Segment::create(size).expect("memory for a benchmark");
        segment.close_fd();
        Mapped(segment)
    }

    fn holder(&self) -> Holder {
        Holder::new(&self.0, std::process::id(), || NOW)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let Parts { base, len, .. } = self.0.parts();
        // SAFETY: benchmarks make a segment before the holders that look into it, and so
        // drop it after them; nothing else knows this memory.
        unsafe { libc::munmap(base.cast(), len) };
    }
}

fn keyed(secret: Secret, n: u32) -> Keyed<'static> {
    let address = Address::from_v4(n.to_be_bytes());
    Keyed {
        digest: secret.digest(address).within(COUNT),
        count: COUNT,
        name: Name::Client(address),
    }
}

/// A bucket and a window that let in a request each microsecond.
fn limits() -> [(&'static str, Limit); 2] {
    let rate = |number, period| Rate { number, period };
    let bucket = Bucket::new(rate(1_000_000, Duration::from_secs(1)), 1_000_000, None);
    let window = Window {
        rate: rate(1_000_000, Duration::from_secs(1)),
        freeze: None,
        extend: false,
    };
    [
        (
            "bucket",
            Limit::Bucket(bucket.expect("it fills in a second")),
        ),
        ("window", Limit::Window(window)),
    ]
}

/// A request of this key, which must be let in.
#[inline]
fn charge(holder: &Holder, key: &Keyed<'_>, limit: &Limit, seen: u32, now: u64) {
    let said = holder.change_rate(key, seen, |word| match limit.decide(word, now) {
        said @ Decision::Pass(pass) => (Some(pass.next), said),
        said @ Decision::Over(over) => (over.next, said),
    });
    assert!(matches!(said, Some(Decision::Pass(_))), "{said:?}");
}

fn known_keys(criterion: &mut Criterion) {
    for (name, limit) in limits() {
        let mut group = criterion.benchmark_group(format!("known key, {name}"));
        for number in NUMBERS {
            let segment = Mapped::new(2 * number);
            let holder = segment.holder();
            let keys: Vec<Keyed> = (0..number).map(|n| keyed(segment.0.secret(), n)).collect();
            // Neighbours in time are no neighbours in memory: keys are digests.
            let mut next = keys.iter().cycle();
            let mut now = NOW;
            keys.iter()
                .for_each(|key| charge(&holder, key, &limit, 1, now));
            group.bench_function(BenchmarkId::new("keys", number), |bencher| {
                bencher.iter(|| {
                    let key = black_box(next.next().expect("a cycle does not end"));
                    now += 1_000;
                    charge(&holder, key, &limit, 1, now);
                });
            });
        }
        group.finish();
    }
}

/// Into tables that have twice the room, until they are half full.
fn new_keys(criterion: &mut Criterion) {
    for (name, limit) in limits() {
        let mut group = criterion.benchmark_group(format!("new key, {name}"));
        group.sample_size(10);
        for number in NUMBERS {
            group.bench_function(BenchmarkId::new("keys", number), |bencher| {
                bencher.iter_custom(|iterations| {
                    let (mut left, mut spent) = (iterations, Duration::ZERO);
                    while left > 0 {
                        let segment = Mapped::new(2 * number);
                        let holder = segment.holder();
                        let some = left.min(u64::from(number)) as u32;
                        let keys: Vec<Keyed> =
                            (0..some).map(|n| keyed(segment.0.secret(), n)).collect();
                        let start = Instant::now();
                        for key in &keys {
                            charge(&holder, black_box(key), &limit, 1, NOW);
                        }
                        spent += start.elapsed();
                        left -= u64::from(some);
                    }
                    spent
                });
            });
        }
        group.finish();
    }
}

/// Into full tables, none of whose keys is spent.
fn evictions(criterion: &mut Criterion) {
    for (name, limit) in limits() {
        let mut group = criterion.benchmark_group(format!("new key, full table, {name}"));
        for number in NUMBERS {
            let segment = Mapped::new(number);
            let holder = segment.holder();
            let secret = segment.0.secret();
            // Until there is no bucket with room.
            let mut n = 0;
            for _ in 0..4 * number {
                n += 1;
                charge(&holder, &keyed(secret, n), &limit, n, NOW);
            }
            assert!(segment.0.read(Counter::Evictions) > 0, "it is full");
            group.bench_function(BenchmarkId::new("keys", number), |bencher| {
                bencher.iter_batched(
                    || {
                        n += 1;
                        (keyed(secret, n), n)
                    },
                    |(key, n)| charge(&holder, &key, &limit, n, NOW),
                    BatchSize::SmallInput,
                );
            });
        }
        group.finish();
    }
}

/// The memory of a table, all of its pages there, and its locks.
fn start(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("start of a table");
    group.sample_size(10);
    for number in NUMBERS {
        group.bench_function(BenchmarkId::new("keys", number), |bencher| {
            bencher.iter_custom(|iterations| {
                let one = |_| {
                    let start = Instant::now();
                    let segment = Mapped::new(black_box(number));
                    let spent = start.elapsed();
                    drop(segment);
                    spent
                };
                (0..iterations).map(one).sum()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, known_keys, new_keys, evictions, start);
criterion_main!(benches);
