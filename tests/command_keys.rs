//! `limitipconn freeze`, `unfreeze` and `clear`: children see at once what was changed by hand,
//! and a kill -9 of the command in the middle of a change leaves no lock and no wrong count.

#![cfg(feature = "command")]

mod support;

// Each of its users has its own part of it.
#[allow(dead_code)]
#[path = "command/run.rs"]
mod run;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use run::{PROGRAM, ask, pid_file};
use serde_json::{Value, json};
use support::{Client, Httpd, Mpm, Setup, on_every_mpm, under_load};

on_every_mpm!(frozen_by_hand_is_refused_and_unfrozen_passes);

const TARGET: &str = "/hoge/small.txt";

fn hits(mpm: Mpm, rule: &str) -> Setup {
    let place = format!("<Location /hoge>\n {rule}\n</Location>");
    Httpd::on(mpm).expect_refusals().conf(&place)
}

fn frozen_by_hand_is_refused_and_unfrozen_passes(mpm: Mpm) {
    let httpd = hits(mpm, "MaxHitsPerIP 3/h").start();
    let (client, other) = (httpd.client("127.0.0.2"), httpd.client("127.0.0.3"));
    assert_eq!(client.status(TARGET), 200);
    // Of a client that was never seen, too.
    for address in ["127.0.0.2", "127.0.0.4"] {
        let said = ask(&httpd, &["freeze", address, "10min", "--json"]).json();
        let rule = json!([{ "rule": "MaxHitsPerIP@/hoge", "vhost": null }]);
        assert_eq!(
            said,
            json!({ "frozen_for_milliseconds": 600_000, "frozen": rule })
        );
        let answer = httpd.client(address).get(TARGET);
        let wait: u64 = answer
            .header("retry-after")
            .expect("a time")
            .parse()
            .expect("seconds");
        assert!(
            answer.status == 429 && (540..=600).contains(&wait),
            "{answer:?}"
        );
    }
    assert_eq!(other.status(TARGET), 200);
    assert!(
        httpd
            .gauge()
            .frozen("MaxHitsPerIP@/hoge", "127.0.0.4")
            .is_some()
    );
    let said = ask(&httpd, &["unfreeze", "127.0.0.2"]).done();
    assert!(
        said.contains("it was:") && said.contains("frozen for 9m")
            || said.contains("frozen for 10m00s"),
        "{said}"
    );
    assert_eq!(
        ask(&httpd, &["unfreeze", "127.0.0.2"]).failed(1),
        "this key is not frozen"
    );
    // All starts anew, exactly.
    let answers: Vec<u16> = (0..4).map(|_| client.status(TARGET)).collect();
    assert_eq!(answers, [200, 200, 200, 429]);
    assert_eq!(httpd.client("127.0.0.4").status(TARGET), 429);
    ask(&httpd, &["clear", "127.0.0.2"]).done();
    assert_eq!(client.status(TARGET), 200);
    assert_eq!(
        ask(&httpd, &["clear", "127.0.0.77"]).failed(1),
        "no rate knows anything of this key"
    );
}

#[test]
fn clear_fills_buckets_and_leaves_places() {
    let httpd = hits(
        Mpm::Event,
        "MaxRatePerIP 2/h\n MaxConnPerIP 9 scope=location",
    )
    .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    assert_eq!([(); 2].map(|()| client.status(TARGET)), [200, 429]);
    let rows = ask(&httpd, &["clear", "127.0.0.2", "--json"]).json();
    let row = &rows["cleared"][0];
    assert_eq!(
        (&row["rule"], &row["requests_left"]),
        (&"MaxRatePerIP@/hoge".into(), &0.into()),
        "{rows}"
    );
    assert_eq!(rows["cleared"].as_array().map(Vec::len), Some(1), "{rows}");
    assert_eq!(httpd.gauge().count_of("MaxConnPerIP@/hoge", "127.0.0.2"), 1);
    assert_eq!([(); 3].map(|()| client.status(TARGET)), [200, 200, 429]);
    // A rate has no freeze.
    let sentence = ask(&httpd, &["freeze", "127.0.0.2", "1h"]).failed(1);
    assert!(
        sentence.contains("MaxHitsPerIP and MaxHitsPerKey can"),
        "{sentence}"
    );
    held.finish();
}

