//! Token buckets: how many pass, when the next may come, and what a refusal says.

mod support;

use std::time::{Duration, Instant};

use support::{Between, Httpd, Mpm, Setup, Tokens, at_once, on_every_mpm, sleep_until};

on_every_mpm!(
    six_at_once_give_four_and_two_refusals,
    ten_requests_over_five_seconds_pass_as_the_bucket_fills,
    page_with_twenty_parts_loads_at_once_and_again,
    burst_is_the_number_unless_it_is_said,
);

const SECOND: Duration = Duration::from_secs(1);

fn in_hoge(mpm: Mpm, rule: &str) -> Setup {
    let conf = format!("<Location /hoge>\n {rule}\n</Location>");
    Httpd::on(mpm).expect_refusals().conf(&conf)
}

fn six_at_once_give_four_and_two_refusals(mpm: Mpm) {
    let httpd = in_hoge(mpm, "MaxRatePerIP 2/s burst=4").start();
    let client = httpd.client("127.0.0.2");
    let mut bucket = Tokens::new(2, SECOND, 4);
    let answers: Vec<_> = (0..6)
        .map(|_| bucket.ask(|| client.get("/hoge/small.txt")))
        .collect();
    // On a machine so slow that half a second has passed none of them may be refused.
    let mut refused = answers.into_iter().filter(|answer| answer.status == 429);
    let refused = loop {
        let next = refused.next();
        let answer = next.unwrap_or_else(|| bucket.ask(|| client.get("/hoge/small.txt")));
        if answer.status == 429 {
            break answer;
        }
    };
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    let lines = httpd.wait_for_log("limitipconn(101): ");
    let said = format!(
        "limitipconn(101): client 127.0.0.2 refused: too many requests: 5/4, rule MaxRatePerIP@/hoge, \
         vhost localhost:{}, uri \"/hoge/small.txt\"",
        httpd.port()
    );
    assert!(lines[0].contains(&said), "{lines:?}");
    assert_eq!(client.status("/fuga/small.txt"), 200);
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
}

/// One in a second, two at once; asked each half a second.
fn ten_requests_over_five_seconds_pass_as_the_bucket_fills(mpm: Mpm) {
    let httpd = in_hoge(mpm, "MaxRatePerIP 1/s burst=2").start();
    let client = httpd.client("127.0.0.2");
    let mut bucket = Tokens::new(1, SECOND, 2);
    let start = Instant::now();
    let mut refused = 0;
    for n in 0..10 {
        // In the middle between two tokens, so that a model of a machine at rest is sure.
        sleep_until(start + Duration::from_millis(510) * n);
        let answer = bucket.ask(|| client.get("/hoge/small.txt"));
        let is_refused = answer.status == 429;
        assert_eq!(
            answer.header("retry-after"),
            is_refused.then_some("1"),
            "{answer:?}"
        );
        refused += u64::from(is_refused);
    }
    let gauge = httpd.gauge();
    let rule = "MaxRatePerIP@/hoge";
    assert_eq!(
        (gauge.passed(rule), gauge.refused(rule)),
        (10 - refused, refused)
    );
}

/// C31: ten in a second, twenty at once, as browsers load pages.
fn page_with_twenty_parts_loads_at_once_and_again(mpm: Mpm) {
    let httpd = in_hoge(mpm, "MaxRatePerIP 10/s burst=20").start();
    let client = httpd.client("127.0.0.2");
    let mut bucket = Tokens::new(10, SECOND, 20);
    for asked in [25, 15, 15] {
        let (when, answers) = Between::of(|| at_once(asked, |_| client.status("/hoge/small.txt")));
        assert_eq!(httpd.gauge().number("untracked"), 0);
        let admitted = answers.iter().filter(|status| **status == 200).count();
        bucket.admitted(admitted, asked, when);
        std::thread::sleep(SECOND);
    }
}

/// C31: a rate without a burst suits pages, too.
fn burst_is_the_number_unless_it_is_said(mpm: Mpm) {
    for (rule, number, seconds, burst) in [
        ("MaxRatePerIP 6000/h", 6000, 3600, 6000),
        ("MaxRatePerIP 12/h", 12, 3600, 12),
        ("MaxRatePerIP 1/h", 1, 3600, 1),
        ("MaxRatePerIP 2/h burst=12", 2, 3600, 12),
    ] {
        let httpd = in_hoge(mpm, rule).start();
        let client = httpd.client("127.0.0.2");
        let mut bucket = Tokens::new(number, seconds * SECOND, burst);
        let answers = bucket.ask_at_once(15, || client.get("/hoge/small.txt"));
        let admitted = answers.iter().filter(|answer| answer.status == 200).count();
        // Nothing grows back meanwhile.
        assert_eq!(admitted, 15.min(burst as usize), "{rule}");
    }
}

/// `1/min` is one in 60.0 s: nobody comes in early, and who waits as told comes in.
#[test]
fn who_waits_as_told_comes_in() {
    let httpd = in_hoge(Mpm::Event, "MaxRatePerIP 20/min burst=1").start();
    let client = httpd.client("127.0.0.2");
    let mut bucket = Tokens::new(20, 60 * SECOND, 1);
    let mut last: Option<Instant> = None;
    let mut ask = || {
        let (came, answer) = Between::of(|| bucket.ask(|| client.get("/hoge/small.txt")));
        if answer.status == 200 {
            let is_late = last.is_none_or(|last| came.1 - last >= 3 * SECOND);
            assert!(is_late, "too early");
            last = Some(came.0);
        }
        answer
    };
    for _ in 0..2 {
        assert_eq!(ask().status, 200);
        // A machine that takes three seconds for one request lets the next one in, too.
        let refused = loop {
            let answer = ask();
            if answer.status == 429 {
                break answer;
            }
        };
        let seconds = refused.header("retry-after").expect("when to retry");
        let seconds: u32 = seconds.parse().expect("a number");
        assert!((1..=3).contains(&seconds), "{seconds}");
        std::thread::sleep(seconds * SECOND);
    }
}

#[test]
fn each_vhost_has_a_bucket_for_all_sections_of_scope_vhost() {
    let rule = "MaxRatePerIP 4/h scope=vhost";
    let vhost = |port: &str| {
        format!(
            "<VirtualHost *:{port}>
                 ServerName site.example
                 <Location /hoge>
                     {rule}
                 </Location>
                 <Location /fuga>
                     {rule}
                 </Location>
             </VirtualHost>\n"
        )
    };
    let conf = String::from("Listen 127.0.0.1:${PORT2}\n") + &vhost("${PORT}") + &vhost("${PORT2}");
    let httpd = Httpd::on(Mpm::Event).expect_refusals().conf(&conf).start();
    let first = httpd.client("127.0.0.2");
    let second = first.clone().at_port(httpd.port2());
    for client in [first, second] {
        let paths = ["hoge", "fuga", "hoge", "fuga", "hoge", "fuga"];
        let statuses = paths.map(|path| client.status(&format!("/{path}/small.txt")));
        assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
        assert_eq!(client.status("/small.txt"), 200);
    }
    let differ = "<Location /hoge>\n MaxRatePerIP 4/h scope=vhost\n</Location>
                  <Location /fuga>\n MaxRatePerIP 5/h scope=vhost\n</Location>";
    let said = Httpd::on(Mpm::Event).conf(differ).configtest();
    assert_eq!(said.code, 1, "{said:?}");
    for part in ["MaxRatePerIP@/fuga", "shares its bucket", "scope=location"] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
}
