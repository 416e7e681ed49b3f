//! What we hand out in conf/examples does what its comments promise: those about rates.
//!
//! Each test loads the very file. How many may pass is reckoned from the time that it took.

#![cfg(feature = "httpd")]

mod support;

use std::time::{Duration, Instant};

use support::{Client, DEADLINE, Httpd, Mpm, Response, Setup, on_every_mpm};

on_every_mpm!(
    api_answers_in_json_at_its_rate,
    api_key_has_a_rate_wherever_it_comes_from,
    invented_api_keys_come_to_an_end,
    cgi_guard_freezes_for_a_minute_after_600,
    cgi_guard_keeps_workers_from_a_script_that_hangs,
    wrong_passwords_lock_out_and_good_ones_do_not,
    form_is_tried_ten_times_by_whatever_address,
);

const API: &str = include_str!("../conf/examples/api.conf");
const API_KEYS: &str = include_str!("../conf/examples/api-keys.conf");
const CGI_GUARD: &str = include_str!("../conf/examples/cgi-guard.conf");
const LOGIN: &str = include_str!("../conf/examples/login.conf");

fn server(mpm: Mpm, example: &str) -> Setup {
    Httpd::on(mpm).expect_refusals().conf(example)
}

/// One request on a connection of its own.
fn send(client: &Client, method: &str, path: &str, more: &str) -> Response {
    let mut connection = client.connect();
    let more = format!("{more}Connection: close\r\n");
    connection.send(connection.request(method, path, &more));
    connection.response()
}

/// So many requests on one connection, sent in one piece.
fn burst(client: &Client, path: &str, number: usize) -> Vec<Response> {
    let mut connection = client.connect();
    let one = connection.request("GET", path, "");
    connection.send(one.repeat(number));
    (0..number).map(|_| connection.response()).collect()
}

/// What came of asking until there was no more.
struct Spent {
    passed: usize,
    took: Duration,
    refused: Response,
    until: Instant,
}

/// Asks, these clients in turn, until the rate is spent.
fn spend(clients: &[&Client], path: &str) -> Spent {
    let start = Instant::now();
    let mut passed = 0;
    for client in clients.iter().cycle() {
        let answers = burst(client, path, 10);
        let until = Instant::now();
        passed += answers.iter().filter(|answer| answer.status == 200).count();
        if let Some(refused) = answers.into_iter().rfind(|answer| answer.status != 200) {
            assert_eq!(refused.status, 429, "{refused:?}");
            return Spent {
                passed,
                took: until - start,
                refused,
                until,
            };
        }
        assert!(start.elapsed() < DEADLINE, "{passed} passed");
    }
    unreachable!("clients without end")
}

impl Spent {
    /// Whether as many passed as a bucket of this size admits in that time.
    #[track_caller]
    fn is_of(&self, burst: usize, per_second: f64) {
        let refilled = (self.took.as_secs_f64() * per_second).floor() as usize;
        let admits = burst..=burst + refilled;
        assert!(
            admits.contains(&self.passed),
            "{} passed of {admits:?}",
            self.passed
        );
    }

    /// Waits as long as the refusal says.
    fn wait(&self) {
        let seconds = self.refused.header("retry-after").expect("Retry-After");
        let end = self.until + Duration::from_secs(seconds.parse().expect("seconds"));
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
    }
}

