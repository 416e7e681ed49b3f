//! What a refused client gets, and what the logs tell of it.

mod support;

use support::{Connection, Gate, Held, Httpd, Mpm, Setup, on_every_mpm};

on_every_mpm!(
    refusal_is_a_503_that_says_when_to_retry,
    error_document_may_be_a_text,
    error_document_may_be_a_file,
    error_document_may_be_a_script_that_sees_why,
    refusals_that_sit_in_a_script_hold_nothing,
    marks_split_the_access_log,
);

fn one_in_hoge(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .expect_refusals()
        .conf("<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>")
}

fn refusal_is_a_503_that_says_when_to_retry(mpm: Mpm) {
    let httpd = one_in_hoge(mpm).start();
    let client = httpd.client("127.0.0.2");
    let admitted = client.hold("/hoge/hold.cgi");
    assert_eq!(admitted.head().header("retry-after"), None);
    let refused = client.get("/hoge/small.txt");
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    assert!(
        refused.text().contains("503 Service Unavailable"),
        "httpd's own page: {}",
        refused.text()
    );
    assert!(
        !refused.text().contains("Additionally"),
        "{}",
        refused.text()
    );
}

fn error_document_may_be_a_text(mpm: Mpm) {
    let text = "ErrorDocument 503 \\\n  \"Too many at once. \\\n   Wait, then retry.\"";
    let httpd = one_in_hoge(mpm).conf(text).start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    let refused = client.get("/hoge/small.txt");
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (503, Some("5"))
    );
    assert!(
        refused.text().starts_with("Too many at once."),
        "{}",
        refused.text()
    );
}

/// C30: the busy page inside the limited area is sent, once, and is not itself refused or counted.
fn error_document_may_be_a_file(mpm: Mpm) {
    let httpd = one_in_hoge(mpm)
        .conf("ErrorDocument 503 /hoge/busy.html")
        .file("hoge/busy.html", "busy, come back later\n")
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    for _ in 0..3 {
        let refused = client.get("/hoge/small.txt");
        assert_eq!(
            (refused.status, refused.text().as_str()),
            (503, "busy, come back later\n")
        );
        assert_eq!(
            (
                refused.header("retry-after"),
                refused.header("cache-control")
            ),
            (Some("5"), Some("no-store"))
        );
    }
    let gauge = httpd.gauge();
    let rule = "MaxConnPerIP@/hoge";
    assert_eq!(
        (gauge.count_of(rule, "127.0.0.2"), gauge.refused(rule)),
        (1, 3),
        "{gauge:?}"
    );
}

fn error_document_may_be_a_script_that_sees_why(mpm: Mpm) {
    let script = "#!/bin/sh
printf 'Content-Type: text/plain\\n\\n'
echo \"$REDIRECT_STATUS $REDIRECT_LIMITIP $REDIRECT_LIMITIP_STATUS\"
echo \"$REDIRECT_LIMITIP_RULE $REDIRECT_LIMITIP_COUNT/$REDIRECT_LIMITIP_LIMIT\"
";
    let httpd = one_in_hoge(mpm)
        .conf("ErrorDocument 503 /busy.cgi")
        .script("busy.cgi", script)
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    let refused = client.get("/hoge/small.txt");
    assert_eq!(refused.status, 503);
    assert_eq!(refused.text(), "503 1 REJECTED\nMaxConnPerIP@/hoge 2/1\n");
}

