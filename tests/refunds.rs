//! What a later refusal gives back of what earlier rates have charged, and what it does not;
//! and rates in a dry run.

mod support;

use std::time::{Duration, Instant};

use support::{Client, DEADLINE, Httpd, Mpm, on_every_mpm, wait_until};

on_every_mpm!(
    refusal_for_places_costs_no_token_and_no_hit,
    refusal_by_a_second_rate_costs_nothing_at_the_first,
    freeze_stays_whatever_refuses_later,
    mark_gives_back_what_dry_rules_took_and_nothing_else,
    dry_run_tells_and_refuses_nothing,
    refused_error_page_gives_nothing_back,
    work_of_a_script_is_paid_for_wherever_it_redirects_to,
    who_leaves_while_an_error_page_waits_has_paid_for_the_error,
    who_leaves_while_it_waits_gets_back_what_has_not_grown_back,
);

#[track_caller]
fn statuses<const N: usize>(client: &Client, path: &str) -> [u16; N] {
    [(); N].map(|()| client.status(path))
}

/// A bucket and a window of the server; a place of a section is what is wanting.
fn refusal_for_places_costs_no_token_and_no_hit(mpm: Mpm) {
    for rate in ["MaxRatePerIP 3/h", "MaxHitsPerIP 3/h freeze=1h"] {
        let httpd = Httpd::on(mpm)
            .expect_refusals()
            .conf(rate)
            .conf("<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>")
            .start();
        let client = httpd.client("127.0.0.2");
        let held = client.hold("/hoge/hold.cgi");
        assert_eq!(statuses(&client, "/hoge/small.txt"), [503; 6], "{rate}");
        assert_eq!(statuses(&client, "/small.txt"), [200, 200, 429], "{rate}");
        drop(held);
    }
}

fn refusal_by_a_second_rate_costs_nothing_at_the_first(mpm: Mpm) {
    let rates = ["MaxRatePerIP", "MaxHitsPerIP"];
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(a, b)| (rates[a], rates[b])) {
        let httpd = Httpd::on(mpm)
            .expect_refusals()
            .conf(&format!(
                "{first} 4/h
                 <Location /hoge>
                     {second} 1/d
                     {second} 100/h
                 </Location>"
            ))
            .start();
        let client = httpd.client("127.0.0.2");
        let said = format!("{first} {second}");
        assert_eq!(
            statuses(&client, "/hoge/small.txt"),
            [200, 429, 429, 429],
            "{said}"
        );
        assert_eq!(
            statuses(&client, "/fuga/small.txt"),
            [200, 200, 200, 429],
            "{said}"
        );
    }
}

fn freeze_stays_whatever_refuses_later(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "MaxConnPerIP 2 count=requests
             <Location /hoge>
                 MaxHitsPerIP 2/h freeze=2h
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    assert_eq!(statuses(&client, "/hoge/small.txt"), [200, 200, 429]);
    let held = [(); 2].map(|()| client.hold("/fuga/hold.cgi"));
    assert_eq!(statuses(&client, "/hoge/small.txt"), [503; 3]);
    drop(held);
    httpd.wait_for(|gauge| gauge.total() == 0);
    let gauge = httpd.gauge();
    let left = gauge.frozen("MaxHitsPerIP@/hoge", "127.0.0.2");
    assert!(left.is_some_and(|left| left > 7000), "{gauge:?}");
    let frozen = client.get("/hoge/small.txt");
    assert_eq!(frozen.status, 429);
    let seconds: u32 = frozen
        .header("retry-after")
        .and_then(|s| s.parse().ok())
        .expect("a time");
    assert!((7000..=7200).contains(&seconds), "{seconds}");
}

