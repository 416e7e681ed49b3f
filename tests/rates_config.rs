//! What `httpd -t` says about rates: bad ones, two like ones in one section, and rules that share
//! a bucket and do not agree on it. Each error says where it stands and what would work.

mod support;

use support::{Httpd, Mpm, all_are_errors, verdict_of};

#[test]
fn wrong_rates_are_errors() {
    for directive in ["MaxRatePerIP", "MaxHitsPerIP"] {
        for (rate, helps) in [
            ("10", "10/s"),
            ("70000", "10/s"),
            ("ten", "10/s"),
            ("10/q", "ms, s, min, h or d"),
            ("10/", "ms, s, min, h or d"),
            ("10/5", "ms, s, min, h or d"),
            ("0/s", "\"off\""),
            ("-1/s", "1 to 1000000"),
            ("1.5/s", "1/2s or 30/min"),
            ("1000001/h", "1 to 1000000"),
            ("10/0s", "1ms to 366d"),
            ("10/367d", "1ms to 366d"),
        ] {
            let line = format!("{directive} {rate}");
            let quoted = format!("\"{rate}\"");
            all_are_errors(&[(&line, &line, &[directive, &quoted, helps])]);
        }
    }
    let cases: [(&str, &[&str]); 9] = [
        ("MaxRatePerIP 10/s burst=0", &["burst=\"0\"", "burst=20"]),
        ("MaxRatePerIP 10/s burst=x", &["burst=\"x\"", "burst=20"]),
        ("MaxRatePerIP 10/s delay=11", &["\"11\"", "0 to 10"]),
        ("MaxRatePerIP 10/s delay=-1", &["delay=\"-1\"", "delay="]),
        (
            "MaxRatePerIP 10/s freeze=1h",
            &["\"freeze=1h\"", "MaxHitsPerIP"],
        ),
        ("MaxRatePerIP 10/s on=99", &["\"99\"", "on="]),
        ("MaxRatePerIP 10/s delay=1 on=401", &["\"1\"", "on="]),
        ("MaxHitsPerIP 10/s extend", &["\"extend\"", "freeze="]),
        ("MaxHitsPerIP 10/s freeze=400d", &["\"400d\"", "freeze="]),
    ];
    for (line, texts) in cases {
        let name = line.split(' ').next().expect("a directive");
        all_are_errors(&[(line, line, &[&[name], texts].concat())]);
    }
}

/// Two like rules: the second names the first, in one section and outside.
#[test]
fn two_like_rules_in_one_section_are_an_error() {
    let cases = [
        ("MaxConnPerKey api 3", "MaxConnPerKey API 4 scope=location"),
        ("MaxRatePerKey api 3/s", "MaxRatePerKey api 4/s scope=zone"),
        ("MaxRatePerIP 3/s", "MaxRatePerIP 4/1s burst=9"),
        ("MaxHitsPerIP 3/60s", "MaxHitsPerIP 4/min scope=vhost"),
        (
            "MaxHitsPerKey api 3/s for=10.1",
            "MaxHitsPerKey api 4/s for=10.1.0.0/16",
        ),
    ];
    for (first, second) in cases {
        for (open, close) in [("", ""), ("<Location /hoge>", "</Location>")] {
            let lines = format!("IPLimitZone api key=client\n{open}\n{first}\n{second}\n{close}");
            let verdict = verdict_of(Httpd::on(Mpm::Event).conf(&lines), &[]);
            let name = first.split(' ').next().expect("a directive");
            let arguments = second.split_once(' ').expect("arguments").1;
            let quoted = format!("\"{arguments}\"");
            let of_first = format!("the first is on line {} of ", verdict.line(first, false));
            verdict.is_error(second, &[name, &quoted, &of_first]);
        }
    }
    // Another zone, another period, other clients: they stand side by side.
    for (first, second) in [
        ("MaxConnPerKey api 3", "MaxConnPerKey other 3"),
        ("MaxRatePerIP 10/s", "MaxRatePerIP 600/h"),
        ("MaxRatePerKey api 10/s", "MaxRatePerKey api 600/h"),
        ("MaxHitsPerIP 10/s", "MaxRatePerIP 10/s"),
        ("MaxHitsPerKey api 10/s", "MaxHitsPerKey api 10/s for=10.1"),
    ] {
        let lines =
            format!("IPLimitZone api key=client\nIPLimitZone other key=all\n{first}\n{second}");
        let said = verdict_of(Httpd::on(Mpm::Event).conf(&lines), &[]).said;
        assert_eq!((said.code, said.stderr.trim()), (0, "Syntax OK"), "{lines}");
    }
}

