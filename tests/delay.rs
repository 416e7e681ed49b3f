//! `delay=`: the first of a burst pass at once, the others wait for their turn, never longer
//! than five seconds and never longer than their client is there. Bodies, HTTP/2 and
//! proxies stand in delay_bodies.

mod support;

use std::net::Shutdown;
use std::time::{Duration, Instant};

use support::{
    A_SECOND, Client, Connection, DEADLINE, Httpd, Mpm, Setup, at_once, before, in_time,
    on_every_mpm, so_by, wait_until,
};

on_every_mpm!(
    the_third_waits_for_its_turn,
    nobody_waits_longer_than_five_seconds,
    waiting_ends_when_the_client_closes,
    half_closed_client_counts_as_gone,
    pipelined_request_waits_no_less,
    graceful_serves_who_waits,
    waiting_request_holds_its_place_and_the_refused_one_none,
    waiting_is_done_once_though_rules_are_many,
    several_at_once_wait_one_after_the_other,
    whoever_is_refused_elsewhere_does_not_wait,
    what_waited_stays_marked_whatever_passes_after_it,
);

const RULE: &str = "MaxRatePerIP@/hoge";

/// /hoge with this rule; what became of each request stands in `marks`.
fn in_hoge(mpm: Mpm, rule: &str) -> Setup {
    Httpd::on(mpm).expect_refusals().conf(&format!(
        "LogFormat \"%U %>s %{{LIMITIP_STATUS}}e %{{LIMITIP_RULE}}e %{{LIMITIP_COUNT}}e/%{{LIMITIP_LIMIT}}e\" marks
         CustomLog ${{TMP}}/marks marks
         <Location /hoge>
             {rule}
         </Location>"
    ))
}

/// How often this rule made a request wait.
fn delayed(httpd: &Httpd, rule: &str) -> u64 {
    times(httpd, rule, "delayed")
}

/// A number of this rule.
fn times(httpd: &Httpd, rule: &str, name: &str) -> u64 {
    let gauge = httpd.gauge();
    let mut rows = gauge.rows("rules").filter(|row| row["rule"] == rule);
    let row = rows
        .next()
        .unwrap_or_else(|| panic!("no {rule} in {gauge:?}"));
    row[name].as_u64().expect("a number")
}

/// Sends a request that is going to wait, and returns when it does; nothing, if it does not
/// before its turn has come, which is then.
fn waiting(httpd: &Httpd, client: &Client, turn: Instant) -> Option<Connection> {
    let so_far = delayed(httpd, RULE);
    let mut connection = client.connect();
    connection.send(connection.request("GET", "/hoge/small.txt", "Connection: close\r\n"));
    so_by(turn, || delayed(httpd, RULE) > so_far)?;
    before(turn)?;
    Some(connection)
}

#[track_caller]
fn wait_for_mark(httpd: &Httpd, line: &str) {
    wait_until(DEADLINE, || {
        let text = std::fs::read_to_string(httpd.dir().join("marks")).unwrap_or_default();
        match text.lines().any(|mark| mark == line) {
            true => Ok(()),
            false => Err(text),
        }
    });
}

/// nginx 11: 1 and 2 at once, the third waits, one more while it waits is refused.
fn the_third_waits_for_its_turn(mpm: Mpm) {
    in_time(|| {
        let httpd = in_hoge(mpm, "MaxRatePerIP 1/4s burst=3 delay=2").start();
        let client = httpd.client("127.0.0.2");
        let first = Instant::now();
        let turn = first + Duration::from_secs(4);
        assert_eq!(client.status("/hoge/small.txt"), 200);
        assert_eq!(client.status("/hoge/small.txt"), 200);
        assert_eq!(delayed(&httpd, RULE), 0, "nobody had to wait");
        // By then so much of the third's turn may have come.
        let grown = first.elapsed();
        let asked = Instant::now();
        let mut third = waiting(&httpd, &client, turn)?;
        let refused = client.get("/hoge/small.txt");
        before(turn)?;
        assert_eq!(refused.status, 429);
        let seconds: u64 = refused
            .header("retry-after")
            .expect("a time")
            .parse()
            .expect("a number");
        assert!((1..=4).contains(&seconds), "{seconds}");
        assert_eq!(third.response().status, 200);
        let least = Duration::from_secs(4).saturating_sub(grown);
        assert!(
            asked.elapsed() >= least,
            "{:?} of {least:?}",
            asked.elapsed()
        );
        wait_for_mark(&httpd, &format!("/hoge/small.txt 200 DELAYED {RULE} 3/2"));
        wait_for_mark(&httpd, &format!("/hoge/small.txt 429 REJECTED {RULE} 4/3"));
        let gauge = httpd.gauge();
        let row = gauge
            .rows("rules")
            .find(|row| row["rule"] == RULE)
            .expect("a row");
        let numbers =
            ["passed", "refused", "delayed", "delayed_dry_run"].map(|name| row[name].clone());
        assert_eq!(
            numbers.map(|number| number.as_u64()),
            [3, 1, 1, 0].map(Some),
            "{gauge:?}"
        );
        Some(())
    });
}