/// A dry run marks at the second place of a redirect what it has charged at the first; the
/// server's own rate is none.
fn mark_gives_back_what_dry_rules_took_and_nothing_else(mpm: Mpm) {
    for (first, second) in [
        ("MaxHitsPerIP", "MaxRatePerIP"),
        ("MaxRatePerIP", "MaxHitsPerIP"),
    ] {
        let httpd = Httpd::on(mpm)
            .expect_refusals()
            .load(&["rewrite"])
            .conf(&format!(
                "MaxRatePerIP 6/h
                 <Location /hoge>
                     IPLimitDryRun On
                     {first} 2/h
                 </Location>
                 <Location /fuga>
                     IPLimitDryRun On
                     {second} 1/h
                 </Location>
                 <Directory ${{DOCROOT}}/hoge>
                     RewriteEngine On
                     RewriteRule ^go$ /fuga/small.txt
                 </Directory>"
            ))
            .start();
        let client = httpd.client("127.0.0.2");
        let go = statuses(&client, "/hoge/go");
        assert_eq!(go, [200, 200, 200, 200, 200, 200, 429], "{first}");
        let gauge = httpd.gauge();
        let marked = [first, second, "MaxRatePerIP"];
        let places = ["hoge", "fuga", "server"];
        let of = |n: usize| gauge.marked(&format!("{}@/{}", marked[n], places[n]));
        assert_eq!((of(0), of(1)), (0, 5), "{first}: {gauge:?}");
        assert_eq!(
            gauge.refused("MaxRatePerIP@server"),
            1,
            "{first}: {gauge:?}"
        );
    }
}

/// The access log's lines about a path, in any order.
#[track_caller]
fn marks(httpd: &Httpd, number: usize) -> Vec<String> {
    wait_until(DEADLINE, || {
        let text = std::fs::read_to_string(httpd.dir().join("marks")).unwrap_or_default();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines.dedup();
        match text.lines().count() == number {
            true => Ok(lines),
            false => Err(text),
        }
    })
}

fn dry_run_tells_and_refuses_nothing(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "LogFormat \"%>s %<{LIMITIP}e %<{LIMITIP_STATUS}e %<{LIMITIP_RULE}e %<{LIMITIP_COUNT}e/%<{LIMITIP_LIMIT}e\" marks
             CustomLog ${TMP}/marks marks
             IPLimitDryRun On
             <Location /hoge>
                 MaxHitsPerIP 2/h freeze=1h
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    for _ in 0..6 {
        let answer = client.get("/hoge/small.txt");
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok\n"));
        for name in ["retry-after", "cache-control"] {
            assert_eq!(answer.header(name), None, "{name}");
        }
    }
    let passed = |n: u32| format!("200 - PASSED MaxHitsPerIP@/hoge {n}/2");
    assert_eq!(
        marks(&httpd, 6),
        [
            passed(1),
            passed(2),
            String::from("200 - REJECTED_DRY_RUN MaxHitsPerIP@/hoge 3/2"),
        ]
    );
    let lines = httpd.wait_for_log("limitipconn(101): ");
    let said = "client 127.0.0.2 would be refused (dry run): too many requests: 3/2, rule MaxHitsPerIP@/hoge, vhost ";
    assert!(lines[0].contains(said), "{lines:?}");
    let gauge = httpd.gauge();
    let rule = "MaxHitsPerIP@/hoge";
    assert_eq!(
        (gauge.passed(rule), gauge.refused(rule), gauge.marked(rule)),
        (2, 0, 4),
        "{gauge:?}"
    );
    assert!(gauge.frozen(rule, "127.0.0.2").is_some(), "{gauge:?}");
}

/// The client gets the error all the same, and has asked for it.
fn refused_error_page_gives_nothing_back(mpm: Mpm) {
    for rate in [
        "MaxRatePerIP 4/h",
        "MaxHitsPerIP 4/h",
        "MaxHitsPerIP 3/h on=404",
    ] {
        let httpd = Httpd::on(mpm)
            .expect_refusals()
            .conf(rate)
            .conf(
                "ErrorDocument 404 /fuga/hello.cgi
                 <Location /fuga>
                     MaxRatePerIP 1/h
                 </Location>",
            )
            .start();
        let client = httpd.client("127.0.0.2");
        let first = client.get("/none");
        assert_eq!(
            (first.status, first.text().as_str()),
            (404, "hello\n"),
            "{rate}"
        );
        let second = client.get("/none");
        assert_eq!(second.status, 404, "{rate}");
        assert!(!second.text().contains("hello"), "{rate}: {second:?}");
        assert_eq!(statuses(&client, "/none"), [404, 404, 429], "{rate}");
        assert_eq!(client.status("/small.txt"), 429, "{rate}");
    }
}

