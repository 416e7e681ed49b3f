//! Every request of a client is one, whatever httpd makes of it: one token, no more, no less.

mod support;

use support::{Client, Httpd, Mpm, Response, Setup, on_every_mpm};

on_every_mpm!(
    included_parts_are_charged_by_the_status_of_the_page,
    every_request_costs_one,
    own_error_page_is_neither_counted_nor_refused,
    include_is_charged_by_its_own_place,
);

/// Puts a table of requests through a place with rates; none of them grows back meanwhile.
fn over(mpm: Mpm) -> Setup {
    let page = "<!--#include virtual=\"small.txt\" -->\n".repeat(4)
        + "<!--#include virtual=\"hello.cgi\" -->\n";
    Httpd::on(mpm)
        .load(&["include", "rewrite", "negotiation", "actions"])
        .expect_refusals()
        .conf(
            "IPLimitHeaders On
             MaxRatePerIP 200/d burst=150
             <Location /hoge>
                 MaxRatePerIP 100/d
                 MaxHitsPerIP 100/d
             </Location>
             <Directory ${DOCROOT}/hoge>
                 Options +Includes +MultiViews
                 AddOutputFilter INCLUDES .shtml
                 DirectoryIndex none.html other.html index.html
                 RewriteEngine On
                 RewriteRule ^rewritten$ small.txt
                 RewriteRule ^twice$ rewritten
                 ErrorDocument 404 /hoge/lost.html
                 ErrorDocument 405 /hoge/hello.cgi
             </Directory>
             <Directory ${DOCROOT}/hoge/fallback>
                 FallbackResource /hoge/hello.cgi
             </Directory>
             Action through /hoge/hello.cgi
             <Files acted.txt>
                 SetHandler through
             </Files>",
        )
        .furnish("hoge/fallback")
        .file("hoge/lost.html", "lost\n")
        .file("hoge/acted.txt", "acted\n")
        .file("hoge/page.shtml", page)
        .script(
            "hoge/inner.cgi",
            "#!/bin/sh\nprintf 'Location: /hoge/small.txt\\n\\n'\n",
        )
        .script(
            "hoge/reads.cgi",
            "#!/bin/sh\nn=$(wc -c)\nprintf 'Content-Type: text/plain\\n\\n%s\\n' \"$n\"\n",
        )
}

/// How many more may come by each of the rules, as the answer tells.
fn left(answer: &Response) -> Vec<(String, u32)> {
    let lines = answer
        .headers
        .iter()
        .filter(|(name, _)| name == "ratelimit");
    let items = lines.flat_map(|(_, value)| value.split(", "));
    let mut rules: Vec<_> = items
        .map(|item| {
            let (rule, rest) = item.split_once(";r=").expect("an item");
            let number = rest.split(';').next().expect("a number");
            (
                rule.trim_matches('"').to_owned(),
                number.parse().expect("a number"),
            )
        })
        .collect();
    rules.sort();
    rules
}

fn every_request_costs_one(mpm: Mpm) {
    let httpd = over(mpm).start();
    let client = httpd.client("127.0.0.2");
    let mut number = 0;
    for (method, path, status, body) in [
        ("GET", "/hoge/small.txt", 200, "ok\n"),
        ("HEAD", "/hoge/small.txt", 200, ""),
        ("OPTIONS", "/hoge/small.txt", 200, ""),
        ("DELETE", "/hoge/small.txt", 405, "hello\n"),
        ("GET", "/hoge/none", 404, "lost\n"),
        (
            "GET",
            "/hoge/page.shtml",
            200,
            "ok\n\nok\n\nok\n\nok\n\nhello\n\n",
        ),
        ("GET", "/hoge/", 200, "hoge\n"),
        ("GET", "/hoge", 301, ""),
        ("GET", "//hoge//small.txt", 200, "ok\n"),
        ("GET", "/hoge/small", 200, "ok\n"),
        ("GET", "/hoge/rewritten", 200, "ok\n"),
        ("GET", "/hoge/twice", 200, "ok\n"),
        ("GET", "/hoge/fallback/none", 200, "hello\n"),
        ("GET", "/hoge/acted.txt", 200, "hello\n"),
        ("GET", "/hoge/inner.cgi", 200, "ok\n"),
        ("GET", "/hoge/hello.cgi/path/info", 200, "hello\n"),
        ("POST", "/hoge/reads.cgi", 200, "5\n"),
    ] {
        let answer = match method {
            "POST" => client.post(path, "12345"),
            _ => client.ask(method, path, ""),
        };
        number += 1;
        let text = answer.text();
        assert_eq!(answer.status, status, "{method} {path}: {text}");
        assert!(status == 301 || text == body, "{method} {path}: {text}");
        let expected = [
            ("MaxHitsPerIP@/hoge", 100),
            ("MaxRatePerIP@/hoge", 100),
            ("MaxRatePerIP@server", 150),
        ]
        .map(|(rule, all)| (String::from(rule), all - number));
        assert_eq!(left(&answer), expected, "{method} {path}");
    }
    // Many on one connection, which httpd ends when it likes.
    let mut connection = client.connect();
    let ten = connection.request("GET", "/hoge/small.txt", "").repeat(10);
    connection.send(ten);
    for _ in 0..10 {
        number += 1;
        assert_eq!(left(&connection.response())[1].1, 100 - number);
    }
    let gauge = httpd.gauge();
    for rule in ["MaxHitsPerIP@/hoge", "MaxRatePerIP@/hoge"] {
        assert_eq!(gauge.passed(rule), u64::from(number), "{gauge:?}");
    }
}

