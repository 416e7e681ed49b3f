//! Count windows: so many in each, and what the one beyond costs.

mod support;

use std::time::{Duration, Instant};

use support::{Between, Httpd, Mpm, Setup, Windows, on_every_mpm, sleep_until};

on_every_mpm!(
    sixth_hit_freezes_for_seven_seconds,
    windows_of_three_seconds_follow_each_other,
    reloads_do_not_prolong_a_freeze,
    extend_prolongs_it_with_every_hit,
    login_is_frozen_and_nothing_else,
);

/// A script that reads what it is sent.
const SCRIPT: &str = "#!/bin/sh\ncat >/dev/null\nprintf 'Content-Type: text/plain\\n\\nin\\n'\n";

const RULE: &str = "MaxHitsPerIP@/hoge";

fn in_hoge(mpm: Mpm, rule: &str) -> Setup {
    let conf = format!("<Location /hoge>\n {rule}\n</Location>");
    Httpd::on(mpm).expect_refusals().conf(&conf)
}

/// What the gauge says of the freeze is what the model allows.
#[track_caller]
fn shown_as(httpd: &Httpd, window: &Windows) {
    let (when, gauge) = Between::of(|| httpd.gauge());
    let shown = gauge.frozen(RULE, "127.0.0.2");
    let allowed = window.frozen_at(when);
    assert!(
        allowed.contains(&shown.unwrap_or(0)),
        "{shown:?}, not {allowed:?}: {gauge:?}"
    );
    assert_eq!(gauge["keys"]["frozen"], u64::from(shown.is_some()));
}

/// C20: the time that is told is true: a retry two seconds earlier is refused, at it served.
fn sixth_hit_freezes_for_seven_seconds(mpm: Mpm) {
    let httpd = in_hoge(mpm, "MaxHitsPerIP 5/3s freeze=7s").start();
    let client = httpd.client("127.0.0.2");
    let mut window = Windows::new(5, 3, 7, false);
    let mut refused_again = 0;
    // Once more, if it was too late each time.
    while refused_again == 0 {
        let refused = loop {
            let answer = window.ask(|| client.get("/hoge/small.txt"));
            if answer.status == 429 {
                break answer;
            }
        };
        assert_eq!(refused.header("retry-after"), Some("7"));
        assert_eq!(refused.header("cache-control"), Some("no-store"));
        let frozen = Instant::now();
        for second in [1, 5, 7] {
            sleep_until(frozen + Duration::from_millis(1000 * second + 20));
            let answer = window.ask(|| client.get("/hoge/small.txt"));
            if answer.status == 429 {
                shown_as(&httpd, &window);
                refused_again += 1;
            }
        }
    }
    (0..5).for_each(|_| drop(window.ask(|| client.get("/hoge/small.txt"))));
    let lines = httpd.log_lines("limitipconn(101): ");
    let says = |text: &str| lines.iter().any(|line| line.contains(text));
    assert!(
        says("client 127.0.0.2 refused: too many requests: 6/5, rule MaxHitsPerIP@/hoge, vhost "),
        "{lines:?}"
    );
    assert!(
        says("client 127.0.0.2 refused: frozen for ") && says("s, rule MaxHitsPerIP@/hoge, vhost "),
        "{lines:?}"
    );
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
    assert_eq!(client.status("/fuga/small.txt"), 200);
}

/// C40: a window longer than a second ends, again and again.
fn windows_of_three_seconds_follow_each_other(mpm: Mpm) {
    let httpd = in_hoge(mpm, "MaxHitsPerIP 5/3s").start();
    let client = httpd.client("127.0.0.2");
    let mut window = Windows::new(5, 3, 0, false);
    for _ in 0..3 {
        (0..6).for_each(|_| drop(window.ask(|| client.get("/hoge/small.txt"))));
        std::thread::sleep(Duration::from_millis(3005));
    }
    assert_eq!(window.ask(|| client.get("/hoge/small.txt")).status, 200);
    let gauge = httpd.gauge();
    assert_eq!(gauge.passed(RULE) + gauge.refused(RULE), 19, "{gauge:?}");
    assert_eq!(gauge.frozen(RULE, "127.0.0.2"), None);
}

/// C32: who presses reload each half second is let in when the time is over.
fn reloads_do_not_prolong_a_freeze(mpm: Mpm) {
    let httpd = in_hoge(mpm, "MaxHitsPerIP 2/10s freeze=3s").start();
    let client = httpd.client("127.0.0.2");
    let mut window = Windows::new(2, 10, 3, false);
    let start = Instant::now();
    let mut refused = 0;
    // The model fails a refusal that comes after the end.
    for half in 0.. {
        sleep_until(start + Duration::from_millis(500) * half);
        let status = window.ask(|| client.get("/hoge/small.txt")).status;
        shown_as(&httpd, &window);
        if status == 429 {
            refused += 1;
        } else if refused > 0 {
            break;
        }
    }
}

/// C32: only who keeps still is let in.
fn extend_prolongs_it_with_every_hit(mpm: Mpm) {
    let httpd = in_hoge(mpm, "MaxHitsPerIP 2/10s freeze=3s extend").start();
    let client = httpd.client("127.0.0.2");
    let mut window = Windows::new(2, 10, 3, true);
    let start = Instant::now();
    for half in 0..10 {
        sleep_until(start + Duration::from_millis(500) * half);
        window.ask(|| client.get("/hoge/small.txt"));
        shown_as(&httpd, &window);
    }
    let let_in = || {
        std::thread::sleep(Duration::from_millis(3005));
        window.ask(|| client.get("/hoge/small.txt")).status == 200
    };
    // It is one too many of a new window, if it kept still for so long before the last hits.
    assert!(std::iter::repeat_with(let_in).take(2).any(|is_in| is_in));
}

/// C33: logins of WordPress, in every spelling.
fn login_is_frozen_and_nothing_else(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "<LocationMatch \"^/+(wp-login|xmlrpc)\\.php$\">
                 MaxHitsPerIP 5/60s freeze=300s
             </LocationMatch>
             AddHandler cgi-script .php",
        )
        .script("wp-login.php", SCRIPT)
        .script("xmlrpc.php", SCRIPT)
        .start();
    let client = httpd.client("127.0.0.2");
    let post = |path: &str| client.post(path, "log=a");
    let mut window = Windows::new(5, 60, 300, false);
    for path in [
        "/wp-login.php",
        "/xmlrpc.php",
        "//xmlrpc.php",
        "/%77p-login.php",
        "//wp-login.php?a=b",
        "/wp-login.php",
        "//xmlrpc.php",
    ] {
        window.ask(|| post(path));
    }
    assert_eq!(window.ask(|| post("/xmlrpc.php")).status, 429);
    assert_eq!(client.status("/"), 200);
    let other = httpd.client("127.0.0.3");
    assert_eq!(
        other
            .ask("POST", "/wp-login.php", "Content-Length: 0\r\n")
            .status,
        200
    );
    let gauge = httpd.gauge();
    let rows: Vec<_> = gauge.rows("frozen").collect();
    assert_eq!(rows.len(), 1, "{gauge:?}");
    assert_eq!(rows[0]["key"], "127.0.0.2");
}
