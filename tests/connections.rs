//! `count=connections`: how many connections one client may have, whatever they carry. One
//! too many is closed on arrival, before a byte is read or sent.

#![cfg(feature = "httpd")]

mod support;

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::process::Command;

use support::{
    Connection, DEADLINE, Gauge, Httpd, Mpm, Setup, at_once, in_time, on_every_mpm, wait_until,
};

on_every_mpm!(
    idle_keepalives_are_connections_and_no_requests,
    second_connection_is_closed_without_a_byte,
    twenty_of_25_silent_sockets_are_closed_and_others_are_served,
    twenty_of_25_silent_tls_sockets_are_closed_and_others_are_served,
    half_sent_requests_count,
    dry_run_serves_and_tells,
    whatever_a_connection_carries_it_is_one,
    killed_child_gives_the_places_of_its_connections_back,
    graceful_keeps_the_places_of_connections,
    exempt_peers_and_trusted_proxies_are_not_counted,
);

const RULE: &str = "MaxConnPerIP@server";

/// Without the first two Linux hides a connection until its first byte comes. The gauge's
/// reader opens a connection for each reading, while the one before still closes.
const SEEN_AT_ONCE: &str =
    "AcceptFilter http none\nAcceptFilter https none\nIPLimitExempt 127.0.0.99";

fn server(mpm: Mpm) -> Setup {
    Httpd::on(mpm).expect_refusals().conf(SEEN_AT_ONCE)
}

/// Waits until this client has so many connections; the gauge's own are another's.
#[track_caller]
fn wait_for_count(httpd: &Httpd, client: &str, count: u64) {
    httpd.wait_for(|gauge| gauge.count_of(RULE, client) == count);
}

/// How many of these connections the server has closed by now.
fn closed(connections: &mut [Connection]) -> usize {
    let is_closed = |connection: &mut Connection| {
        let stream = connection.stream();
        stream.set_nonblocking(true).expect("not to wait");
        match connection.reader().read(&mut [0]) {
            Ok(0) => true,
            Ok(_) => panic!("a byte came"),
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    };
    connections
        .iter_mut()
        .map(is_closed)
        .filter(|closed| *closed)
        .count()
}

/// C05: a visitor whose browser keeps connections open has nothing in flight.
fn idle_keepalives_are_connections_and_no_requests(mpm: Mpm) {
    let five_idle = |httpd: &Httpd| {
        let client = httpd.client("127.0.0.2");
        let mut idle = [(); 5].map(|()| client.connect());
        for connection in &mut idle {
            assert_eq!(connection.get("/hoge/small.txt").status, 200);
        }
        (client, idle)
    };
    let httpd = server(mpm).conf("MaxConnPerIP 3 count=requests").start();
    let (client, _idle) = five_idle(&httpd);
    httpd.wait_for(|gauge| gauge.total() == 0);
    let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);

    let httpd = server(mpm).conf("MaxConnPerIP 5 count=connections").start();
    let (client, mut idle) = five_idle(&httpd);
    wait_for_count(&httpd, "127.0.0.2", 5);
    client.connect().is_closed_without_a_byte();
    assert_eq!(idle[0].get("/hoge/small.txt").status, 200);
    let [gone, mut rest @ ..] = idle;
    drop(gone);
    wait_for_count(&httpd, "127.0.0.2", 4);
    assert_eq!(client.status("/hoge/small.txt"), 200);
    assert_eq!(rest[0].get("/hoge/small.txt").status, 200);
    drop(rest);
    wait_for_count(&httpd, "127.0.0.2", 0);
}

