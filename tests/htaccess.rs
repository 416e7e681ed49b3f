//! Rules in .htaccess: what they take, and what happens when they are wrong.

mod support;

use support::{Httpd, Mpm, Setup};

/// C03: httpd has no comments behind a directive; ours are no exception.
#[test]
fn comment_behind_a_number_is_an_error_everywhere() {
    let in_directory = "<Directory ${DOCROOT}>\n MaxConnPerIP 10 # ten\n</Directory>";
    let said = Httpd::on(Mpm::Event).conf(in_directory).configtest();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.stderr.contains("MaxConnPerIP") && said.stderr.contains("\"#\""),
        "{said:?}"
    );
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

/// A count of the whole virtual host that only .htaccess asks for begins with its first use.
#[test]
fn wide_count_of_htaccess_begins_with_its_first_use() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .expect_log("limitipconn(201): ")
        .conf("<Directory ${DOCROOT}>\n AllowOverride Limit\n</Directory>")
        .file("hoge/.htaccess", "MaxConnPerIP 2 scope=vhost\n")
        .start();
    let client = httpd.client("127.0.0.2");
    assert_eq!(client.status("/hoge/small.txt"), 200);
    let held = [(); 2].map(|()| client.hold("/fuga/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    drop(held);
    httpd.wait_for_quiet();
    assert_eq!(client.status("/hoge/small.txt"), 200);
}
