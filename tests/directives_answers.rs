//! What `httpd -t` says to wrong words in the directives about clients, exemptions,
//! connections, pressure and answers.

mod support;

use support::{Configtest, Httpd, Mpm};

fn test(lines: &str) -> Configtest {
    Httpd::on(Mpm::Event).conf(lines).configtest()
}

/// Every line is an error that names its directive, quotes the value and says what works.
#[track_caller]
fn all_are_errors(cases: &[(&str, &str, &str)]) {
    for (lines, quoted, works) in cases {
        let said = test(lines);
        assert_eq!(said.code, 1, "{lines:?} is no error: {said:?}");
        let line = lines
            .lines()
            .find(|line| !line.starts_with(['<', '#']))
            .unwrap_or_default();
        let name = line.trim().split(' ').next().expect("a directive");
        for text in [&format!("{name}: "), *quoted, *works] {
            assert!(
                said.stderr.contains(text),
                "{lines:?}: no {text:?} in {}",
                said.stderr
            );
        }
        assert!(
            said.stderr.contains("Syntax error on line "),
            "{lines:?}: {}",
            said.stderr
        );
    }
}

#[test]
fn wrong_statuses_are_errors() {
    let works = "a status from 400 to 599, for example 503 429";
    all_are_errors(&[
        ("IPLimitErrorStatus", "needs", works),
        ("IPLimitErrorStatus 200", "\"200\"", works),
        ("IPLimitErrorStatus 399", "\"399\"", works),
        ("IPLimitErrorStatus 600", "\"600\"", works),
        ("IPLimitErrorStatus -503", "\"-503\"", works),
        ("IPLimitErrorStatus 503x", "\"503x\"", works),
        ("IPLimitErrorStatus 99999999999", "\"99999999999\"", works),
        ("IPLimitErrorStatus off", "\"off\"", works),
        ("IPLimitErrorStatus 503 300", "\"300\"", works),
        (
            "IPLimitErrorStatus 503 429 403",
            "\"503 429 403\"",
            "one for rates",
        ),
        ("IPLimitErrorStatus 503,429", "\"503,429\"", works),
        ("IPLimitErrorStatus \"\"", "\"\"", works),
        ("IPLimitErrorStatus \"503", "quote", "closed"),
    ]);
}

#[test]
fn wrong_times_are_errors() {
    let units = "ms, s, min, h or d";
    all_are_errors(&[
        ("IPLimitRetryAfter", "needs a time", "5s"),
        ("IPLimitRetryAfter soon", "\"soon\"", units),
        (
            "IPLimitRetryAfter 5q",
            "\"5q\" has unknown unit \"q\"",
            units,
        ),
        ("IPLimitRetryAfter 5 s", "\"5 s\"", "one time"),
        ("IPLimitRetryAfter -5", "\"-5\"", units),
        ("IPLimitRetryAfter 1.5s", "\"1.5s\"", units),
        ("IPLimitRetryAfter 0", "\"0\"", "1s or more"),
        ("IPLimitRetryAfter 0ms", "\"0ms\"", "1s or more"),
        ("IPLimitRetryAfter off", "\"off\"", units),
        ("IPLimitRetryAfter 4294967296", "\"4294967296\"", "longest"),
    ]);
}

#[test]
fn wrong_switches_and_levels_are_errors() {
    for name in ["IPLimitDryRun", "IPLimitHeaders"] {
        for (value, quoted) in [
            ("", "needs"),
            ("maybe", "\"maybe\""),
            ("1", "\"1\""),
            ("On Off", "\"On Off\""),
        ] {
            all_are_errors(&[(&format!("{name} {value}"), quoted, "On or Off")]);
        }
    }
    all_are_errors(&[
        ("IPLimitLogLevel", "needs a level", "warn"),
        (
            "IPLimitLogLevel loud",
            "\"loud\"",
            "emerg, alert, crit, error, warn",
        ),
        ("IPLimitLogLevel 4", "\"4\"", "trace1 to trace8"),
        ("IPLimitLogLevel trace9", "\"trace9\"", "trace1 to trace8"),
        ("IPLimitLogLevel warn info", "\"warn info\"", "notice"),
        (
            "IPLimitLogLevel limitipconn:info",
            "\"limitipconn:info\"",
            "info",
        ),
    ]);
}

#[test]
fn wrong_exemptions_are_errors() {
    let works = "all, preflight, addresses, method=NAME,... or expr=EXPRESSION";
    all_are_errors(&[
        ("IPLimitExempt", "needs", works),
        ("IPLimitExempt everybody", "\"everybody\"", works),
        ("IPLimitExempt 10.0.0.0/33", "\"10.0.0.0/33\"", works),
        ("IPLimitExempt 10.1.2.300", "\"10.1.2.300\"", works),
        (
            "IPLimitExempt all 10.0.0.0/8",
            "\"all\" stands alone",
            "line of their own",
        ),
        (
            "IPLimitExempt preflight method=GET",
            "\"preflight\" stands alone",
            "line of their own",
        ),
        ("IPLimitExempt method=", "method=", "\"\""),
        ("IPLimitExempt method=GET,,HEAD", "\"GET,,HEAD\"", "method="),
        ("IPLimitExempt method=\"G T\"", "\"G T\"", "method="),
        ("IPLimitExempt method=GET method=HEAD", "method=", "twice"),
        ("IPLimitExempt expr=", "expr=\"\"", "expr"),
        (
            "IPLimitExempt \"expr=%{HTTP_HOST\"",
            "%{HTTP_HOST",
            "expression",
        ),
        ("IPLimitExempt \"expr=1 -eq\"", "\"1 -eq\"", "expression"),
        (
            "IPLimitExempt \"expr=true\" \"expr=false\"",
            "expr=",
            "twice",
        ),
        ("IPLimitExempt colour=red", "\"colour=red\"", works),
        (
            "IPLimitExempt 10.0.0.0/8 # office",
            "\"#\"",
            "line of its own",
        ),
        ("LocalIP", "needs addresses", "127.0.0.1"),
        ("LocalIP localhost", "\"localhost\"", "192.0.2.1"),
        ("LocalIP 127.0.0.1 ::g", "\"::g\"", "2001:db8::/32"),
        ("LocalIP all", "\"all\"", "192.0.2.1"),
    ]);
}