fn api_answers_in_json_at_its_rate(mpm: Mpm) {
    let httpd = server(mpm, API)
        .load(&["headers"])
        .conf("<Location /api/full>\n MaxConnPerIP 1 scope=location\n</Location>")
        .furnish("api")
        .furnish("api/full")
        .script(
            "api/own.cgi",
            "#!/bin/sh\nprintf 'Status: 429\\nContent-Type: text/plain\\n\\nmine\\n'\n",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let first = client.get("/api/small.txt");
    assert_eq!(first.status, 200);
    let told = ["ratelimit-policy", "ratelimit"].map(|name| first.header(name));
    assert_eq!(
        told,
        [
            Some("\"MaxRatePerIP@/api\";q=2;w=1"),
            Some("\"MaxRatePerIP@/api\";r=3;t=1")
        ]
    );

    let other = httpd.client("127.0.0.3");
    let spent = spend(&[&other], "/api/small.txt");
    spent.is_of(4, 2.0);
    let refused = &spent.refused;
    let [json, store, seconds] =
        ["content-type", "cache-control", "retry-after"].map(|name| refused.header(name));
    assert_eq!(
        [json, store, seconds],
        [Some("application/json"), Some("no-store"), Some("1")]
    );
    let body: serde_json::Value = serde_json::from_slice(&refused.body).expect("JSON");
    assert_eq!(body, serde_json::json!({"error": "too_many_requests"}));
    assert!(refused.header("ratelimit").is_some(), "{refused:?}");
    let elsewhere = other.get("/fuga/small.txt");
    assert_eq!(
        (elsewhere.status, elsewhere.header("ratelimit")),
        (200, None)
    );
    assert_eq!(httpd.client("127.0.0.4").status("/api/small.txt"), 200);
    spent.wait();
    assert_eq!(other.status("/api/small.txt"), 200);

    // Another refusal is no such document.
    let busy = httpd.client("127.0.0.6");
    let _held = busy.hold("/api/full/hold.cgi");
    let full = busy.get("/api/full/small.txt");
    let html = Some("text/html; charset=iso-8859-1");
    assert_eq!((full.status, full.header("content-type")), (503, html));

    // Preflights cost nothing, and what the application says stays as it is.
    let browser = httpd.client("127.0.0.5");
    let asks = "Origin: https://app.example\r\nAccess-Control-Request-Method: GET\r\n";
    for _ in 0..10 {
        let preflight = send(&browser, "OPTIONS", "/api/small.txt", asks);
        assert_eq!(preflight.status, 200);
    }
    for _ in 0..4 {
        let own = browser.get("/api/own.cgi");
        assert_eq!(
            (own.header("content-type"), own.text().as_str()),
            (Some("text/plain"), "mine\n")
        );
    }
}

fn api_key_has_a_rate_wherever_it_comes_from(mpm: Mpm) {
    let httpd = server(mpm, API_KEYS).furnish("api").start();
    let with = |address: &str, key: &str| httpd.client(address).header("X-Api-Key", key);
    let (here, there) = (
        with("127.0.0.2", "opensesame"),
        with("127.0.0.3", "opensesame"),
    );
    let spent = spend(&[&here, &there], "/api/small.txt");
    spent.is_of(20, 10.0);
    let policy = spent.refused.header("ratelimit-policy");
    assert_eq!(policy, Some("\"MaxRatePerKey:api-key@/api\";q=10;w=1"));
    assert_eq!(with("127.0.0.2", "another").status("/api/small.txt"), 200);

    // Without a key the address counts, and with one it does not.
    let nobody = httpd.client("127.0.0.2");
    let spent = spend(&[&nobody], "/api/small.txt");
    spent.is_of(5, 1.0);
    for address in ["127.0.0.2", "127.0.0.4"] {
        assert_eq!(with(address, "third").status("/api/small.txt"), 200);
    }
    assert_eq!(httpd.client("127.0.0.4").status("/api/small.txt"), 200);
    spent.wait();
    assert_eq!(nobody.status("/api/small.txt"), 200);

    let page = httpd.client("127.0.0.99").get("/limit-status").text();
    for shown in [httpd.error_log(), format!("{:?}", httpd.gauge()), page] {
        assert!(!shown.contains("opensesame"), "{shown}");
    }
}

fn invented_api_keys_come_to_an_end(mpm: Mpm) {
    let httpd = server(mpm, API_KEYS)
        .expect_log("AH01630: ")
        .conf("<Location /api/denied.txt>\n Require all denied\n</Location>")
        .furnish("api")
        .file("api/denied.txt", "")
        .start();
    let with = |key: &str| httpd.client("127.0.0.2").header("X-Api-Key", key);
    for n in 0..=30 {
        assert_eq!(with(&format!("key{n}")).status("/api/denied.txt"), 403);
    }
    let refused = with("key31").get("/api/denied.txt");
    assert_eq!(refused.status, 429);
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{refused:?}");
    assert_eq!(httpd.client("127.0.0.3").status("/api/small.txt"), 200);
}

fn cgi_guard_freezes_for_a_minute_after_600(mpm: Mpm) {
    let httpd = server(mpm, CGI_GUARD).furnish("cgi-bin").start();
    let client = httpd.client("127.0.0.2");
    let answers = burst(&client, "/cgi-bin/small.txt", 600);
    let passed = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(passed, 600);
    let before = Instant::now();
    assert_eq!(client.status("/cgi-bin/hello.cgi"), 429);
    let refused = client.get("/cgi-bin/small.txt");
    let least = 59u64.saturating_sub(before.elapsed().as_secs());
    assert_eq!(refused.status, 429);
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((least..=60).contains(&seconds), "{refused:?}");
    httpd.wait_for_log(": 601/600, rule MaxHitsPerIP@/cgi-bin, ");
    assert_eq!(client.status("/fuga/hello.cgi"), 200);
    assert_eq!(httpd.client("127.0.0.3").status("/cgi-bin/hello.cgi"), 200);
    assert_eq!(httpd.gauge()["keys"]["capacity"], 65536);
}

fn cgi_guard_keeps_workers_from_a_script_that_hangs(mpm: Mpm) {
    let httpd = server(mpm, CGI_GUARD).furnish("cgi-bin").start();
    // Another address and another path each, and one script.
    let held: Vec<_> = (2..10)
        .map(|n| {
            let client = httpd.client(&format!("127.0.0.{n}"));
            client.hold(&format!("/cgi-bin/hold.cgi/{n}"))
        })
        .collect();
    let client = httpd.client("127.0.0.10");
    for path in ["/cgi-bin/hold.cgi", "//cgi-bin//hold.cgi/x/y"] {
        let refused = client.get(path);
        assert_eq!(
            (refused.status, refused.header("retry-after")),
            (503, Some("10")),
            "{path}"
        );
    }
    assert_eq!(client.status("/cgi-bin/hello.cgi"), 200);
    drop(held);
    httpd.wait_for_quiet();
    assert_eq!(client.status("/cgi-bin/hold.cgi"), 200);
}

/// For a CGI script that answers whatever it is sent.
const SCRIPT: &str = "#!/bin/sh
cat > /dev/null
printf 'Content-Type: text/plain\\n\\nhello\\n'
";

fn wrong_passwords_lock_out_and_good_ones_do_not(mpm: Mpm) {
    let setup = server(mpm, LOGIN)
        .load(&["auth_basic", "authn_file", "authz_user"])
        .expect_log("AH01617: ")
        .conf(
            "<Location /private>
                 AuthType Basic
                 AuthName private
                 AuthUserFile ${TMP}/passwords
                 Require valid-user
             </Location>",
        )
        .furnish("private");
    // The word "secret".
    std::fs::write(
        setup.dir().join("passwords"),
        "me:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n",
    )
    .unwrap();
    let httpd = setup.start();
    let client = httpd.client("127.0.0.2");
    let good = client.clone().header("Authorization", "Basic bWU6c2VjcmV0");
    let bad = client.clone().header("Authorization", "Basic bWU6d3Jvbmc=");
    for _ in 0..20 {
        assert_eq!(good.status("/private/small.txt"), 200);
        assert_eq!(client.status("/private/small.txt"), 401);
    }
    for _ in 0..6 {
        assert_eq!(bad.status("/private/small.txt"), 401);
    }
    let refused = bad.get("/private/small.txt");
    assert_eq!(refused.status, 429);
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((800..=900).contains(&seconds), "{refused:?}");
    // Whether the next guess is right is not to be learnt.
    assert_eq!(good.status("/private/small.txt"), 429);
    assert_eq!(client.status("/private/small.txt"), 401);
    assert_eq!(good.status("/fuga/small.txt"), 200);
    let other = httpd
        .client("127.0.0.3")
        .header("Authorization", "Basic bWU6c2VjcmV0");
    assert_eq!(other.status("/private/small.txt"), 200);
}

fn form_is_tried_ten_times_by_whatever_address(mpm: Mpm) {
    let httpd = server(mpm, LOGIN)
        .conf("AddHandler cgi-script .php")
        .script("wp-login.php", SCRIPT)
        .script("xmlrpc.php", SCRIPT)
        .script("blog/wp-login.php", SCRIPT)
        .script("wp-login.php.bak.php", SCRIPT)
        .start();
    let client = httpd.client("127.0.0.2");
    let post = |client: &Client, path: &str| {
        let body = "log=me&pwd=guess";
        let mut connection = client.connect();
        let more = format!("Content-Length: {}\r\nConnection: close\r\n", body.len());
        connection.send(connection.request("POST", path, &more) + body);
        connection.response()
    };
    for _ in 0..15 {
        assert_eq!(client.status("/wp-login.php"), 200);
        assert_eq!(post(&client, "/wp-login.php.bak.php").status, 200);
    }
    let ways = [
        "/wp-login.php",
        "//wp-login.php",
        "/xmlrpc.php",
        "/blog//wp-login.php",
        "/%77p-login.php",
        "/wp-login.php/x",
        "/fuga/../wp-login.php?x=/y",
        "///xmlrpc.php",
        "/./wp-login.php",
        "/xmlrpc%2ephp",
    ];
    for way in ways {
        assert_eq!(post(&client, way).status, 200, "{way}");
    }
    for way in ways {
        let refused = post(&client, way);
        assert_eq!(refused.status, 429, "{way}");
        let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((800..=900).contains(&seconds), "{refused:?}");
    }
    assert_eq!(client.status("/wp-login.php"), 200);
    assert_eq!(
        post(&httpd.client("127.0.0.3"), "/wp-login.php").status,
        200
    );
}
