//! Redis that hangs or dies under load, and comes back: no request waits for long, local limits
//! hold meanwhile, and afterwards servers count together again.

#![cfg(feature = "redis")]

mod support;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use support::{DEADLINE, Httpd, Load, Mpm, Redis, on_every_mpm, under_load, wait_until};

on_every_mpm!(hung_redis_under_load_heals, killed_redis_under_load_heals);

/// What a request may wait for, and what a loaded machine adds.
const BOUND: Duration = Duration::from_millis(400);
const SLACK: Duration = Duration::from_secs(30);

fn server(mpm: Mpm, redis: &Redis) -> Httpd {
    Httpd::on(mpm)
        .expect_refusals()
        .expect_log("limitipconn(601): ")
        .expect_log("limitipconn(602): ")
        .conf(&format!(
            "IPLimitRedis {} timeout=200ms connect=200ms lease=3s
             <Location /hoge>
                 MaxConnPerIP 2 scope=location shared
                 # What a hung Redis does late for these is taken back a moment later.
                 MaxConnPerIP 50 scope=location shared for=127.0.0.16/28
             </Location>",
            redis.url()
        ))
        .start()
}

/// Waits until both are degraded, or none is, no longer than for one.
#[track_caller]
fn wait_until_degraded(servers: [&Httpd; 2], state: bool) {
    let start = Instant::now();
    for httpd in servers {
        let left = DEADLINE.saturating_sub(start.elapsed());
        httpd.wait_for_within(left, |gauge| gauge["shared"]["degraded"] == state);
    }
}

/// The next on either is refused.
#[track_caller]
fn count_together(a: &Httpd, b: &Httpd) {
    let [on_a, on_b] = [a, b].map(|httpd| httpd.client("127.0.0.9"));
    let _held = wait_until(DEADLINE, || {
        let held = (
            on_a.try_hold("/hoge/hold.cgi"),
            on_b.try_hold("/hoge/hold.cgi"),
        );
        match (
            held,
            on_a.status("/hoge/small.txt"),
            on_b.status("/hoge/small.txt"),
        ) {
            ((Ok(one), Ok(other)), 503, 503) => Ok((one, other)),
            (_, one, other) => Err((one, other)),
        }
    });
}

fn outage(
    mpm: Mpm,
    redis: &mut Redis,
    begins: impl FnOnce(&mut Redis),
    ends: impl FnOnce(&mut Redis),
) {
    let (a, b) = (server(mpm, redis), server(mpm, redis));
    count_together(&a, &b);
    let longest = Mutex::new(Duration::ZERO);
    let ask = |n: usize, load: &Load| {
        let client = [&a, &b][n % 2].client(&format!("127.0.0.{}", 20 + n));
        while load.goes_on() {
            let start = Instant::now();
            assert_eq!(client.status("/hoge/small.txt"), 200);
            let mut longest = longest.lock().unwrap();
            *longest = longest.max(start.elapsed());
            drop(longest);
            load.note_answer();
        }
    };
    under_load(4, ask, |load| {
        load.wait_for_more(40);
        begins(redis);
        wait_until_degraded([&a, &b], true);
        // Each by itself.
        for httpd in [&a, &b] {
            let client = httpd.client("127.0.0.3");
            let _held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
            assert_eq!(client.status("/hoge/small.txt"), 503);
        }
        load.wait_for_more(40);
        ends(redis);
        wait_until_degraded([&a, &b], false);
        load.wait_for_more(40);
    });
    let longest = longest.into_inner().unwrap();
    assert!(longest < BOUND + SLACK, "{longest:?}");
    count_together(&a, &b);
    for httpd in [&a, &b] {
        httpd.wait_for(|gauge| gauge.total() == 0);
        assert_eq!(httpd.gauge().number("audit_mismatches"), 0);
    }
}

/// Until they end, the children before a reload hold places in the server of before.
#[test]
fn lost_server_of_before_a_reload_is_nothing_to_those_after_it() {
    let (mut before, after) = (Redis::start(), Redis::start());
    let conf = |redis: &Redis| {
        format!(
            "IPLimitRedis {} timeout=5s connect=5s lease=3s
             <Location /hoge>
                 MaxConnPerIP 2 scope=location shared
             </Location>\n",
            redis.url()
        )
    };
    let httpd = Httpd::on(Mpm::Event)
        .expect_log("limitipconn(601): ")
        .conf(&conf(&before))
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    httpd.rewrite_conf(&conf(&after));
    httpd.graceful();
    assert_eq!(client.status("/hoge/small.txt"), 200);
    before.kill();
    // By the child before it, which renews its place.
    let lines = httpd.wait_for_log("limitipconn(601): ");
    let port = before.port().to_string();
    assert!(lines[0].contains(&port), "{}", lines[0]);
    let shared = httpd.gauge()["shared"].clone();
    assert_eq!(shared["degraded"], false, "{shared:?}");
    assert!(shared["failure"].is_null(), "{shared:?}");
    assert_eq!(client.status("/hoge/small.txt"), 200);
    assert_eq!(httpd.gauge()["shared"]["missed"], 0);
    drop(held);
}

fn hung_redis_under_load_heals(mpm: Mpm) {
    outage(
        mpm,
        &mut Redis::start(),
        |redis| redis.freeze(),
        |redis| redis.thaw(),
    );
}

fn killed_redis_under_load_heals(mpm: Mpm) {
    outage(mpm, &mut Redis::start(), Redis::kill, Redis::restart);
}
