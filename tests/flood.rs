//! C28: a flood of refusals is a few lines a second, and nothing of it is lost: lines, and
//! what they and message 102 say was left out, add up to the counters.

mod support;

use std::time::{Duration, Instant};

use support::{Client, Httpd, Mpm, at_once, on_every_mpm, wait_until};

on_every_mpm!(ten_thousand_refusals_are_sixty_lines_and_add_up);

const RULE: &str = "MaxConnPerIP@/hoge";

/// The parent looks about every ten seconds.
const TWO_MINUTES: Duration = Duration::from_secs(120);

/// Lines of refusals, and what these and the parent say was left out.
fn told(httpd: &Httpd) -> (u64, u64) {
    let number = |text: &str| {
        text.parse::<u64>()
            .unwrap_or_else(|_| panic!("no number: {text}"))
    };
    let lines = httpd.log_lines("limitipconn(101): ");
    let in_lines = lines.iter().filter_map(|line| {
        let (before, _) = line.split_once(" more were left out")?;
        Some(number(before.rsplit(' ').next()?))
    });
    let parents = httpd.log_lines("limitipconn(102): ");
    let by_parent = parents.iter().map(|line| {
        let (_, after) = line.split_once("limitipconn(102): ").expect("the message");
        number(after.split(' ').next().expect("a number"))
    });
    (lines.len() as u64, in_lines.chain(by_parent).sum())
}

/// Waits until what was told is as much as was refused or marked; returns both.
#[track_caller]
fn wait_until_all_is_told(httpd: &Httpd) -> (u64, u64) {
    wait_until(TWO_MINUTES, || {
        let gauge = httpd.gauge();
        let (lines, left_out) = told(httpd);
        let all = gauge.refused(RULE) + gauge.marked(RULE);
        if lines + left_out == all && left_out == gauge.number("log_lines_left_out") {
            Ok((lines, left_out))
        } else {
            Err(format!(
                "{lines} lines and {left_out} left out of {all}: {gauge:?}"
            ))
        }
    })
}

/// Asks, and tells whether that took longer than two seconds: a worker that was held up for so
/// long after it had read the clock has a line, and so has whoever comes after it.
fn is_late(ask: impl FnOnce()) -> bool {
    let start = Instant::now();
    ask();
    start.elapsed() > Duration::from_secs(2)
}

/// So many seconds of the clock can have lines: those that there were, the first and the last
/// not whole, and for each that was late those to which it and the next ones go back.
fn seconds_since(start: Instant, late: usize) -> u64 {
    // The module's clock goes by ticks.
    let passed = start.elapsed() + Duration::from_millis(10);
    passed.as_secs() + 2 + 4 * late as u64
}

/// So many answers of this status, one after the other on one connection.
#[track_caller]
fn ask_again_and_again(client: &Client, path: &str, number: usize, status: u16) {
    let mut connection = client.connect();
    for _ in 0..number {
        assert_eq!(connection.get(path).status, status);
    }
}

fn ten_thousand_refusals_are_sixty_lines_and_add_up(mpm: Mpm) {
    const THREADS: usize = 4;
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitErrorStatus 429
             MaxConnPerIP 60 count=requests
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    let start = Instant::now();
    let late = at_once(THREADS, |_| {
        let mut connection = client.connect();
        // Ten bursts, none of them in the second of another.
        let bursts = (0..10).map(|_| {
            let late = (0..10_000 / THREADS / 10)
                .filter(|_| is_late(|| assert_eq!(connection.get("/hoge/small.txt").status, 429)));
            let late = late.count();
            assert_eq!(connection.get("/fuga/small.txt").status, 200);
            std::thread::sleep(Duration::from_secs(1));
            late
        });
        bursts.sum()
    });
    let seconds = seconds_since(start, late.iter().sum());
    held.finish();
    assert_eq!(httpd.gauge().refused(RULE), 10_000);
    let (lines, left_out) = wait_until_all_is_told(&httpd);
    assert_eq!(lines + left_out, 10_000);
    assert!(lines <= 60.max(seconds), "{lines} lines in {seconds} s");
    assert!(lines <= seconds, "{lines} lines of one key in {seconds} s");
    assert!(
        lines >= 3,
        "each second has its line: {lines} in {seconds} s"
    );
    let parents = httpd.log_lines("limitipconn(102): ");
    assert!(parents.len() as u64 <= 1 + seconds / 10 + 1, "{parents:?}");
    assert!(
        parents
            .iter()
            .all(|line| line.contains("[limitipconn:warn] ")),
        "{parents:?}"
    );
}

