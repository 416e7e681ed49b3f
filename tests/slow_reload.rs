//! Slow readers and restarts: children that end gracefully are rid of them in time. And what
//! `httpd -t` says of the directives about slow clients and the pool.

#![cfg(feature = "httpd")]

mod support;

// Each of its users has its own part of it.
#[allow(dead_code)]
#[path = "slow/readers.rs"]
mod readers;

use std::time::{Duration, Instant};

use readers::{Reader, cut_lines, pass, small_pool, wait_for_cuts, wait_to_begin};
use support::{DEADLINE, Httpd, Mpm, Setup, all_are_errors, on_every_mpm, on_mpms, wait_until};

on_every_mpm!(no_worker_that_finishes_gracefully_is_left);
on_mpms!(
    [worker Worker, event Event]
    without_defence_they_stay,
    reload_takes_the_defence_away_and_brings_it
);

/// after=, window= and a moment more.
const IN_TIME: Duration = Duration::from_secs(3 + 4 + 2);

fn server(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .load(&["status"])
        .expect_log("limitipconn(501): ")
        .conf(small_pool(mpm))
        .conf(
            "<Location /server-status>
                 SetHandler server-status
                 Require all granted
             </Location>",
        )
        .big_file("hoge/big.bin", 20 << 20)
}

/// Workers in the scoreboard that finish gracefully; the page's own line is of dots and letters.
#[track_caller]
fn finishing(httpd: &Httpd) -> usize {
    let page = httpd.client("127.0.3.1").get("/server-status?auto").text();
    let scoreboard = page
        .lines()
        .find_map(|line| line.strip_prefix("Scoreboard: "));
    let scoreboard = scoreboard.unwrap_or_else(|| panic!("no scoreboard: {page}"));
    scoreboard.matches('G').count()
}

/// How many of five the scoreboard shows: mpm_worker leaves them as those that write.
fn shown(mpm: Mpm) -> usize {
    if mpm == Mpm::Worker { 0 } else { 5 }
}

fn five_slow_readers(httpd: &Httpd) -> Vec<Reader> {
    let readers = (1..=5).map(|n| {
        let client = httpd.client(&format!("127.0.1.{n}")).with_tiny_buffer();
        Reader::start(&client, "/hoge/big.bin", 200)
    });
    let readers: Vec<_> = readers.collect();
    // The gauge may count a worker of its own twice: what matters is that these have theirs.
    wait_to_begin(&readers, 5);
    readers
}

/// C12: slow readers do not keep old generations alive.
fn no_worker_that_finishes_gracefully_is_left(mpm: Mpm) {
    let httpd = server(mpm)
        .conf("IPLimitMinRate 500 after=3s window=4s")
        .start();
    let start = Instant::now();
    let readers = five_slow_readers(&httpd);
    let old = httpd.children();
    httpd.graceful();
    // A reload that takes long may come to its end after they are cut.
    wait_until(DEADLINE, || match finishing(&httpd) {
        some if some >= shown(mpm) || !cut_lines(&httpd).is_empty() => Ok(()),
        some => Err(some),
    });
    let cuts = wait_for_cuts(&httpd, 5, IN_TIME);
    for cut in &cuts {
        cut.is_right_for(4, 500);
        cut.is_measured_since(start + Duration::from_secs(3));
    }
    wait_until(DEADLINE, || match finishing(&httpd) {
        0 => Ok(()),
        some => Err(some),
    });
    for child in old {
        assert!(child.is_gone_within(DEADLINE), "{child:?}");
    }
    for reader in readers {
        reader.break_off();
    }
    assert_eq!(httpd.gauge().number("cut_too_slow"), 5);
}

fn without_defence_they_stay(mpm: Mpm) {
    let httpd = server(mpm).start();
    let readers = five_slow_readers(&httpd);
    let old = httpd.children();
    httpd.graceful();
    pass(IN_TIME.as_secs() + 3);
    assert!(finishing(&httpd) >= shown(mpm));
    assert!(old.iter().any(|child| child.is_alive()));
    assert!(readers.iter().all(Reader::goes_on));
}

fn reload_takes_the_defence_away_and_brings_it(mpm: Mpm) {
    let httpd = server(mpm)
        .conf("IncludeOptional ${TMP}/rule.conf*")
        .start();
    let old = five_slow_readers(&httpd);
    let rule = httpd.dir().join("rule.conf");
    std::fs::write(&rule, "IPLimitMinRate 500 after=3s window=4s\n").expect("write a file");
    httpd.graceful();
    let client = httpd.client("127.0.1.9").with_tiny_buffer();
    let new = Reader::start(&client, "/hoge/big.bin", 200);
    let cuts = wait_for_cuts(&httpd, 1, IN_TIME);
    assert_eq!(cuts[0].client, "127.0.1.9");
    new.break_off();
    // Those that began before are served as was said then.
    assert!(old.iter().all(Reader::goes_on));
    std::fs::remove_file(&rule).expect("remove a file");
    httpd.graceful();
    let newest = Reader::start(&client, "/hoge/big.bin", 200);
    pass(IN_TIME.as_secs());
    assert!(newest.goes_on());
}

