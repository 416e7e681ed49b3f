//! What a client, a script and the log get to see of rates.

mod support;

use support::{Client, DEADLINE, Httpd, Mpm, Response, Setup, on_every_mpm, wait_until};

on_every_mpm!(
    head_costs_what_a_get_does_unless_it_is_exempt,
    real_client_is_the_key_in_either_order_of_modules,
    probes_are_served_while_others_are_limited,
    preflight_is_spared_from_rates_and_not_from_places,
    fields_tell_what_is_left,
    marks_stand_in_the_log_and_in_scripts,
);

fn count(answers: &[Response], status: u16) -> usize {
    answers
        .iter()
        .filter(|answer| answer.status == status)
        .count()
}

/// C21: link checkers and attackers both use HEAD.
fn head_costs_what_a_get_does_unless_it_is_exempt(mpm: Mpm) {
    for (exempt, admitted) in [("", 10), ("IPLimitExempt method=HEAD", 30)] {
        let httpd = Httpd::on(mpm)
            .expect_refusals()
            .conf(&format!(
                "<Location /hoge>\n MaxRatePerIP 10/h\n {exempt}\n</Location>"
            ))
            .start();
        let client = httpd.client("127.0.0.2");
        let answers: Vec<_> = (0..30)
            .map(|_| client.ask("HEAD", "/hoge/small.txt", ""))
            .collect();
        assert_eq!(
            (count(&answers, 200), count(&answers, 429)),
            (admitted, 30 - admitted),
            "{exempt}"
        );
        let status = if exempt.is_empty() { 429 } else { 200 };
        assert_eq!(client.status("/hoge/small.txt"), status, "{exempt}");
    }
}

/// C13: a balancer in front.
fn real_client_is_the_key_in_either_order_of_modules(mpm: Mpm) {
    for load in [
        Setup::load as fn(Setup, &[&str]) -> Setup,
        Setup::load_after,
    ] {
        for rule in [
            "MaxRatePerIP 2/h",
            "MaxHitsPerIP 2/h freeze=1h",
            "<Location /hoge>\n MaxRatePerIP 2/h\n</Location>",
            "<Location /hoge>\n MaxHitsPerIP 1/h on=200\n</Location>",
        ] {
            let httpd = load(Httpd::on(mpm), &["remoteip"])
                .expect_refusals()
                .conf("RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1")
                .conf(rule)
                .start();
            let behind = |address| httpd.client("127.0.0.1").header("X-Forwarded-For", address);
            let one = behind("198.51.100.1");
            let statuses = [(); 3].map(|()| one.status("/hoge/small.txt"));
            assert_eq!(statuses, [200, 200, 429], "{rule}");
            assert_eq!(
                behind("198.51.100.2").status("/hoge/small.txt"),
                200,
                "{rule}"
            );
            let lines = httpd.wait_for_log("limitipconn(101): ");
            assert!(
                lines[0].contains("client 198.51.100.1 refused: "),
                "{rule}: {lines:?}"
            );
        }
    }
}

/// C17: probes of balancers are in no table.
fn probes_are_served_while_others_are_limited(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "MaxRatePerIP 5/h
             IPLimitHeaders On
             IPLimitExempt 127.0.0.8/30
             <Location /hoge>
                 MaxHitsPerIP 3/h freeze=1h
                 MaxHitsPerIP 3/d on=200
             </Location>",
        )
        .start();
    let normal = httpd.client("127.0.0.2");
    assert_eq!(
        [(); 4].map(|()| normal.status("/hoge/small.txt")),
        [200, 200, 200, 429]
    );
    let before = httpd.gauge();
    support::at_once(4, |n| {
        if n == 3 {
            for _ in 0..20 {
                let refused = normal.get("/hoge/small.txt");
                assert_eq!(refused.status, 429);
                assert!(refused.header("ratelimit").is_some(), "{refused:?}");
            }
            return;
        }
        let mut probe = httpd.client("127.0.0.9").connect();
        for _ in 0..100 {
            let served = probe.get("/hoge/small.txt");
            let told = ["ratelimit", "ratelimit-policy", "retry-after"].map(|n| served.header(n));
            assert_eq!((served.status, told), (200, [None; 3]), "{served:?}");
        }
    });
    let gauge = httpd.gauge();
    assert_eq!(
        gauge.number("exempt"),
        before.number("exempt") + 300,
        "{gauge:?}"
    );
    assert_eq!(gauge["keys"]["used"], before["keys"]["used"], "{gauge:?}");
}

/// A browser's own question before the question.
fn preflight_is_spared_from_rates_and_not_from_places(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitExempt preflight
             <Location /hoge>
                 MaxRatePerIP 2/h
                 MaxConnPerIP 1 scope=location
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let asks = "Origin: https://a.example\r\nAccess-Control-Request-Method: PUT\r\n";
    let preflight = || client.ask("OPTIONS", "/hoge/small.txt", asks).status;
    let quiet = || httpd.wait_for(|gauge| gauge.total() == 0);
    for _ in 0..10 {
        assert_eq!(preflight(), 200);
        quiet();
    }
    let bare = client.ask(
        "OPTIONS",
        "/hoge/small.txt",
        "Origin: https://a.example\r\n",
    );
    assert_eq!(bare.status, 200, "counted: no preflight");
    quiet();
    let held = client.hold("/hoge/hold.cgi");
    assert_eq!(preflight(), 503);
    drop(held);
    quiet();
    assert_eq!(client.status("/hoge/small.txt"), 429);
    assert_eq!(preflight(), 200);
}

