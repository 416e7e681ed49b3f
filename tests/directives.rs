//! What `httpd -t` says: every wrong word is an error that names the directive, quotes the
//! value and says what would work; what is merely unwise is a warning.

mod support;

use support::{Configtest, Httpd, Mpm, Setup};

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

/// These lines pass, with one warning of this number that holds each of the texts.
#[track_caller]
fn is_warned_about(lines: &str, number: u32, texts: &[&str]) {
    let said = test(lines);
    assert_eq!(said.code, 0, "{lines:?}: {said:?}");
    let id = format!("limitipconn({number}): ");
    let warnings: Vec<_> = said
        .stderr
        .lines()
        .filter(|line| line.contains(&id))
        .collect();
    assert_eq!(warnings.len(), 1, "{lines:?}: {}", said.stderr);
    for text in texts {
        assert!(
            warnings[0].contains(text),
            "{lines:?}: no {text:?} in {}",
            warnings[0]
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

/// What differs only in plain numbers was accepted by 0.24, and the last counted.
#[test]
fn plain_duplicate_is_a_warning() {
    is_warned_about(
        "<Location /hoge>\n MaxConnPerIP 9\n IPLimitDefaults scope=location\n MaxConnPerIP 8\n</Location>",
        203,
        &["MaxConnPerIP"],
    );
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .expect_log("limitipconn(203): ")
        .conf("IPLimitDefaults scope=location\n<Location /hoge>\n MaxConnPerIP 9\n MaxConnPerIP 2\n</Location>")
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503, "the last counts");
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

#[test]
fn rule_inside_limit_is_a_warning_that_names_if() {
    is_warned_about(
        "<Location /hoge>\n <Limit POST>\n MaxConnPerIP 9 scope=location\n </Limit>\n</Location>",
        204,
        &["<If", "<Limit"],
    );
}

#[test]
fn rule_in_a_section_that_counts_the_whole_server_is_a_warning() {
    is_warned_about(
        "<Location /hoge>\n MaxConnPerIP 9\n</Location>",
        205,
        &["MaxConnPerIP", "scope="],
    );
    all_are_good(&[
        "<Location /hoge>\n MaxConnPerIP 9 scope=server\n</Location>",
        "<Location /hoge>\n MaxConnPerIP 9\n</Location>\nIPLimitDefaults scope=location",
        "MaxConnPerIP 9",
    ]);
}

#[test]
fn small_limit_on_everything_is_a_warning() {
    is_warned_about(
        "<Location />\n MaxConnPerIP 5 scope=location\n</Location>",
        206,
        &["MaxConnPerIP", "5"],
    );
    all_are_good(&["<Location />\n MaxConnPerIP 6 scope=location\n</Location>"]);
}

/// C04: blanks inside a pattern, and a comment behind it, make patterns that let everything through.
#[test]
fn pattern_that_lets_everything_through_by_accident_is_a_warning() {
    let place = |list: &str| {
        format!("<Location /hoge>\n MaxConnPerIP 9 scope=location\n NoIPLimit {list}\n</Location>")
    };
    is_warned_about(
        &place("image / *"),
        202,
        &["NoIPLimit", "\"/\"", "image / *", "httpd.conf"],
    );
    is_warned_about(
        &place("image/* # pictures"),
        202,
        &["NoIPLimit", "\"#\"", "httpd.conf"],
    );
    is_warned_about(
        &place("pictures"),
        202,
        &["NoIPLimit", "\"pictures\"", "httpd.conf"],
    );
    all_are_good(&[
        &place("image/*"),
        &place("image video audio text application font"),
        &place("text/css"),
    ]);

    let httpd = Httpd::on(Mpm::Event)
        .expect_log("limitipconn(202): ")
        .conf("<Location /hoge>\n MaxConnPerIP 1 scope=location\n NoIPLimit image / *\n</Location>")
        .start();
    assert_eq!(
        httpd.log_lines("limitipconn(202): ").len(),
        1,
        "{}",
        httpd.error_log()
    );
    let client = httpd.client("127.0.0.2");
    let _held = [(); 5].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(
        client.status("/hoge/index.html"),
        200,
        "what a lone * means"
    );
}

/// C03: httpd has no comments behind a directive; ours are no exception.
#[test]
fn comment_behind_a_number_is_an_error_everywhere() {
    all_are_errors(&[(
        "<Directory ${DOCROOT}>\n MaxConnPerIP 10 # ten\n</Directory>",
        &["MaxConnPerIP", "\"#\""],
    )]);
    let httpd = htaccess("MaxConnPerIP 10 # ten\nOnlyIPLimit application/x-php\n")
        .expect_log("hoge/.htaccess: ")
        .start();
    assert_eq!(httpd.client("127.0.0.2").status("/hoge/small.txt"), 500);
    assert_eq!(httpd.client("127.0.0.2").status("/fuga/small.txt"), 200);
    let line = httpd.wait_for_log(".htaccess").pop().expect("a line");
    assert!(
        line.contains("hoge/.htaccess") && line.contains("MaxConnPerIP") && line.contains("\"#\""),
        "{line}"
    );
}

/// A server whose /hoge has this .htaccess.
fn htaccess(lines: &str) -> Setup {
    Httpd::on(Mpm::Event)
        .conf("<Directory ${DOCROOT}>\n AllowOverride Limit\n</Directory>\nMaxConnPerIP 100 count=requests")
        .file("hoge/.htaccess", lines)
}

#[test]
fn wrong_htaccess_is_a_500_and_a_line_in_the_log() {
    let cases = [
        ("MaxConnPerIP ten", "MaxConnPerIP"),
        ("MaxConnPerIP 3 scope=planet", "MaxConnPerIP"),
        (
            "MaxConnPerIP 3 count=workers scope=location",
            "MaxConnPerIP",
        ),
        (
            "MaxConnPerIP 3 scope=location\nMaxConnPerIP 4 scope=vhost",
            "MaxConnPerIP",
        ),
        ("IPLimitTable keys=1024", "IPLimitTable"),
        ("IPLimitStatusPage On", "IPLimitStatusPage"),
        ("IPLimitDefaults scope=location", "IPLimitDefaults"),
    ];
    let httpd = htaccess("").expect_log("hoge/.htaccess: ").start();
    let client = httpd.client("127.0.0.2");
    for (lines, name) in cases {
        let before = httpd.error_log().len();
        std::fs::write(
            httpd.dir().join("htdocs/hoge/.htaccess"),
            format!("{lines}\n"),
        )
        .expect("write .htaccess");
        assert_eq!(client.status("/hoge/small.txt"), 500, "{lines:?}");
        let said = httpd.error_log().split_off(before);
        assert!(
            said.contains("hoge/.htaccess: ") && said.contains(name),
            "{lines:?}: {said}"
        );
    }
}

#[test]
fn htaccess_takes_rules_and_lists() {
    let httpd = htaccess("MaxConnPerIP 1 scope=location\nNoIPLimit text/plain\n")
        .expect_refusals()
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    assert_eq!(
        (
            client.status("/hoge/small.txt"),
            client.status("/hoge/index.html")
        ),
        (200, 503)
    );
    let line = httpd
        .wait_for_log("limitipconn(101): ")
        .pop()
        .expect("a line");
    let rule = format!(
        "rule MaxConnPerIP@.htaccess:{}/htdocs/hoge/, ",
        httpd.dir().display()
    );
    assert!(line.contains(&rule), "{rule} in {line}");
    drop(held);
    httpd.wait_for(|gauge| gauge.total() == 0);
}

/// C07: both names of the wrapper match, the wrong one is skipped in silence; with no limit
/// anywhere the start says so, once.
#[test]
fn both_names_of_the_module_match() {
    for name in ["mod_limitipconn.c", "limitipconn_module"] {
        let said = test(&format!(
            "<IfModule {name}>\n MaxConnPerIP ten\n</IfModule>"
        ));
        assert_eq!(said.code, 1, "{name}: {said:?}");
    }
    let skipped = "<IfModule mod_limitipconn.so>\n MaxConnPerIP 5\n</IfModule>";
    let httpd = Httpd::on(Mpm::Event)
        .without_status()
        .expect_log("limitipconn(201): ")
        .conf(skipped)
        .start();
    httpd.graceful();
    let notices = httpd.log_lines("limitipconn(201): ");
    assert_eq!(notices.len(), 2, "one at each start: {notices:?}");
    assert!(notices[0].contains("[limitipconn:notice]"), "{notices:?}");
    drop(httpd);
    // A server with a rule is silent.
    drop(
        Httpd::on(Mpm::Event)
            .without_status()
            .conf("MaxConnPerIP 50")
            .start(),
    );
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

#[test]
fn help_lists_the_directives() {
    let listed = Httpd::on(Mpm::Event)
        .conf("MaxConnPerIP 9")
        .configtest_with(&["-L"]);
    assert_eq!(listed.code, 0, "{listed:?}");
}
