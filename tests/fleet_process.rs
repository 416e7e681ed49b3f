//! What a server that shares has and does: one connection for each child that needs one, nothing
//! in the parent; TLS and sockets of the machine; and how it shows.

#![cfg(feature = "redis")]

mod support;

use std::net::TcpListener;

use support::{Httpd, Mpm, Redis, Setup, on_every_mpm, wait_until};

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
    let httpd = server(mpm, &redis.url()).start();
    let client = httpd.client("127.0.0.2");
    for _ in 0..20 {
        assert_eq!(client.status("/fuga/small.txt"), 200);
    }
    assert_eq!(connections(&redis), 0, "no shared rule was asked");
    for _ in 0..20 {
        assert_eq!(client.status("/hoge/small.txt"), 200);
    }
    let (number, children) = (connections(&redis), httpd.children().len() as i64);
    assert!(
        (1..=children).contains(&number),
        "{number} of {children} children"
    );
    for _ in 0..3 {
        httpd.graceful();
        assert_eq!(client.status("/hoge/small.txt"), 200);
    }
    assert_eq!(httpd.parent().threads(), 1);
    let files = httpd.parent().open_files();
    let sockets = files.iter().filter(|file| *file == "socket");
    // The one that it listens at.
    assert_eq!(sockets.count(), 1, "{files:?}");
    wait_until(support::DEADLINE, || {
        let (number, children) = (connections(&redis), httpd.children().len() as i64);
        if number <= children {
            Ok(())
        } else {
            Err((number, children))
        }
    });
}

/// By a restart that waits for nobody; prefork's children end by that at once.
#[test]
fn child_that_ends_gives_its_places_back_at_once() {
    let mpm = Mpm::Prefork;
    let redis = Redis::start();
    let [a, b] = [0, 1].map(|_| {
        server(mpm, &redis.url())
            .expect_log("AH")
            .big_file("hoge/big.bin", 20 << 20)
            .start()
    });
    let client = a.client("127.0.0.2");
    let _held = [(); 2].map(|()| client.read_slowly("/hoge/big.bin"));
    let client = b.client("127.0.0.2");
    assert_eq!(client.status("/hoge/small.txt"), 503);
    a.hard_restart();
    // Long before the lease is over.
    wait_until(support::DEADLINE, || {
        match client.status("/hoge/small.txt") {
            200 => Ok(()),
            other => Err(other),
        }
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
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    let keys = Httpd::on(Mpm::Event).certificate();
    let [cert, key] =
        ["cert.pem", "key.pem"].map(|name| keys.dir().join(name).display().to_string());
    drop(free);
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
    assert_eq!(wary.gauge()["shared"]["failure"], "tls");
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
    let tells = |state: bool, heartbeat: &str, auto: &str, html: &str| {
        wait_until(support::DEADLINE, || {
            assert_eq!(client.status("/hoge/small.txt"), 200);
            let gauge = httpd.gauge();
            if gauge["shared"]["degraded"] == state {
                Ok(())
            } else {
                Err(gauge)
            }
        });
        // The parent looks about every ten seconds.
        httpd.wait_for_lines(6 * support::DEADLINE, heartbeat, 1);
        let [lines, page] =
            ["?auto", ""].map(|query| client.get(&format!("/server-status{query}")).text());
        assert!(lines.contains(auto), "{lines}");
        assert!(page.contains(html), "{page}");
    };
    tells(
        false,
        "in use, shared counts are within reach",
        "\nIPLimitSharedDegraded: 0\n",
        "<dt>Shared counts degraded: 0</dt>",
    );
    redis.kill();
    tells(
        true,
        "(unreachable): shared rules limit by this server's own counts",
        "\nIPLimitSharedDegraded: 1\n",
        "<dt>Shared counts degraded: 1</dt>",
    );
    assert_eq!(httpd.gauge()["shared"]["failure"], "unreachable");
    // A start without shared rules has nothing of it.
    let plain = Httpd::on(Mpm::Event)
        .conf(&RULES.replace(" shared", ""))
        .start();
    assert!(plain.gauge()["shared"].is_null());
}
