//! `IPLimitMaxTime`: however fast its client is, a response is cut when it has held its place
//! for too long. What lifts both bounds for a place or a client, and what only shows them.

#![cfg(feature = "httpd")]

mod support;

// Each of its users has its own part of it.
#[allow(dead_code)]
#[path = "slow/readers.rs"]
mod readers;

use std::time::{Duration, Instant};

use readers::{CutLine, Reader, cut_lines, pass, small_pool, wait_for_cuts};
use support::{Client, Httpd, Mpm, Setup, on_every_mpm, on_mpms};

on_every_mpm!(
    response_that_lasts_too_long_is_cut_though_it_is_fast,
    places_and_clients_may_be_spared,
);
on_mpms!(
    [prefork Prefork, event Event]
    with_busy_it_lasts_until_workers_are_scarce,
    dry_run_tells_and_cuts_nobody,
    lines_have_the_level_that_was_said
);

fn server(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .expect_log("limitipconn(501): ")
        .conf(small_pool(mpm))
        .big_file("hoge/big.bin", 200 << 20)
        .big_file("fuga/big.bin", 200 << 20)
}

const FAST: u64 = 1_000_000;

fn read(httpd: &Httpd, n: usize, path: &str, rate: u64) -> Reader {
    let client: Client = httpd.client(&format!("127.0.1.{n}"));
    Reader::start(&client.with_tiny_buffer(), path, rate)
}

#[track_caller]
fn is_held_for(cut: &CutLine, seconds: std::ops::RangeInclusive<u64>) {
    let (_, rest) = cut.line.split_once(" cut: held for ").expect("a time");
    let (number, rest) = rest.split_once(" s, vhost ").expect("seconds");
    assert!(seconds.contains(&number.parse().unwrap()), "{cut:?}");
    assert!(rest.ends_with(&format!(", uri \"{}\"", cut.uri)), "{cut:?}");
    assert_eq!(cut.numbers, None);
}

fn response_that_lasts_too_long_is_cut_though_it_is_fast(mpm: Mpm) {
    let httpd = server(mpm).conf("IPLimitMaxTime 4s").start();
    // An idle connection holds no response, however old it is.
    let mut idle = httpd.client("127.0.1.9").connect();
    assert_eq!(idle.get("/hoge/small.txt").status, 200);
    let start = Instant::now();
    let fast = read(&httpd, 1, "/hoge/big.bin", FAST);
    let script = httpd.client("127.0.1.2").hold("/fuga/hold.cgi");
    let cuts = wait_for_cuts(&httpd, 1, Duration::from_secs(6));
    is_held_for(&cuts[0], 4..=5);
    assert_eq!(
        (&*cuts[0].client, &*cuts[0].uri),
        ("127.0.1.1", "/hoge/big.bin")
    );
    let ended = fast.break_off();
    assert!(ended.bytes > 2 * FAST, "{ended:?}");
    // The worker of a script finds out when the script next says something; each child looks
    // in its own time.
    pass(1);
    drop(script);
    let cuts = wait_for_cuts(&httpd, 2, Duration::from_secs(6));
    is_held_for(&cuts[1], 4..=6);
    assert!(start.elapsed() > Duration::from_secs(4));
    pass(2);
    assert_eq!(idle.get("/hoge/small.txt").status, 200);
    let gauge = httpd.gauge();
    assert_eq!(
        (gauge.number("cut_too_long"), gauge.number("cut_too_slow")),
        (2, 0)
    );
}

fn with_busy_it_lasts_until_workers_are_scarce(mpm: Mpm) {
    // 13 of 25 workers.
    let httpd = server(mpm).conf("IPLimitMaxTime 3s busy=50%").start();
    let reader = read(&httpd, 1, "/hoge/big.bin", FAST);
    pass(5);
    assert_eq!(cut_lines(&httpd), []);
    let _held: Vec<_> = (1..=12)
        .map(|n| httpd.client(&format!("127.0.2.{n}")).hold("/fuga/hold.cgi"))
        .collect();
    // Scripts that say nothing are cut too, but their lines come when they end.
    let cuts = wait_for_cuts(&httpd, 1, Duration::from_secs(3));
    is_held_for(&cuts[0], 5..=12);
    reader.break_off();
}