/// Ten refused requests wait in the script of the busy page, which lies in the full place itself.
fn refusals_that_sit_in_a_script_hold_nothing(mpm: Mpm) {
    let httpd = one_in_hoge(mpm)
        .conf(
            "MaxConnPerIP 50 count=requests
             ErrorDocument 503 /hoge/hold.cgi
             <Location /fuga>
                 MaxConnPerIP 3 scope=vhost
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    let gate: Gate = httpd.gate("busy");
    let mut refused: Vec<Connection> = (0..10).map(|_| client.connect()).collect();
    for connection in &mut refused {
        let request = connection.request("GET", "/hoge/small.txt?busy", "Connection: close\r\n");
        connection.send(request);
    }
    let heads: Vec<_> = refused.iter_mut().map(Connection::head).collect();
    assert!(heads.iter().all(|head| head.status == 503), "{heads:?}");
    let gauge = httpd.gauge();
    assert_eq!(
        gauge.count_of("MaxConnPerIP@/hoge", "127.0.0.2"),
        1,
        "{gauge:?}"
    );
    assert_eq!(
        gauge.held(),
        3,
        "one for /hoge, one for the virtual host, one for the server: {gauge:?}"
    );
    assert_eq!(
        client.status("/fuga/small.txt"),
        200,
        "ten refused requests count in no scope"
    );
    drop(held);
    httpd.wait_for(|gauge| gauge.total() == 0);
    let next: Held = client.hold("/hoge/hold.cgi");
    drop(gate);
    for (connection, head) in refused.iter_mut().zip(heads) {
        assert_eq!(connection.body_of(head).text(), "started\nended\n");
    }
    drop(next);
}

fn marks_split_the_access_log(mpm: Mpm) {
    let httpd = one_in_hoge(mpm)
        .conf(
            "LogFormat \"%h %>s %U limited=%<{LIMITIP}e %<{LIMITIP_STATUS}e %<{LIMITIP_RULE}e %<{LIMITIP_COUNT}e/%<{LIMITIP_LIMIT}e\" marks
             CustomLog ${TMP}/served marks env=!LIMITIP
             CustomLog ${TMP}/refused marks env=LIMITIP
             ErrorDocument 503 /busy.html",
        )
        .file("busy.html", "busy\n")
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    held.finish();
    let read = |name: &str| {
        let text = std::fs::read_to_string(httpd.dir().join(name)).unwrap_or_default();
        let mut lines: Vec<_> = text
            .lines()
            .filter(|line| !line.contains("limit-status"))
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    let served = support::wait_until(support::DEADLINE, || {
        let lines = read("served");
        if lines.len() == 2 {
            Ok(lines)
        } else {
            Err(lines)
        }
    });
    assert_eq!(
        served,
        [
            "127.0.0.2 200 /fuga/small.txt limited=- - - -/-",
            "127.0.0.2 200 /hoge/hold.cgi limited=- PASSED MaxConnPerIP@/hoge 1/1",
        ]
    );
    assert_eq!(
        read("refused"),
        ["127.0.0.2 503 /hoge/small.txt limited=1 REJECTED MaxConnPerIP@/hoge 2/1"]
    );
}

/// C29: one stable line at the default level, with all that a filter or a supporter needs.
#[test]
fn refusal_is_one_line_at_warn() {
    let httpd = one_in_hoge(Mpm::Event).start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    assert_eq!(client.status("/hoge/small.txt?query"), 503);
    let lines = httpd.wait_for_log("limitipconn(101): ");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("[limitipconn:warn] "), "{}", lines[0]);
    let said = format!(
        "limitipconn(101): client 127.0.0.2 refused: too many connections from this host: 2/1, \
         rule MaxConnPerIP@/hoge, vhost localhost:{}, uri \"/hoge/small.txt\"",
        httpd.port()
    );
    assert!(lines[0].contains(&said), "{}\n{said}", lines[0]);
}

/// C29: what the client wrote cannot make a line of its own.
#[test]
fn uri_of_a_refusal_is_escaped() {
    let httpd = one_in_hoge(Mpm::Event).start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    let path = "/hoge/a%0ab%22c%5cd%25e%e2%82%acf%1b[0m";
    assert_eq!(client.status(path), 503);
    let lines = httpd.wait_for_log("limitipconn(101): ");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = lines[0].to_ascii_lowercase();
    assert!(
        line.contains("uri \"/hoge/a%0ab%22c%5cd%25e%e2%82%acf%1b[0m\""),
        "{line}"
    );
    assert!(
        httpd.error_log().lines().all(|line| line.starts_with('[')),
        "{}",
        httpd.error_log()
    );
}

/// C29: admitted requests log nothing.
#[test]
fn admitted_requests_log_nothing() {
    let httpd = Httpd::on(Mpm::Event)
        .conf("<Location /hoge>\n MaxConnPerIP 5 scope=location\n</Location>")
        .start();
    // httpd's last line of a start.
    httpd.wait_for_log("AH00094");
    let before = httpd.error_log();
    for _ in 0..20 {
        assert_eq!(httpd.client("127.0.0.2").status("/hoge/small.txt"), 200);
    }
    assert_eq!(httpd.error_log(), before);
}

/// C30: by full URL the busy page is a request of its own, and the start warns; with no limit
/// there it is reached.
#[test]
fn busy_page_by_full_url_is_warned_about() {
    let httpd = one_in_hoge(Mpm::Event)
        .expect_log("limitipconn(207): ")
        .conf(
            "ErrorDocument 503 http://localhost:${PORT}/hoge/busy.html
             <Location /hoge/busy.html>
                 MaxConnPerIP 0
             </Location>",
        )
        .file("hoge/busy.html", "busy\n")
        .start();
    let warnings = httpd.log_lines("limitipconn(207): ");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    let first = client.get("/hoge/small.txt");
    assert_eq!(first.status, 302);
    let target = first.header("location").expect("a target").to_owned();
    assert!(target.ends_with("/hoge/busy.html"), "{target}");
    let second = client.get("/hoge/busy.html");
    assert_eq!(
        (second.status, second.text().as_str()),
        (200, "busy\n"),
        "two hops"
    );
}

/// A refusal at the server level takes the answers of the server.
#[test]
fn server_rule_answers_the_same() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .load(&["headers"])
        .conf("MaxConnPerIP 1 count=requests\nErrorDocument 503 \"busy\"\nHeader always set X-Always yes")
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    let refused = client.get("/fuga/small.txt");
    assert_eq!((refused.status, refused.text().as_str()), (503, "busy"));
    let headers = ["retry-after", "cache-control", "x-always"].map(|name| refused.header(name));
    assert_eq!(headers, [Some("5"), Some("no-store"), Some("yes")]);
}
