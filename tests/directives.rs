//! What `httpd -t` says: every wrong word is an error that names the directive, quotes the
//! value and says what would work.

mod support;

use support::{Configtest, Httpd, Mpm};

/// The verdict on these lines in the main server.
fn test(lines: &str) -> Configtest {
    Httpd::on(Mpm::Event).conf(lines).configtest()
}

/// Every line must be refused by a sentence that holds each of its texts.
#[track_caller]
fn all_are_errors(cases: &[(&str, &[&str])]) {
    for (lines, texts) in cases {
        let said = test(lines);
        assert_eq!(said.code, 1, "{lines:?} is no error: {said:?}");
        for text in *texts {
            assert!(
                said.stderr.contains(text),
                "{lines:?}: no {text:?} in {}",
                said.stderr
            );
        }
    }
}

#[track_caller]
fn all_are_good(cases: &[&str]) {
    for lines in cases {
        let said = test(lines);
        assert_eq!(
            (said.code, said.stderr.trim()),
            (0, "Syntax OK"),
            "{lines:?}"
        );
    }
}

#[test]
fn wrong_numbers_are_errors() {
    all_are_errors(&[
        ("MaxConnPerIP ten", &["MaxConnPerIP", "\"ten\"", "65535"]),
        ("MaxConnPerIP 5x", &["MaxConnPerIP", "\"5x\"", "65535"]),
        ("MaxConnPerIP -1", &["MaxConnPerIP", "\"-1\"", "65535"]),
        ("MaxConnPerIP +1", &["MaxConnPerIP", "\"+1\""]),
        (
            "MaxConnPerIP 70000",
            &["MaxConnPerIP", "\"70000\"", "65535"],
        ),
        (
            "MaxConnPerIP 99999999999999999999",
            &["MaxConnPerIP", "\"99999999999999999999\"", "65535"],
        ),
        ("MaxConnPerIP 3.5", &["MaxConnPerIP", "\"3.5\""]),
        ("MaxConnPerIP 0x10", &["MaxConnPerIP", "\"0x10\""]),
        ("MaxConnPerIP \"\"", &["MaxConnPerIP"]),
        ("MaxConnPerIP", &["MaxConnPerIP"]),
        (
            "MaxConnPerIP scope=location",
            &["MaxConnPerIP", "scope=location"],
        ),
        ("MaxConnPerIP 3 5", &["MaxConnPerIP", "\"5\""]),
    ]);
}

#[test]
fn wrong_options_are_errors() {
    all_are_errors(&[
        (
            "MaxConnPerIP 3 scope=planet",
            &["MaxConnPerIP", "\"planet\"", "server", "vhost", "location"],
        ),
        (
            "MaxConnPerIP 3 scope=",
            &["MaxConnPerIP", "scope", "server", "vhost", "location"],
        ),
        ("MaxConnPerIP 3 scope", &["MaxConnPerIP", "\"scope\""]),
        (
            "MaxConnPerIP 3 scope=zone",
            &["MaxConnPerIP", "\"zone\"", "location"],
        ),
        (
            "MaxConnPerIP 3 count=sheep",
            &["MaxConnPerIP", "\"sheep\"", "workers", "requests"],
        ),
        (
            "MaxConnPerIP 3 colour=red",
            &["MaxConnPerIP", "colour", "scope=", "count="],
        ),
        ("MaxConnPerIP 3 # three", &["MaxConnPerIP", "\"#\""]),
        (
            "MaxConnPerIP 3 scope=server scope=vhost",
            &["MaxConnPerIP", "scope"],
        ),
        ("MaxConnPerIP 3 \"scope=location", &["MaxConnPerIP"]),
    ]);
}

/// Workers are counted over the whole server and nowhere else.
#[test]
fn workers_with_a_narrower_scope_is_an_error() {
    all_are_errors(&[
        (
            "MaxConnPerIP 3 count=workers scope=vhost",
            &["MaxConnPerIP", "workers", "count=requests"],
        ),
        (
            "<Location /hoge>\n MaxConnPerIP 3 scope=location count=workers\n</Location>",
            &["MaxConnPerIP", "workers", "count=requests"],
        ),
    ]);
}

#[test]
fn wrong_lists_are_errors() {
    all_are_errors(&[
        ("NoIPLimit", &["NoIPLimit"]),
        ("OnlyIPLimit", &["OnlyIPLimit"]),
    ]);
}

