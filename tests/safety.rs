//! What must hold whatever comes: nothing but the module record is exported, strange requests
//! do no harm, and the gauge shows itself only where the server says so.

mod support;

use std::process::Command;

use support::{Httpd, Mpm, on_every_mpm};

on_every_mpm!(
    strange_requests_do_no_harm,
    gauge_is_for_those_who_may_see_it,
    fault_of_ours_serves_the_request_and_is_told_once,
);

/// The output of a binutils program about the module.
fn about_the_module(program: &str, arguments: &[&str]) -> String {
    let module = Httpd::module();
    let said = Command::new(program).args(arguments).arg(module).output();
    let said = said.unwrap_or_else(|e| panic!("cannot run {program}: {e}; install binutils"));
    String::from_utf8_lossy(&said.stdout).into_owned()
}

#[test]
fn only_the_module_record_is_exported() {
    let text = about_the_module("nm", &["-D", "--defined-only", "--format=posix"]);
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names, ["limitipconn_module"]);
}

/// A reload must not unload what threads and pthread keys still point to.
#[test]
fn module_stays_mapped_over_reloads() {
    let text = about_the_module("readelf", &["-d"]);
    assert!(text.contains("NODELETE"), "{text}");
}

fn strange_requests_do_no_harm(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_log("AH")
        .conf("MaxConnPerIP 50 count=requests")
        .conf("<Location />\n MaxConnPerIP 40 scope=location\n NoIPLimit image/*\n</Location>")
        .start();
    let long = "/".repeat(8000);
    let requests: [&[u8]; 14] = [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"TRACE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /hoge/hello.cgi HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /hoge/hello.cgi HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    ];
    for request in requests
        .into_iter()
        .chain([format!("GET {long} HTTP/1.1\r\n\r\n").as_bytes()])
    {
        let mut connection = httpd.client("127.0.0.2").connect();
        connection.send(request);
        // Whatever the answer is, or none.
        let _ = connection.stream().shutdown(std::net::Shutdown::Write);
        let _ = connection.try_response();
    }
    let gauge = httpd.wait_for_quiet();
    assert_eq!(
        (gauge.number("faults"), gauge.number("audit_mismatches")),
        (0, 0),
        "{gauge:?}"
    );
    assert_eq!(httpd.client("127.0.0.2").status("/hoge/hello.cgi"), 200);
}

/// Debug builds panic in every hook of a request when they are told to: nobody is refused, no
/// child dies, and each child says so once.
fn fault_of_ours_serves_the_request_and_is_told_once(mpm: Mpm) {
    if !cfg!(debug_assertions) {
        return;
    }
    let httpd = Httpd::on(mpm)
        .env("LIMITIPCONN_PLANTED_FAULT", "1")
        .expect_log("the request is served: panicked at")
        .conf("MaxConnPerIP 1 count=requests\n<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>")
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    for path in ["/hoge/small.txt", "/hoge/hello.cgi", "/hoge/", "/"].repeat(5) {
        assert_eq!(client.status(path), 200, "{path}");
    }
    let lines = httpd.wait_for_log("limitipconn(304): ");
    let pid = |line: &String| {
        line.split("[pid ")
            .nth(1)
            .and_then(|rest| rest.split([':', ']']).next().map(str::to_owned))
    };
    let mut children: Vec<_> = lines.iter().map(pid).collect();
    children.sort();
    children.dedup();
    assert_eq!(children.len(), lines.len(), "once in each child: {lines:?}");
    assert!(
        lines
            .iter()
            .all(|line| line.contains("planted") && line.contains("[limitipconn:error]")),
        "{lines:?}"
    );
}

/// A script that is killed between fork and exec still is a copy of the child that serves the
/// request; what it does on its way out must not touch the child's places.
#[test]
fn killed_copy_of_a_child_gives_nothing_back() {
    let httpd = Httpd::on(Mpm::Prefork)
        .expect_log("AH01225")
        .conf("<Location /hoge>\n MaxConnPerIP 9 scope=location\n</Location>")
        .start();
    for _ in 0..100 {
        let mut connection = httpd.client("127.0.0.2").connect();
        // mod_cgi starts the script, then finds the body broken and kills it at once.
        let broken = "POST /hoge/hello.cgi HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
        connection.send(broken);
        let _ = connection.try_response();
    }
    let gauge = httpd.wait_for_quiet();
    assert_eq!(
        (gauge.number("faults"), gauge.number("audit_mismatches")),
        (0, 0),
        "{gauge:?}"
    );
}

fn gauge_is_for_those_who_may_see_it(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .conf("MaxConnPerIP 50 count=requests")
        .start();
    let answer = httpd.client("127.0.0.99").get("/limit-status?format=json");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(httpd.client("127.0.0.99").status("/limit-status"), 200);
    assert_eq!(
        httpd
            .client("127.0.0.99")
            .status("/limit-status?format=poem"),
        400
    );
    let gauge = httpd.gauge();
    assert!(
        gauge["httpd"]
            .as_str()
            .is_some_and(|text| text.starts_with("Apache/")),
        "{gauge:?}"
    );
    assert!(gauge["version"].is_string(), "{gauge:?}");
    let rules: Vec<_> = gauge
        .rows("rules")
        .map(|row| row["rule"].to_string())
        .collect();
    assert_eq!(rules, ["\"MaxConnPerIP@server\""], "{gauge:?}");

    // Off by default, so that no .htaccess can show everybody's visitors.
    let silent = Httpd::on(mpm)
        .without_status()
        .conf("MaxConnPerIP 50 count=requests\n<Directory ${DOCROOT}>\n AllowOverride FileInfo\n</Directory>")
        .expect_log("IPLimitStatusPage")
        .file("hoge/.htaccess", "SetHandler limitipconn-status\n")
        .start();
    let answer = silent
        .client("127.0.0.2")
        .get("/hoge/small.txt?format=json");
    assert_ne!(answer.status, 200, "{}", answer.text());
    assert!(!answer.text().contains("counts"), "{}", answer.text());
}