/// Each key has its own line, whatever the flood of another.
#[test]
fn every_client_has_its_line() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "IPLimitErrorStatus 429\n<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>",
        )
        .start();
    let clients: Vec<_> = (2..12)
        .map(|n| httpd.client(&format!("127.0.0.{n}")))
        .collect();
    let held: Vec<_> = clients
        .iter()
        .map(|client| client.hold("/hoge/hold.cgi"))
        .collect();
    // Event ends idle connections of a child that is short of threads: each has its own.
    at_once(clients.len(), |n| {
        for _ in 0..20 {
            assert_eq!(clients[n].status("/hoge/small.txt"), 429);
        }
    });
    drop(held);
    let (lines, left_out) = wait_until_all_is_told(&httpd);
    assert_eq!(lines + left_out, 200);
    for n in 2..12 {
        let own = httpd.log_lines(&format!("client 127.0.0.{n} refused: "));
        assert!(
            !own.is_empty(),
            "127.0.0.{n} has none: {}",
            httpd.error_log()
        );
    }
}

/// More keys than lines in a second: no more than fifty lines, and all adds up.
#[test]
fn fifty_lines_a_second_are_all() {
    let places: String = (0..15)
        .map(|n| {
            format!(
                "<Location /place{n}>\n MaxConnPerIP 1 scope=server count=requests\n</Location>\n"
            )
        })
        .collect();
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf("IPLimitErrorStatus 429")
        .conf(&places)
        .start();
    let clients: Vec<_> = (2..22)
        .map(|n| httpd.client(&format!("127.0.0.{n}")))
        .collect();
    let held: Vec<_> = clients
        .iter()
        .map(|client| client.hold("/hold.cgi"))
        .collect();
    let start = Instant::now();
    let late = at_once(clients.len(), |n| {
        let late = (0..15).filter(|place| {
            is_late(|| assert_eq!(clients[n].status(&format!("/place{place}/x")), 429))
        });
        late.count()
    });
    let seconds = seconds_since(start, late.iter().sum());
    drop(held);
    let (lines, left_out) = wait_until(TWO_MINUTES, || {
        let (lines, left_out) = told(&httpd);
        if lines + left_out == 300 {
            Ok((lines, left_out))
        } else {
            Err((lines, left_out))
        }
    });
    assert!(
        lines <= 50 * seconds,
        "{lines} lines, {left_out} left out, {seconds} s"
    );
    assert_eq!(httpd.gauge().number("log_lines_left_out"), left_out);
}

/// Marks of a dry run are thinned as refusals are.
#[test]
fn marks_of_a_dry_run_are_thinned_alike() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf("IPLimitDryRun On\n<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>")
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    let start = Instant::now();
    ask_again_and_again(&client, "/hoge/small.txt", 1000, 200);
    // One after the other: none can fall behind the next.
    let seconds = seconds_since(start, 0);
    assert_eq!(httpd.gauge().marked(RULE), 1000);
    let (lines, left_out) = wait_until_all_is_told(&httpd);
    assert_eq!(lines + left_out, 1000);
    assert!(lines <= seconds, "{lines} lines in {seconds} s");
    let dry = httpd.log_lines("would be refused (dry run)").len() as u64;
    assert_eq!(dry, lines);
}

/// What is below LogLevel is not left out: nobody wants it.
#[test]
fn refusals_below_the_log_level_are_not_left_out() {
    let httpd = Httpd::on(Mpm::Event)
        .conf(
            "IPLimitErrorStatus 429
             IPLimitLogLevel info
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    ask_again_and_again(&client, "/hoge/small.txt", 500, 429);
    let gauge = httpd.gauge();
    assert_eq!(
        (gauge.refused(RULE), gauge.number("log_lines_left_out")),
        (500, 0),
        "{gauge:?}"
    );
    let audits = gauge.number("audits");
    // The parent has looked since, and has nothing to tell: no 101 or 102, or the test fails.
    httpd.wait_for_within(TWO_MINUTES, |gauge| gauge.number("audits") > audits + 1);
}