fn own_error_page_is_neither_counted_nor_refused(mpm: Mpm) {
    let httpd = over(mpm)
        .conf(
            "ErrorDocument 429 /fuga/busy.cgi
             <Location /fuga>
                 MaxRatePerIP 2/h
             </Location>",
        )
        .script(
            "fuga/busy.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nbusy %s\\n' \"$REDIRECT_LIMITIP_RULE\"\n",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let ask = || client.get("/fuga/small.txt");
    assert_eq!([(); 2].map(|()| ask().status), [200, 200]);
    for _ in 0..5 {
        let refused = ask();
        assert_eq!(
            (refused.status, refused.text().as_str()),
            (429, "busy MaxRatePerIP@/fuga\n")
        );
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        assert_eq!(refused.header("cache-control"), Some("no-store"));
    }
    let gauge = httpd.gauge();
    let rule = "MaxRatePerIP@/fuga";
    assert_eq!(
        (gauge.passed(rule), gauge.refused(rule)),
        (2, 5),
        "{gauge:?}"
    );
}

/// Twice in one page is once.
fn include_is_charged_by_its_own_place(mpm: Mpm) {
    let page = "one\n<!--#include virtual=\"/part/hello.cgi\" -->\n\
                <!--#include virtual=\"/part/small.txt\" -->\ntwo\n";
    let httpd = over(mpm)
        .expect_log("unable to include")
        .conf(
            "<Directory ${DOCROOT}/fuga>
                 Options +Includes
                 AddOutputFilter INCLUDES .shtml
             </Directory>
             <Location /part>
                 MaxRatePerIP 2/h
             </Location>",
        )
        .furnish("part")
        .file("fuga/page.shtml", page)
        .start();
    let client = httpd.client("127.0.0.2");
    let ask = |client: &Client| {
        let answer = client.get("/fuga/page.shtml");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.text()
    };
    for _ in 0..2 {
        let text = ask(&client);
        assert!(text.contains("hello\n") && text.contains("ok\n"), "{text}");
    }
    for _ in 0..2 {
        let text = ask(&client);
        assert!(
            text.contains("an error occurred while processing this directive"),
            "{text}"
        );
        assert!(!text.contains("hello") && text.contains("two"), "{text}");
    }
    assert_eq!(client.status("/part/small.txt"), 429);
    assert_eq!(httpd.client("127.0.0.3").status("/part/small.txt"), 200);
    let rule = "MaxRatePerIP@/part";
    let gauge = httpd.gauge();
    assert_eq!(
        (gauge.passed(rule), gauge.refused(rule)),
        (3, 3),
        "{gauge:?}"
    );
}

/// What counts for the rules of an included part is the status that the client gets. The
/// page outlives its parts: an empty one has no output, and a compressed page goes out when
/// all of them are gone.
fn included_parts_are_charged_by_the_status_of_the_page(mpm: Mpm) {
    let page =
        "<!--#include virtual=\"/part/empty.txt\" --><!--#include virtual=\"/part/none\" -->end\n";
    let httpd = over(mpm)
        .expect_log("unable to include")
        .load(&["deflate"])
        .conf(
            "<Directory ${DOCROOT}/fuga>
                 Options +Includes
                 AddOutputFilter INCLUDES;DEFLATE .shtml
             </Directory>
             <Location /part>
                 MaxHitsPerIP 2/h on=404
                 MaxHitsPerIP 2/d on=200
             </Location>",
        )
        .file("part/empty.txt", "")
        .file("fuga/page.shtml", page)
        .start();
    let client = httpd.client("127.0.0.2").header("Accept-Encoding", "gzip");
    let mut connection = client.connect();
    for _ in 0..3 {
        let answer = connection.get("/fuga/page.shtml");
        assert_eq!(
            (answer.status, answer.header("content-encoding")),
            (200, Some("gzip"))
        );
    }
    assert_eq!(
        client.status("/part/empty.txt"),
        429,
        "three pages of status 200"
    );
}
