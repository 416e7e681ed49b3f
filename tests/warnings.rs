//! What is merely unwise starts, with one warning at each start; a server without any rule says
//! so in a notice.

mod support;

use support::{Configtest, Httpd, Mpm};

/// The verdict on these lines in the main server.
fn test(lines: &str) -> Configtest {
    Httpd::on(Mpm::Event).conf(lines).configtest()
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
    is_warned_about(
        "<LocationMatch \"^/\">\n MaxConnPerIP 5 scope=location\n</LocationMatch>",
        206,
        &["MaxConnPerIP@LocationMatch:^/ 5"],
    );
    all_are_good(&[
        "<Location />\n MaxConnPerIP 6 scope=location\n</Location>",
        "<LocationMatch \"^/hoge\">\n MaxConnPerIP 5 scope=location\n</LocationMatch>",
    ]);
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