/// nginx 14; the line of the log ends after the rule.
fn second_connection_is_closed_without_a_byte(mpm: Mpm) {
    let httpd = server(mpm)
        .conf("MaxConnPerIP 1 count=connections\nIPLimitErrorStatus 429")
        .start();
    let client = httpd.client("127.0.0.2");
    let mut first = client.connect();
    wait_for_count(&httpd, "127.0.0.2", 1);
    client.connect().is_closed_without_a_byte();
    let lines = httpd.wait_for_log("limitipconn(101): ");
    let said = "client 127.0.0.2 refused: too many connections from this host: 2/1, \
                rule MaxConnPerIP@server";
    assert!(lines[0].ends_with(said), "{lines:?}");
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
    let gauge = httpd.gauge();
    assert_eq!((gauge.refused(RULE), lines.len()), (1, 1), "{gauge:?}");
    assert_eq!(first.get("/hoge/small.txt").status, 200);
    drop(first);
    wait_for_count(&httpd, "127.0.0.2", 0);
    assert_eq!(client.status("/hoge/small.txt"), 200);
}

fn twenty_workers(mpm: Mpm) -> Setup {
    server(mpm).conf(match mpm {
        Mpm::Prefork => "MaxRequestWorkers 20",
        Mpm::Worker | Mpm::Event => "ThreadsPerChild 10\nMaxRequestWorkers 20",
    })
}

#[track_caller]
fn twenty_of_25_are_closed(httpd: &Httpd, port: u16) {
    let client = httpd.client("127.0.0.2").at_port(port);
    let mut sockets = at_once(25, |_| client.connect());
    wait_until(DEADLINE, || match closed(&mut sockets) {
        20 => Ok(()),
        other => Err(other),
    });
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
    let gauge = httpd.gauge();
    assert_eq!(
        (gauge.refused(RULE), gauge.count_of(RULE, "127.0.0.2")),
        (20, 5),
        "{gauge:?}"
    );
    assert_eq!(closed(&mut sockets), 20);
}

/// C41: silent sockets would hold all twenty workers.
fn twenty_of_25_silent_sockets_are_closed_and_others_are_served(mpm: Mpm) {
    let httpd = twenty_workers(mpm)
        .conf("MaxConnPerIP 5 count=connections")
        .start();
    twenty_of_25_are_closed(&httpd, httpd.port());
}

/// C41, in the handshake.
fn twenty_of_25_silent_tls_sockets_are_closed_and_others_are_served(mpm: Mpm) {
    let httpd = twenty_workers(mpm)
        .load(&["socache_shmcb", "ssl"])
        .certificate()
        .expect_log("[ssl:warn]")
        .conf(
            "MaxConnPerIP 5 count=connections
             Listen 127.0.0.1:${PORT2} https
             <VirtualHost *:${PORT2}>
                 ServerName localhost
                 SSLEngine On
                 SSLCertificateFile ${TMP}/cert.pem
                 SSLCertificateKeyFile ${TMP}/key.pem
             </VirtualHost>",
        )
        .start();
    twenty_of_25_are_closed(&httpd, httpd.port2());
    let url = format!("https://127.0.0.1:{}/hoge/small.txt", httpd.port2());
    let said = Command::new("curl")
        .args(["-sk", "--interface", "127.0.0.3", &url])
        .output()
        .expect("run curl; install curl");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "ok\n", "{said:?}");
    httpd.wait_for(|gauge| gauge.busy() <= 1);
}

fn half_sent_requests_count(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf("MaxConnPerIP 2 count=connections\nIPLimitExempt 127.0.0.99")
        .start();
    let client = httpd.client("127.0.0.2");
    let mut half = [(); 2].map(|()| client.connect());
    for connection in &mut half {
        connection.send("GET /hoge/small.txt HTTP/1.1\r\nHost: local");
    }
    wait_for_count(&httpd, "127.0.0.2", 2);
    let mut third = client.connect();
    let _ = third.try_send(third.request("GET", "/hoge/small.txt", ""));
    let answer = third.reader().read(&mut [0; 9]);
    assert!(matches!(answer, Ok(0) | Err(_)), "{answer:?}");
    let [first, _second] = &mut half;
    first.send("host\r\n\r\n");
    assert_eq!(first.response().status, 200);
}

