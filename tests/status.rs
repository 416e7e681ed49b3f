//! With which status, headers and line a refusal is told: IPLimitErrorStatus,
//! IPLimitRetryAfter and IPLimitLogLevel, and where each of them is taken from.

mod support;

use support::{Client, Connection, Httpd, Mpm, Response, on_every_mpm};

on_every_mpm!(
    settings_outside_sections_hold_for_both_levels,
    head_counts_and_is_refused_without_a_body,
    header_always_is_set_on_refusals_of_every_level,
);

/// Status, Retry-After and Cache-Control.
fn told(answer: &Response) -> (u16, Option<&str>, Option<&str>) {
    let header = |name| answer.header(name);
    (
        answer.status,
        header("retry-after"),
        header("cache-control"),
    )
}

/// One request, by name of the host.
#[track_caller]
fn get_from(client: &Client, host: &str, path: &str) -> Response {
    let mut connection = client.connect();
    let more = format!("Host: {host}\r\nConnection: close\r\n");
    connection.send(connection.request("GET", path, &more));
    let answer = connection.response();
    // The server's end says that the place is free again, too.
    let end = std::io::copy(connection.reader(), &mut std::io::sink());
    assert!(matches!(end, Ok(0)), "{end:?}");
    answer
}

/// C20: any error status will do, those too that httpd has no name for or gives a meaning,
/// and each refusal says when to come back.
#[test]
fn every_error_status_may_be_chosen() {
    const STATUSES: [u16; 11] = [400, 401, 403, 404, 407, 418, 429, 499, 501, 503, 599];
    let places: String = STATUSES
        .iter()
        .map(|status| {
            format!("<Location /hoge/{status}>\n IPLimitErrorStatus {status}\n</Location>\n")
        })
        .collect();
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf("<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>")
        .conf(&places)
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    for status in STATUSES {
        let refused = client.get(&format!("/hoge/{status}/x"));
        assert_eq!(
            told(&refused),
            (status, Some("5"), Some("no-store")),
            "{}",
            refused.text()
        );
        assert!(
            !refused.text().contains("Additionally"),
            "{status}: {}",
            refused.text()
        );
        assert_eq!(refused.header("www-authenticate"), None, "{status}");
    }
    held.finish();
    httpd.wait_for(|gauge| gauge.total() == 0);
    assert_eq!(client.status("/hoge/small.txt"), 200);
    let gauge = httpd.gauge();
    assert_eq!(
        gauge.refused("MaxConnPerIP@/hoge"),
        STATUSES.len() as u64,
        "{gauge:?}"
    );
}

/// The same outside sections, where each virtual host has its own.
#[test]
fn every_error_status_may_be_chosen_for_a_server() {
    const STATUSES: [u16; 8] = [400, 401, 403, 407, 429, 499, 501, 599];
    let hosts: String = STATUSES
        .iter()
        .map(|status| {
            format!(
                "<VirtualHost *:${{PORT}}>\n ServerName v{status}\n DocumentRoot ${{DOCROOT}}\n \
                 IPLimitErrorStatus {status}\n IPLimitRetryAfter {status}\n</VirtualHost>\n"
            )
        })
        .collect();
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "<VirtualHost *:${PORT}>\n ServerName first\n DocumentRoot ${DOCROOT}\n</VirtualHost>",
        )
        .conf("MaxConnPerIP 1 count=requests\nIPLimitRetryAfter 2min")
        .conf(&hosts)
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    for status in STATUSES {
        let refused = get_from(&client, &format!("v{status}"), "/hoge/small.txt");
        let after = status.to_string();
        assert_eq!(
            told(&refused),
            (status, Some(after.as_str()), Some("no-store"))
        );
    }
    let refused = get_from(&client, "first", "/hoge/small.txt");
    assert_eq!(told(&refused), (503, Some("120"), Some("no-store")));
}

