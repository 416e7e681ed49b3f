//! Many requests over two servers, as fast as the machine allows: no count is left behind.
//! 5 000 of them here; `make soak` asks for 60 000.

#![cfg(feature = "redis")]

mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use support::{Httpd, Mpm, Redis, at_once};

const THREADS: usize = 8;
/// Connections are kept for so many requests, and then made anew.
const KEPT: usize = 50;

#[test]
fn storm_over_two_servers_leaves_nothing() {
    let asked = std::env::var("LIMITIPCONN_SOAK")
        .ok()
        .map(|text| text.parse().unwrap());
    let requests: usize = asked.unwrap_or(5_000);
    let redis = Redis::start();
    let server = || {
        Httpd::on(Mpm::Event)
            .expect_refusals()
            .conf(&format!(
                "IPLimitRedis {} timeout=5s connect=5s lease=5s
                 <Location /hoge>
                     MaxConnPerIP 2 scope=location shared
                     MaxRatePerIP 1000/s burst=1000 shared
                 </Location>",
                redis.url()
            ))
            .start()
    };
    let (a, b) = (server(), server());
    // Whoever is held up while he brings a new key into the table makes others go uncounted.
    for (httpd, n) in [&a, &b]
        .into_iter()
        .flat_map(|httpd| [(httpd, 2), (httpd, 3), (httpd, 4)])
    {
        let client = httpd.client(&format!("127.0.0.{n}"));
        assert!(matches!(client.status("/hoge/small.txt"), 200 | 503));
    }
    let (passed, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    at_once(THREADS, |thread| {
        // Two threads for each client, one on each server and two on one.
        let client = [&a, &b][thread % 2].client(&format!("127.0.0.{}", 2 + thread / 3));
        let mut left = requests / THREADS;
        while left > 0 {
            let mut connection = client.connect();
            for _ in 0..left.min(KEPT) {
                let answer = connection.get("/hoge/small.txt");
                match answer.status {
                    200 => passed.fetch_add(1, Ordering::Relaxed),
                    429 | 503 => refused.fetch_add(1, Ordering::Relaxed),
                    other => panic!("{other}"),
                };
                left -= 1;
                if answer.header("connection") == Some("close") {
                    break;
                }
            }
        }
    });
    let took = start.elapsed();
    let [passed, refused] = [&passed, &refused].map(|number| number.load(Ordering::Relaxed));
    let commands = redis.info("total_commands_processed");
    println!(
        "{requests} requests in {took:.1?}: {passed} passed, {refused} refused, {commands} commands"
    );
    assert_eq!(passed + refused, (requests / THREADS * THREADS) as u64);
    for httpd in [&a, &b] {
        let gauge = httpd.wait_for(|gauge| gauge.total() == 0);
        assert_eq!(gauge["shared"]["missed"], 0, "{gauge:?}");
        assert_eq!(gauge["shared"]["uncounted"], 0, "{gauge:?}");
        assert_eq!(gauge.number("audit_mismatches"), 0, "{gauge:?}");
        let answers: u64 = ["MaxConnPerIP@/hoge", "MaxRatePerIP@/hoge"]
            .map(|rule| gauge.refused(rule))
            .iter()
            .sum();
        assert!(answers <= refused, "{gauge:?}");
    }
    // The counts at once, the rates a second after they are full.
    redis.wait_for_no_keys(support::DEADLINE, ":c{");
    redis.wait_for_no_keys(support::DEADLINE, "");
}