/// What is wrong, the text that names the directive and quotes the value, what would work.
const WRONG: [(&str, &str, &str); 26] = [
    ("IPLimitMinRate", "IPLimitMinRate", "\"off\" for no minimum"),
    ("IPLimitMinRate ten", "\"ten\"", "for example 1000"),
    ("IPLimitMinRate 0", "\"0\" would cut nobody", "\"off\""),
    ("IPLimitMinRate -1", "\"-1\"", "1 to 4294967295"),
    ("IPLimitMinRate 10k", "\"10k\"", "for example 1000"),
    (
        "IPLimitMinRate 4294967296",
        "\"4294967296\"",
        "1 to 4294967295",
    ),
    ("IPLimitMinRate 1000 after=2d", "after=\"2d\"", "0 to 1d"),
    ("IPLimitMinRate 1000 window=0", "window=\"0\"", "1s to 1h"),
    (
        "IPLimitMinRate 1000 window=5x",
        "window=\"5x\"",
        "ms, s, min, h or d",
    ),
    ("IPLimitMinRate 1000 busy=80", "busy=\"80\"", "busy=80%"),
    ("IPLimitMinRate 1000 busy=101%", "busy=\"101%\"", "1 to 100"),
    (
        "IPLimitMinRate 1000 every=1s",
        "\"every=1s\"",
        "after=TIME, window=TIME and busy=N%",
    ),
    ("IPLimitMinRate 1000 busy=8% busy=9%", "busy=", "twice"),
    (
        "IPLimitMinRate off busy=80%",
        "\"busy=80%\"",
        "leave it out",
    ),
    ("IPLimitMaxTime", "IPLimitMaxTime", "10min"),
    ("IPLimitMaxTime 0", "\"0\"", "\"off\" for no limit"),
    ("IPLimitMaxTime 31d", "\"31d\"", "1s to 30d"),
    ("IPLimitMaxTime 5x", "\"x\"", "ms, s, min"),
    ("IPLimitMaxTime 1h after=1s", "\"after=1s\"", "busy=N%"),
    ("IPLimitAlarm 90%", "\"90%\"", "busy=90% every=60s"),
    ("IPLimitAlarm busy=0%", "busy=\"0%\"", "1 to 100"),
    ("IPLimitAlarm every=2d", "every=\"2d\"", "1s to 1d"),
    ("IPLimitAlarm off busy=9%", "\"busy=9%\"", "leave it out"),
    ("IPLimitHeartbeat", "IPLimitHeartbeat", "1h"),
    ("IPLimitHeartbeat ten", "\"ten\"", "ms, s, min"),
    (
        "IPLimitHeartbeat 1h 2h",
        "\"1h 2h\"",
        "one time from 1s to 30d",
    ),
];

#[test]
fn what_is_wrong_is_named_quoted_and_helped() {
    for (line, value, helps) in WRONG {
        let directive = line.split(' ').next().unwrap_or_default();
        all_are_errors(&[(line, line, &[directive, value, helps])]);
    }
}

#[test]
fn the_pool_is_of_the_whole_server_only() {
    for line in ["IPLimitAlarm busy=90%", "IPLimitHeartbeat 1h"] {
        let site = format!("<VirtualHost *:${{PORT}}>\n{line}\n</VirtualHost>");
        let directive = line.split(' ').next().unwrap_or_default();
        all_are_errors(&[(&site, line, &[directive])]);
    }
}

#[test]
fn every_place_may_say_its_own() {
    let said = Httpd::on(Mpm::Event)
        .conf(
            "IPLimitMinRate 1000 after=0 window=1s busy=100%
             IPLimitMaxTime 30d BUSY=1%
             IPLimitAlarm every=10s
             IPLimitHeartbeat 1h
             <VirtualHost *:${PORT}>
                 IPLimitMinRate 4294967295
                 IPLimitMaxTime 1
                 <Location /hoge>
                     IPLimitMinRate Off
                     IPLimitMaxTime off
                 </Location>
             </VirtualHost>",
        )
        .configtest();
    assert_eq!((said.code, said.stderr.trim()), (0, "Syntax OK"));
}