/// Outside sections they hold for both levels; in a section they replace that for the rules
/// of sections only, and what the section does not say stays.
fn settings_outside_sections_hold_for_both_levels(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitErrorStatus 429
             IPLimitRetryAfter 1500ms
             MaxConnPerIP 3 count=requests
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>
             <Location /fuga>
                 MaxConnPerIP 1 scope=location
                 IPLimitErrorStatus 403
             </Location>
             <Location /fuga/inner>
                 IPLimitRetryAfter 1min
             </Location>",
        )
        .furnish("fuga/inner")
        .start();
    let client = httpd.client("127.0.0.2");
    let hoge = client.hold("/hoge/hold.cgi");
    // C20: an answer that is none says nothing of the kind.
    assert_eq!(hoge.head().header("retry-after"), None);
    let _fuga = client.hold("/fuga/hold.cgi");
    let ask = |path| client.get(path);
    assert_eq!(
        told(&ask("/hoge/small.txt")),
        (429, Some("2"), Some("no-store"))
    );
    assert_eq!(
        told(&ask("/fuga/small.txt")),
        (403, Some("2"), Some("no-store"))
    );
    assert_eq!(
        told(&ask("/fuga/inner/small.txt")),
        (403, Some("60"), Some("no-store"))
    );
    assert_eq!(told(&ask("/small.txt")), (200, None, None));
    let _root = client.hold("/hold.cgi");
    for path in [
        "/small.txt",
        "/hoge/small.txt",
        "/fuga/small.txt",
        "/fuga/inner/small.txt",
    ] {
        let refused = ask(path);
        assert_eq!(
            told(&refused),
            (429, Some("2"), Some("no-store")),
            "the server's rule: {path}"
        );
    }
}

/// nginx 4: 501, logged at info where that is shown, and not where it is not.
#[test]
fn log_level_of_refusals_is_chosen_and_obeys_httpds() {
    let places = "<Location /hoge>
                      MaxConnPerIP 1 scope=location
                      IPLimitErrorStatus 501
                      IPLimitLogLevel info
                  </Location>
                  <Location /hoge/loud>
                      IPLimitLogLevel error
                  </Location>";
    let with = |level: &str| {
        let conf = format!("LogLevel warn {level}\n{places}");
        Httpd::on(Mpm::Event).expect_refusals().conf(&conf).start()
    };
    let refuse = |httpd: &Httpd, path: &str| {
        let client = httpd.client("127.0.0.2");
        let held = client.hold("/hoge/hold.cgi");
        assert_eq!(client.status(path), 501);
        held.finish();
        httpd.wait_for(|gauge| gauge.total() == 0);
    };
    let shown = with("limitipconn:info");
    refuse(&shown, "/hoge/small.txt");
    let lines = shown.wait_for_log("limitipconn(101): ");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("[limitipconn:info] "), "{}", lines[0]);
    assert!(lines[0].contains("rule MaxConnPerIP@/hoge"), "{}", lines[0]);

    for level in ["", "limitipconn:notice"] {
        let hidden = with(level);
        refuse(&hidden, "/hoge/small.txt");
        refuse(&hidden, "/hoge/loud/small.txt");
        let lines = hidden.wait_for_log("limitipconn(101): ");
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("[limitipconn:error] "), "{}", lines[0]);
        assert!(!lines[0].contains("left out"), "nothing was: {}", lines[0]);
        let gauge = hidden.gauge();
        assert_eq!(
            (
                gauge.refused("MaxConnPerIP@/hoge"),
                gauge.number("log_lines_left_out")
            ),
            (2, 0)
        );
    }
}

