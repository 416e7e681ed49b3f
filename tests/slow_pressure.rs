//! `busy=`: slow readers are cut only while too many workers are busy, the slowest first, and
//! no more of them than needed.

#![cfg(feature = "httpd")]

mod support;

// Each of its users has its own part of it.
#[allow(dead_code)]
#[path = "slow/readers.rs"]
mod readers;

use std::time::{Duration, Instant};

use readers::{CutLine, Reader, cut_lines, pass, small_pool, wait_for_cuts};
use support::{Held, Httpd, Mpm, Setup, on_every_mpm, on_mpms, wait_until};

on_every_mpm!(
    slowest_are_cut_first_and_no_more_than_needed,
    those_that_held_on_are_cut_when_workers_become_scarce,
);
on_mpms!(
    [prefork Prefork, event Event]
    example_does_what_its_comments_say
);

const EXAMPLE: &str = include_str!("../conf/examples/slow-readers.conf");

fn server(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .expect_log("limitipconn(501): ")
        .expect_log("MaxRequestWorkers setting")
        .conf(small_pool(mpm))
        .big_file("hoge/big.bin", 20 << 20)
}

fn client(httpd: &Httpd, n: usize) -> support::Client {
    httpd.client(&format!("127.0.1.{n}")).with_tiny_buffer()
}

/// These workers are busy with something that no client is to blame for.
fn hold(httpd: &Httpd, number: usize, besides: usize) -> Vec<Held> {
    let hold = |n| {
        let client = httpd.client(&format!("127.0.2.{n}"));
        client.hold("/fuga/hold.cgi")
    };
    (besides + 1..=besides + number).map(hold).collect()
}

/// C25: under pressure the slowest go first.
fn slowest_are_cut_first_and_no_more_than_needed(mpm: Mpm) {
    // 60 % are 15 of 25 workers.
    let httpd = server(mpm)
        .conf("IPLimitMinRate 20000 after=3s window=4s busy=60%")
        .start();
    // The lower the address the slower: 200, 2200, 4200, ... bytes a second.
    let _readers: Vec<_> = (0..10)
        .map(|n| {
            Reader::start(
                &client(&httpd, n + 1),
                "/hoge/big.bin",
                200 + 2000 * n as u64,
            )
        })
        .collect();
    pass(9);
    assert_eq!(cut_lines(&httpd), [], "10 of 25 workers are busy");
    let gauge = httpd.gauge();
    assert!(gauge.busy() < 15 && gauge.number("cut_too_slow") == 0);
    // Not by the gauge, which would give work to the workers that are free again.
    let wait_for = |number: usize| {
        wait_until(Duration::from_secs(6), || {
            let cuts = cut_lines(&httpd);
            if cuts.len() >= number {
                Ok(())
            } else {
                Err(cuts)
            }
        });
        pass(2);
        cut_lines(&httpd)
    };
    let held = hold(&httpd, 9, 0);
    let first = wait_for(4);
    assert!(first.len() <= 6, "{first:#?}");
    are_the_slowest(&first);
    // Those that are gone are not waited for when others are to go.
    let more = hold(&httpd, 4, 9);
    let cuts = wait_for(8);
    assert!(cuts.len() <= 10, "{cuts:#?}");
    are_the_slowest(&cuts);
    drop((held, more));
}

/// The lower the address the slower.
#[track_caller]
fn are_the_slowest(cuts: &[CutLine]) {
    for n in 1..=cuts.len() {
        let address = format!("127.0.1.{n}");
        assert!(cuts.iter().any(|cut| cut.client == address), "{cuts:#?}");
    }
}

fn those_that_held_on_are_cut_when_workers_become_scarce(mpm: Mpm) {
    // 50 % are 12.5 of 25 workers.
    let httpd = server(mpm)
        .conf("IPLimitMinRate 5000 after=3s window=4s busy=50%")
        .start();
    let slow = Reader::start(&client(&httpd, 1), "/hoge/big.bin", 2000);
    let fast = Reader::start(&client(&httpd, 2), "/hoge/big.bin", 30_000);
    pass(9);
    assert_eq!(cut_lines(&httpd), []);
    let start = Instant::now();
    let _held = hold(&httpd, 12, 0);
    let cuts = wait_for_cuts(&httpd, 1, Duration::from_secs(4));
    // It was known for long that it is slow.
    assert!(start.elapsed() < Duration::from_secs(4));
    assert_eq!(cuts[0].client, "127.0.1.1");
    cuts[0].is_right_for(4, 5000);
    slow.break_off();
    let gauge = httpd.wait_for(|gauge| gauge.number("cut_too_slow") == 1);
    assert!(gauge.busy() >= 13);
    pass(3);
    assert!(fast.goes_on());
}

fn example_does_what_its_comments_say(mpm: Mpm) {
    // The times of the example are too long for a test; nothing else of it is replaced.
    let quick = EXAMPLE.replace(
        "IPLimitMinRate 1000",
        "IPLimitMinRate 1000 after=3s window=4s",
    );
    assert_ne!(quick, EXAMPLE);
    let httpd = server(mpm).conf(&quick).start();
    let _slow: Vec<_> = (1..=3)
        .map(|n| Reader::start(&client(&httpd, n), "/hoge/big.bin", 200))
        .collect();
    pass(9);
    assert_eq!(cut_lines(&httpd), []);
    let _held = hold(&httpd, 19, 0);
    let cuts = wait_for_cuts(&httpd, 3, Duration::from_secs(10));
    assert!(cuts.iter().all(|cut| cut.uri == "/hoge/big.bin"));
    assert_eq!(httpd.client("127.0.3.1").status("/hoge/small.txt"), 200);
}
