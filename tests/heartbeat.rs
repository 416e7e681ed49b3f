//! Signs of life: one notice at every start, and in quiet times one now and then.

mod support;

use support::{DEADLINE, Httpd, Mpm, on_every_mpm, wait_until};

on_every_mpm!(
    every_start_is_told_once,
    heartbeat_tells_rules_pool_and_keys,
    without_a_heartbeat_a_quiet_server_says_nothing,
);

const STARTED: &str = "limitipconn(505): ";
const LIFE: &str = "limitipconn(504): ";

/// The texts of the lines with this number, from the number on.
fn told(httpd: &Httpd, id: &str) -> Vec<String> {
    let lines = httpd.log_lines(id).into_iter();
    lines
        .filter_map(|line| Some(line[line.find("limitipconn(")?..].to_owned()))
        .collect()
}

fn every_start_is_told_once(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .conf("IPLimitTable keys=128\nMaxConnPerIP 10")
        .start();
    let first = format!(
        "limitipconn(505): mod_limitipconn {}: 1 rule, a table of 128 keys",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(told(&httpd, STARTED), [first.as_str()]);
    let line = httpd.log_lines(STARTED).remove(0);
    assert!(line.contains("[limitipconn:notice]"), "{line}");
    httpd.graceful();
    assert_eq!(told(&httpd, STARTED), [first.as_str(); 2]);
    httpd.rewrite_conf("IPLimitTable keys=128\nMaxConnPerIP 10\nMaxRatePerIP 100/s");
    httpd.hard_restart();
    let all = told(&httpd, STARTED);
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(all[2], first.replace("1 rule", "2 rules"));
}

fn heartbeat_tells_rules_pool_and_keys(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_log(LIFE)
        .conf(
            "IPLimitHeartbeat 1s
             IPLimitTable keys=128
             <Location /hoge>
                 MaxConnPerIP 10 scope=location
             </Location>",
        )
        .start();
    let _held =
        ["127.0.0.2", "127.0.0.3"].map(|source| httpd.client(source).hold("/hoge/hold.cgi"));
    let expected = "limitipconn(504): 1 rule, 2 of 64 workers are busy, 2 of 128 keys are in use";
    // The parent looks about every ten seconds.
    wait_until(DEADLINE, || {
        let lines = told(&httpd, LIFE);
        if lines.iter().any(|line| line == expected) {
            Ok(())
        } else {
            Err(httpd.error_log())
        }
    });
    let number = told(&httpd, LIFE).len();
    // A reload begins its time anew, and it goes on.
    httpd.graceful();
    let lines = httpd.wait_for_lines(DEADLINE, LIFE, number + 1);
    let parent = format!("[pid {}", httpd.parent().0);
    let of_parent = |line: &String| line.contains("[limitipconn:notice]") && line.contains(&parent);
    assert!(lines.iter().all(of_parent), "{lines:#?}");
}

/// By the second audit the parent has done all that comes with the first.
fn without_a_heartbeat_a_quiet_server_says_nothing(mpm: Mpm) {
    let quiet = ["", "IPLimitHeartbeat off", "IPLimitHeartbeat 1h"];
    let quiet = quiet.map(|line| {
        Httpd::on(mpm)
            .conf(&format!("MaxConnPerIP 10\n{line}"))
            .start()
    });
    for httpd in quiet {
        httpd.wait_for(|gauge| gauge.number("audits") > 1);
        let log = httpd.error_log();
        let ours: Vec<_> = log
            .lines()
            .filter(|line| line.contains("limitipconn("))
            .collect();
        assert!(ours.len() == 1 && ours[0].contains(STARTED), "{log}");
    }
}