/// Rules that share a bucket, in two places.
#[test]
fn rules_that_share_a_bucket_must_agree_on_it() {
    let places = |first: &str, second: &str| {
        format!(
            "IPLimitZone api key=client\n<Location /hoge>\n{first}\n</Location>\n\
             <Location /fuga>\n{second}\n</Location>"
        )
    };
    let zone = "MaxRatePerKey api 10/s scope=zone";
    for (first, second) in [
        (zone, "MaxRatePerKey api 11/s scope=zone"),
        (zone, "MaxRatePerKey Api 10/s scope=zone burst=11"),
        (zone, "MaxRatePerKey api 10/s scope=zone on=401"),
        (
            "MaxRatePerKey api 10/s scope=vhost",
            "MaxRatePerKey api 10/s burst=9 scope=vhost",
        ),
        (
            "MaxRatePerIP 10/s scope=vhost",
            "MaxRatePerIP 9/s scope=vhost",
        ),
        (
            "MaxHitsPerKey api 10/s scope=zone",
            "MaxHitsPerKey api 11/s scope=zone",
        ),
        (
            "MaxHitsPerIP 10/s scope=vhost",
            "MaxHitsPerIP 10/s scope=vhost freeze=1h",
        ),
        (
            "MaxHitsPerKey api 10/s scope=zone freeze=1h",
            "MaxHitsPerKey api 10/s scope=zone freeze=2h",
        ),
        (
            "MaxHitsPerKey api 10/s scope=zone freeze=1h",
            "MaxHitsPerKey api 10/s scope=zone freeze=1h extend",
        ),
    ] {
        let verdict = verdict_of(Httpd::on(Mpm::Event).conf(&places(first, second)), &[]);
        let name = first.split(' ').next().expect("a directive");
        let of_first = format!("line {} of ", verdict.line(first, false));
        verdict.is_error(second, &[name, &of_first, "scope=location"]);
    }
    // They agree, or share nothing: what they say about waiting is each one's own.
    for (first, second) in [
        (zone, "MaxRatePerKey API 10/1s scope=zone burst=10"),
        (zone, "MaxRatePerKey api 10/s scope=zone delay=3"),
        (zone, "MaxRatePerKey api 11/s"),
        (zone, "MaxRatePerKey api 11/s scope=vhost"),
        (zone, "MaxRatePerKey api 11/min scope=zone"),
        (zone, "MaxRatePerKey api off"),
        ("MaxRatePerIP 10/s", "MaxRatePerIP 11/s"),
    ] {
        let said = verdict_of(Httpd::on(Mpm::Event).conf(&places(first, second)), &[]).said;
        assert_eq!(
            (said.code, said.stderr.trim()),
            (0, "Syntax OK"),
            "{first}\n{second}"
        );
    }
    // Outside sections the virtual host's own takes the place of the main server's.
    let conf = "MaxRatePerIP 10/s scope=vhost
         <VirtualHost *:${PORT2}>
             MaxRatePerIP 20/s scope=vhost
         </VirtualHost>";
    let said = verdict_of(Httpd::on(Mpm::Event).conf(conf), &[]).said;
    assert_eq!((said.code, said.stderr.trim()), (0, "Syntax OK"));
}

/// A worker of the server is nothing for a customer to spend.
#[test]
fn delay_in_htaccess_is_an_error_of_the_place() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_log("hoge/.htaccess: ")
        .conf("<Directory ${DOCROOT}>\n AllowOverride Limit\n</Directory>\nMaxConnPerIP 100 count=requests")
        .file("hoge/.htaccess", "MaxRatePerIP 10/s delay=2\n")
        .start();
    assert_eq!(httpd.client("127.0.0.2").status("/hoge/small.txt"), 500);
    assert_eq!(httpd.client("127.0.0.2").status("/fuga/small.txt"), 200);
    let line = httpd.wait_for_log("hoge/.htaccess").pop().expect("a line");
    for text in ["MaxRatePerIP", "\"10/s delay=2\"", "delay="] {
        assert!(line.contains(text), "no {text} in {line}");
    }
}

/// A burst that nobody can use: the second would have to wait a minute.
#[test]
fn burst_that_waits_put_out_of_reach_is_warned_about() {
    let test = |rule: &str| {
        let conf = format!("<Location /hoge>\n{rule}\n</Location>");
        verdict_of(Httpd::on(Mpm::Event).conf(&conf), &[]).said
    };
    let warned = test("MaxRatePerIP 1/min burst=50 delay=1");
    assert_eq!(warned.code, 0);
    let text = "limitipconn(210): MaxRatePerIP 1/min burst=50 delay=1 on line ";
    assert!(warned.stderr.contains(text), "{warned:?}");
    assert!(
        warned.stderr.contains("of burst=50 only 1 can"),
        "{warned:?}"
    );
    let silent = test("MaxRatePerIP 10/s burst=50 delay=1");
    assert_eq!((silent.code, silent.stderr.trim()), (0, "Syntax OK"));
}
