//! Who a client is: the one that mod_remoteip or a header of a trusted proxy tells, the peer
//! where nobody is trusted, and a network where addresses are cheap.

#![cfg(feature = "httpd")]

mod support;

use support::{Client, DEADLINE, Httpd, Mpm, Setup, on_every_mpm, wait_until};

on_every_mpm!(
    key_is_what_mod_remoteip_tells_whatever_is_loaded_first,
    hops_left_of_the_client_do_not_matter,
    forwarding_headers_of_strangers_change_nothing,
    keepalive_of_a_proxy_carries_one_client_after_the_other,
    workers_count_for_the_told_client,
    nonsense_counts_for_the_peer_with_one_warning_an_hour,
);

const READ_BY_US: &str = "IPLimitClientHeader X-Forwarded-For trusted=127.0.0.1,10.0.0.0/8";

const READ_BY_REMOTEIP: &str =
    "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1 10.0.0.0/8";

/// A client behind the proxy 127.0.0.1, which sends this header.
fn told(httpd: &Httpd, forwarded_for: &str) -> Client {
    httpd
        .client("127.0.0.1")
        .header("X-Forwarded-For", forwarded_for)
}

/// `one` has its two places and no third; `other` has places of its own.
#[track_caller]
fn are_limited_apart(httpd: &Httpd, one: &Client, other: &Client, name: &str) {
    let before = httpd.log_lines("limitipconn(101): ").len();
    let held = [(); 2].map(|()| one.hold("/hoge/hold.cgi"));
    assert_eq!(one.status("/hoge/small.txt"), 503);
    assert_eq!(other.status("/hoge/small.txt"), 200);
    let lines = httpd.log_lines("limitipconn(101): ");
    assert_eq!(lines.len(), before + 1, "{lines:?}");
    let line = &lines[before];
    assert!(line.contains(&format!("client {name} refused: ")), "{line}");
    drop(held);
    httpd.wait_for_quiet();
}

/// C13: server, virtual host and location rules; LoadModule lines in either order.
fn key_is_what_mod_remoteip_tells_whatever_is_loaded_first(mpm: Mpm) {
    let rules = "MaxConnPerIP 2 count=requests
         <VirtualHost *:${PORT}>
             ServerName a.example
         </VirtualHost>
         <VirtualHost *:${PORT}>
             ServerName vhost.example
             MaxConnPerIP 1 count=requests scope=vhost
         </VirtualHost>
         <Location /fuga>
             MaxConnPerIP 1 scope=location
         </Location>";
    for after in [false, true] {
        let setup = Httpd::on(mpm).expect_refusals();
        let setup = if after {
            setup.load_after(&["remoteip"])
        } else {
            setup.load(&["remoteip"])
        };
        let httpd = setup.conf(READ_BY_REMOTEIP).conf(rules).start();
        let (one, other) = (told(&httpd, "198.51.100.1"), told(&httpd, "198.51.100.2"));
        are_limited_apart(&httpd, &one, &other, "198.51.100.1");
        let _in_place = one.hold("/fuga/hold.cgi");
        assert_eq!(one.status("/fuga/small.txt"), 503);
        assert_eq!(other.status("/fuga/small.txt"), 200);
        assert_eq!(
            one.clone()
                .header("Host", "vhost.example")
                .status("/hoge/small.txt"),
            200
        );
        let _on_vhost = one
            .clone()
            .header("Host", "vhost.example")
            .hold("/hoge/hold.cgi");
        for (client, status) in [(&one, 503), (&other, 200)] {
            let client = client.clone().header("Host", "vhost.example");
            assert_eq!(client.status("/hoge/small.txt"), status);
        }
        let lines = httpd.log_lines("limitipconn(101): ");
        assert!(
            lines
                .iter()
                .all(|line| line.contains("client 198.51.100.1 refused: ")),
            "{lines:?}"
        );
    }
}

