//! What is shown of the keys of zones, in the gauge, in mod_status and in the log: all of a short
//! one, harmlessly; the beginning of a long one; of a secret one a digest.

mod support;

use support::{Client, DEADLINE, Httpd, Mpm, Setup, on_every_mpm, wait_until};

on_every_mpm!(
    long_keys_are_told_apart_by_their_last_byte,
    what_a_client_puts_into_a_key_is_shown_harmlessly,
    secret_keys_are_shown_as_digests,
);

/// /hoge with these zones and rules.
fn in_hoge(mpm: Mpm, zones: &str, rules: &str) -> Setup {
    Httpd::on(mpm).expect_refusals().conf(&format!(
        "{zones}
         <Location /hoge>
             {rules}
         </Location>"
    ))
}

fn long_keys_are_told_apart_by_their_last_byte(mpm: Mpm) {
    let httpd = in_hoge(
        mpm,
        "IPLimitZone api key=%{HTTP:X-Api-Key}",
        "MaxConnPerKey api 1",
    )
    .start();
    let key = |last: char| "k".repeat(7999) + &last.to_string();
    let with = |last: char| httpd.client("127.0.0.2").header("X-Api-Key", &key(last));
    let _held = [
        with('a').hold("/hoge/hold.cgi"),
        with('b').hold("/hoge/hold.cgi"),
    ];
    assert_eq!(with('a').status("/hoge/small.txt"), 503);
    assert_eq!(with('b').status("/hoge/small.txt"), 503);
    assert_eq!(with('c').status("/hoge/small.txt"), 200);
    httpd.wait_for(|gauge| gauge.total() == 2);
    let gauge = httpd.gauge();
    let shown = "k".repeat(56) + "...";
    let mut rows = gauge.rows("counts");
    assert!(
        rows.all(|row| row["key"] == shown && row["count"] == 1),
        "{gauge:?}"
    );
}

/// Bytes, UTF-8, control characters, quotes and tags: in the gauge, in mod_status, in the log.
fn what_a_client_puts_into_a_key_is_shown_harmlessly(mpm: Mpm) {
    let httpd = in_hoge(
        mpm,
        "IPLimitZone api key=%{HTTP:X-Api-Key}
         IPLimitZone path key=%{unescape:%{QUERY_STRING}}",
        "MaxConnPerKey api 1
         MaxConnPerKey path 1",
    )
    .load(&["status"])
    .conf("<Location /server-status>\n SetHandler server-status\n Require all granted\n</Location>")
    .start();
    let cases: [(&[u8], &str, &str); 6] = [
        (
            b"<script>alert(1)</script>",
            "<script>alert(1)</script>",
            "&lt;script&gt;alert(1)&lt;/script&gt;",
        ),
        (
            b"a\"b'c\\d&e%",
            "a%22b'c%5Cd&e%25",
            "a%22b&#39;c%5Cd&amp;e%25",
        ),
        (b"\xff\xfe\x80", "%FF%FE%80", "%FF%FE%80"),
        (
            "\u{e9}\u{4e2d}".as_bytes(),
            "%C3%A9%E4%B8%AD",
            "%C3%A9%E4%B8%AD",
        ),
        (b"a\tb", "a%09b", "a%09b"),
        (b"one: 2, three", "one: 2, three", "one: 2, three"),
    ];
    for (key, shown, html) in cases {
        let ask = |client: &Client, path: &str| {
            let mut connection = client.connect();
            let head = format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Api-Key: "
            );
            connection.send([head.as_bytes(), key, b"\r\n\r\n"].concat());
            connection
        };
        let client = httpd.client("127.0.0.2");
        let gate = httpd.gate("held");
        let mut held = ask(&client, "/hoge/hold.cgi?held");
        assert_eq!(held.head().status, 200, "{shown}");
        assert_eq!(
            ask(&client, "/hoge/small.txt").response().status,
            503,
            "{shown}"
        );
        let gauge = httpd.wait_for(|gauge| gauge.total() == 2);
        assert_eq!(
            gauge.count_of("MaxConnPerKey:api@zone", shown),
            1,
            "{shown}: {gauge:?}"
        );
        let page = |query: &str| {
            httpd
                .client("127.0.0.98")
                .get(&format!("/server-status{query}"))
                .text()
        };
        let auto = page("?auto");
        let line = format!(
            ": 1 {} - MaxConnPerKey:api@zone\n",
            shown.replace(' ', "%20")
        );
        assert!(auto.contains(&line), "no {line} in {auto}");
        for query in ["", "?notable"] {
            let text = page(query);
            assert!(text.contains(html), "no {html} in {text}");
            assert!(!text.contains("<script>alert"), "{text}");
        }
        drop((gate, held));
        httpd.wait_for(|gauge| gauge.total() == 0);
    }
    // An expression can make bytes that no header has.
    let client = httpd.client("127.0.0.2");
    let gate = httpd.gate("%0A%1B[2J");
    let mut held = client.connect();
    held.send(held.request("GET", "/hoge/hold.cgi?%0A%1B[2J", ""));
    assert_eq!(held.head().status, 200);
    assert_eq!(client.status("/hoge/small.txt?%0a%1b[2J"), 503);
    let gauge = httpd.gauge();
    assert_eq!(
        gauge.count_of("MaxConnPerKey:path@zone", "%0A%1B[2J"),
        1,
        "{gauge:?}"
    );
    drop(gate);
    let log = httpd.error_log();
    for text in [
        "script", "a\"b", "a%22b", "\u{e9}", "one: 2", "%1B", "\u{1b}", "[2J",
    ] {
        assert!(!log.contains(text), "{text} in {log}");
    }
}