/// All that both fields say.
fn told(answer: &Response) -> [String; 2] {
    ["ratelimit-policy", "ratelimit"].map(|name| {
        let values = answer.headers.iter().filter(|(n, _)| n == name);
        let values: Vec<_> = values.map(|(_, value)| value.as_str()).collect();
        values.join(", ")
    })
}

/// Of times so long that a slow machine changes no second of them.
fn fields_tell_what_is_left(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitHeaders On
             IPLimitErrorStatus 503 418
             <Location /hoge>
                 MaxRatePerIP 24/d burst=2
             </Location>
             <Location /fuga>
                 MaxHitsPerIP 2/10000s
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let policy = "\"MaxRatePerIP@/hoge\";q=24;w=86400";
    // It is about to be full again; the machine may be slow.
    let near = |text: &str, start: &str, seconds: u32| {
        let left = text.strip_prefix(start).and_then(|rest| rest.parse().ok());
        let is_near = left.is_some_and(|left: u32| (seconds - 60..=seconds).contains(&left));
        assert!(is_near, "{text}, not {start}{seconds}");
    };
    for (left, seconds) in [(1, 3600), (0, 7200), (0, 3600)] {
        let answer = client.get("/hoge/small.txt");
        let [said, state] = told(&answer);
        assert_eq!(said, policy);
        near(
            &state,
            &format!("\"MaxRatePerIP@/hoge\";r={left};t="),
            seconds,
        );
        if answer.status == 200 {
            assert_eq!(answer.header("retry-after"), None);
            assert_eq!(answer.header("cache-control"), None);
        } else {
            assert_eq!(answer.status, 418);
            let after = answer.header("retry-after").expect("when to retry");
            near(after, "", 3600);
            assert_eq!(state.rsplit_once("t=").map(|(_, t)| t), Some(after));
            assert_eq!(answer.header("cache-control"), Some("no-store"));
        }
    }
    for (status, left) in [(200, 1), (200, 0), (418, 0)] {
        let answer = client.get("/fuga/small.txt");
        let [said, state] = told(&answer);
        assert_eq!(
            (answer.status, said.as_str()),
            (status, "\"MaxHitsPerIP@/fuga\";q=2;w=10000")
        );
        near(
            &state,
            &format!("\"MaxHitsPerIP@/fuga\";r={left};t="),
            10000,
        );
    }
}

#[track_caller]
fn marks(httpd: &Httpd, number: usize) -> Vec<String> {
    wait_until(DEADLINE, || {
        let text = std::fs::read_to_string(httpd.dir().join("marks")).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        if lines.len() == number {
            Ok(lines)
        } else {
            Err(text)
        }
    })
}

fn marks_stand_in_the_log_and_in_scripts(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "LogFormat \"%>s %<{LIMITIP}e %<{LIMITIP_STATUS}e %<{LIMITIP_RULE}e %<{LIMITIP_COUNT}e/%<{LIMITIP_LIMIT}e\" marks
             CustomLog ${TMP}/marks marks
             <Location /hoge>
                 MaxRatePerIP 10/d burst=3
                 MaxHitsPerIP 10/d
             </Location>
             <Location /exempt>
                 MaxRatePerIP 1/d
                 IPLimitExempt all
             </Location>
             ErrorDocument 429 /why.cgi",
        )
        .script(
            "why.cgi",
            "#!/bin/sh
            printf 'Content-Type: text/plain\\n\\n%s %s %s %s/%s\\n' \"$REDIRECT_LIMITIP\" \
             \"$REDIRECT_LIMITIP_STATUS\" \"$REDIRECT_LIMITIP_RULE\" \"$REDIRECT_LIMITIP_COUNT\" \"$REDIRECT_LIMITIP_LIMIT\"\n",
        )
        .furnish("exempt")
        .start();
    let client = httpd.client("127.0.0.2");
    let ask = |client: &Client| client.get("/hoge/small.txt");
    let mut expected = Vec::new();
    for n in 1..=3 {
        assert_eq!(ask(&client).status, 200);
        expected.push(format!("200 - PASSED MaxRatePerIP@/hoge {n}/3"));
        assert_eq!(marks(&httpd, n), expected);
    }
    assert_eq!(ask(&client).text(), "1 REJECTED MaxRatePerIP@/hoge 4/3\n");
    expected.push(String::from("429 1 REJECTED MaxRatePerIP@/hoge 4/3"));
    assert_eq!(marks(&httpd, 4), expected);
    assert_eq!(client.status("/exempt/small.txt"), 200);
    expected.push(String::from("200 - EXEMPT - -/-"));
    assert_eq!(marks(&httpd, 5), expected);
}