/// C14: read by mod_remoteip or by ourselves, the client is the first hop from the right that
/// no trusted proxy is; a private address alone is a client too.
fn hops_left_of_the_client_do_not_matter(mpm: Mpm) {
    let ours = Httpd::on(mpm).conf(READ_BY_US);
    let remoteip = Httpd::on(mpm).load(&["remoteip"]).conf(READ_BY_REMOTEIP);
    for setup in [ours, remoteip] {
        let httpd = setup
            .expect_refusals()
            .conf("MaxConnPerIP 2 count=requests")
            .start();
        let real = told(&httpd, "9.9.9.9, 198.51.100.7");
        let again = told(&httpd, "8.8.8.8, 198.51.100.7, 10.0.0.5");
        let held = [real.hold("/hoge/hold.cgi"), again.hold("/hoge/hold.cgi")];
        for spoofed in ["198.51.100.7", "1.1.1.1, 198.51.100.7", "x, 198.51.100.7"] {
            let client = told(&httpd, spoofed);
            assert_eq!(client.status("/hoge/small.txt"), 503, "{spoofed}");
        }
        let private = told(&httpd, "10.1.2.3");
        assert_eq!(private.get("/hoge/small.txt").text(), "ok\n");
        let _private = [(); 2].map(|()| private.hold("/hoge/hold.cgi"));
        let gauge = httpd.gauge();
        assert_eq!(
            gauge.count_of("requests@server (server level)", "10.1.2.3"),
            2
        );
        drop(held);
        httpd.wait_for(|gauge| gauge.total() == 2);
        assert_eq!(private.status("/hoge/small.txt"), 503);
        assert_eq!(told(&httpd, "198.51.100.7").status("/hoge/small.txt"), 200);
    }
}

/// Neither key nor exemption nor log.
fn forwarding_headers_of_strangers_change_nothing(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "MaxConnPerIP 2 count=requests
             IPLimitExempt 198.51.100.9
             IPLimitClientHeader X-Forwarded-For trusted=127.0.0.1",
        )
        .start();
    let says = |forwarded_for: &str| {
        httpd
            .client("127.0.0.5")
            .header("X-Forwarded-For", forwarded_for)
    };
    let _held = ["198.51.100.1", "198.51.100.2"].map(|other| says(other).hold("/hoge/hold.cgi"));
    for spoofed in ["198.51.100.3", "198.51.100.9", "127.0.0.1", "127.0.0.6"] {
        assert_eq!(says(spoofed).status("/hoge/small.txt"), 503, "{spoofed}");
    }
    let lines = httpd.log_lines("limitipconn(101): ");
    let of_the_peer = |line: &String| {
        line.contains("[client 127.0.0.5:") && line.contains("client 127.0.0.5 refused: ")
    };
    assert!(lines.iter().all(of_the_peer), "{lines:?}");
    let gauge = httpd.gauge();
    assert_eq!((gauge.total(), gauge.number("exempt")), (2, 0), "{gauge:?}");
    assert_eq!(
        told(&httpd, "198.51.100.9").status("/hoge/small.txt"),
        200,
        "the proxy's word is taken"
    );
    assert_eq!(httpd.gauge().number("exempt"), 1);
}

/// Each request has its own client, whoever came before on the connection.
fn keepalive_of_a_proxy_carries_one_client_after_the_other(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(READ_BY_US)
        .conf("MaxConnPerIP 1 count=requests")
        .start();
    let one = told(&httpd, "198.51.100.1");
    let _held = one.hold("/hoge/hold.cgi");
    for next in ["198.51.100.1", "198.51.100.2"] {
        let mut connection = httpd.client("127.0.0.1").connect();
        for client in ["198.51.100.2", "127.0.0.1", "198.51.100.3", next] {
            let header = format!("X-Forwarded-For: {client}\r\n");
            connection.send(connection.request("GET", "/hoge/small.txt", &header));
            // httpd closes after a 503.
            let status = if client == "198.51.100.1" { 503 } else { 200 };
            assert_eq!(connection.response().status, status, "{client}");
        }
    }
}

/// The classic count sees the told client in the scoreboard, while its request lasts.
fn workers_count_for_the_told_client(mpm: Mpm) {
    let ours = Httpd::on(mpm).conf(READ_BY_US);
    let remoteip = Httpd::on(mpm).load(&["remoteip"]).conf(READ_BY_REMOTEIP);
    for setup in [ours, remoteip] {
        let httpd = setup.expect_refusals().conf("MaxConnPerIP 2").start();
        let (one, other) = (told(&httpd, "198.51.100.1"), told(&httpd, "198.51.100.2"));
        are_limited_apart(&httpd, &one, &other, "198.51.100.1");
        // Idle between requests, the proxy's own connections are no longer this client's.
        let request = "X-Forwarded-For: 198.51.100.1\r\n";
        let _idle = [(); 4].map(|()| {
            wait_until(DEADLINE, || {
                let mut connection = httpd.client("127.0.0.1").connect();
                connection.send(connection.request("GET", "/hoge/small.txt", request));
                match connection.response().status {
                    200 => Ok(connection),
                    other => Err(other),
                }
            })
        });
    }
}