/// Beyond that it is refused, with the true time.
fn nobody_waits_longer_than_five_seconds(mpm: Mpm) {
    let httpd = in_hoge(mpm, "MaxRatePerIP 1/20s burst=10 delay=1").start();
    let client = httpd.client("127.0.0.2");
    let first = Instant::now();
    assert_eq!(client.status("/hoge/small.txt"), 200);
    let second = client.get("/hoge/small.txt");
    // The backlog must be down to five seconds: fifteen from the first one.
    let most = first.elapsed();
    assert_eq!(second.status, 429);
    let seconds: u64 = second
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("a number");
    let least = Duration::from_secs(15)
        .saturating_sub(most)
        .as_secs_f64()
        .ceil() as u64;
    assert!(
        (least..=15).contains(&seconds),
        "{seconds} of {least} to 15"
    );
    assert_eq!(delayed(&httpd, RULE), 0);
}

/// The worker is free and the token back.
fn waiting_ends_when_the_client_closes(mpm: Mpm) {
    for reset in [false, true] {
        in_time(|| {
            let httpd = in_hoge(mpm, "MaxRatePerIP 2/10s burst=3 delay=2").start();
            let client = httpd.client("127.0.0.2");
            let turn = Instant::now() + Duration::from_secs(5);
            let statuses = [(); 2].map(|()| client.status("/hoge/small.txt"));
            assert_eq!(statuses, [200, 200]);
            let connection = waiting(&httpd, &client, turn)?;
            let (status, busy) = (client.status("/hoge/small.txt"), httpd.gauge().busy());
            before(turn)?;
            assert_eq!(status, 429, "all are taken");
            assert!(busy >= 2);
            if reset {
                connection.reset();
            } else {
                drop(connection);
            }
            so_by(Instant::now() + A_SECOND, || httpd.gauge().busy() <= 1)?;
            // Nothing has grown back by itself yet, but the third's token is there again.
            drop(waiting(&httpd, &client, turn)?);
            assert_eq!(httpd.gauge().number("faults"), 0);
            Some(())
        });
    }
}

/// A close and the end of what a client sends look alike: it is not waited for, and is told so.
fn half_closed_client_counts_as_gone(mpm: Mpm) {
    let httpd = in_time(|| {
        let httpd = in_hoge(mpm, "MaxRatePerIP 2/10s burst=3 delay=2").start();
        let client = httpd.client("127.0.0.2");
        let turn = Instant::now() + Duration::from_secs(5);
        let statuses = [(); 2].map(|()| client.status("/hoge/small.txt"));
        assert_eq!(statuses, [200, 200]);
        let mut connection = waiting(&httpd, &client, turn)?;
        connection
            .stream()
            .shutdown(Shutdown::Write)
            .expect("half a close");
        so_by(Instant::now() + A_SECOND, || httpd.gauge().busy() <= 1)?;
        let answer = connection.response();
        before(turn)?;
        assert_eq!(answer.status, 429);
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        drop(waiting(&httpd, &client, turn)?);
        Some(httpd)
    });
    // Who need not wait is served as httpd always does it.
    let mut connection = httpd.client("127.0.0.3").connect();
    connection.send(connection.request("GET", "/hoge/small.txt", ""));
    connection
        .stream()
        .shutdown(Shutdown::Write)
        .expect("half a close");
    assert_eq!(connection.response().status, 200);
}

/// What comes behind it on the connection does not wake it.
fn pipelined_request_waits_no_less(mpm: Mpm) {
    in_time(|| {
        let httpd = in_hoge(mpm, "MaxRatePerIP 1/2s burst=3 delay=1").start();
        let start = Instant::now();
        let mut connection = httpd.client("127.0.0.2").connect();
        let three = connection.request("GET", "/hoge/small.txt", "").repeat(3);
        connection.send(three);
        for turn in 0..3 {
            assert_eq!(connection.response().status, 200);
            assert!(
                start.elapsed() >= Duration::from_secs(2 * turn),
                "{turn}: {:?}",
                start.elapsed()
            );
        }
        // One that is read after its turn has come waits for nothing.
        (delayed(&httpd, RULE) == 2).then_some(())
    });
}

fn graceful_serves_who_waits(mpm: Mpm) {
    in_time(|| {
        let httpd = in_hoge(mpm, "MaxRatePerIP 1/4s burst=2 delay=1").start();
        let client = httpd.client("127.0.0.2");
        let first = Instant::now();
        let turn = first + Duration::from_secs(4);
        assert_eq!(client.status("/hoge/small.txt"), 200);
        let mut second = waiting(&httpd, &client, turn)?;
        httpd.graceful();
        assert_eq!(second.response().text(), "ok\n");
        assert!(Instant::now() >= turn, "{:?}", first.elapsed());
        assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
        Some(())
    });
}

