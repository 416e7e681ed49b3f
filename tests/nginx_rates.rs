//! What nginx's own tests ask of limit_req, in httpd's terms: numbers 8, 9, 10, 12 and 16; 5 stands
//! in zone_keys, 11 in delay, and what 13 asks about waiting in delay_bodies.

mod support;

use std::time::{Duration, Instant};

use support::{DEADLINE, Httpd, Mpm, before, in_time, on_every_mpm, wait_until};

on_every_mpm!(
    refusals_cost_nothing,
    delayed_answer_has_the_same_length,
    idle_key_has_no_more_than_its_burst,
    dry_run_delays_nobody_and_tells,
    delayed_part_does_not_delay_the_page,
);

/// How often this rule made a request wait, or would have.
fn delayed(httpd: &Httpd, rule: &str, name: &str) -> u64 {
    let gauge = httpd.gauge();
    let mut rows = gauge.rows("rules").filter(|row| row["rule"] == rule);
    let row = rows
        .next()
        .unwrap_or_else(|| panic!("no {rule} in {gauge:?}"));
    row[name].as_u64().expect("a number")
}

/// nginx 8: the second at once is refused; one interval after the first it passes, however often
/// it was refused meanwhile.
fn refusals_cost_nothing(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone z key=client
             <Location /hoge>
                 MaxRatePerKey z 2/s burst=1
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    for _ in 0..3 {
        let (before, mut refused) = (Instant::now(), 0);
        while client.status("/hoge/small.txt") != 200 {
            assert!(before.elapsed() < DEADLINE, "it is never let in");
        }
        let admitted = Instant::now();
        // Refused again and again, until the interval is over.
        loop {
            let asked = Instant::now();
            if client.status("/hoge/small.txt") == 200 {
                assert!(
                    before.elapsed() >= Duration::from_millis(500),
                    "{:?}",
                    before.elapsed()
                );
                break;
            }
            refused += 1;
            let late = asked.duration_since(admitted);
            assert!(late < Duration::from_millis(500), "refused after {late:?}");
        }
        let log = httpd.gauge().refused("MaxRatePerKey:z@/hoge");
        assert!(log >= refused);
    }
}

/// nginx 9: a delayed answer of 700 kB is the same as one that is not.
fn delayed_answer_has_the_same_length(mpm: Mpm) {
    let bytes: Vec<u8> = (0..700_000_u32)
        .flat_map(|n| [(n * 31 % 251) as u8])
        .collect();
    let httpd = Httpd::on(mpm)
        .conf(
            "IPLimitZone z key=client
             <Location /hoge>
                 MaxRatePerKey z 2/s burst=2 delay=1
             </Location>",
        )
        .file("hoge/long.bin", &bytes)
        .start();
    let client = httpd.client("127.0.0.2");
    // Who comes half a second later waits for nothing.
    let start = Instant::now();
    while delayed(&httpd, "MaxRatePerKey:z@/hoge", "delayed") == 0 {
        assert!(start.elapsed() < DEADLINE, "nobody is delayed");
        let answer = client.get("/hoge/long.bin");
        assert_eq!((answer.status, answer.body.len()), (200, bytes.len()));
        assert!(answer.body == bytes);
    }
}

/// nginx 10: a key that was idle passes, with no more than its burst.
fn idle_key_has_no_more_than_its_burst(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone z key=client
             <Location /hoge>
                 MaxRatePerKey z 1000/s burst=1
             </Location>
             <Location /fuga>
                 MaxRatePerKey z 1/h burst=2
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    assert_eq!(client.status("/hoge/small.txt"), 200);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(client.status("/hoge/small.txt"), 200);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    assert_eq!(client.status("/fuga/small.txt"), 429);
}