/// C19: `Header always` applies to refusals, and a plain `Header` does not.
fn header_always_is_set_on_refusals_of_every_level(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .load(&["headers"])
        .conf(
            "Header always set Access-Control-Allow-Origin *
             Header set X-Plain yes
             IPLimitErrorStatus 429
             MaxConnPerIP 2 count=requests
             <Directory ${DOCROOT}/hoge>
                 MaxConnPerIP 1 scope=location
                 Header always set X-Place hoge
             </Directory>
             <VirtualHost *:${PORT}>
                 ServerName first
                 DocumentRoot ${DOCROOT}
             </VirtualHost>
             <VirtualHost *:${PORT}>
                 ServerName other
                 DocumentRoot ${DOCROOT}
                 Header always set X-Host other
             </VirtualHost>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _hoge = client.hold("/hoge/hold.cgi");
    let names = [
        "access-control-allow-origin",
        "x-place",
        "x-host",
        "x-plain",
    ];
    let ask = |host: &str, path: &str| {
        let answer = get_from(&client, host, path);
        (
            answer.status,
            names.map(|name| answer.header(name).map(str::to_owned)),
        )
    };
    let set = |values: [Option<&str>; 4]| values.map(|value| value.map(str::to_owned));
    assert_eq!(
        ask("first", "/small.txt"),
        (200, set([Some("*"), None, None, Some("yes")]))
    );
    assert_eq!(
        ask("other", "/hoge/small.txt"),
        (429, set([Some("*"), Some("hoge"), Some("other"), None]))
    );
    let _root = client.hold("/hold.cgi");
    assert_eq!(
        ask("first", "/hoge/small.txt"),
        (429, set([Some("*"), None, None, None]))
    );
    assert_eq!(
        ask("other", "/hoge/small.txt"),
        (429, set([Some("*"), None, Some("other"), None]))
    );
}

/// A HEAD is a request as any other, and a refused one has the headers of a GET.
fn head_counts_and_is_refused_without_a_body(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf("IPLimitErrorStatus 429\n<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>")
        .script("hoge/wait.cgi", "#!/bin/sh\ngate=$DOCUMENT_ROOT/../gates/wait\n{ read -r line < \"$gate\"; } 2>/dev/null\nprintf 'Status: 204\\n\\n'\n")
        .start();
    let gate = httpd.gate("wait");
    let client = httpd.client("127.0.0.2");
    let mut waiting = client.connect();
    waiting.send(waiting.request("HEAD", "/hoge/wait.cgi", ""));
    httpd.wait_for(|gauge| gauge.count_of("MaxConnPerIP@/hoge", "127.0.0.2") == 1);

    let mut connection: Connection = client.connect();
    connection.send(connection.request("HEAD", "/hoge/small.txt", ""));
    let refused = connection.head();
    assert_eq!(told(&refused), (429, Some("5"), Some("no-store")));
    // A body would stand in the way of the next answer.
    assert_eq!(connection.get("/fuga/small.txt").status, 200);
    drop(gate);
    assert_eq!(waiting.head().status, 204);
    httpd.wait_for(|gauge| gauge.total() == 0);
    connection.send(connection.request("HEAD", "/hoge/small.txt", ""));
    assert_eq!(told(&connection.head()), (200, None, None));
}

/// An error page belongs to the status that was chosen, and a page for 503 to no other.
#[test]
fn error_document_is_that_of_the_chosen_status() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "IPLimitErrorStatus 429
             ErrorDocument 503 \"of 503\"
             ErrorDocument 429 \"of 429\"
             MaxConnPerIP 2 count=requests
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>
             ErrorDocument 500 /busy.cgi
             <Location /hoge/unknown>
                 IPLimitErrorStatus 499
             </Location>
             <Location /hoge/odd>
                 IPLimitErrorStatus 403
                 ErrorDocument 403 /hoge/busy.html
             </Location>",
        )
        .file("hoge/busy.html", "of 403\n")
        .script(
            "busy.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nof %s\\n' $REDIRECT_STATUS\n",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    let said = |path: &str| {
        let answer = client.get(path);
        (answer.status, answer.text())
    };
    assert_eq!(said("/hoge/small.txt"), (429, String::from("of 429")));
    assert_eq!(said("/hoge/odd/x"), (403, String::from("of 403\n")));
    // For what httpd does not know it has the page of 500.
    assert_eq!(said("/hoge/unknown/x"), (499, String::from("of 499\n")));
    let _second = client.hold("/hold.cgi");
    assert_eq!(said("/small.txt"), (429, String::from("of 429")));
    assert_eq!(
        said("/hoge/odd/x"),
        (429, String::from("of 429")),
        "the server's rule"
    );
}

/// C30 with another status: by full URL the page of that status is one more request, too.
#[test]
fn error_document_by_full_url_is_warned_about_for_the_chosen_status() {
    let test = |status: u16| {
        let conf = format!(
            "<Location /hoge>
                 MaxConnPerIP 9 scope=location
                 IPLimitErrorStatus {status}
             </Location>
             ErrorDocument 403 http://localhost/busy.html"
        );
        Httpd::on(Mpm::Event).conf(&conf).configtest()
    };
    let (warned, silent) = (test(403), test(502));
    assert_eq!((warned.code, silent.code), (0, 0));
    assert!(
        warned
            .stderr
            .contains("limitipconn(207): ErrorDocument 403 "),
        "{warned:?}"
    );
    assert!(!silent.stderr.contains("limitipconn(207): "), "{silent:?}");
}
