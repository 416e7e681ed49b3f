//! What it costs a worker to have a response watched for a slow client: stores to memory of
//! its own process. Run with `cargo bench --no-default-features --bench watched`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use mod_limitipconn::limit::slow::MinRate;
use mod_limitipconn::store::{Begun, Bounds, Kind, Watched};

fn register(criterion: &mut Criterion) {
    // As many as a child of event with 64 threads has room for.
    let watched = Watched::new(64 * 16 + 64);
    let bounds = Bounds {
        min_rate: Some(MinRate {
            bytes: 1000,
            after: Duration::from_secs(30),
            window: Duration::from_secs(30),
            busy: Some(80),
        }),
        max_time: None,
        is_dry_run: false,
    };
    let begun = Begun {
        fd: 7,
        seat: Some((3, 1)),
        kind: Kind::Response,
        now: 11,
    };
    let mut group = criterion.benchmark_group("watched");
    group.bench_function("a response begins, is bounded and ends", |bencher| {
        bencher.iter(|| {
            let index = watched.begin(black_box(begun)).expect("room for one");
            watched.bound(index, black_box(&bounds));
            watched.end(index);
        });
    });
    // Most entries in use: the search for a free one is the longest.
    let _others: Vec<_> = (0..64 * 16).map(|_| watched.begin(begun)).collect();
    group.bench_function("the same beside a thousand others", |bencher| {
        bencher.iter(|| {
            let index = watched.begin(black_box(begun)).expect("room for one more");
            watched.bound(index, black_box(&bounds));
            watched.end(index);
        });
    });
    group.finish();
}

criterion_group!(benches, register);
criterion_main!(benches);
