//! The alarm: when nearly all workers are busy, the parent tells who holds them, also while
//! no worker is free to tell anything.

mod support;

use std::time::Duration;

use support::{DEADLINE, Held, Httpd, Mpm, Setup, on_every_mpm, wait_until};

on_every_mpm!(
    holders_are_told_while_no_worker_is_free,
    alarm_is_there_without_a_word_and_silent_below_its_mark_or_off,
    clients_cannot_write_lines,
    without_a_rule_there_are_the_numbers_only,
    whoever_a_dry_run_marks_is_described,
);

fn small_pool(mpm: Mpm, workers: usize) -> Setup {
    let setup = Httpd::on(mpm);
    match mpm {
        Mpm::Prefork => setup.conf(&format!(
            "StartServers {workers}\nMinSpareServers 1\nServerLimit {workers}\nMaxRequestWorkers {workers}"
        )),
        _ => setup.conf(&format!(
            "StartServers 1\nServerLimit 1\nThreadLimit {workers}\nThreadsPerChild {workers}\n\
             MaxRequestWorkers {workers}\nMinSpareThreads 1\nMaxSpareThreads {workers}"
        )),
    }
}

/// The text of the lines with this number, without what stands before it.
fn told(httpd: &Httpd, id: &str) -> Vec<String> {
    let lines = httpd.log_lines(id).into_iter();
    lines
        .filter_map(|line| Some(line[line.find("limitipconn(")?..].to_owned()))
        .collect()
}

/// Waits until there are so many lines with this number. The parent looks about every ten seconds.
#[track_caller]
fn wait_for_lines(httpd: &Httpd, id: &str, number: usize) -> Vec<String> {
    httpd.wait_for_lines(DEADLINE, id, number);
    told(httpd, id)
}

/// Waits for an alarm which names those who hold so many workers in all, in lines that are like
/// this, and returns these. One that falls between two requests, or comes while one of them is
/// still read, knows less; then there is another one after it.
#[track_caller]
fn wait_for_holders(httpd: &Httpd, workers: u64, so: impl Fn(&[String]) -> bool) -> Vec<String> {
    let held = |line: &String| -> Option<u64> {
        let (_, number) = line.split_once(" holds ")?;
        number.split_once(' ')?.0.parse().ok()
    };
    wait_until(DEADLINE, || {
        let lines = told(httpd, "limitipconn(50");
        let mut alarms = lines.split(|line| !line.starts_with("limitipconn(503): "));
        let found =
            alarms.find(|alarm| alarm.iter().filter_map(held).sum::<u64>() == workers && so(alarm));
        found
            .map(<[String]>::to_vec)
            .ok_or_else(|| httpd.error_log())
    })
}

/// The ages in the lines, and the lines without them.
fn without_ages(lines: &[String]) -> (Vec<u64>, Vec<String>) {
    let parts = lines.iter().map(|line| {
        let (before, rest) = line.split_once("the oldest for ").expect("an age");
        let (age, after) = rest.split_once(" s").expect("seconds");
        (
            age.parse::<u64>().expect("a number"),
            format!("{before}{after}"),
        )
    });
    parts.unzip()
}