/// nginx 14: served, and the log says which would have been closed.
fn dry_run_serves_and_tells(mpm: Mpm) {
    let httpd = server(mpm)
        .conf("IPLimitDryRun On\nMaxConnPerIP 1 count=connections")
        .start();
    let client = httpd.client("127.0.0.2");
    let mut both = [client.connect(), client.connect()];
    for connection in &mut both {
        assert_eq!(connection.get("/hoge/small.txt").status, 200);
    }
    let lines = httpd.wait_for_log("limitipconn(101): ");
    let said = "client 127.0.0.2 would be refused (dry run): too many connections from this host: \
                2/1, rule MaxConnPerIP@server";
    assert!(lines.len() == 1 && lines[0].ends_with(said), "{lines:?}");
    let gauge = httpd.gauge();
    let rule = gauge.rows("rules").find(|row| row["rule"] == RULE);
    let rule = rule.expect("the rule in the gauge");
    assert_eq!(
        (&rule["refused_dry_run"], &rule["refused"]),
        (&1.into(), &0.into()),
        "{gauge:?}"
    );
    drop(both);
    wait_for_count(&httpd, "127.0.0.2", 0);
}

/// A proxied request, a tunnel and an HTTP/2 connection: one place each, and none for what the
/// server opens to its backends. mod_http2 does not go with prefork.
fn whatever_a_connection_carries_it_is_one(mpm: Mpm) {
    let backend = TcpListener::bind("127.0.0.1:0").expect("a backend");
    let port = backend.local_addr().expect("its address").port();
    let has_h2 = mpm != Mpm::Prefork;
    let setup = if has_h2 {
        server(mpm)
            .load(&["http2"])
            .conf("Protocols h2c http/1.1\nH2Direct On")
    } else {
        server(mpm)
    };
    let httpd = setup
        .load(&["proxy", "proxy_http", "proxy_connect"])
        .conf("MaxConnPerIP 3 count=connections\nProxyRequests On")
        .conf(&format!(
            "ProxyPass /app http://127.0.0.1:{port}/\nAllowCONNECT {port}"
        ))
        .start();
    let client = httpd.client("127.0.0.2");
    let mut proxied = client.connect();
    proxied.send(proxied.request("GET", "/app/x", ""));
    let (mut behind, _) = backend.accept().expect("the proxy's connection");
    let mut tunnel = client.connect();
    tunnel.send(format!(
        "CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n"
    ));
    let end = backend.accept().expect("the tunnel's connection");
    assert_eq!(tunnel.head().status, 200);
    let mut third = client.connect();
    if has_h2 {
        third.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
        let settings = third.reader().read_exact(&mut [0; 9]);
        settings.expect("the header of the server's first frame");
    }
    wait_for_count(&httpd, "127.0.0.2", 3);
    let gauge = httpd.gauge();
    assert_eq!(gauge.total(), 3, "the server's own count: {gauge:?}");
    client.connect().is_closed_without_a_byte();
    behind
        .write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        .expect("an answer to the proxy");
    assert_eq!(proxied.response().status, 204);
    drop((proxied, tunnel, end, third));
    wait_for_count(&httpd, "127.0.0.2", 0);
}

/// Forty streams of one connection are one connection.
#[test]
fn forty_streams_are_one_connection() {
    let httpd = server(Mpm::Event)
        .load(&["http2"])
        .conf("Protocols h2c http/1.1\nH2Direct On\nMaxConnPerIP 10 count=connections")
        .start();
    let url = format!("http://127.0.0.1:{}/hoge/small.txt", httpd.port());
    let said = Command::new("h2load")
        .args(["-n", "40", "-c", "1", "-m", "40", &url])
        .output()
        .expect("run h2load; install nghttp2-client");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("status codes: 40 2xx"), "{said}");
    wait_for_count(&httpd, "127.0.0.1", 0);
    assert_eq!(httpd.gauge().refused(RULE), 0);
}