/// nginx 12: who would wait is served at once, who would be refused is served, and both are told.
fn dry_run_delays_nobody_and_tells(mpm: Mpm) {
    let httpd = in_time(|| {
        let httpd = Httpd::on(mpm)
            .expect_refusals()
            .conf(
                "LogFormat \"%s limited=%{LIMITIP}e %{LIMITIP_STATUS}e %{LIMITIP_RULE}e %{LIMITIP_COUNT}e/%{LIMITIP_LIMIT}e\" marks
                 CustomLog ${TMP}/marks marks
                 IPLimitZone z key=client
                 <Location /hoge>
                     IPLimitDryRun On
                     MaxRatePerKey z 1/5s burst=2 delay=1
                 </Location>",
            )
            .start();
        // The first wait alone would be that long, and a token comes then.
        let turn = Instant::now() + Duration::from_secs(5);
        for _ in 0..4 {
            let answer = httpd.client("127.0.0.2").get("/hoge/small.txt");
            assert_eq!((answer.status, answer.header("retry-after")), (200, None));
        }
        before(turn)?;
        Some(httpd)
    });
    let client = httpd.client("127.0.0.2");
    let rule = "MaxRatePerKey:z@/hoge";
    let expected = [
        format!("200 limited=- PASSED {rule} 1/2"),
        format!("200 limited=- DELAYED_DRY_RUN {rule} 2/1"),
        format!("200 limited=- REJECTED_DRY_RUN {rule} 3/2"),
        format!("200 limited=- REJECTED_DRY_RUN {rule} 3/2"),
    ];
    wait_until(DEADLINE, || {
        let text = std::fs::read_to_string(httpd.dir().join("marks")).unwrap_or_default();
        let mut lines: Vec<_> = text
            .lines()
            .filter(|line| line.contains(rule))
            .map(str::to_owned)
            .collect();
        // Children write in whatever order.
        lines.sort();
        let mut expected = expected.to_vec();
        expected.sort();
        if lines == expected { Ok(()) } else { Err(text) }
    });
    let gauge = httpd.gauge();
    let numbers = ["delayed", "delayed_dry_run", "passed"].map(|name| delayed(&httpd, rule, name));
    assert_eq!(
        (numbers, gauge.marked(rule), gauge.refused(rule)),
        ([0, 1, 2], 2, 0),
        "{gauge:?}"
    );
    let line = httpd.wait_for_log("would be ").swap_remove(0);
    let said = format!(
        "client 127.0.0.2 would be delayed (dry run): too many requests: 2/1, rule {rule}, vhost localhost:{}, \
         uri \"/hoge/small.txt\"",
        httpd.port()
    );
    assert!(line.contains(&said), "{line}");
    // The refusals in the same second are told by a later line, or as left out.
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(client.status("/hoge/small.txt"), 200);
    let lines = httpd.wait_for_log("would be refused (dry run): too many requests: 3/2");
    assert!(lines.iter().all(|line| line.contains(rule)), "{lines:?}");
}

/// nginx 16: a part that would have to wait comes at once, and so does the page; one that is
/// over the number is missing, and the page stays whole.
fn delayed_part_does_not_delay_the_page(mpm: Mpm) {
    let (httpd, pages) = in_time(|| {
        let httpd = Httpd::on(mpm)
            .load(&["include"])
            .expect_refusals()
            .expect_log("unable to include ")
            .conf(
                "LogFormat \"%U %{LIMITIP_STATUS}e\" marks
                 CustomLog ${TMP}/marks marks
                 <Directory ${DOCROOT}>
                     Options +Includes
                     AddOutputFilter INCLUDES .shtml
                 </Directory>
                 <Location /hoge>
                     MaxRatePerIP 1/5s burst=2 delay=1
                 </Location>",
            )
            .file(
                "page.shtml",
                "begin\n<!--#include virtual=\"/hoge/small.txt\" -->end\n",
            )
            .start();
        // The wait alone would be that long, and a token comes then.
        let turn = Instant::now() + Duration::from_secs(5);
        let pages = [(); 3].map(|()| httpd.client("127.0.0.2").get("/page.shtml"));
        before(turn)?;
        Some((httpd, pages))
    });
    let texts = pages.map(|page| {
        assert_eq!(page.status, 200);
        page.text()
    });
    assert_eq!(texts[0], "begin\nok\nend\n");
    assert_eq!(texts[1], "begin\nok\nend\n");
    assert!(texts[2].starts_with("begin\n[an error"), "{}", texts[2]);
    assert!(texts[2].ends_with("end\n"), "{}", texts[2]);
    assert_eq!(delayed(&httpd, "MaxRatePerIP@/hoge", "delayed"), 0);
}
