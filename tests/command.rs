//! `limitipconn top` and `show`: who holds the server, also while no worker is free to say
//! so.

#![cfg(feature = "command")]

mod support;

// Each of its users has its own part of it.
#[allow(dead_code)]
#[path = "command/run.rs"]
mod run;

use std::io::ErrorKind;

use run::{Said, ask};
use serde_json::Value;
use support::{Client, Connection, DEADLINE, Held, Httpd, Mpm, Setup, on_every_mpm, wait_until};

on_every_mpm!(top_answers_while_no_worker_is_free);

const HOGE: &str = "<Location /hoge>\n MaxConnPerIP 10 scope=location\n</Location>";

fn small_pool(mpm: Mpm, workers: usize) -> Setup {
    let setup = Httpd::on(mpm);
    match mpm {
        Mpm::Prefork => setup.conf(&format!(
            "StartServers {workers}\nServerLimit {workers}\nMaxRequestWorkers {workers}"
        )),
        _ => setup.conf(&format!(
            "StartServers 1\nServerLimit 1\nThreadsPerChild {workers}\nMaxRequestWorkers {workers}\n\
             MinSpareThreads 1\nMaxSpareThreads {workers}"
        )),
    }
}

/// Waits until `top` says so; `Err` is what is still missing.
#[track_caller]
fn wait_for_top(httpd: &Httpd, is_so: impl Fn(&Value) -> bool) -> Value {
    wait_until(DEADLINE * 3, || {
        let top = ask(httpd, &["top", "--json"]).json();
        if is_so(&top) { Ok(top) } else { Err(top) }
    })
}

/// The clients in the order in which they are told.
fn clients(top: &Value) -> Vec<&str> {
    let holders = top["holders"].as_array().expect("holders");
    holders
        .iter()
        .filter_map(|holder| holder["client"].as_str())
        .collect()
}

