//! Clients that take their responses too slowly are cut in time: files whatever sends them,
//! scripts, proxied and encrypted responses. The site stays open to others meanwhile.

#![cfg(feature = "httpd")]

mod support;

// Each of its users has its own part of it.
#[allow(dead_code)]
#[path = "slow/readers.rs"]
mod readers;
#[path = "slow/source.rs"]
mod source;

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use readers::stopwatch::Stopwatch;
use readers::{Reader, cut_lines, pass, small_pool, wait_for_cuts, wait_to_begin};
use source::Source;
use support::{Client, DEADLINE, Httpd, Mpm, Program, Setup, at_once, curl, on_every_mpm, on_mpms};

on_every_mpm!(
    thirty_slow_readers_do_not_shut_the_site,
    second_of_two_responses_is_measured_alone,
    second_cut_freezes_its_address_and_no_other,
);
on_mpms!(
    [prefork Prefork, event Event]
    readers_over_tls_are_cut,
    freeze_counts_cuts_and_failures_together
);

const RULE: &str = "IPLimitMinRate 500 after=3s window=4s";
const WINDOW: u64 = 4;
const AFTER: Duration = Duration::from_secs(3);
/// What httpd says when it has no more workers to give, or on event hardly any.
const FULL: &str = "MaxRequestWorkers setting";
/// A cut comes after both, and a moment more.
const IN_TIME: Duration = Duration::from_secs(3 + 4 + 2);

fn server(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .expect_log("limitipconn(501): ")
        .expect_log(FULL)
        .conf(small_pool(mpm))
        .big_file("hoge/big.bin", 20 << 20)
}

/// The address of the reader with this number.
fn reader(httpd: &Httpd, n: usize) -> Client {
    httpd
        .client(&format!("127.0.1.{}", n + 1))
        .with_tiny_buffer()
}

/// All that a response can come from, in turns.
const PLACES: [&str; 6] = [
    "/read/big.bin",
    "/mapped/big.bin",
    "/sent/big.bin",
    "/both/big.bin",
    "/hoge/big.cgi",
    "/app/big",
];

fn of_all_kinds(mpm: Mpm) -> Setup {
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nhead -c 20000000 /dev/zero 2>/dev/null\n";
    let setup = server(mpm)
        .load(&["proxy", "proxy_http"])
        .script("hoge/big.cgi", script)
        .conf(&Source::start().conf())
        .conf(
            "ProxyPass /app http://127.0.0.1:${SOURCE}
             <Directory ${DOCROOT}/read>
                 EnableSendfile Off
                 EnableMMAP Off
             </Directory>
             <Directory ${DOCROOT}/mapped>
                 EnableSendfile Off
                 EnableMMAP On
             </Directory>
             <Directory ${DOCROOT}/sent>
                 EnableSendfile On
                 EnableMMAP Off
             </Directory>
             <Directory ${DOCROOT}/both>
                 EnableSendfile On
                 EnableMMAP On
             </Directory>",
        );
    let files = ["read", "mapped", "sent", "both"].map(|dir| format!("{dir}/big.bin"));
    let setup = files
        .iter()
        .fold(setup, |setup, path| setup.big_file(path, 20 << 20));
    // They find their client gone.
    ["AH01225", "AH01110", "AH02651", "AH00574", "AH01102"]
        .iter()
        .fold(setup, |setup, code| setup.expect_log(code))
}

/// Half of them, of each kind, read 200 bytes a second, the others next to nothing.
fn thirty_readers(httpd: &Httpd) -> Vec<Reader> {
    (0..30)
        .map(|n| {
            let path = PLACES[n % PLACES.len()];
            let rate = if (n / PLACES.len()).is_multiple_of(2) {
                200
            } else {
                1
            };
            Reader::start(&reader(httpd, n), path, rate)
        })
        .collect()
}

