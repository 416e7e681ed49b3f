//! Storms: children are killed and restarted while slow readers are watched and cut. No child
//! crashes, nothing is left open, and what was counted is given back.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::{DEADLINE, Httpd, Mpm, Process, on_every_mpm, wait_until};

on_every_mpm!(
    storms_of_kills_and_restarts_leave_nothing_behind,
    cuts_leave_nothing_open_in_the_children,
);

const CONF: &str = "SendBufferSize 16384
     IPLimitMinRate 500 after=1s window=2s
     IPLimitAlarm off
     MaxConnPerIP 60";

/// What a process has open, by kind and number, and how many threads it has.
type Belongings = (BTreeMap<String, usize>, usize);

/// Whether the same processes have nothing that they had not.
fn is_no_more(after: &BTreeMap<i32, Belongings>, before: &BTreeMap<i32, Belongings>) -> bool {
    let had = |pid: &i32, (open, threads): &Belongings| {
        before.get(pid).is_some_and(|(had, had_threads)| {
            threads <= had_threads
                && open
                    .iter()
                    .all(|(kind, number)| had.get(kind).is_some_and(|had| number <= had))
        })
    };
    after.iter().all(|(pid, belongings)| had(pid, belongings))
}

fn belongings(process: Process) -> Belongings {
    let mut open = BTreeMap::new();
    for file in process.open_files() {
        *open.entry(file).or_default() += 1;
    }
    (open, process.threads())
}

/// Slow readers that come again when they are cut, and clients of scripts, until it is over.
fn clients(httpd: &Httpd, is_over: &AtomicBool, lost: &AtomicUsize, number: usize) {
    let client = httpd.client(&format!("127.0.1.{}", number + 1));
    while !is_over.load(Ordering::Relaxed) {
        // Children die under it, so any error is right.
        let Ok(mut connection) = client.clone().with_tiny_buffer().try_connect() else {
            continue;
        };
        let path = ["/hoge/big.bin", "/hoge/hello.cgi", "/hoge/big.bin"][number % 3];
        let request = connection.request("GET", path, "Connection: close\r\n");
        if connection.try_send(request).is_err() {
            continue;
        }
        if path.ends_with(".cgi") {
            let _ = connection.try_response();
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        // Reads nothing, and looks now and then whether it was cut.
        let socket = connection.stream();
        let start = Instant::now();
        // A child that is killed says nothing to a client whose window is closed.
        while !is_over.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(6) {
            if matches!(socket.take_error(), Ok(Some(_))) {
                lost.fetch_add(1, Ordering::Relaxed);
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn storms_of_kills_and_restarts_leave_nothing_behind(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_log("limitipconn(501): ")
        .expect_kills()
        .expect_log("limitipconn(") // places given back, for one
        .expect_log("AH0") // what httpd says of children that were killed
        .expect_log("cgid:")
        .expect_log("printf: I/O error") // a script whose child was killed while it wrote
        .conf(CONF)
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    // What it has open for a moment is there once.
    let before = wait_until(DEADLINE, || {
        let first = belongings(httpd.parent()).0;
        std::thread::sleep(Duration::from_millis(50));
        let second = belongings(httpd.parent()).0;
        if first == second {
            Ok(first)
        } else {
            Err((first, second))
        }
    });
    let (is_over, lost) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (httpd, is_over, lost) = (&httpd, &is_over, &lost);
        for number in 0..12 {
            scope.spawn(move || clients(httpd, is_over, lost, number));
        }
        let start = Instant::now();
        let mut round = 0;
        while start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(2500));
            round += 1;
            if round % 2 == 0 {
                httpd.graceful();
            } else if let Some(child) = httpd.children().get(round / 2 % 2) {
                child.signal(libc::SIGKILL);
            }
        }
        // Those who are left are cut by the last generation.
        std::thread::sleep(Duration::from_secs(5));
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(
        lost.load(Ordering::Relaxed) > 8,
        "too few were cut: {lost:?}"
    );
    let gauge = httpd.wait_for(|gauge| gauge.total() == 0 && gauge.busy() <= 1);
    assert!(gauge.number("cut_too_slow") > 0, "{gauge:?}");
    assert_eq!(
        (gauge.number("faults"), gauge.number("audit_mismatches")),
        (0, 0)
    );
    wait_until(DEADLINE, || match belongings(httpd.parent()).0 {
        after if after == before => Ok(()),
        after => Err(format!("the parent: before {before:#?}\nafter {after:#?}")),
    });
    // Children of an old generation have ended.
    httpd.graceful();
    let expected = if mpm == Mpm::Prefork { 2 } else { 3 };
    wait_until(DEADLINE, || {
        let threads = httpd.threads_of_children();
        let whole = threads.iter().all(|threads| *threads >= expected);
        if whole && !threads.is_empty() {
            Ok(())
        } else {
            Err(threads)
        }
    });
    for line in httpd.error_log().lines() {
        // The other one is mod_cgid's daemon, not a child.
        let of_kills = ["exit signal Killed (9)", "exit signal Broken pipe (13)"];
        let is_crash =
            line.contains("exit signal") && !of_kills.iter().any(|text| line.contains(text));
        assert!(!is_crash && !line.contains("panicked"), "{line}");
    }
}

fn cuts_leave_nothing_open_in_the_children(mpm: Mpm) {
    // One child, and one of prefork for each reader, so that each has served in each round.
    let (number, pool) = match mpm {
        Mpm::Prefork => (
            8,
            "StartServers 8\nMinSpareServers 1\nMaxSpareServers 8\n\
             ServerLimit 8\nMaxRequestWorkers 8",
        ),
        _ => (
            6,
            "StartServers 1\nServerLimit 1\nMaxRequestWorkers 16\n\
             MinSpareThreads 1\nMaxSpareThreads 16",
        ),
    };
    let httpd = Httpd::on(mpm)
        .expect_log("limitipconn(501): ")
        .expect_log("MaxRequestWorkers setting")
        .conf(&format!("{CONF}\n{pool}"))
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    let all = || -> BTreeMap<i32, Belongings> {
        let children = httpd.children().into_iter();
        children.map(|child| (child.0, belongings(child))).collect()
    };
    let round = |rounds: u64| {
        let readers: Vec<_> = (0..number)
            .map(|_| client.read_slowly("/hoge/big.bin"))
            .collect();
        // Scripts are forked meanwhile, by prefork from children that have a watch.
        for _ in 0..10 {
            assert_eq!(client.status("/hoge/hello.cgi"), 200);
        }
        httpd
            .wait_for(|gauge| gauge.number("cut_too_slow") == rounds * number && gauge.busy() <= 1);
        drop(readers);
    };
    // What httpd makes at its first request is there after the first round.
    round(1);
    let before = all();
    round(2);
    round(3);
    // A connection of the first round may have been on its way out.
    wait_until(DEADLINE, || match all() {
        after if is_no_more(&after, &before) => Ok(()),
        after => Err(format!("before {before:#?}\nafter {after:#?}")),
    });
    let gauge = httpd.wait_for_quiet();
    assert_eq!(
        (gauge.number("faults"), gauge.number("audit_mismatches")),
        (0, 0)
    );
}
