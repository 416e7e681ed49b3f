//! Two thousand requests that their clients break off, around the limit: no child crashes, and
//! no place is lost.

mod support;

use std::io::Read;

use support::{Client, H2, Httpd, Mpm, Setup, Stream, at_once};

const THREADS: usize = 4;
const RULE: &str = "MaxConnPerIP@/hoge";

/// Four at a time for each client, of a file that no kernel buffers.
fn around_the_limit(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .expect_refusals()
        .big_file("hoge/big.bin", 20 << 20)
        .conf("<Location /hoge>\n MaxConnPerIP 4 count=requests scope=location\n</Location>")
}

/// Nothing is left, every place can be taken again, and some requests met the limit.
fn nothing_is_left(httpd: &Httpd) {
    let gauge = httpd.wait_for_quiet();
    assert_eq!(
        (gauge.number("audit_mismatches"), gauge.number("untracked")),
        (0, 0),
        "{gauge:?}"
    );
    assert!(
        gauge.refused(RULE) > 0 && gauge.passed(RULE) > 0,
        "{gauge:?}"
    );
    let client = httpd.client("127.0.0.2");
    let _held = [(); 4].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert!(httpd.log_lines("exit signal").is_empty());
}

/// A request of HTTP/1 that ends with RST: unanswered, after its head, or within its body.
fn reset_request(client: &Client, n: usize) {
    let mut connection = client.connect();
    connection.send(connection.request("GET", "/hoge/big.bin", ""));
    if !n.is_multiple_of(3) {
        assert!(matches!(connection.head().status, 200 | 503));
    }
    if n % 3 == 2 {
        let _ = connection.reader().read(&mut [0; 4096]);
    }
    connection.reset();
}

/// Two thousand connections that end with RST, while others hold three of the four places.
fn reset_connections(mpm: Mpm) {
    let httpd = around_the_limit(mpm).conf("StartServers 16").start();
    let client = httpd.client("127.0.0.2");
    let held = [(); 3].map(|()| client.read_slowly("/hoge/big.bin"));
    at_once(THREADS * 2, |_| {
        (0..250).for_each(|n| reset_request(&client, n));
    });
    drop(held);
    nothing_is_left(&httpd);
}

/// Nine streams: every other one is cancelled, answered or not; the rest end with the
/// connection, by FIN or RST.
fn cancelled_streams(h2: H2, round: usize) {
    let mut streams = h2.open_many(9, "/hoge/big.bin");
    if !round.is_multiple_of(3) {
        let answered = streams
            .iter_mut()
            .take(4)
            .map(|stream| stream.try_head().map(|head| head.status));
        for status in answered {
            assert!(matches!(status, Ok(200 | 503)), "{status:?}");
        }
    }
    let (cancelled, kept): (Vec<_>, Vec<_>) = streams
        .into_iter()
        .enumerate()
        .partition(|(n, _)| n % 2 == 0);
    cancelled
        .into_iter()
        .map(|(_, stream)| stream)
        .for_each(Stream::cancel);
    if round.is_multiple_of(2) {
        let _ = h2.try_ping();
    }
    if round % 4 > 1 {
        h2.reset()
    } else {
        drop(h2)
    }
    drop(kept);
}

/// Two thousand requests, nine of ten over HTTP/2.
fn cancelled_streams_and_reset_connections(mpm: Mpm) {
    let httpd = around_the_limit(mpm).over_h2c().start();
    let client = httpd.client("127.0.0.2");
    at_once(THREADS, |_| {
        for round in 0..50 {
            cancelled_streams(client.h2(), round);
            reset_request(&client, round);
        }
    });
    nothing_is_left(&httpd);
}

#[test]
fn two_thousand_reset_connections_on_prefork() {
    reset_connections(Mpm::Prefork);
}

#[test]
fn two_thousand_cancelled_requests_on_worker() {
    cancelled_streams_and_reset_connections(Mpm::Worker);
}

#[test]
fn two_thousand_cancelled_requests_on_event() {
    cancelled_streams_and_reset_connections(Mpm::Event);
}