fn visit(client: &Client, header: &str, key: &str) -> u16 {
    client.clone().header(header, key).status(TARGET)
}

#[test]
fn keys_of_zones_are_named_with_their_zone_and_secret_ones_stay_so() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "IPLimitZone api key=%{HTTP:X-Api}
             IPLimitZone priv key=%{HTTP:X-Priv} secret
             IPLimitZone net key=client/16,48
             <Location /hoge>
                 MaxHitsPerKey api 9/h
                 MaxHitsPerKey priv 9/h
                 MaxHitsPerKey net 9/h
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let raw = "hunter2 is mine";
    assert_eq!(visit(&client, "X-Priv", raw), 200);
    assert_eq!(visit(&client, "X-Api", "a:b"), 200);
    // Both zones could have it, and in one of them it would be shown.
    let sentence = ask(&httpd, &["freeze", raw, "1h"]).failed(1);
    assert!(
        sentence.contains("say which, for example api:KEY (there are api, priv)"),
        "{sentence}"
    );
    let mut said = sentence;
    for arguments in [
        &["freeze", "priv:hunter2 is mine", "1h"][..],
        &["show", "priv:hunter2 is mine"],
        &["show", raw, "--json"],
        &["show"],
        &["show", "--json"],
        &["top", "--json"],
    ] {
        said += &ask(&httpd, arguments).done();
    }
    assert!(!said.contains("hunter2"), "{said}");
    assert_eq!(visit(&client, "X-Priv", raw), 429);
    // As it is shown it can be named.
    let shown = ask(&httpd, &["show", raw, "--json"]).json();
    let digest = format!("priv:{}", shown["rows"][0]["key"].as_str().expect("a key"));
    assert!(digest.starts_with("priv:digest:"), "{digest}");
    let said = ask(&httpd, &["unfreeze", &digest]).done();
    assert!(said.contains(&digest), "{said}");
    assert_eq!(visit(&client, "X-Priv", raw), 200);
    // A key may hold a colon; the name of a zone ignores case.
    ask(&httpd, &["freeze", "API:a:b", "1h"]).done();
    assert_eq!(visit(&client, "X-Api", "a:b"), 429);
    assert_eq!(visit(&client, "X-Priv", "a:b"), 200);
    assert!(ask(&httpd, &["show", "a:b"]).done().contains("api:a:b"));
    // Who is meant by an address is not who gave it as a key.
    ask(&httpd, &["freeze", "127.0.99.99", "1h"]).done();
    assert_eq!(
        visit(&client, "X-Api", "other"),
        429,
        "its network is frozen"
    );
    let net = ask(&httpd, &["show", "net:127.0.0.0/16"]).done();
    assert!(
        net.contains("net:127.0.0.0/16") && net.contains("frozen for"),
        "{net}"
    );
    ask(&httpd, &["unfreeze", "127.0.0.0/16"]).done();
    assert_eq!(visit(&client, "X-Api", "127.0.99.99"), 200);
    ask(
        &httpd,
        &["freeze", "x", "1h", "--rule", "MaxHitsPerKey:api@/hoge"],
    )
    .done();
    assert_eq!(visit(&client, "X-Api", "x"), 429);
    let sentence = ask(&httpd, &["freeze", "x", "1h", "--rule", "Nobody"]).failed(1);
    assert!(
        sentence.contains("no rule in effect is named \"Nobody\""),
        "{sentence}"
    );
}

