//! `busy=`: slow readers are cut only while too many workers are busy, the slowest first, and
//! no more of them than needed.

#![cfg(feature = "httpd")]

mod support;

// Each of its users has its own part of it.
#[path = "slow/looks.rs"]
mod looks;
#[allow(dead_code)]
#[path = "slow/readers.rs"]
mod readers;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use looks::let_watches_look;
use readers::stopwatch::Stopwatch;
use readers::{CutLine, Reader, cut_lines, pass, small_pool, wait_for_cuts, wait_to_begin};
use support::{DEADLINE, Held, Httpd, Mpm, Setup, on_every_mpm, on_mpms, wait_until};

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

/// Readers by the last numbers of their addresses, and the bytes a second that they take. So far
/// apart that no pause of some seconds makes one as slow as those before it.
const GROUPS: [(RangeInclusive<usize>, u64); 3] = [(1..=5, 1), (6..=9, 1500), (10..=10, 12_000)];

/// C25: under pressure the slowest go first.
fn slowest_are_cut_first_and_no_more_than_needed(mpm: Mpm) {
    // 60 % are 15 of 25 workers.
    let httpd = server(mpm)
        .conf("IPLimitMinRate 20000 after=2s window=6s busy=60%")
        .start();
    let readers = GROUPS.into_iter().flat_map(|(numbers, rate)| {
        let start = |n| Reader::start(&client(&httpd, n), "/hoge/big.bin", rate);
        numbers.map(start).collect::<Vec<_>>()
    });
    let readers: Vec<_> = readers.collect();
    wait_to_begin(&readers, 10);
    let_watches_look(&httpd, 20);
    assert_eq!(cut_lines(&httpd), [], "10 of 25 workers are busy");
    let gauge = httpd.gauge();
    assert!(gauge.busy() < 15 && gauge.number("cut_too_slow") == 0);
    // Not by the gauge, which would give work to the workers that are free again.
    let wait_for = |number: usize| {
        let are_cut = || match cut_lines(&httpd) {
            cuts if cuts.len() >= number && are_the_slowest(&cuts) => Ok(()),
            cuts => Err(cuts),
        };
        wait_until(DEADLINE, are_cut);
        pass(2);
        wait_until(DEADLINE, are_cut);
        cut_lines(&httpd)
    };
    let time = Stopwatch::start();
    let held = hold(&httpd, 9, 0);
    let first = wait_for(4);
    // Who is cut and gets no time to leave is busy still: another goes for it.
    assert!(first.len() <= 6 || time.has_stood(), "{first:#?}");
    // Those that are gone are not waited for when others are to go.
    let more = hold(&httpd, 4, 9);
    let cuts = wait_for(8);
    assert!(cuts.len() <= 10, "{cuts:#?}");
    drop((held, more));
}

/// Whether nobody is cut while one of a slower group is not.
fn are_the_slowest(cuts: &[CutLine]) -> bool {
    let is_cut = |n: usize| {
        let address = format!("127.0.1.{n}");
        cuts.iter().any(|cut| cut.client == address)
    };
    GROUPS.windows(2).all(|groups| {
        let [slower, faster] = [0, 1].map(|n| groups[n].0.clone());
        !faster.into_iter().any(is_cut) || slower.into_iter().all(is_cut)
    })
}

fn those_that_held_on_are_cut_when_workers_become_scarce(mpm: Mpm) {
    // 50 % are 12.5 of 25 workers.
    let httpd = server(mpm)
        .conf("IPLimitMinRate 5000 after=1s window=8s busy=50%")
        .start();
    let start = Instant::now();
    let readers = [(1, 2000), (2, 30_000)];
    let readers = readers.map(|(n, rate)| Reader::start(&client(&httpd, n), "/hoge/big.bin", rate));
    wait_to_begin(&readers, 2);
    let [slow, fast] = readers;
    let_watches_look(&httpd, 22);
    assert_eq!(cut_lines(&httpd), []);
    let _held = hold(&httpd, 12, 0);
    // Less than a window: it was known for long that it is slow.
    let cuts = wait_for_cuts(&httpd, 1, Duration::from_secs(7));
    assert_eq!(cuts[0].client, "127.0.1.1");
    cuts[0].is_right_for(8, 5000);
    cuts[0].is_measured_since(start + Duration::from_secs(1));
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
    let slow = [1, 2, 3].map(|n| Reader::start(&client(&httpd, n), "/hoge/big.bin", 200));
    wait_to_begin(&slow, 3);
    let_watches_look(&httpd, 18);
    assert_eq!(cut_lines(&httpd), []);
    let _held = hold(&httpd, 19, 0);
    let cuts = wait_for_cuts(&httpd, 3, DEADLINE);
    assert!(cuts.iter().all(|cut| cut.uri == "/hoge/big.bin"));
    assert_eq!(httpd.client("127.0.3.1").status("/hoge/small.txt"), 200);
}