/// C24: the site stays open, and each reader that is cut has its line.
fn thirty_slow_readers_do_not_shut_the_site(mpm: Mpm) {
    let httpd = of_all_kinds(mpm).conf(RULE).start();
    let start = Instant::now();
    let readers = thirty_readers(&httpd);
    httpd.wait_for_log(FULL);
    // These wait behind the readers.
    let waits = at_once(5, |n| {
        let time = Stopwatch::start();
        let client = httpd.client(&format!("127.0.2.{}", n + 1));
        std::thread::sleep(Duration::from_millis(200 * n as u64));
        assert_eq!(client.status("/hoge/small.txt"), 200);
        time.elapsed()
    });
    assert!(waits.iter().all(|wait| *wait < IN_TIME), "{waits:?}");
    // Some have had to wait for a worker themselves.
    let cuts = wait_for_cuts(&httpd, 30, 2 * IN_TIME);
    for n in 0..30 {
        let address = format!("127.0.1.{}", n + 1);
        let own: Vec<_> = cuts.iter().filter(|cut| cut.client == address).collect();
        assert_eq!(own.len(), 1, "{address}: {cuts:#?}");
        own[0].is_right_for(WINDOW, 500);
        own[0].is_measured_since(start + AFTER);
        assert_eq!(own[0].uri, PLACES[n % PLACES.len()]);
    }
    let gauge = httpd.wait_for(|gauge| gauge.busy() <= 1);
    assert_eq!(gauge.number("cut_too_slow"), 30);
    for reader in readers {
        assert!(reader.goes_on() || !reader.ended().is_whole);
    }
}

/// Without the defence the same readers shut it: what the test above proves is its doing.
#[test]
fn thirty_slow_readers_shut_a_site_without_defence() {
    let httpd = of_all_kinds(Mpm::Prefork).start();
    let readers = thirty_readers(&httpd);
    // The line that it is full comes when there is one left.
    wait_to_begin(&readers, 25);
    let client = httpd.client("127.0.2.1");
    let mut connection = client.connect();
    connection.send(connection.request("GET", "/hoge/small.txt", ""));
    pass(IN_TIME.as_secs());
    let set = connection.stream().set_nonblocking(true);
    set.expect("a nonblocking socket");
    let answer = connection.stream().peek(&mut [0]);
    let is_none = matches!(&answer, Err(error) if error.kind() == ErrorKind::WouldBlock);
    assert!(is_none, "{answer:?}");
    assert!(cut_lines(&httpd).is_empty());
}

fn readers_over_tls_are_cut(mpm: Mpm) {
    let httpd = server(mpm)
        .load(&["ssl"])
        // Of another OpenSSL than it was built with.
        .expect_log("AH01882")
        .expect_log("AH01873")
        .certificate()
        .conf(
            "<VirtualHost *:${PORT}>
                 SSLEngine On
                 SSLCertificateFile ${TMP}/cert.pem
                 SSLCertificateKeyFile ${TMP}/key.pem
                 IPLimitMinRate 500 after=3s window=4s
             </VirtualHost>
             Listen 127.0.0.1:${PORT2}
             <VirtualHost *:${PORT2}>
             </VirtualHost>",
        )
        .start();
    let ask = |address: &str, more: &str, path: &str| {
        let port = httpd.port();
        format!("-k --interface {address} {more} https://127.0.0.1:{port}{path}")
    };
    let start = Instant::now();
    let readers: Vec<_> = (1..=10)
        .map(|n| {
            let address = format!("127.0.1.{n}");
            let arguments = ask(
                &address,
                "-sS -o /dev/null --limit-rate 200",
                "/hoge/big.bin",
            );
            Program::start("curl", &arguments)
        })
        .collect();
    let cuts = wait_for_cuts(&httpd, 10, 2 * IN_TIME);
    for cut in &cuts {
        cut.is_right_for(WINDOW, 500);
        cut.is_measured_since(start + AFTER);
    }
    assert_eq!(curl(&ask("127.0.2.1", "", "/hoge/small.txt")), "200 1.1");
    drop(readers);
}