fn holders_are_told_while_no_worker_is_free(mpm: Mpm) {
    let httpd = small_pool(mpm, 5)
        .conf(
            "IPLimitAlarm busy=100% every=1s
             <Location /hoge>
                 MaxConnPerIP 10 scope=location
                 IPLimitMinRate 100
             </Location>",
        )
        .start();
    let hold = |source: &str, path: &str| httpd.client(source).hold(path);
    // Ages are told in whole seconds.
    let later = || std::thread::sleep(Duration::from_secs(2));
    let mut held: Vec<Held> = vec![hold("127.0.0.9", "/hoge/hold.cgi")];
    later();
    held.push(hold("127.0.0.5", "/fuga/hold.cgi"));
    later();
    held.extend((0..3).map(|_| hold("127.0.0.7", "/hoge/hold.cgi")));
    // Nobody asks the gauge now: there is no worker that could answer.
    let pool = wait_for_lines(&httpd, "limitipconn(502): ", 1);
    assert_eq!(
        pool[0],
        "limitipconn(502): 5 of 5 workers are busy, at least 100%; who holds them longest:"
    );
    // What is watched tells what its client took, as soon as it was looked at.
    let tells_rate = |text: &&String| text.contains(" bytes, ") && text.ends_with(" B/s");
    let rates = |texts: &[String]| texts.iter().filter(tells_rate).count();
    let holders = wait_for_holders(&httpd, 5, |holders| rates(holders) > 1);
    let (ages, texts) = without_ages(&holders);
    let vhost = format!("localhost:{}", httpd.port());
    let governed = format!("rule MaxConnPerIP@/hoge, vhost {vhost}, uri \"/hoge/hold.cgi\"");
    for (text, place) in texts.iter().zip([
        format!("1. 127.0.0.9 holds 1 worker, , {governed}"),
        "2. 127.0.0.5 holds 1 worker, ".to_owned(),
        format!("3. 127.0.0.7 holds 3 workers, , {governed}"),
    ]) {
        assert!(text.contains(&place), "{texts:#?} lack {place}");
    }
    assert_eq!(rates(&texts), 2, "what is not watched does not: {texts:#?}");
    assert!(ages[0] > ages[1] && ages[1] > ages[2], "{ages:?}");
    assert!(
        httpd.log_lines("limitipconn(503)").iter().all(|line| {
            line.contains("[limitipconn:warn]")
                && line.contains(&format!("[pid {}", httpd.parent().0))
        }),
        "the parent tells it"
    );
    drop(held);
}

fn alarm_is_there_without_a_word_and_silent_below_its_mark_or_off(mpm: Mpm) {
    let (said, off) = (small_pool(mpm, 4), small_pool(mpm, 4));
    let said = said
        .conf("IPLimitHeartbeat 1s\nMaxConnPerIP 10")
        .expect_log("limitipconn(504)")
        .start();
    let off = off
        .conf("IPLimitAlarm off\nIPLimitHeartbeat 1s\nMaxConnPerIP 10")
        .expect_log("limitipconn(504)")
        .start();
    let hold = |httpd: &Httpd, n: usize| -> Vec<Held> {
        let client = httpd.client("127.0.0.2");
        (0..n).map(|_| client.hold("/hoge/hold.cgi")).collect()
    };
    // Three of four are less than 90 %. The heartbeat is the sign that the parent has looked.
    let mut held = hold(&said, 3);
    let beats = told(&said, "limitipconn(504): ").len();
    wait_for_lines(&said, "limitipconn(504): ", beats + 1);
    assert_eq!(told(&said, "limitipconn(502)"), [""; 0]);
    let _held = hold(&off, 4);
    let beats = told(&off, "limitipconn(504): ").len();
    held.extend(hold(&said, 1));
    let pool = wait_for_lines(&said, "limitipconn(502): ", 1);
    assert!(
        pool[0].contains("4 of 4 workers are busy, at least 90%"),
        "{pool:?}"
    );
    // Once a minute by default: the look after it, and its heartbeat, come without it.
    wait_until(DEADLINE, || {
        let log = said.error_log();
        let after = log.split("limitipconn(502)").nth(1).unwrap_or_default();
        match after.matches("limitipconn(504)").count() {
            0 | 1 => Err(log),
            _ => Ok(()),
        }
    });
    assert_eq!(told(&said, "limitipconn(502): ").len(), 1);
    wait_for_lines(&off, "limitipconn(504): ", beats + 1);
    assert_eq!(told(&off, "limitipconn(502)"), [""; 0]);
    assert_eq!(told(&off, "limitipconn(503)"), [""; 0]);
}