fn killed_child_gives_the_places_of_its_connections_back(mpm: Mpm) {
    let httpd = server(mpm)
        .expect_kills()
        .expect_log("limitipconn(305): ")
        .conf("MaxConnPerIP 3 count=connections")
        .start();
    let client = httpd.client("127.0.0.2");
    // Only a parent that is held up does not come to it before it looks again.
    in_time(|| {
        let connections = [(); 3].map(|()| client.connect());
        wait_for_count(&httpd, "127.0.0.2", 3);
        client.connect().is_closed_without_a_byte();
        let serving = |connection: &Connection| httpd.child_serving(connection.local());
        let victims: BTreeSet<_> = connections.iter().map(serving).collect();
        let before = last_look(&httpd.gauge());
        let look = last_look(&httpd.wait_for(|gauge| last_look(gauge) != before));
        for child in &victims {
            child.signal(libc::SIGKILL);
        }
        for child in &victims {
            assert!(child.is_gone_within(DEADLINE));
        }
        let gauge = httpd.wait_for(|gauge| gauge.count_of(RULE, "127.0.0.2") == 0);
        (last_look(&gauge) == look).then_some(())
    });
    let _next = [(); 3].map(|()| client.connect());
    wait_for_count(&httpd, "127.0.0.2", 3);
    client.connect().is_closed_without_a_byte();
    assert_eq!(httpd.gauge().number("audit_mismatches"), 0);
}

/// When the parent looked last, which it does every ten seconds; it finds the dead then, too.
fn last_look(gauge: &Gauge) -> Option<u64> {
    let looks = gauge.rows("history");
    looks
        .filter_map(|look| look["unix_milliseconds"].as_u64())
        .max()
}

fn graceful_keeps_the_places_of_connections(mpm: Mpm) {
    let httpd = server(mpm).conf("MaxConnPerIP 2 count=connections").start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    wait_for_count(&httpd, "127.0.0.2", 1);
    httpd.graceful();
    let mut idle = client.connect();
    wait_for_count(&httpd, "127.0.0.2", 2);
    client.connect().is_closed_without_a_byte();
    assert_eq!(held.finish().text(), "ended\n");
    wait_for_count(&httpd, "127.0.0.2", 1);
    assert_eq!(client.status("/hoge/small.txt"), 200);
    assert_eq!(idle.get("/hoge/small.txt").status, 200);
}

/// Proxies carry other people's requests.
fn exempt_peers_and_trusted_proxies_are_not_counted(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "AcceptFilter http none
             MaxConnPerIP 1 count=connections
             MaxConnPerIP 50 count=connections for=127.0.0.99
             MaxConnPerIP 9 count=requests
             IPLimitExempt 127.0.0.9
             IPLimitExempt 127.0.0.7 method=GET
             IPLimitClientHeader X-Forwarded-For trusted=127.0.0.8",
        )
        .start();
    for spared in ["127.0.0.9", "127.0.0.8"] {
        let client = httpd
            .client(spared)
            .header("X-Forwarded-For", "198.51.100.1");
        let mut all = [(); 4].map(|()| client.connect());
        for connection in &mut all {
            assert_eq!(connection.get("/hoge/small.txt").status, 200);
        }
        let gauge = httpd.wait_for(|gauge| gauge.total() == 0);
        // Requests that were spared, not connections; those of a proxy are its clients'.
        assert_eq!(gauge.number("exempt"), 4, "{spared}: {gauge:?}");
    }
    // What holds for some requests only spares no connection.
    for counted in ["127.0.0.2", "127.0.0.7"] {
        let client = httpd.client(counted);
        let _first = client.connect();
        wait_for_count(&httpd, counted, 1);
        client.connect().is_closed_without_a_byte();
    }
}