/// A script that has run, and sends its client to a place that refuses or waits.
fn work_of_a_script_is_paid_for_wherever_it_redirects_to(mpm: Mpm) {
    let script = |to: &str| format!("#!/bin/sh\nprintf 'Location: /{to}/small.txt\\n\\n'\n");
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "<Location /cgi>
                 MaxHitsPerIP 3/d
             </Location>
             <Location /gone>
                 MaxRatePerIP 1/d burst=1
             </Location>
             <Location /full>
                 MaxConnPerIP 1 scope=location
             </Location>
             <Location /waits>
                 MaxRatePerIP 1/2s burst=3 delay=1
             </Location>",
        )
        .furnish("gone")
        .furnish("full")
        .furnish("waits")
        .script("cgi/gone.cgi", &script("gone"))
        .script("cgi/full.cgi", &script("full"))
        .script("cgi/waits.cgi", &script("waits"))
        .start();
    let client = |n: u8| httpd.client(&format!("127.0.0.{n}"));
    assert_eq!(statuses(&client(2), "/cgi/gone.cgi"), [200, 429, 429, 429]);
    assert_eq!(
        statuses(&client(2), "/cgi/full.cgi"),
        [429; 2],
        "three have run"
    );
    let held = client(3).hold("/full/hold.cgi");
    assert_eq!(statuses(&client(3), "/cgi/full.cgi"), [503, 503, 503, 429]);
    drop(held);
    let rule = "MaxHitsPerIP@/cgi";
    assert_eq!(client(4).status("/waits/small.txt"), 200);
    for _ in 0..3 {
        let before = httpd.gauge().passed(rule);
        let mut connection = client(4).connect();
        connection.send(connection.request("GET", "/cgi/waits.cgi", ""));
        httpd.wait_for(|gauge| gauge.passed(rule) == before + 1);
        drop(connection);
        httpd.wait_for(|gauge| gauge.busy() <= 1);
    }
    assert_eq!(client(4).status("/cgi/waits.cgi"), 429, "three have run");
}

/// Silence must not tell a password for nothing.
fn who_leaves_while_an_error_page_waits_has_paid_for_the_error(mpm: Mpm) {
    for rule in ["MaxHitsPerIP 3/d on=404 freeze=1h", "MaxHitsPerIP 3/d"] {
        let httpd = Httpd::on(mpm)
            .expect_refusals()
            .conf(&format!(
                "ErrorDocument 404 /page/small.txt
                 <Location /hoge>
                     {rule}
                 </Location>
                 <Location /page>
                     MaxRatePerIP 1/4s burst=2 delay=1
                 </Location>"
            ))
            .furnish("page")
            .start();
        let client = httpd.client("127.0.0.2");
        assert_eq!(client.status("/page/small.txt"), 200);
        let is_refused = |gauge: &support::Gauge| gauge.refused("MaxHitsPerIP@/hoge") > 0;
        for _ in 0..5 {
            let before = httpd.gauge().passed("MaxHitsPerIP@/hoge");
            let mut connection = client.connect();
            connection.send(connection.request("GET", "/hoge/none", ""));
            httpd
                .wait_for(|gauge| gauge.passed("MaxHitsPerIP@/hoge") > before || is_refused(gauge));
            drop(connection);
            httpd.wait_for(|gauge| gauge.busy() <= 1);
        }
        assert_eq!(client.status("/hoge/small.txt"), 429, "{rule}");
    }
}

/// What grew back while it waited is not put back once more.
fn who_leaves_while_it_waits_gets_back_what_has_not_grown_back(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "MaxRatePerIP 2/s burst=4
             <Location /slow>
                 MaxRatePerIP 2/s burst=8 delay=1
             </Location>",
        )
        .furnish("slow")
        .start();
    let client = httpd.client("127.0.0.2");
    let start = Instant::now();
    assert_eq!(client.status("/slow/small.txt"), 200);
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let mut connection = client.connect();
            connection.send(connection.request("GET", "/slow/small.txt", ""));
            connection
        })
        .collect();
    httpd.wait_for(|gauge| gauge.passed("MaxRatePerIP@/slow") == 4);
    // Each token that was taken has grown back, and two of them wait still.
    std::thread::sleep(Duration::from_millis(700));
    drop(waiting);
    httpd.wait_for(|gauge| gauge.busy() <= 1);
    let passed = (0..8)
        .filter(|_| client.status("/fuga/small.txt") == 200)
        .count();
    // Two a second grow, whoever came and went.
    let most = 2 * start.elapsed().as_millis() as usize / 1000 + 1;
    assert!(passed <= most, "{passed} of {most}");
}
