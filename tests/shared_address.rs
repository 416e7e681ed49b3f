//! C15: behind a proxy whose forwarding header nobody reads all visitors share one limit. One
//! line an hour says so; none where the header is read or nothing is wrong.

#![cfg(feature = "httpd")]

mod support;

use support::{Httpd, Mpm, Setup, on_every_mpm};

on_every_mpm!(
    proxy_whose_header_nobody_reads_is_told_once,
    header_that_is_read_is_no_news,
    spared_peer_is_no_news,
    mixed_clients_are_no_news,
);

const WARNING: &str = "limitipconn(402): ";

fn limited(mpm: Mpm) -> Setup {
    Httpd::on(mpm).conf("MaxConnPerIP 20 count=requests")
}

/// So many requests of as many visitors, through one proxy.
fn visitors(httpd: &Httpd, number: usize, header: &str) {
    for visitor in 0..number {
        let client = httpd
            .client("127.0.0.1")
            .header(header, &format!("198.51.100.{visitor}"));
        assert_eq!(client.status("/hoge/small.txt"), 200);
    }
}

fn proxy_whose_header_nobody_reads_is_told_once(mpm: Mpm) {
    for (header, advice) in [
        ("X-Forwarded-For", "IPLimitClientHeader X-Forwarded-For"),
        ("X-Real-IP", "IPLimitClientHeader X-Real-IP"),
        ("Forwarded", "RemoteIPHeader"),
    ] {
        let httpd = limited(mpm).expect_log(WARNING).start();
        visitors(&httpd, 50, header);
        let lines = httpd.log_lines(WARNING);
        assert_eq!(lines.len(), 1, "{header}: {lines:?}");
        for text in ["127.0.0.1", advice, "all clients share one limit"] {
            assert!(lines[0].contains(text), "{header}: {lines:?}");
        }
        visitors(&httpd, 150, header);
        httpd.graceful();
        visitors(&httpd, 50, header);
        assert_eq!(httpd.log_lines(WARNING).len(), 1);
    }
}

fn header_that_is_read_is_no_news(mpm: Mpm) {
    for reads in [
        "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1",
        "IPLimitClientHeader X-Forwarded-For trusted=127.0.0.1",
        "IPLimitAddress connection",
    ] {
        let httpd = limited(mpm).load(&["remoteip"]).conf(reads).start();
        visitors(&httpd, 100, "X-Forwarded-For");
    }
}

fn spared_peer_is_no_news(mpm: Mpm) {
    let httpd = limited(mpm).conf("IPLimitExempt 127.0.0.1").start();
    visitors(&httpd, 100, "X-Forwarded-For");
}

fn mixed_clients_are_no_news(mpm: Mpm) {
    let httpd = limited(mpm).start();
    for _ in 0..40 {
        visitors(&httpd, 2, "X-Forwarded-For");
        assert_eq!(httpd.client("127.0.0.2").status("/hoge/small.txt"), 200);
    }
    // Visitors without any such header.
    for _ in 0..100 {
        assert_eq!(httpd.client("127.0.0.1").status("/hoge/small.txt"), 200);
    }
}

/// Without a rule nobody shares a limit.
#[test]
fn server_without_a_rule_is_silent() {
    let httpd = Httpd::on(Mpm::Event)
        .without_status()
        .expect_log("limitipconn(201): ")
        .start();
    visitors(&httpd, 100, "X-Forwarded-For");
}
