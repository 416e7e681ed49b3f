//! Where a rule is written decides what it counts and what overrides it.

mod support;

use support::{Httpd, Mpm, on_every_mpm};

on_every_mpm!(inner_list_does_not_lift_the_outer_cap);

/// C01: two levels are two looks. Ten pictures pass under the outer cap, whatever the inner list
/// says, and the log names the rule that refused.
fn inner_list_does_not_lift_the_outer_cap(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "MaxConnPerIP 10 count=requests
             <Location /hoge>
                 MaxConnPerIP 3 scope=location
                 NoIPLimit image/*
             </Location>",
        )
        .big_file("hoge/picture.png", 20 << 20)
        .big_file("hoge/page.html", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    let refusals = |rule: &str| httpd.log_lines(&format!("rule {rule}, ")).len();
    let pictures: Vec<_> = (0..10)
        .map(|_| client.read_slowly("/hoge/picture.png"))
        .collect();
    assert_eq!(client.status("/hoge/picture.png"), 503);
    assert_eq!(
        (
            refusals("MaxConnPerIP@server"),
            refusals("MaxConnPerIP@/hoge")
        ),
        (1, 0),
        "{}",
        httpd.error_log()
    );
    drop(pictures);
    httpd.wait_for_quiet();
    let _pages: Vec<_> = (0..3)
        .map(|_| client.read_slowly("/hoge/page.html"))
        .collect();
    assert_eq!(client.status("/hoge/page.html"), 503);
    assert_eq!(
        (
            refusals("MaxConnPerIP@server"),
            refusals("MaxConnPerIP@/hoge")
        ),
        (1, 1),
        "{}",
        httpd.error_log()
    );
    assert_eq!(
        client.status("/fuga/small.txt"),
        200,
        "the server still has room"
    );
    assert_eq!(client.status("/hoge/picture.png"), 200);
}

/// What is in flight anywhere counts for a rule that stands in one place.
#[test]
fn wide_scope_in_a_place_counts_what_is_elsewhere() {
    for scope in ["vhost", "server"] {
        let httpd = Httpd::on(Mpm::Event)
            .expect_refusals()
            .conf(&format!(
                "<Location /hoge>\n MaxConnPerIP 2 scope={scope} count=requests\n</Location>"
            ))
            .start();
        let client = httpd.client("127.0.0.2");
        let held = [(); 2].map(|()| client.hold("/fuga/hold.cgi"));
        assert_eq!(client.status("/hoge/small.txt"), 503, "{scope}");
        assert_eq!(client.status("/fuga/small.txt"), 200, "{scope}");
        let gauge = httpd.gauge();
        let count = format!("requests@{scope} (directory level)");
        assert_eq!(gauge.count_of(&count, "127.0.0.2"), 2, "{gauge:?}");
        drop(held);
        httpd.wait_for(|gauge| gauge.total() == 0);
        assert_eq!(client.status("/hoge/small.txt"), 200, "{scope}");
    }
}

#[test]
fn no_section_lifts_the_cap_of_the_server() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf("MaxConnPerIP 1 count=requests\n<Location /hoge>\n MaxConnPerIP off\n NoIPLimit *\n</Location>")
        .expect_log("limitipconn(202): ")
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    assert_eq!(client.status("/hoge/small.txt"), 503);
}

#[test]
fn deeper_section_overrides_and_zero_takes_the_limit_away() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .expect_log("limitipconn(206): ")
        .furnish("hoge/free")
        .furnish("hoge/wide")
        .conf(
            "<Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>
             <Location /hoge/free>
                 MaxConnPerIP 0
             </Location>
             <Location /hoge/wide>
                 MaxConnPerIP 2 scope=location
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _one = client.hold("/hoge/hold.cgi");
    assert_eq!(client.status("/hoge/small.txt"), 503);
    let _free = [(); 3].map(|()| client.hold("/hoge/free/hold.cgi"));
    assert_eq!(client.status("/hoge/free/small.txt"), 200);
    let _wide = [(); 2].map(|()| client.hold("/hoge/wide/hold.cgi"));
    assert_eq!(client.status("/hoge/wide/small.txt"), 503);
}

/// A place that says only a list inherits the rule, and counts with it.
#[test]
fn section_that_inherits_a_rule_counts_with_it() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .furnish("hoge/sub")
        .conf(
            "<Location /hoge>
                 MaxConnPerIP 2 scope=location
             </Location>
             <Location /hoge/sub>
                 NoIPLimit text/plain
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = (
        client.hold("/hoge/hold.cgi"),
        client.hold("/hoge/sub/hold.cgi"),
    );
    assert_eq!(client.status("/hoge/sub/index.html"), 503);
    assert_eq!(client.status("/hoge/index.html"), 503);
    assert_eq!(client.status("/hoge/sub/small.txt"), 200);
    assert_eq!(client.status("/hoge/small.txt"), 503);
}

/// Directory, .htaccess, Files, Location, If: the later overrides.
#[test]
fn sections_merge_in_the_order_of_httpd() {
    let directory = "<Directory ${DOCROOT}/hoge>\n AllowOverride Limit\n MaxConnPerIP 1 scope=location\n</Directory>\n";
    let files = "<Files hold.cgi>\n MaxConnPerIP 3 scope=location\n</Files>\n";
    let location = "<Location /hoge>\n MaxConnPerIP 4 scope=location\n</Location>\n";
    let condition =
        "<If \"%{REQUEST_URI} =~ m#^/hoge/#\">\n MaxConnPerIP 5 scope=location\n</If>\n";
    let admitted = |conf: &str, htaccess: &str| {
        let httpd = Httpd::on(Mpm::Event)
            .expect_refusals()
            .conf(conf)
            .file("hoge/.htaccess", htaccess)
            .start();
        let client = httpd.client("127.0.0.2");
        let mut held = Vec::new();
        while let Ok(request) = client.try_hold("/hoge/hold.cgi") {
            held.push(request);
            assert!(held.len() < 10, "no limit: {conf}");
        }
        held.len()
    };
    assert_eq!(admitted(directory, ""), 1);
    assert_eq!(admitted(directory, "MaxConnPerIP 2 scope=location\n"), 2);
    assert_eq!(
        admitted(
            &format!("{files}{directory}"),
            "MaxConnPerIP 2 scope=location\n"
        ),
        3
    );
    assert_eq!(
        admitted(
            &format!("{location}{files}{directory}"),
            "MaxConnPerIP 2 scope=location\n"
        ),
        4
    );
    let all = format!("{condition}{location}{files}{directory}");
    assert_eq!(admitted(&all, "MaxConnPerIP 2 scope=location\n"), 5);
}

/// Sections of one name are one place, wherever they stand in the file.
#[test]
fn sections_of_equal_name_are_one_place() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "<Location /hoge>
                 MaxConnPerIP 5 scope=location
             </Location>
             <Location /hoge>
                 MaxConnPerIP 2 scope=location
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(httpd.gauge().count_of("MaxConnPerIP@/hoge", "127.0.0.2"), 2);
}

/// `IPLimitDefaults scope=location` turns an old configuration per-Location, wherever it stands.
#[test]
fn defaults_make_plain_rules_count_their_place() {
    let place = "<Location /hoge>\n MaxConnPerIP 2\n</Location>\n";
    let defaults = "IPLimitDefaults scope=location\n";
    for conf in [format!("{defaults}{place}"), format!("{place}{defaults}")] {
        let httpd = Httpd::on(Mpm::Event).expect_refusals().conf(&conf).start();
        let client = httpd.client("127.0.0.2");
        let _elsewhere = [(); 4].map(|()| client.hold("/fuga/hold.cgi"));
        let _held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
        assert_eq!(client.status("/hoge/small.txt"), 503, "{conf}");
    }
}

/// What a rule says itself stands, and a default that does not fit it is ignored.
#[test]
fn defaults_do_not_overrule_a_rule() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "IPLimitDefaults scope=vhost
             IPLimitDefaults count=workers
             <Location /hoge>
                 MaxConnPerIP 2 scope=location
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _elsewhere = [(); 4].map(|()| client.hold("/fuga/hold.cgi"));
    let _held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(httpd.gauge().count_of("MaxConnPerIP@/hoge", "127.0.0.2"), 2);
}

/// In a section the setting replaces that of the server, for this place only.
#[test]
fn defaults_of_a_section_hold_there() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .expect_log("limitipconn(205): ")
        .conf(
            "<Location /hoge>
                 IPLimitDefaults scope=location
                 MaxConnPerIP 2
             </Location>
             <Location /fuga>
                 MaxConnPerIP 4
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _root = [(); 4].map(|()| client.hold("/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 200);
    assert_eq!(client.status("/fuga/small.txt"), 503);
}

/// The narrower rule's place is not lost when the wider refuses, and the other way round.
#[test]
fn refusal_by_one_rule_takes_no_place_of_another() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "MaxConnPerIP 3 count=requests
             <Location /hoge>
                 MaxConnPerIP 2 scope=location
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let hoge = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    for _ in 0..5 {
        assert_eq!(client.status("/hoge/small.txt"), 503);
    }
    let _third = client.hold("/fuga/hold.cgi");
    for _ in 0..5 {
        assert_eq!(client.status("/fuga/small.txt"), 503);
    }
    let gauge = httpd.gauge();
    assert_eq!(
        gauge.count_of("requests@server (server level)", "127.0.0.2"),
        3,
        "{gauge:?}"
    );
    assert_eq!(
        gauge.count_of("MaxConnPerIP@/hoge", "127.0.0.2"),
        2,
        "{gauge:?}"
    );
    drop(hoge);
    httpd.wait_for(|gauge| gauge.total() == 1);
    assert_eq!(client.status("/hoge/small.txt"), 200);
}
