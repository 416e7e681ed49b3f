//! What `httpd -t` says about zones and their rules: each error names the directive, quotes the value,
//! says what would work, and where it stands. And what `-D DUMP_IPLIMIT` shows of them.

mod support;

use support::{Httpd, Mpm, all_are_errors, verdict_of};

#[test]
fn wrong_zones_are_errors() {
    all_are_errors(&[
        (
            "IPLimitZone api key=all\nMaxConnPerKey nothing 3",
            "MaxConnPerKey nothing",
            &[
                "MaxConnPerKey",
                "\"nothing\"",
                "there are api",
                "IPLimitZone nothing key=",
            ],
        ),
        (
            "<Location /hoge>\nMaxRatePerKey nothing 3/s\n</Location>",
            "MaxRatePerKey nothing",
            &[
                "MaxRatePerKey",
                "\"nothing\"",
                "there is none",
                "IPLimitZone",
            ],
        ),
        (
            "IPLimitZone api key=all\n# comment\nIPLimitZone api key=client",
            "api key=client",
            &["IPLimitZone", "\"api\"", "declared twice", "another name"],
        ),
        (
            "IPLimitZone api key=all\nIPLimitZone API key=client",
            "API key=client",
            &["IPLimitZone", "\"API\"", "declared twice"],
        ),
        (
            "IPLimitZone api key=%{HTTP:X",
            "IPLimitZone",
            &["IPLimitZone", "\"%{HTTP:X\"", "key=%{HTTP:X-Api-Key}"],
        ),
        (
            "IPLimitZone api key=%{nofunc:x}",
            "IPLimitZone",
            &[
                "IPLimitZone",
                "\"%{nofunc:x}\"",
                "nofunc",
                "key=%{HTTP:X-Api-Key}",
            ],
        ),
        (
            "IPLimitZone api key=%{NO_SUCH_VARIABLE}",
            "IPLimitZone",
            &["IPLimitZone", "NO_SUCH_VARIABLE", "key=%{HTTP:X-Api-Key}"],
        ),
        (
            "IPLimitZone api key=REMOTE_USER",
            "IPLimitZone",
            &["IPLimitZone", "\"REMOTE_USER\"", "%{REMOTE_USER}"],
        ),
        (
            "IPLimitZone api",
            "IPLimitZone",
            &["IPLimitZone", "\"api\"", "key=client"],
        ),
        (
            "IPLimitZone api key=client/33,48",
            "IPLimitZone",
            &["IPLimitZone", "\"client/33,48\"", "key=client/24,48"],
        ),
        (
            "IPLimitZone api key=%{HTTP_HOST} %{REMOTE_USER}",
            "IPLimitZone",
            &["IPLimitZone", "\"%{REMOTE_USER}\"", "quotes"],
        ),
        (
            "IPLimitZone api key=all visible",
            "IPLimitZone",
            &["IPLimitZone", "\"visible\"", "secret"],
        ),
        (
            "<VirtualHost *:8080>\nIPLimitZone api key=all\n</VirtualHost>",
            "IPLimitZone",
            &["IPLimitZone", "main server"],
        ),
        (
            "<Location /hoge>\nIPLimitZone api key=all\n</Location>",
            "IPLimitZone",
            &["IPLimitZone", "not allowed in <Location>"],
        ),
    ]);
    for name in ["all", "Client", "SERVER"] {
        let lines = format!("IPLimitZone {name} key=all");
        let quoted = format!("\"{name}\"");
        all_are_errors(&[(&lines, &lines, &["IPLimitZone", &quoted, "another name"])]);
        let lines = format!("MaxConnPerKey {name} 3");
        all_are_errors(&[(
            &lines,
            &lines,
            &["MaxConnPerKey", &quoted, "IPLimitZone NAME key="],
        )]);
    }
}

#[test]
fn wrong_rules_about_keys_are_errors() {
    let zone = "IPLimitZone api key=all\n";
    for (rule, texts) in [
        (
            "MaxConnPerKey 3",
            &["\"3\"", "zone", "MaxConnPerKey api 3"][..],
        ),
        ("MaxConnPerKey api", &["\"api\"", "number"]),
        ("MaxConnPerKey api 70000", &["\"70000\"", "65535"]),
        ("MaxConnPerKey api ten", &["\"ten\"", "65535"]),
        ("MaxConnPerKey api -1", &["\"-1\"", "65535"]),
        ("MaxConnPerKey api 10/s", &["\"10/s\"", "MaxRatePerKey"]),
        (
            "MaxConnPerKey api 3 scope=server",
            &["\"server\"", "zone|vhost|location"],
        ),
        (
            "MaxConnPerKey api 3 count=workers",
            &["\"workers\"", "count=requests"],
        ),
        (
            "MaxRatePerKey 10/s",
            &["\"10/s\"", "MaxRatePerKey api 10/s"],
        ),
        ("MaxRatePerKey api 10", &["\"10\"", "10/s"]),
        ("MaxHitsPerKey api 10", &["\"10\"", "10/s"]),
        (
            "MaxHitsPerKey api 10/min burst=3",
            &["\"burst=3\"", "MaxRatePerIP"],
        ),
        (
            "MaxRatePerKey api 10/s scope=server",
            &["\"server\"", "location|vhost|zone"],
        ),
    ] {
        let name = rule.split(' ').next().expect("a directive");
        let texts = [&[name], texts].concat();
        all_are_errors(&[(&format!("{zone}{rule}"), rule, &texts)]);
    }
}