/// Windows that rules share, those of virtual hosts, and rules for some clients only.
#[test]
fn every_window_that_has_the_key_is_frozen_or_the_named_one() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "MaxHitsPerIP 900/h scope=vhost
             <VirtualHost *:${PORT}>
                 ServerName one
                 DocumentRoot ${DOCROOT}
             </VirtualHost>
             <VirtualHost *:${PORT}>
                 ServerName two
                 DocumentRoot ${DOCROOT}
             </VirtualHost>
             <Location /hoge>
                 MaxHitsPerIP 900/min
                 MaxHitsPerIP 800/min for=127.0.0.0/30
             </Location>
             <Location /deep>
                 MaxHitsPerIP 900/h scope=vhost
             </Location>",
        )
        .furnish("deep")
        .start();
    let status = |address: &str, host: &str, path: &str| {
        let mut connection = httpd.client(address).connect();
        connection.send(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n"));
        connection.response().status
    };
    let all = |address: &str| {
        [
            ("one", "/fuga"),
            ("two", "/fuga"),
            ("one", "/hoge"),
            ("two", "/hoge"),
        ]
        .map(|(host, path)| status(address, host, &format!("{path}/small.txt")))
    };
    assert_eq!(all("127.0.0.2"), [200; 4]);
    for address in ["127.0.0.2", "127.0.0.9"] {
        ask(&httpd, &["freeze", address, "1h"]).done();
        assert_eq!(all(address), [429; 4]);
        ask(&httpd, &["unfreeze", address]).done();
        assert_eq!(all(address), [200; 4]);
        ask(
            &httpd,
            &["freeze", address, "1h", "--rule", "MaxHitsPerIP@/hoge"],
        )
        .done();
        assert_eq!(all(address), [200, 200, 429, 429]);
        ask(&httpd, &["clear", address]).done();
        ask(
            &httpd,
            &["freeze", address, "1h", "--rule", "MaxHitsPerIP@server"],
        )
        .done();
        assert_eq!(all(address), [429; 4]);
        ask(&httpd, &["clear", address]).done();
        assert_eq!(all(address), [200; 4]);
        // The windows of the two levels are not the same, though both are of a virtual host.
        ask(
            &httpd,
            &["freeze", address, "1h", "--rule", "MaxHitsPerIP@/deep"],
        )
        .done();
        assert_eq!(
            ["one", "two"].map(|host| status(address, host, "/deep/small.txt")),
            [429; 2]
        );
        assert_eq!(all(address), [200; 4]);
        ask(&httpd, &["clear", address]).done();
    }
    // Freezes are kept over a reload, and the command follows it.
    ask(&httpd, &["freeze", "127.0.0.2", "1h"]).done();
    httpd.graceful();
    assert_eq!(all("127.0.0.2"), [429; 4]);
    ask(&httpd, &["unfreeze", "127.0.0.2"]).done();
    assert_eq!(all("127.0.0.2"), [200; 4]);
}

#[test]
fn a_full_table_is_told_of() {
    // The gauge's reader has no key in it.
    let httpd = hits(Mpm::Prefork, "MaxHitsPerIP 9/h")
        .conf("IPLimitTable keys=16")
        .start();
    let freeze = |n: u32| ask(&httpd, &["freeze", &format!("127.1.0.{n}"), "1h"]);
    let full = (1..=17).map(freeze).find(|said| said.code != 0);
    let sentence = full.expect("17 keys in 16 cells").failed(1);
    assert!(
        sentence.contains("give IPLimitTable a higher number"),
        "{sentence}"
    );
}

/// What is done while it is killed: each a change, and the key that it is about.
const WORKS: [&[&str]; 4] = [
    &["freeze", "127.1.0.KEY", "1h"],
    &["freeze", "127.0.0.2", "1h"],
    &["unfreeze", "127.0.0.2"],
    &["clear", "127.0.0.2"],
];

