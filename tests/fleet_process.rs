//! What a server that shares has and does: one connection for each child that needs one, nothing
//! in the parent; TLS and sockets of the machine; and how it shows.

#![cfg(feature = "redis")]

mod support;

use std::time::{Duration, Instant};

use support::{Httpd, Mpm, Redis, Setup, in_time, on_every_mpm, port_of_our_own, wait_until};

on_every_mpm!(connections_are_of_children_and_come_when_they_are_needed);

const RULES: &str = "<Location /hoge>\n MaxConnPerIP 2 scope=location shared\n</Location>";

fn server(mpm: Mpm, url: &str) -> Setup {
    Httpd::on(mpm)
        .expect_refusals()
        .conf(&format!("IPLimitRedis {url} timeout=5s connect=5s"))
        .conf(RULES)
}

/// Our own question is a connection, too.
fn connections(redis: &Redis) -> i64 {
    redis.info("connected_clients") - 1
}

fn connections_are_of_children_and_come_when_they_are_needed(mpm: Mpm) {
    let redis = Redis::start();
    // With room for what has ended and was not given back yet, by each of the children.
    let httpd = Httpd::on(mpm)
        .conf(&format!(
            "IPLimitRedis {} timeout=5s connect=5s",
            redis.url()
        ))
        .conf(&RULES.replace(" 2 ", " 100 "))
        .start();
    // A question before may not have ended for Redis.
    let wait_for_connections = |are_right: &dyn Fn(i64, i64) -> bool| {
        wait_until(support::DEADLINE, || {
            let (number, children) = (connections(&redis), httpd.children().len() as i64);
            if are_right(number, children) {
                Ok(())
            } else {
                Err(format!("{number} of {children} children"))
            }
        });
    };
    let client = httpd.client("127.0.0.2");
    for _ in 0..20 {
        assert_eq!(client.status("/fuga/small.txt"), 200);
    }
    wait_for_connections(&|number, _| number == 0); // No shared rule was asked.
    for _ in 0..20 {
        assert_eq!(client.status("/hoge/small.txt"), 200);
    }
    wait_for_connections(&|number, children| (1..=children).contains(&number));
    for _ in 0..3 {
        httpd.graceful();
        assert_eq!(client.status("/hoge/small.txt"), 200);
    }
    assert_eq!(httpd.parent().threads(), 1);
    let files = httpd.parent().open_files();
    let sockets = files.iter().filter(|file| *file == "socket");
    // The one that it listens at.
    assert_eq!(sockets.count(), 1, "{files:?}");
    wait_for_connections(&|number, children| number <= children);
}

/// By a restart that waits for nobody; prefork's children end by that at once. They wait for a
/// quarter of a second at most until it is done: where the machine has no time for it in that
/// one, another one has.
#[test]
fn child_that_ends_gives_its_places_back_at_once() {
    let mpm = Mpm::Prefork;
    let redis = Redis::start();
    // Nothing is free because its lease is over.
    let url = format!("{} lease=1h", redis.url());
    let [a, b] = [0, 1].map(|_| {
        server(mpm, &url)
            .expect_log("AH")
            .big_file("hoge/big.bin", 20 << 20)
            .start()
    });
    let on_b = b.client("127.0.0.2");
    in_time(|| {
        let client = a.client("127.0.0.2");
        let _held = [(); 2].map(|()| client.read_slowly("/hoge/big.bin"));
        assert_eq!(on_b.status("/hoge/small.txt"), 503);
        a.hard_restart();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            if on_b.status("/hoge/small.txt") == 200 {
                return Some(());
            }
        }
        redis.ask(&["FLUSHALL"]);
        None
    });
}

#[test]
fn socket_of_this_machine_is_as_good() {
    let redis = Redis::start();
    let socket = redis.socket();
    let [a, b] =
        [format!("unix://{socket}"), redis.url()].map(|url| server(Mpm::Event, &url).start());
    let client = a.client("127.0.0.2");
    let _held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(b.client("127.0.0.2").status("/hoge/small.txt"), 503);
}

/// The authority is the system's, or that of SSL_CERT_FILE; whoever it has not signed is refused.
#[test]
fn tls_is_spoken_and_the_certificate_looked_at() {
    let (_keeps_port, port) = port_of_our_own();
    let keys = Httpd::on(Mpm::Event).certificate();
    let [cert, key] =
        ["cert.pem", "key.pem"].map(|name| keys.dir().join(name).display().to_string());
    let redis = Redis::with(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &cert,
        "--tls-auth-clients",
        "no",
    ]);
    let url = format!("rediss://localhost:{port}");
    let plain = server(Mpm::Event, &redis.url()).start();
    let trusting = server(Mpm::Event, &url).env("SSL_CERT_FILE", &cert).start();
    let client = plain.client("127.0.0.2");
    let _held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(trusting.client("127.0.0.2").status("/hoge/small.txt"), 503);
    assert_eq!(trusting.gauge()["shared"]["degraded"], false);
    let wary = server(Mpm::Event, &url)
        .expect_log("limitipconn(601): ")
        .start();
    assert_eq!(wary.client("127.0.0.2").status("/hoge/small.txt"), 200);
    let lines = wary.wait_for_log("limitipconn(601): ");
    assert!(lines[0].contains("does not agree on TLS"), "{}", lines[0]);
    wary.wait_for(|gauge| gauge["shared"]["failure"] == "tls");
}

#[test]
fn state_shows_in_every_place_that_tells_states() {
    let mut redis = Redis::start();
    let httpd = server(Mpm::Event, &redis.url())
        .load(&["status"])
        .expect_log("limitipconn(504): ")
        .expect_log("limitipconn(601): ")
        .expect_log("limitipconn(602): ")
        .conf("IPLimitHeartbeat 1s\n<Location /server-status>\n SetHandler server-status\n</Location>")
        .start();
    let client = httpd.client("127.0.0.2");
    // Each is looked at until it tells: they are not of one moment.
    let tells = |failure: Option<&str>, heartbeat: &str, auto: &str, html: &str| {
        wait_until(support::DEADLINE, || {
            assert_eq!(client.status("/hoge/small.txt"), 200);
            let gauge = httpd.gauge();
            let shared = &gauge["shared"];
            let is_told = failure.is_none_or(|failure| shared["failure"] == failure);
            if shared["degraded"] == failure.is_some() && is_told {
                Ok(())
            } else {
                Err(gauge)
            }
        });
        // The parent looks about every ten seconds.
        httpd.wait_for_log(heartbeat);
        for (query, told) in [("?auto", auto), ("", html)] {
            wait_until(support::DEADLINE, || {
                let page = client.get(&format!("/server-status{query}")).text();
                if page.contains(told) {
                    Ok(())
                } else {
                    Err(page)
                }
            });
        }
    };
    tells(
        None,
        "in use, shared counts are within reach",
        "\nIPLimitSharedDegraded: 0\n",
        "<dt>Shared counts degraded: 0</dt>",
    );
    redis.kill();
    tells(
        Some("unreachable"),
        "(unreachable): shared rules limit by this server's own counts",
        "\nIPLimitSharedDegraded: 1\n",
        "<dt>Shared counts degraded: 1</dt>",
    );
    // A start without shared rules has nothing of it.
    let plain = Httpd::on(Mpm::Event)
        .conf(&RULES.replace(" shared", ""))
        .start();
    assert!(plain.gauge()["shared"].is_null());
}