#[test]
fn wrong_words_about_clients_are_errors() {
    let lengths = "IPv4 from 0 to 32 and for IPv6 from 0 to 128";
    let header = "X-Forwarded-For trusted=10.0.0.0/8";
    all_are_errors(&[
        ("IPLimitAddress", "needs", "client or connection"),
        ("IPLimitAddress peer", "\"peer\"", "client or connection"),
        (
            "IPLimitAddress client connection",
            "\"client connection\"",
            "client or connection",
        ),
        ("IPLimitPrefix", "needs", lengths),
        ("IPLimitPrefix 32", "\"32\"", lengths),
        ("IPLimitPrefix 33 64", "\"33\"", lengths),
        ("IPLimitPrefix 32 129", "\"129\"", lengths),
        ("IPLimitPrefix /32 /64", "\"/32\"", lengths),
        ("IPLimitPrefix 32 64 8", "\"32 64 8\"", lengths),
        ("IPLimitClientHeader", "needs", header),
        (
            "IPLimitClientHeader X-Forwarded-For",
            "\"X-Forwarded-For\" trusts nobody",
            header,
        ),
        (
            "IPLimitClientHeader X-Forwarded-For trusted=",
            "trusted=\"\"",
            "10.1.0.0/16",
        ),
        (
            "IPLimitClientHeader X-Forwarded-For trusted=proxy",
            "trusted=\"proxy\"",
            "10.1.0.0/16",
        ),
        (
            "IPLimitClientHeader X-Forwarded-For 10.0.0.1",
            "\"10.0.0.1\"",
            "trusted=",
        ),
        (
            "IPLimitClientHeader X-For:warded trusted=10.0.0.1",
            "\"X-For:warded\"",
            header,
        ),
        (
            "IPLimitClientHeader Forwarded trusted=10.0.0.1",
            "\"Forwarded\"",
            "X-Forwarded-For",
        ),
        (
            "IPLimitClientHeader X-Real-IP trusted=10.0.0.1 trusted=10.0.0.2",
            "trusted=",
            "twice",
        ),
        (
            "IPLimitClientHeader X-Real-IP trusted=10.0.0.1\nIPLimitClientHeader X-Real-IP trusted=10.0.0.2",
            "X-Real-IP",
            "keep one of them",
        ),
    ]);
}

#[test]
fn wrong_pressures_networks_and_combinations_are_errors() {
    let busy = "N% with N from 1 to 100, for example busy=80%";
    all_are_errors(&[
        ("MaxConnPerIP 3 busy=80", "busy=\"80\"", busy),
        ("MaxConnPerIP 3 busy=", "busy=\"\"", busy),
        ("MaxConnPerIP 3 busy=0%", "busy=\"0%\"", busy),
        ("MaxConnPerIP 3 busy=101%", "busy=\"101%\"", busy),
        ("MaxConnPerIP 3 busy=8.5%", "busy=\"8.5%\"", busy),
        ("MaxConnPerIP 3 busy=%", "busy=\"%\"", busy),
        ("MaxConnPerIP 3 busy=50% busy=60%", "busy=", "twice"),
        ("IPLimitDefaults busy=full", "busy=\"full\"", busy),
        ("IPLimitDefaults busy=50% busy=50%", "busy=", "twice"),
        ("MaxConnPerIP 3 for=office", "for=\"office\"", "10.1.0.0/16"),
        (
            "MaxConnPerIP 3 for=10.0.0.0/33",
            "for=\"10.0.0.0/33\"",
            "10.1.0.0/16",
        ),
        (
            "IPLimitDefaults for=10.0.0.0/8",
            "\"for=10.0.0.0/8\"",
            "scope=",
        ),
        (
            "IPLimitDefaults count=connections",
            "\"connections\"",
            "in the rule itself",
        ),
        (
            "MaxConnPerIP 3 count=connections scope=vhost",
            "\"scope=vhost\"",
            "count=requests",
        ),
        (
            "MaxConnPerIP 3 count=connections scope=location",
            "\"scope=location\"",
            "count=requests",
        ),
        (
            "MaxConnPerIP 3 for=10.1\nMaxConnPerIP 4 scope=location for=10.1.0.0/16",
            "\"4 scope=location for=10.1.0.0/16\"",
            "the first is on line ",
        ),
        (
            "MaxConnPerIP 3 count=connections\nMaxConnPerIP 4 count=connections",
            "\"4 count=connections\"",
            "the first is on line ",
        ),
    ]);
}