/// Served, counted for the proxy, and told once, however many children meet it.
fn nonsense_counts_for_the_peer_with_one_warning_an_hour(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_log("limitipconn(401): ")
        .conf(READ_BY_US)
        .conf("MaxConnPerIP 2 count=requests")
        .start();
    let long = "x".repeat(8000);
    let comma = ",".repeat(8000);
    let hops = vec!["unknown"; 100].join(", ");
    for nonsense in [
        "unknown",
        "_hidden",
        "198.51.100.1, 300.1.1.1",
        "198.51.100.1:x:y",
        "[2001:db8::1",
        "\"198.51.100.1",
        "198.51.100.1/32",
        "\u{e9}",
        &long,
        &hops,
    ] {
        let client = told(&httpd, nonsense);
        let held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
        let count = httpd
            .gauge()
            .count_of("requests@server (server level)", "127.0.0.1");
        assert_eq!(count, 2, "{nonsense}");
        assert_eq!(client.status("/hoge/small.txt"), 503, "{nonsense}");
        drop(held);
        httpd.wait_for(|gauge| gauge.total() == 0);
    }
    // Nothing at all is no nonsense.
    for nothing in ["", " ", &comma] {
        assert_eq!(told(&httpd, nothing).status("/hoge/small.txt"), 200);
    }
    // A hundred trusted hops, and the client before them.
    let deep = format!("198.51.100.1{}", ", 10.0.0.1".repeat(100));
    let _one = [(); 2].map(|()| told(&httpd, &deep).hold("/hoge/hold.cgi"));
    assert_eq!(told(&httpd, "198.51.100.1").status("/hoge/small.txt"), 503);
    assert_eq!(told(&httpd, "unknown").status("/hoge/small.txt"), 200);
    let lines = httpd.log_lines("limitipconn(401): ");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("X-Forwarded-For from the trusted 127.0.0.1 has \"unknown\""),
        "{lines:?}"
    );
}

fn read_by_us(rule: &str) -> Setup {
    Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(READ_BY_US)
        .conf(rule)
}

/// nginx 15: several header lines are one list.
#[test]
fn several_header_lines_join() {
    let httpd = read_by_us("MaxConnPerIP 1 count=requests").start();
    let _held = told(&httpd, "198.51.100.7").hold("/hoge/hold.cgi");
    let lines = |all: &[&str]| {
        let client = httpd.client("127.0.0.1");
        all.iter().fold(client, |client, line| {
            client.header("x-forwarded-FOR", line)
        })
    };
    for same in [
        &["9.9.9.9", "198.51.100.7"][..],
        &["198.51.100.7", "10.0.0.5"],
        &["198.51.100.7, 10.0.0.4", "10.0.0.5"],
        &["198.51.100.7", ""],
    ] {
        assert_eq!(lines(same).status("/hoge/small.txt"), 503, "{same:?}");
    }
    assert_eq!(
        lines(&["198.51.100.7", "9.9.9.9"]).status("/hoge/small.txt"),
        200
    );
}

/// nginx 15: what is answered early, and the page of an error, is the client's, not the proxy's.
#[test]
fn early_answers_are_the_clients() {
    let rules = "MaxConnPerIP 1 count=requests
         Redirect /moved /hoge/small.txt
         ErrorDocument 400 /hoge/hello.cgi
         ErrorDocument 404 /hoge/hello.cgi";
    let remoteip = Httpd::on(Mpm::Event)
        .load(&["remoteip"])
        .expect_refusals()
        .conf(READ_BY_REMOTEIP)
        .conf(rules);
    for setup in [read_by_us(rules), remoteip] {
        let httpd = setup.start();
        let _proxy = httpd.client("127.0.0.1").hold("/hoge/hold.cgi");
        let (one, other) = (told(&httpd, "198.51.100.1"), told(&httpd, "198.51.100.2"));
        let _held = one.hold("/hoge/hold.cgi");
        for (path, status) in [("/moved", 302), ("/nothing", 404), ("/hoge/small.txt", 200)] {
            assert_eq!(other.status(path), status, "{path}");
            assert_eq!(one.status(path), 503, "{path}");
        }
        // No Host: a request that is answered before any hook has seen it.
        let bad = |client: &str| {
            let mut connection = httpd.client("127.0.0.1").connect();
            connection.send(format!(
                "GET / HTTP/1.1\r\nX-Forwarded-For: {client}\r\nConnection: close\r\n\r\n"
            ));
            let answer = connection.response();
            (answer.status, answer.text().contains("hello\n"))
        };
        assert_eq!(bad("198.51.100.2"), (400, true));
        assert_eq!(bad("198.51.100.1"), (400, false));
        let lines = httpd.log_lines("limitipconn(101): ");
        assert!(
            lines
                .iter()
                .all(|line| line.contains("client 198.51.100.1 refused")),
            "{lines:?}"
        );
    }
}