fn places_and_clients_may_be_spared(mpm: Mpm) {
    let httpd = server(mpm)
        .conf(
            "IPLimitMinRate 500 after=1s window=2s
             IPLimitMaxTime 4s
             <Location /fuga>
                 IPLimitMinRate off
                 IPLimitMaxTime off
             </Location>
             <Location /slow>
                 IPLimitMinRate off
             </Location>
             <Location /long>
                 IPLimitMaxTime off
             </Location>
             IPLimitExempt 127.0.1.5",
        )
        .big_file("slow/big.bin", 200 << 20)
        .big_file("long/big.bin", 200 << 20)
        .start();
    let spared = [
        read(&httpd, 1, "/fuga/big.bin", 200),
        read(&httpd, 2, "/fuga/big.bin", FAST),
        read(&httpd, 3, "/long/big.bin", FAST),
        read(&httpd, 5, "/hoge/big.bin", 200),
    ];
    let cut = [
        read(&httpd, 11, "/hoge/big.bin", 200),
        read(&httpd, 12, "/hoge/big.bin", FAST),
        read(&httpd, 13, "/slow/big.bin", 200),
        read(&httpd, 14, "/long/big.bin", 200),
    ];
    let cuts = wait_for_cuts(&httpd, 4, Duration::from_secs(7));
    pass(2);
    assert_eq!(cut_lines(&httpd).len(), 4);
    for cut in &cuts {
        match &*cut.client {
            "127.0.1.11" | "127.0.1.14" => cut.is_right_for(2, 500),
            "127.0.1.12" | "127.0.1.13" => is_held_for(cut, 4..=5),
            _ => panic!("{cuts:#?}"),
        }
    }
    assert!(spared.iter().all(Reader::goes_on));
    for reader in cut {
        reader.break_off();
    }
    let gauge = httpd.gauge();
    assert_eq!(
        (gauge.number("cut_too_long"), gauge.number("cut_too_slow")),
        (2, 2)
    );
}

fn dry_run_tells_and_cuts_nobody(mpm: Mpm) {
    let httpd = server(mpm)
        .file("hoge/600kb.bin", vec![b'x'; 600_000])
        .conf(
            "IPLimitDryRun On
             IPLimitMinRate 500 after=1s window=2s
             <Location /long>
                 IPLimitMinRate off
                 IPLimitMaxTime 3s
             </Location>
             <Location /both>
                 IPLimitMinRate 500 after=1s window=2s
                 IPLimitMaxTime 1s
             </Location>",
        )
        .file("long/600kb.bin", vec![b'x'; 600_000])
        .file("both/600kb.bin", vec![b'x'; 600_000])
        .start();
    let long = read(&httpd, 1, "/long/600kb.bin", 100_000);
    let mut slow = httpd.client("127.0.1.2").with_tiny_buffer().connect();
    slow.send(slow.request("GET", "/hoge/600kb.bin", "Connection: close\r\n"));
    // What is too old is looked at still: it is too slow, too.
    let mut both = httpd.client("127.0.1.3").with_tiny_buffer().connect();
    both.send(both.request("GET", "/both/600kb.bin", "Connection: close\r\n"));
    pass(6);
    assert_eq!(long.finish().bytes, 600_000);
    assert_eq!(slow.response().body.len(), 600_000);
    assert_eq!(both.response().body.len(), 600_000);
    let is_told = |address: &str, why: &str| {
        let text = format!("limitipconn(501): client {address} would be cut (dry run): {why}");
        let lines = httpd.wait_for_log(&text);
        assert_eq!(lines.len(), 1, "{lines:#?}");
    };
    is_told("127.0.1.1", "held for ");
    is_told("127.0.1.2", "too slow: ");
    is_told("127.0.1.3", "held for ");
    is_told("127.0.1.3", "too slow: ");
    assert_eq!(httpd.log_lines("limitipconn(501): ").len(), 4);
    let gauge = httpd.gauge();
    assert_eq!(
        (gauge.number("cut_too_long"), gauge.number("cut_too_slow")),
        (2, 2)
    );
}

fn lines_have_the_level_that_was_said(mpm: Mpm) {
    let httpd = server(mpm)
        .conf(
            "IPLimitMaxTime 2s
             IPLimitLogLevel error
             <Location /fuga>
                 IPLimitLogLevel info
             </Location>",
        )
        .start();
    let _readers = ["/fuga/big.bin", "/hoge/big.bin"].map(|path| read(&httpd, 1, path, FAST));
    httpd.wait_for(|gauge| gauge.number("cut_too_long") == 2);
    let cuts = wait_for_cuts(&httpd, 1, Duration::from_secs(2));
    assert_eq!(cuts[0].uri, "/hoge/big.bin", "LogLevel is warn");
    assert!(cuts[0].line.contains("[limitipconn:error]"), "{cuts:?}");
}