#[test]
fn wrong_settings_are_errors() {
    all_are_errors(&[
        ("IPLimitDefaults", &["IPLimitDefaults"]),
        (
            "IPLimitDefaults scope=planet",
            &["IPLimitDefaults", "\"planet\"", "location"],
        ),
        (
            "IPLimitDefaults count=sheep",
            &["IPLimitDefaults", "\"sheep\"", "requests"],
        ),
        (
            "IPLimitDefaults colour=red",
            &["IPLimitDefaults", "colour", "scope="],
        ),
        ("IPLimitDefaults 3", &["IPLimitDefaults", "\"3\""]),
        ("IPLimitTable", &["IPLimitTable"]),
        (
            "IPLimitTable keys=15",
            &["IPLimitTable", "15\"", "16", "16000000"],
        ),
        (
            "IPLimitTable keys=16000001",
            &["IPLimitTable", "16000001\"", "16000000"],
        ),
        (
            "IPLimitTable keys=many",
            &["IPLimitTable", "many\"", "16000000"],
        ),
        ("IPLimitTable keys=", &["IPLimitTable"]),
        ("IPLimitTable 1024", &["IPLimitTable", "1024", "keys="]),
        ("IPLimitTable size=1024", &["IPLimitTable", "size", "keys="]),
        ("IPLimitStatusPage Maybe", &["IPLimitStatusPage"]),
    ]);
}

#[test]
fn directives_in_the_wrong_place_are_errors() {
    let in_vhost =
        |line: &str| format!("<VirtualHost *:8080>\n ServerName v\n {line}\n</VirtualHost>");
    let in_place = |line: &str| format!("<Location /hoge>\n {line}\n</Location>");
    for line in ["IPLimitTable keys=1024", "IPLimitStatusPage On"] {
        let name = line.split(' ').next().expect("a name");
        all_are_errors(&[(&in_vhost(line), &[name]), (&in_place(line), &[name])]);
    }
}

#[test]
fn every_way_to_write_it_is_good() {
    all_are_good(&[
        "MaxConnPerIP 10",
        "MaxConnPerIP 0",
        "MaxConnPerIP 65535",
        "MaxConnPerIP off",
        "maxconnperip OFF",
        "MaxConnPerIP \"10\"",
        "MaxConnPerIP 10 scope=server",
        "MaxConnPerIP 10 count=workers",
        "MaxConnPerIP 10 scope=server count=workers",
        "MaxConnPerIP 10 SCOPE=VHost COUNT=Requests",
        "MaxConnPerIP 10 \"scope=location\" count=\"requests\"",
        "MaxConnPerIP 10 count=requests scope=location",
        "NoIPLimit image/* text/css\nNoIPLimit VIDEO\nMaxConnPerIP 10",
        "NoIPLimit off\nOnlyIPLimit off\nMaxConnPerIP 10",
        "OnlyIPLimit audio/mpeg video application/*+xml\nMaxConnPerIP 10",
        "IPLimitDefaults scope=location count=requests\nMaxConnPerIP 10",
        "IPLimitTable keys=16\nMaxConnPerIP 10",
        "IPLimitTable keys=1000\nMaxConnPerIP 10",
        "IPLimitStatusPage Off\nMaxConnPerIP 10",
        "<Location /hoge>\n MaxConnPerIP 2 scope=location\n IPLimitDefaults scope=vhost\n NoIPLimit image/*\n</Location>",
    ]);
}

#[test]
fn like_rules_in_one_section_are_an_error_that_says_where_the_first_is() {
    let first = "MaxConnPerIP 9 scope=location";
    for second in [
        "MaxConnPerIP 8 scope=location",
        "MaxConnPerIP 8 scope=vhost",
        "MaxConnPerIP 8",
        "MaxConnPerIP off",
    ] {
        let setup = Httpd::on(Mpm::Event).conf(&format!(
            "<Location /hoge>\n {first}\n {second}\n</Location>"
        ));
        let said = setup.configtest();
        assert_eq!(said.code, 1, "{second}: {said:?}");
        let conf =
            std::fs::read_to_string(setup.dir().join("httpd.conf")).expect("read httpd.conf");
        let line = 1 + conf
            .lines()
            .position(|line| line.trim() == first)
            .expect("the first rule");
        assert!(
            said.stderr.contains("MaxConnPerIP"),
            "{second}: {}",
            said.stderr
        );
        assert!(
            said.stderr.contains(&format!("line {line} of ")),
            "{second}: no line {line} in {}",
            said.stderr
        );
    }
}

/// What a graceful would refuse, `-t` refuses: the running server goes on with what it has.
#[test]
fn bad_configuration_does_not_start() {
    let said = Httpd::on(Mpm::Event)
        .conf("MaxConnPerIP ten")
        .try_start()
        .err()
        .expect("it must not start");
    assert!(
        said.contains("MaxConnPerIP") && said.contains("\"ten\""),
        "{said}"
    );
}