fn waiting_request_holds_its_place_and_the_refused_one_none(mpm: Mpm) {
    in_time(|| {
        let httpd = in_hoge(
            mpm,
            "MaxRatePerIP 2/5s burst=3 delay=1\nMaxConnPerIP 1 scope=location",
        )
        .start();
        let client = httpd.client("127.0.0.2");
        let turn = Instant::now() + Duration::from_millis(2500);
        assert_eq!(client.status("/hoge/small.txt"), 200);
        httpd.wait_for(|gauge| gauge.total() == 0);
        let mut second = waiting(&httpd, &client, turn)?;
        let gauge = httpd.gauge();
        let statuses = [(); 3].map(|()| client.status("/hoge/small.txt"));
        before(turn)?;
        assert_eq!(
            gauge.count_of("MaxConnPerIP@/hoge", "127.0.0.2"),
            1,
            "{gauge:?}"
        );
        assert_eq!(statuses, [503; 3]);
        assert_eq!(second.response().status, 200);
        httpd.wait_for(|gauge| gauge.total() == 0);
        assert_eq!(delayed(&httpd, RULE), 1);
        Some(())
    });
}

/// The longest wait counts, not the sum; one bucket for both levels is charged once.
fn waiting_is_done_once_though_rules_are_many(mpm: Mpm) {
    in_time(|| {
        let httpd = in_hoge(
            mpm,
            "MaxRatePerIP 1/2s burst=2 delay=1
             MaxRatePerIP 1/3s burst=2 delay=1
             MaxRatePerKey z 1/4s burst=2 delay=1 scope=zone",
        )
        .conf(
            "IPLimitZone z key=client
             IPLimitExempt 127.0.0.99
             MaxRatePerKey z 1/4s burst=2 delay=1 scope=zone",
        )
        .start();
        let client = httpd.client("127.0.0.2");
        let first = Instant::now();
        assert_eq!(client.status("/hoge/small.txt"), 200);
        assert_eq!(client.status("/hoge/small.txt"), 200);
        let both = first.elapsed();
        assert!(both >= Duration::from_secs(4), "{both:?}");
        // One after the other they would have taken 2 s, 3 s and 4 s, and with two tokens more.
        (both < Duration::from_secs(8)).then_some(())
    });
}

/// Each has its own turn, whatever the number of children they come to.
fn several_at_once_wait_one_after_the_other(mpm: Mpm) {
    let httpd = in_hoge(mpm, "MaxRatePerIP 2/s burst=6 delay=1").start();
    let client = httpd.client("127.0.0.2");
    let start = Instant::now();
    let mut answers = at_once(8, |_| {
        let status = client.status("/hoge/small.txt");
        (status, start.elapsed())
    });
    answers.sort_by_key(|(_, when)| *when);
    let served: Vec<_> = answers
        .iter()
        .filter(|(status, _)| *status == 200)
        .collect();
    // Six, and what has grown meanwhile.
    let grown = start.elapsed().as_millis() as usize / 500;
    assert!(
        (6..=6 + grown.min(2)).contains(&served.len()),
        "{answers:?}"
    );
    for (turn, (_, when)) in served.iter().enumerate() {
        let least = Duration::from_millis(500 * turn as u64);
        assert!(*when >= least, "{turn}: {answers:?}");
    }
}

/// Not even when the rule that refuses is written after the one that delays, or is the key's.
fn whoever_is_refused_elsewhere_does_not_wait(mpm: Mpm) {
    let httpd = in_hoge(
        mpm,
        "MaxRatePerIP 1/4s burst=3 delay=1
         MaxHitsPerKey z 2/h",
    )
    .conf("IPLimitZone z key=all")
    .start();
    let client = httpd.client("127.0.0.2");
    assert_eq!(client.status("/hoge/small.txt"), 200);
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
    assert_eq!(client.status("/hoge/small.txt"), 429);
    assert_eq!(delayed(&httpd, RULE), 0);
}

/// By a rule outside sections and one within, and by two of one section.
fn what_waited_stays_marked_whatever_passes_after_it(mpm: Mpm) {
    let rate = "MaxRatePerIP 1/2s burst=2 delay=1";
    let places = "MaxConnPerIP 9 scope=location\nMaxHitsPerIP 9/h";
    for (outside, inside, dry) in [
        (rate, places, false),
        (rate, places, true),
        ("", rate, false),
        ("", rate, true),
    ] {
        let level = if outside.is_empty() {
            "/hoge"
        } else {
            "server"
        };
        let (run, status) = match dry {
            true => ("On", "DELAYED_DRY_RUN"),
            false => ("Off", "DELAYED"),
        };
        let name = status.to_ascii_lowercase();
        in_time(|| {
            let httpd = in_hoge(
                mpm,
                &format!("{inside}\n{}", if inside == rate { places } else { "" }),
            )
            .conf(&format!(
                "IPLimitDryRun {run}\nIPLimitExempt 127.0.0.99\n{outside}"
            ))
            .start();
            let client = httpd.client("127.0.0.2");
            assert_eq!(client.status("/hoge/small.txt"), 200);
            assert_eq!(client.status("/hoge/small.txt"), 200);
            // Where two seconds lay between them the second had a token of its own.
            if times(&httpd, &format!("MaxRatePerIP@{level}"), &name) == 0 {
                return None;
            }
            let line = format!("/hoge/small.txt 200 {status} MaxRatePerIP@{level} 2/1");
            wait_for_mark(&httpd, &line);
            Some(())
        });
    }
}