/// What is only known when all was read keeps the old server, too.
#[test]
fn graceful_with_bad_zones_keeps_the_old_server() {
    let good = "IPLimitZone api key=%{HTTP:X-Api-Key}
                MaxConnPerKey api 1
                <Location /hoge>
                    MaxRatePerKey api 100/s scope=zone
                </Location>";
    let httpd = Httpd::on(Mpm::Event).expect_refusals().conf(good).start();
    let client = httpd.client("127.0.0.2").header("X-Api-Key", "k");
    let held = client.hold("/hoge/hold.cgi");
    for (more, text) in [
        ("MaxConnPerKey nothing 3", "\"nothing\""),
        ("IPLimitZone Api key=all", "declared twice"),
        ("MaxRatePerKey api 99/s scope=zone", "shares its bucket"),
        ("MaxRatePerIP 10", "\"10\""),
    ] {
        httpd.rewrite_conf(&format!("{good}\n{more}\n"));
        let said = httpd.graceful_if_good().expect_err(more);
        assert!(said.contains(text), "{more}: {said}");
        assert_eq!(client.status("/hoge/small.txt"), 503, "{more}");
        assert_eq!(httpd.client("127.0.0.2").status("/hoge/small.txt"), 200);
    }
    httpd.rewrite_conf(&format!("{good}\nMaxConnPerKey api 2 for=127.0.0.0/8\n"));
    httpd.graceful_if_good().expect("a good configuration");
    assert_eq!(client.status("/hoge/small.txt"), 200);
    assert_eq!(held.finish().text(), "ended\n");
}

#[test]
fn dump_shows_zones_and_rates() {
    let lines = "IPLimitZone api key=%{HTTP:X-Api-Key} secret
IPLimitZone all-of-us key=all
MaxRatePerIP 10/s burst=20 delay=5
<Location /hoge>
MaxConnPerKey api 3
MaxRatePerKey API 600/5min scope=zone
MaxHitsPerIP 20/min freeze=10min extend on=401,403
MaxHitsPerKey all-of-us 1000/h for=10.1
</Location>
<Location /hoge/inner>
MaxConnPerKey Api 5 scope=vhost
MaxRatePerIP off
</Location>
";
    let verdict = verdict_of(Httpd::on(Mpm::Event).conf(lines), &["-D", "DUMP_IPLIMIT"]);
    assert_eq!(verdict.said.code, 0, "{:?}", verdict.said);
    let spot = |text: &str| format!("({}:{})", verdict.file, verdict.line(text, false));
    let shown = [
        (
            "rule MaxRatePerIP@server: 10/s scope=location burst=20 delay=5",
            "MaxRatePerIP 10",
        ),
        (
            "setting IPLimitZone api key=%{HTTP:X-Api-Key} secret",
            "IPLimitZone api",
        ),
        ("setting IPLimitZone all-of-us key=all", "IPLimitZone all"),
        ("section /hoge", "<Location /hoge>"),
        ("says MaxConnPerKey api 3", "MaxConnPerKey api 3"),
        (
            "says MaxRatePerKey API 600/5min scope=zone",
            "MaxRatePerKey API",
        ),
        (
            "says MaxHitsPerIP 20/min freeze=10min extend on=401,403",
            "MaxHitsPerIP 20",
        ),
        (
            "says MaxHitsPerKey all-of-us 1000/h for=10.1",
            "MaxHitsPerKey all",
        ),
        (
            "rule MaxConnPerKey:api@/hoge: 3 scope=zone count=requests",
            "MaxConnPerKey api 3",
        ),
        (
            "rule MaxRatePerKey:API@/hoge: 600/5min scope=zone burst=600",
            "MaxRatePerKey API",
        ),
        (
            "rule MaxHitsPerIP@/hoge: 20/min scope=location freeze=10min extend on=401,403",
            "MaxHitsPerIP 20",
        ),
        (
            "rule MaxHitsPerKey:all-of-us@/hoge for=10.1.0.0/16: 1000/h scope=location",
            "MaxHitsPerKey all",
        ),
        (
            "rule MaxConnPerKey:Api@/hoge/inner: 5 scope=vhost count=requests",
            "MaxConnPerKey Api 5",
        ),
        (
            "overrides MaxConnPerKey:api@/hoge: 3",
            "MaxConnPerKey api 3",
        ),
        ("rule MaxRatePerIP@/hoge/inner: off", "MaxRatePerIP off"),
        (
            "inherits rule MaxRatePerKey:API@/hoge: 600/5min scope=zone burst=600",
            "MaxRatePerKey API",
        ),
    ];
    let mut found = verdict.said.stdout.lines().map(str::trim);
    for (text, at) in shown {
        let line = format!("{text} {}", spot(at));
        assert!(
            found.any(|said| said == line),
            "no {line}, or not in this order, in {}",
            verdict.said.stdout
        );
    }
    assert!(
        !verdict.said.stdout.contains("whose place"),
        "{}",
        verdict.said.stdout
    );
}