/// Whether not a byte has come yet.
fn still_waits(connection: &Connection) -> bool {
    let stream = connection.stream();
    stream.set_nonblocking(true).expect("a socket");
    let seen = stream.peek(&mut [0]);
    matches!(seen, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

fn top_answers_while_no_worker_is_free(mpm: Mpm) {
    let httpd = small_pool(mpm, 5)
        .big_file("hoge/big.bin", 20 << 20)
        .conf(HOGE)
        .conf("SendBufferSize 16384\n<Directory ${DOCROOT}/hoge>\n EnableSendfile Off\n EnableMMAP On\n</Directory>")
        .start();
    let read = |source: &str| -> Held {
        let client: Client = httpd.client(source).with_tiny_buffer();
        client.read_slowly("/hoge/big.bin")
    };
    let older_than = |seconds: u64| {
        move |top: &Value| {
            let holders = top["holders"].as_array();
            holders.is_some_and(|holders| {
                let age = |holder: &Value| holder["oldest_seconds"].as_u64();
                holders
                    .iter()
                    .all(|holder| age(holder).is_some_and(|age| age >= seconds))
            })
        }
    };
    // Who came first holds longest, though others hold more.
    let mut held = vec![read("127.0.0.9")];
    wait_for_top(&httpd, older_than(2));
    held.push(read("127.0.0.5"));
    wait_for_top(&httpd, older_than(2));
    held.extend((0..3).map(|_| read("127.0.0.7")));
    let top = wait_for_top(&httpd, |top| top["pool"]["busy"] == 5);
    assert_eq!(
        clients(&top),
        ["127.0.0.9", "127.0.0.5", "127.0.0.7"],
        "{top:#}"
    );

    let mut page = httpd.client("127.0.0.3").connect();
    page.send(page.request("GET", "/limit-status?format=json", ""));
    let looks: Vec<Said> = (0..20).map(|_| ask(&httpd, &["top", "--once"])).collect();
    assert!(still_waits(&page), "no worker should be free for the page");
    let (quickest, slowest) = (
        looks.iter().map(|said| said.took).min(),
        looks.iter().map(|said| said.took).max(),
    );
    println!(
        "top --once on {}: from {quickest:?} to {slowest:?}",
        mpm.name()
    );
    for said in looks {
        let text = said.done();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("workers: 5 of 5 busy"), "{text}");
        let first: Vec<&str> = lines[5..]
            .iter()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(first, ["127.0.0.9", "127.0.0.5", "127.0.0.7"], "{text}");
        let vhost = format!("localhost:{}", httpd.port());
        for line in &lines[5..] {
            let ends = format!("MaxConnPerIP@/hoge  {vhost}  /hoge/big.bin");
            assert!(line.ends_with(&ends), "{text}");
        }
    }
    drop(held);
    page.stream().set_nonblocking(false).expect("a socket");
    assert_eq!(page.response().status, 200);
}

/// Nothing that a client made reaches the terminal but as printable characters.
#[test]
fn clients_write_nothing_to_the_terminal() {
    let httpd = Httpd::on(Mpm::Event)
        .conf(
            "ScriptAliasMatch ^/s/ ${DOCROOT}/hoge/hold.cgi
             IPLimitZone path key=%{REQUEST_URI}
             MaxConnPerKey path 10 scope=vhost
             <Location /s>
                 MaxConnPerIP 10 scope=location
             </Location>",
        )
        .start();
    let paths = ["/s/%1b%5b2J%0d%0aroot%07", "/s/%e2%80%ae%c2%9b31m%ff%c3%bc"];
    // A row of a client has one path only.
    let held = [("127.0.0.2", 0), ("127.0.0.3", 1), ("127.0.0.4", 1)];
    let held = held.map(|(client, path)| httpd.client(client).hold(paths[path]));
    let top = ask(&httpd, &["top", "--once"]).done();
    assert!(
        top.contains("/s/%1B[2J%0D%0Aroot%07") && top.contains("/s/%E2%80%AE%C2%9B31m%FFü"),
        "{top}"
    );
    let text = top + &ask(&httpd, &["show"]).done();
    let json = ask(&httpd, &["top", "--json"]).done() + &ask(&httpd, &["show", "--json"]).done();
    let shown = ask(&httpd, &["show", "path:/s/%E2%80%AE%C2%9B31m%FF%C3%BC"]);
    let shown = shown.done();
    assert!(shown.contains("2 in flight"), "{shown}");
    for text in [text, json, shown] {
        let bad = |char: char| char != '\n' && !(' '..='~').contains(&char) && char != 'ü';
        assert!(!text.contains(bad), "{text:?}");
    }
    drop(held);
}

#[test]
fn show_tells_what_the_gauge_tells() {
    let httpd = Httpd::on(Mpm::Event)
        .conf(HOGE)
        .conf("MaxRatePerIP 100/d")
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    let mut shown = ask(&httpd, &["show", "--json"]).json();
    let mut gauge = httpd.gauge().0;
    for document in [&mut shown, &mut gauge] {
        // The gauge is itself a request.
        for part in ["pool", "holders", "unix_milliseconds", "history", "guards"] {
            document[part].take();
        }
        let rules = document["rules"].as_array_mut().expect("rules");
        for rule in rules.iter_mut() {
            rule["passed"].take();
            rule["busiest"].take();
        }
        rules.sort_by_key(|rule| rule["rule"].to_string());
        let keys = &mut document["keys"];
        ["used", "rated"]
            .iter()
            .for_each(|name| _ = keys[*name].take());
        document["audits"].take();
    }
    assert_eq!(shown, gauge);
    let text = ask(&httpd, &["show"]).done();
    let rule = text
        .lines()
        .find(|line| line.starts_with("MaxConnPerIP@/hoge"));
    let columns: Vec<&str> = rule.expect("a rule").split_whitespace().collect();
    assert_eq!(columns[1..5], ["-", "10", "requests", "location"], "{text}");
    assert!(text.contains("MaxRatePerIP@server"), "{text}");
    assert!(text.contains("100/d burst=100"), "{text}");
    let one = ask(&httpd, &["show", "127.0.0.2"]).done();
    assert!(one.contains("1 of 10 in flight"), "{one}");
    assert!(one.contains("99 left, full again in"), "{one}");
    held.finish();
    httpd.wait_for(|gauge| gauge.total() == 0);
    let one = ask(&httpd, &["show", "127.0.0.2"]).done();
    assert!(!one.contains("in flight"), "{one}");
}

/// Without rules nobody is known; a reload keeps what is counted and shows what is new.
#[test]
fn what_a_reload_changes_is_seen() {
    let httpd = Httpd::on(Mpm::Event)
        .without_status()
        .expect_log("no limits configured")
        .start();
    let top = ask(&httpd, &["top", "--once"]).done();
    assert!(top.contains("no rule is in effect"), "{top}");
    assert!(
        ask(&httpd, &["show"])
            .done()
            .contains("no rule is in effect")
    );
    httpd.rewrite_conf(HOGE);
    httpd.graceful();
    let _held = httpd.client("127.0.0.2").hold("/hoge/hold.cgi");
    let top = ask(&httpd, &["top", "--once"]).done();
    assert!(top.contains("127.0.0.2"), "{top}");
    assert!(ask(&httpd, &["show"]).done().contains("MaxConnPerIP@/hoge"));
}
