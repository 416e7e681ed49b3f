//! Several servers that count together: two private httpds on one Redis (field case C38, two
//! nodes behind a balancer).

#![cfg(feature = "redis")]

mod support;

use std::time::{Duration, Instant};

use support::{
    A_SECOND, Client, Httpd, Mpm, Redis, Setup, Tokens, in_time, on_every_mpm, wait_until,
};

on_every_mpm!(
    c38_two_servers_hold_one_limit,
    c38_two_servers_share_one_rate,
    killed_server_frees_its_places_within_the_lease,
    places_outlast_their_lease_and_the_loss_of_redis,
);

/// Long enough for a loaded machine: what tests wait for here is an answer, not its absence.
const PATIENT: &str = "timeout=5s connect=5s";

/// A server that counts with all that are given the same Redis.
fn server(mpm: Mpm, redis: &Redis, more: &str, rules: &str) -> Setup {
    let url = redis.url();
    Httpd::on(mpm)
        .expect_refusals()
        .conf(&format!("IPLimitRedis {url} {more}"))
        .conf(rules)
}

/// Waits until there is no room for one more. A place whose lease runs out while the machine
/// stands still is put back.
#[track_caller]
fn wait_until_full(client: &Client) {
    wait_until(support::DEADLINE, || {
        match client.status("/hoge/small.txt") {
            503 => Ok(()),
            other => Err(other),
        }
    });
}

/// C38, and the next: a release on A admits on B within a second.
fn c38_two_servers_hold_one_limit(mpm: Mpm) {
    let redis = Redis::start();
    let rules = "<Location /hoge>\n MaxConnPerIP 3 scope=location shared\n</Location>";
    // Nothing is free because its lease is over.
    let more = format!("{PATIENT} lease=1h");
    let [a, b] = [0, 1].map(|_| server(mpm, &redis, &more, rules).start());
    let [on_a, on_b] = [&a, &b].map(|httpd| httpd.client("127.0.0.2"));
    let first = on_a.hold("/hoge/hold.cgi");
    let _second = on_a.hold("/hoge/hold.cgi");
    let _third = on_b.hold("/hoge/hold.cgi");
    for next in [&on_a, &on_b] {
        let refused = next.get("/hoge/small.txt");
        assert_eq!(refused.status, 503);
        assert_eq!(refused.header("retry-after"), Some("5"));
        assert_eq!(refused.header("cache-control"), Some("no-store"));
    }
    // Somebody else's limit, and another place.
    assert_eq!(b.client("127.0.0.3").status("/hoge/small.txt"), 200);
    assert_eq!(on_b.status("/fuga/small.txt"), 200);
    // There and back, since the machine may once stand still for longer than that.
    let mut moving = Some(first);
    let in_a_second = [&on_b, &on_a, &on_b, &on_a, &on_b].iter().any(|next| {
        moving.take().expect("one that is held").finish();
        let start = Instant::now();
        moving = Some(wait_until(support::DEADLINE, || {
            next.try_hold("/hoge/hold.cgi")
        }));
        start.elapsed() < A_SECOND
    });
    assert!(in_a_second);
    assert_eq!(on_a.status("/hoge/small.txt"), 503);
    drop((_second, _third, moving));
    redis.wait_for_no_keys(support::DEADLINE, "");
    for httpd in [&a, &b] {
        let gauge = httpd.wait_for(|gauge| gauge.total() == 0);
        assert_eq!(gauge["shared"]["degraded"], false, "{gauge:?}");
        assert_eq!(gauge["shared"]["missed"], 0, "{gauge:?}");
    }
}

/// C38: ten over both, and what refills; the answers are those of a rate of one server.
fn c38_two_servers_share_one_rate(mpm: Mpm) {
    let redis = Redis::start();
    let rules = "IPLimitHeaders On
        <Location /hoge>
            MaxRatePerIP 10/s burst=10 shared
        </Location>
        <Location /fuga>
            MaxRatePerIP 1/min burst=4 shared
        </Location>";
    let [a, b] = [0, 1].map(|_| server(mpm, &redis, PATIENT, rules).start());
    let clients = [&a, &b].map(|httpd| httpd.client("127.0.0.2"));
    let mut tokens = Tokens::new(10, Duration::from_secs(1), 10);
    for n in 0..40 {
        tokens.ask(|| clients[n % 2].get("/hoge/small.txt"));
    }
    let answers: Vec<_> = (0..6)
        .map(|n| clients[n % 2].get("/fuga/small.txt"))
        .collect();
    for (n, answer) in answers.iter().enumerate() {
        let expected = if n < 4 { 200 } else { 429 };
        assert_eq!(answer.status, expected, "{n}: {answer:?}");
        assert!(answer.header("ratelimit").is_some(), "{n}: {answer:?}");
    }
    let after: u64 = answers[5].header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&after), "{after}");
}

/// Three held by a server that is killed: another admits three within the lease, and when the
/// first comes back no count is negative.
fn killed_server_frees_its_places_within_the_lease(mpm: Mpm) {
    let redis = Redis::start();
    let rules = "<Location /hoge>\n MaxConnPerIP 3 scope=location shared\n</Location>";
    let lease = Duration::from_secs(3);
    let start = || server(mpm, &redis, &format!("{PATIENT} lease=3s"), rules);
    let (mut a, b) = (start().start(), start().start());
    let [on_a, on_b] = [&a, &b].map(|httpd| httpd.client("127.0.0.2"));
    let held: Vec<_> = (0..3).map(|_| on_a.hold("/hoge/hold.cgi")).collect();
    wait_until_full(&on_b);
    a.kill_all();
    let killed = Instant::now();
    let _three: Vec<_> = (0..3)
        .map(|_| {
            let left = (lease + Duration::from_secs(20)).saturating_sub(killed.elapsed());
            wait_until(left, || on_b.try_hold("/hoge/hold.cgi"))
        })
        .collect();
    assert_eq!(on_b.status("/hoge/small.txt"), 503);
    drop(held);
    let back = start().start();
    wait_until_full(&back.client("127.0.0.2"));
    drop(_three);
    redis.wait_for_no_keys(support::DEADLINE, "");
    let again: Vec<_> = (0..3)
        .map(|n| {
            [&back, &b][n % 2]
                .client("127.0.0.2")
                .hold("/hoge/hold.cgi")
        })
        .collect();
    wait_until_full(&on_b);
    drop(again);
    redis.wait_for_no_keys(support::DEADLINE, "");
}

/// They are renewed for as long as they are held, and put back where Redis has lost them.
fn places_outlast_their_lease_and_the_loss_of_redis(mpm: Mpm) {
    let redis = Redis::start();
    let rules = "<Location /hoge>\n MaxConnPerIP 2 scope=location shared\n</Location>";
    let start = || server(mpm, &redis, &format!("{PATIENT} lease=3s"), rules).start();
    let (a, b) = (start(), start());
    let held: Vec<_> = (0..2)
        .map(|_| a.client("127.0.0.2").hold("/hoge/hold.cgi"))
        .collect();
    let client = b.client("127.0.0.2");
    // Whoever renews every second may once stand still for three.
    in_time(|| {
        wait_until_full(&client);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(4500) {
            (client.status("/hoge/small.txt") == 503).then_some(())?;
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(())
    });
    redis.ask(&["FLUSHALL"]);
    wait_until_full(&client);
    drop(held);
    redis.wait_for_no_keys(support::DEADLINE, "");
    assert_eq!(client.status("/hoge/small.txt"), 200);
}