fn second_of_two_responses_is_measured_alone(mpm: Mpm) {
    let httpd = server(mpm)
        .file("hoge/1mb.bin", vec![b'x'; 1 << 20])
        .conf(RULE)
        .start();
    let start = Instant::now();
    // One after the other, and both asked for at once.
    let after_the_other = httpd.client("127.0.1.1").with_tiny_buffer();
    let mut one = after_the_other.connect();
    assert_eq!(one.get("/hoge/1mb.bin").body.len(), 1 << 20);
    one.send(one.request("GET", "/hoge/big.bin?after", ""));
    let at_once = httpd.client("127.0.1.2").with_tiny_buffer();
    let mut other = at_once.connect();
    let both = other.request("GET", "/hoge/1mb.bin", "");
    let both = both + &other.request("GET", "/hoge/big.bin?at_once", "");
    other.send(both);
    assert_eq!(other.response().body.len(), 1 << 20);
    let readers = [Reader::go_on(one, 200), Reader::go_on(other, 200)];
    let cuts = wait_for_cuts(&httpd, 2, IN_TIME);
    assert!(
        start.elapsed() > Duration::from_secs(3 + 4),
        "{:?}",
        start.elapsed()
    );
    for cut in &cuts {
        cut.is_right_for(WINDOW, 500);
        cut.is_measured_since(start + AFTER);
        assert_eq!(cut.uri, "/hoge/big.bin");
    }
    for reader in readers {
        reader.break_off();
    }
}

fn second_cut_freezes_its_address_and_no_other(mpm: Mpm) {
    let httpd = server(mpm)
        .expect_refusals()
        .conf(RULE)
        .conf(
            "<Location /hoge>
                 MaxHitsPerIP 1/h freeze=10min on=slow
             </Location>",
        )
        .start();
    let client = reader(&httpd, 0);
    let first = Reader::start(&client, "/hoge/big.bin", 1);
    wait_for_cuts(&httpd, 1, DEADLINE);
    assert_eq!(client.status("/hoge/small.txt"), 200, "one cut is free");
    drop(first);
    let second = Reader::start(&client, "/hoge/big.bin", 1);
    wait_for_cuts(&httpd, 2, DEADLINE);
    drop(second);
    httpd.wait_for(|gauge| gauge.busy() <= 1);
    let refused = client.get("/hoge/small.txt");
    assert_eq!(refused.status, 429, "{refused:?}");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((500..=600).contains(&seconds), "{refused:?}");
    assert_eq!(client.status("/fuga/small.txt"), 200);
    assert_eq!(reader(&httpd, 1).status("/hoge/small.txt"), 200);
}

fn freeze_counts_cuts_and_failures_together(mpm: Mpm) {
    let httpd = server(mpm)
        .expect_refusals()
        .load(&["auth_basic", "authn_file", "authz_user"])
        .file("users", "")
        .conf(RULE)
        .conf(
            "<Location /hoge>
                 MaxHitsPerIP 1/h freeze=10min on=401,slow
             </Location>
             <Location /hoge/secret>
                 AuthType Basic
                 AuthName secret
                 AuthUserFile ${DOCROOT}/users
                 Require valid-user
             </Location>",
        )
        .start();
    let (client, other) = (reader(&httpd, 0), reader(&httpd, 1));
    assert_eq!(client.status("/hoge/secret"), 401);
    assert_eq!(other.status("/hoge/secret"), 401);
    let slow = Reader::start(&client, "/hoge/big.bin", 200);
    wait_for_cuts(&httpd, 1, DEADLINE);
    drop(slow);
    httpd.wait_for(|gauge| gauge.busy() <= 1);
    assert_eq!(client.status("/hoge/small.txt"), 429);
    assert_eq!(other.status("/hoge/small.txt"), 200);
}