/// Runs one of them with slow steps, and kills it after this time; whether it lived so long.
fn killed(httpd: &Httpd, work: &[&str], key: u32, after: Duration) -> bool {
    let words = work
        .iter()
        .map(|word| word.replace("KEY", &key.to_string()));
    let mut child = Command::new(PROGRAM)
        .args(words)
        .args(["--pid-file", &pid_file(httpd)])
        .env("LIMITIPCONN_SLOW_STEPS", "2000")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("run limitipconn");
    std::thread::sleep(after);
    let _ = child.kill();
    child.wait().expect("wait for it").code().is_none()
}

/// The table is so small that each change meets others: each insertion takes the same lock
/// and makes some key go.
#[test]
fn killed_in_the_middle_of_writing_it_leaves_nothing_behind() {
    let httpd = hits(
        Mpm::Worker,
        "MaxHitsPerIP 1000/h\n MaxConnPerIP 4 scope=location",
    )
    .conf("IPLimitTable keys=64")
    .expect_log("were admitted without being counted")
    .start();
    let held = httpd.client("127.0.0.9").hold("/hoge/hold.cgi");
    let hits = AtomicU32::new(0);
    let visitor = |number: usize, load: &support::Load| {
        while load.goes_on() {
            let n = hits.fetch_add(1, Ordering::Relaxed);
            let address = match number {
                0 => String::from("127.0.0.2"),
                _ => format!("127.2.{}.{}", n / 200 % 200, n % 200 + 1),
            };
            let status = httpd.client(&address).status(TARGET);
            assert!(matches!(status, 200 | 429), "{status}");
            load.note_answer();
        }
    };
    let mut kills = 0;
    under_load(2, visitor, |load| {
        // From the first step to past the last, whatever the machine is busy with.
        let whole: Vec<Duration> = WORKS
            .iter()
            .map(|work| {
                let start = Instant::now();
                killed(&httpd, work, 250, Duration::from_millis(400));
                start.elapsed().min(Duration::from_millis(100))
            })
            .collect();
        // And again, if too few were alive still to be killed.
        for nth in 0..400u32 {
            if nth >= 40 && kills > 40 {
                break;
            }
            let round = nth % 40;
            for (work, whole) in WORKS.iter().zip(&whole) {
                kills += u32::from(killed(&httpd, work, round + 1, *whole * round / 40));
            }
            load.wait_for_more(2);
        }
        load.wait_for_more(20);
    });
    assert!(kills > 40, "only {kills} were killed before their end");
    // What the command froze must not stand in the way of what follows.
    for key in (1..=40).chain([250]) {
        _ = ask(&httpd, &["clear", &format!("127.1.0.{key}")]);
    }
    _ = ask(&httpd, &["clear", "127.0.0.2"]);
    let before = httpd.gauge();
    assert_eq!(
        before.count_of("MaxConnPerIP@/hoge", "127.0.0.9"),
        1,
        "{before:?}"
    );
    // Each bucket of the table takes new keys at once: no lock stays closed.
    for n in 1..=200 {
        assert_eq!(httpd.client(&format!("127.3.0.{n}")).status(TARGET), 200);
    }
    assert_eq!(ask(&httpd, &["freeze", "127.4.0.1", "1h"]).code, 0);
    held.finish();
    let gauge = httpd.wait_for(|gauge| gauge.total() == 0);
    assert_eq!(
        gauge.number("untracked"),
        before.number("untracked"),
        "{gauge:?}"
    );
    let audits = gauge.number("audits");
    let gauge = httpd.wait_for(|gauge| gauge.number("audits") > audits);
    assert_eq!(gauge.number("audit_mismatches"), 0, "{gauge:?}");
    assert_eq!(gauge.number("faults"), 0, "{gauge:?}");
    let reaped: Vec<&Value> = gauge["reaped"]
        .as_object()
        .expect("numbers")
        .values()
        .collect();
    assert!(reaped.iter().all(|number| **number == 0), "{gauge:?}");
}
