//! `IPLimitMaxTime`: however fast its client is, a response is cut when it has held its place
//! for too long. What lifts both bounds for a place or a client, and what only shows them.

#![cfg(feature = "httpd")]

mod support;

// Each of its users has its own part of it.
#[allow(dead_code)]
#[path = "slow/readers.rs"]
mod readers;

#[path = "slow/looks.rs"]
mod looks;

use std::time::{Duration, Instant};

use looks::let_watches_look;
use readers::{CutLine, Reader, cut_lines, pass, small_pool, wait_for_cuts};
use support::{Client, Connection, DEADLINE, Httpd, Mpm, Setup, on_every_mpm, on_mpms};

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
        .conf("KeepAliveTimeout 300")
        .conf(small_pool(mpm))
        .big_file("hoge/big.bin", 200 << 20)
        .big_file("fuga/big.bin", 200 << 20)
}

const FAST: u64 = 1_000_000;

/// A response that has begun.
fn begun(client: &Client, path: &str) -> Connection {
    let mut connection = client.clone().with_tiny_buffer().connect();
    connection.send(connection.request("GET", path, "Connection: close\r\n"));
    let first = connection.stream().peek(&mut [0]);
    assert!(matches!(first, Ok(1)), "{first:?}");
    connection
}

fn read(httpd: &Httpd, n: usize, path: &str, rate: u64) -> Reader {
    let client = httpd.client(&format!("127.0.1.{n}"));
    Reader::go_on(begun(&client, path), rate)
}

/// For so many seconds at least, and no longer than since it was asked for.
#[track_caller]
fn is_held_for(cut: &CutLine, least: u64, asked: Instant) {
    let (_, rest) = cut.line.split_once(" cut: held for ").expect("a time");
    let (number, rest) = rest.split_once(" s, vhost ").expect("seconds");
    let seconds = least..=asked.elapsed().as_secs();
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
    let mut script = httpd.client("127.0.1.2").hold("/fuga/hold.cgi");
    let cuts = wait_for_cuts(&httpd, 1, Duration::from_secs(10));
    is_held_for(&cuts[0], 4, start);
    assert_eq!(
        (&*cuts[0].client, &*cuts[0].uri),
        ("127.0.1.1", "/hoge/big.bin")
    );
    let ended = fast.break_off();
    assert!(ended.bytes > 0, "{ended:?}");
    // The worker of a script finds out when the script next says something.
    let end = std::io::copy(script.connection().reader(), &mut std::io::sink());
    assert!(matches!(end, Ok(0)), "{end:?}");
    drop(script);
    let cuts = wait_for_cuts(&httpd, 2, DEADLINE);
    is_held_for(&cuts[1], 4, start);
    assert!(start.elapsed() > Duration::from_secs(4));
    let_watches_look(&httpd, 4);
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
    let start = Instant::now();
    let reader = read(&httpd, 1, "/hoge/big.bin", FAST);
    pass(4);
    let_watches_look(&httpd, 2);
    assert_eq!(cut_lines(&httpd), []);
    let _held: Vec<_> = (1..=12)
        .map(|n| httpd.client(&format!("127.0.2.{n}")).hold("/fuga/hold.cgi"))
        .collect();
    // Scripts that say nothing are cut too, but their lines come when they end.
    let cuts = wait_for_cuts(&httpd, 1, Duration::from_secs(10));
    is_held_for(&cuts[0], 4, start);
    reader.break_off();
}

fn places_and_clients_may_be_spared(mpm: Mpm) {
    let httpd = server(mpm)
        .conf(
            "IPLimitMinRate 500 after=1s window=10s
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
    let start = Instant::now();
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
    // A long window: the watch may be held up, and the fast ones may be.
    let cuts = wait_for_cuts(&httpd, 4, Duration::from_secs(20));
    let_watches_look(&httpd, 4);
    assert_eq!(cut_lines(&httpd).len(), 4);
    for cut in &cuts {
        match &*cut.client {
            "127.0.1.14" => cut.is_right_for(10, 500),
            "127.0.1.11" | "127.0.1.12" | "127.0.1.13" => is_held_for(cut, 4, start),
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
        (3, 1)
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
    let mut long = begun(&httpd.client("127.0.1.1"), "/long/600kb.bin");
    let mut slow = begun(&httpd.client("127.0.1.2"), "/hoge/600kb.bin");
    // What is too old is looked at still: it is too slow, too.
    let mut both = begun(&httpd.client("127.0.1.3"), "/both/600kb.bin");
    // Twice a second at most: a window and what comes before it.
    let_watches_look(&httpd, 12);
    for connection in [&mut long, &mut slow, &mut both] {
        assert_eq!(connection.response().body.len(), 600_000);
    }
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
    let cuts = wait_for_cuts(&httpd, 1, DEADLINE);
    assert_eq!(cuts[0].uri, "/hoge/big.bin", "LogLevel is warn");
    assert!(cuts[0].line.contains("[limitipconn:error]"), "{cuts:?}");
}