fn clients_cannot_write_lines(mpm: Mpm) {
    let httpd = small_pool(mpm, 4)
        .conf(
            "IPLimitAlarm busy=50% every=1s
             AllowEncodedSlashes On
             ScriptAliasMatch ^/s/ ${DOCROOT}/hoge/hold.cgi
             <Location /s>
                 MaxConnPerIP 10 scope=location
             </Location>",
        )
        .start();
    let paths = [
        ("127.0.0.3", "/s/%0alimitipconn(503):%201.%20127.0.0.1"),
        (
            "127.0.0.4",
            "/s/%22,%20rule%20%22x<script>alert(1)</script>%1b%5b31m%ff",
        ),
    ];
    let _held = paths.map(|(source, path)| httpd.client(source).hold(path));
    let _third = httpd
        .client("127.0.0.5")
        .hold(&format!("/s/{}", "y".repeat(3000)));
    let are_described = |holders: &[String]| holders.iter().all(|line| line.contains(", uri "));
    let holders = wait_for_holders(&httpd, 3, are_described);
    for line in &holders {
        assert!(
            line.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
            "{line:?}"
        );
        assert_eq!(line.matches('"').count(), 2, "{line:?}");
    }
    for source in ["127.0.0.3", "127.0.0.4", "127.0.0.5"] {
        let of = |line: &&String| line.contains(&format!(". {source} holds 1 worker"));
        assert!(holders.iter().any(|line| of(&line)), "{holders:#?}");
    }
    let all = httpd.error_log();
    assert!(
        !all.contains("<script>") || all.contains("uri \"/s/%22"),
        "{all}"
    );
    let of = |source: &str| {
        let line = holders.iter().find(|line| line.contains(source));
        line.expect("a holder").clone()
    };
    assert!(of("127.0.0.3 holds").contains("%0Alimitipconn(503):"));
    assert!(of("127.0.0.5 holds").len() < 400);
}

fn without_a_rule_there_are_the_numbers_only(mpm: Mpm) {
    let httpd = small_pool(mpm, 4)
        .without_status()
        .conf("IPLimitAlarm busy=75% every=1s")
        .expect_log("no limits configured")
        .start();
    let _held = [(); 3].map(|()| httpd.client("127.0.0.2").hold("/hoge/hold.cgi"));
    let pool = wait_for_lines(&httpd, "limitipconn(502): ", 1);
    for line in pool {
        assert_eq!(
            line,
            "limitipconn(502): 3 of 4 workers are busy, at least 75%"
        );
    }
    assert_eq!(told(&httpd, "limitipconn(503)"), [""; 0]);
}

/// Nobody is refused in its place; another place is in earnest, so it has its worker still.
fn whoever_a_dry_run_marks_is_described(mpm: Mpm) {
    let httpd = small_pool(mpm, 4)
        .expect_refusals()
        .conf(
            "IPLimitAlarm busy=50% every=1s
             IPLimitZone everybody key=all
             <Location /hoge>
                 MaxConnPerKey everybody 1
                 IPLimitDryRun On
             </Location>
             <Location /fuga>
                 MaxConnPerIP 10 scope=location
             </Location>",
        )
        .start();
    let _held = [8, 9, 9].map(|n| {
        let client = httpd.client(&format!("127.0.0.{n}"));
        client.hold("/hoge/hold.cgi")
    });
    let holders = wait_for_holders(&httpd, 3, |_| true);
    let vhost = format!("localhost:{}", httpd.port());
    let said = format!("rule MaxConnPerKey:everybody@/hoge, vhost {vhost}, uri \"/hoge/hold.cgi\"");
    for holds in ["127.0.0.8 holds 1 worker,", "127.0.0.9 holds 2 workers,"] {
        let is_it = |line: &&String| line.contains(holds) && line.ends_with(&said);
        assert!(holders.iter().any(|line| is_it(&line)), "{holders:#?}");
    }
    let marked = httpd.gauge().marked("MaxConnPerKey:everybody@/hoge");
    assert_eq!(marked, 2);
}