/// Neither gauge nor mod_status nor log names one.
fn secret_keys_are_shown_as_digests(mpm: Mpm) {
    let httpd = in_hoge(
        mpm,
        "IPLimitZone api key=%{HTTP:X-Api-Key} secret
         LogFormat \"%U %{LIMITIP_RULE}e %{LIMITIP_STATUS}e\" marks
         CustomLog ${TMP}/marks marks",
        "MaxConnPerKey api 1
         MaxHitsPerKey api 2/d freeze=1h",
    )
    .load(&["status"])
    .conf("<Location /server-status>\n SetHandler server-status\n Require all granted\n</Location>")
    .start();
    let with = |key: &str| httpd.client("127.0.0.2").header("X-Api-Key", key);
    let _held = [
        with("hunter2").hold("/hoge/hold.cgi"),
        with("swordfish").hold("/hoge/hold.cgi"),
    ];
    assert_eq!(with("hunter2").status("/hoge/small.txt"), 503);
    for status in [200, 200, 429] {
        assert_eq!(with("rosebud").status("/hoge/small.txt"), status);
        httpd.wait_for(|gauge| gauge.total() == 2);
    }
    let gauge = httpd.gauge();
    let shown: Vec<_> = ["counts", "frozen"]
        .iter()
        .flat_map(|rows| gauge.rows(rows))
        .map(|row| row["key"].as_str().expect("a key").to_owned())
        .collect();
    assert_eq!(shown.len(), 3, "{gauge:?}");
    assert!(
        shown.iter().all(|key| key
            .strip_prefix("digest:")
            .is_some_and(|hex| hex.len() == 16)),
        "{shown:?}"
    );
    assert_ne!(shown[0], shown[1]);
    let page = |query: &str| {
        httpd
            .client("127.0.0.98")
            .get(&format!("/server-status{query}"))
            .text()
    };
    // Of all that have ended.
    let marks = wait_until(DEADLINE, || {
        let text = std::fs::read_to_string(httpd.dir().join("marks")).unwrap_or_default();
        match text.matches("/hoge/small.txt ").count() == 4 {
            true => Ok(text),
            false => Err(text),
        }
    });
    let all = [
        format!("{gauge:?}"),
        page(""),
        page("?auto"),
        httpd.error_log(),
        marks,
    ];
    for key in ["hunter2", "swordfish", "rosebud"] {
        assert!(
            !all.iter().any(|text| text.contains(key)),
            "{key} in {all:#?}"
        );
    }
}
