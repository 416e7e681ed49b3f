//! What we hand out in conf/examples does what its comments promise: those about what is in
//! flight at a time.
//!
//! Each test loads the very file; only directories are replaced by the server's own.

#![cfg(feature = "httpd")]

mod support;

use std::fs;
use std::path::Path;

use support::{Client, Gauge, Held, Httpd, Mpm, Response, Setup, on_every_mpm};

on_every_mpm!(
    crawlers_of_one_kind_share_a_count_everywhere,
    networks_and_everybody_have_a_limit_in_the_expensive_place,
    people_who_are_logged_in_are_no_crawlers,
    one_site_leaves_workers_for_the_others,
    customers_choose_their_number_below_the_cap,
    fourth_request_of_a_session_is_refused_at_once,
    invented_sessions_come_to_an_end,
);

const CRAWLERS: &str = include_str!("../conf/examples/crawlers.conf");
const SHARED_HOSTING: &str = include_str!("../conf/examples/shared-hosting.conf");
const SESSION_LOCK: &str = include_str!("../conf/examples/session-lock.conf");

/// None takes another's names, and every line of them is read. Two of them have a cap for one
/// client of the whole server: of that there can be only one.
#[test]
fn all_examples_live_together() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/examples");
    let cap = "MaxConnPerIP 30 count=requests\n";
    let texts: String = fs::read_dir(examples)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert!(texts.contains(cap));
    let test = Httpd::on(Mpm::Event)
        .load(&["headers", "remoteip", "setenvif"])
        .conf(&texts.replace(cap, ""))
        .configtest();
    assert_eq!((test.code, test.stderr.trim()), (0, "Syntax OK"));
}

fn hold(client: &Client, path: &str, number: usize) -> Vec<Held> {
    (0..number).map(|_| client.hold(path)).collect()
}

/// A refusal of a limit on what is in flight: its status, and when to come again.
#[track_caller]
fn is_refused(answer: &Response, retry_after: &str) {
    let said = (answer.status, answer.header("retry-after"));
    assert_eq!(said, (503, Some(retry_after)), "{answer:?}");
}

/// The visitors of a server with the example come through a proxy, from any address.
fn crawled(mpm: Mpm) -> Httpd {
    Httpd::on(mpm)
        .expect_refusals()
        .load(&["remoteip", "setenvif"])
        .conf("RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1")
        .conf(CRAWLERS)
        .furnish("git")
        .start()
}

fn visitor(httpd: &Httpd, address: &str) -> Client {
    httpd.client("127.0.0.1").header("X-Forwarded-For", address)
}

fn crawlers_of_one_kind_share_a_count_everywhere(mpm: Mpm) {
    let httpd = crawled(mpm);
    let bot = |n: usize, agent: &str| {
        visitor(&httpd, &format!("198.51.{n}.1")).header("User-Agent", agent)
    };
    let held: Vec<_> = (0..8)
        .map(|n| bot(n, "Mozilla/5.0 (compatible; GPTBot/1.2)").hold("/hoge/hold.cgi"))
        .collect();
    is_refused(&bot(8, "claudebot").get("/fuga/small.txt"), "5");
    // Of the server's rule and the server's settings, whatever the place says.
    is_refused(&bot(9, "CCBot/2.0").get("/git/small.txt"), "5");
    assert_eq!(bot(8, "SemrushBot").status("/fuga/small.txt"), 200);
    assert_eq!(bot(8, "Mozilla/5.0").status("/fuga/small.txt"), 200);
    assert_eq!(visitor(&httpd, "198.51.8.1").status("/fuga/small.txt"), 200);
    drop(held);
    httpd.wait_for_quiet();
    assert_eq!(bot(8, "claudebot").status("/fuga/small.txt"), 200);
}

fn networks_and_everybody_have_a_limit_in_the_expensive_place(mpm: Mpm) {
    let httpd = crawled(mpm);
    let of = |network: &str, n: usize| visitor(&httpd, &format!("{network}.{n}.{n}"));
    let mut held: Vec<_> = (0..16)
        .map(|n| of("198.51", n).hold("/git/hold.cgi"))
        .collect();
    is_refused(&of("198.51", 16).get("/git/small.txt"), "30");
    assert_eq!(of("198.51", 16).status("/fuga/small.txt"), 200);
    held.extend((0..16).map(|n| of("203.0", n).hold("/git/hold.cgi")));
    // Thirty-two: nobody any more, and elsewhere everybody.
    let late = of("192.0", 2);
    is_refused(&late.get("/git/small.txt"), "30");
    assert_eq!(late.status("/fuga/small.txt"), 200);
    held.pop();
    let count = "MaxConnPerKey:everybody@zone";
    assert!(httpd.gauge().count_of(count, "all") > 0);
    httpd.wait_for(|gauge| gauge.count_of(count, "all") < 32);
    assert_eq!(late.status("/git/small.txt"), 200);
}

fn people_who_are_logged_in_are_no_crawlers(mpm: Mpm) {
    let httpd = crawled(mpm);
    let own = visitor(&httpd, "10.1.2.3");
    let user = visitor(&httpd, "203.0.113.7").header("Cookie", "lang=en; git_session=1f");
    let _spared = [
        hold(&own, "/git/hold.cgi", 4),
        hold(&user, "/git/hold.cgi", 4),
    ];
    let _held: Vec<_> = (0..32)
        .map(|n| visitor(&httpd, &format!("198.{n}.1.1")).hold("/git/hold.cgi"))
        .collect();
    assert_eq!(own.status("/git/small.txt"), 200);
    assert_eq!(user.status("/git/small.txt"), 200);
    // Not logged in: the cookie is empty, or another one.
    for cookie in ["git_session=", "git_session=; a=b", "no_git_session=1"] {
        let nobody = visitor(&httpd, "203.0.113.7").header("Cookie", cookie);
        is_refused(&nobody.get("/git/small.txt"), "30");
    }
}

/// Two sites on a server with as many workers as the example says.
fn hosting(mpm: Mpm) -> Setup {
    let pool = if mpm == Mpm::Prefork {
        "StartServers 70\nServerLimit 128\nMaxRequestWorkers 128\nMaxSpareServers 128"
    } else {
        "StartServers 6\nServerLimit 8\nMaxRequestWorkers 128\nMaxSpareThreads 128"
    };
    let example = SHARED_HOSTING.replace("/var/www", "${DOCROOT}");
    let allowed = example.replace("#AllowOverride", "AllowOverride");
    assert_ne!(example, allowed);
    let site = |name: &str| {
        format!(
            "<VirtualHost *:${{PORT}}>
                 ServerName {name}.example
                 DocumentRoot ${{DOCROOT}}/{name}
             </VirtualHost>"
        )
    };
    Httpd::on(mpm)
        .expect_refusals()
        .conf(pool)
        .conf(&allowed)
        // Reads the gauge.
        .conf("IPLimitExempt 127.0.0.99")
        .conf(&site("a"))
        .conf(&site("b"))
        .furnish("a")
        .furnish("b")
}

/// The visitor number `n` of a site.
fn guest(httpd: &Httpd, site: &str, n: usize) -> Client {
    httpd
        .client(&format!("127.0.1.{n}"))
        .header("Host", &format!("{site}.example"))
}

fn one_site_leaves_workers_for_the_others(mpm: Mpm) {
    let httpd = hosting(mpm).start();
    let held: Vec<_> = (0..4)
        .flat_map(|n| hold(&guest(&httpd, "a", n), "/hold.cgi", 10))
        .collect();
    is_refused(&guest(&httpd, "a", 9).get("/small.txt"), "5");
    for n in [0, 9] {
        assert_eq!(guest(&httpd, "b", n).status("/small.txt"), 200);
    }
    let all = |gauge: &Gauge| gauge.count_of("MaxConnPerKey:site@vhost", "all");
    assert_eq!(all(&httpd.gauge()), 40);
    drop(held);
    httpd.wait_for_quiet();
    // One client alone, on one site alone.
    let _held = hold(&guest(&httpd, "a", 0), "/hold.cgi", 10);
    is_refused(&guest(&httpd, "a", 0).get("/small.txt"), "5");
    assert_eq!(guest(&httpd, "a", 9).status("/small.txt"), 200);
    assert_eq!(guest(&httpd, "b", 0).status("/small.txt"), 200);
}

fn customers_choose_their_number_below_the_cap(mpm: Mpm) {
    let httpd = hosting(mpm)
        .file("a/.htaccess", "MaxConnPerIP 15 scope=vhost\n")
        .file("b/.htaccess", "MaxConnPerIP off\nMaxConnPerKey site off\n")
        .start();
    let _a = hold(&guest(&httpd, "a", 0), "/hold.cgi", 15);
    is_refused(&guest(&httpd, "a", 0).get("/small.txt"), "5");
    // The cap of one client, and of the whole site.
    let _b: Vec<_> = [0, 1]
        .iter()
        .flat_map(|n| {
            let client = guest(&httpd, "b", *n);
            let held = hold(&client, "/hold.cgi", 20);
            is_refused(&client.get("/small.txt"), "5");
            held
        })
        .collect();
    is_refused(&guest(&httpd, "b", 9).get("/small.txt"), "5");
    assert_eq!(guest(&httpd, "a", 9).status("/small.txt"), 200);
}

/// A server with the example and an application whose scripts end in .php.
fn application(mpm: Mpm) -> Httpd {
    Httpd::on(mpm)
        .expect_refusals()
        .load(&["setenvif"])
        .conf("AliasMatch \"^/app/(\\w+)\\.php\" \"${DOCROOT}/hoge/$1.cgi\"")
        .conf(SESSION_LOCK)
        .start()
}

fn fourth_request_of_a_session_is_refused_at_once(mpm: Mpm) {
    let httpd = application(mpm);
    let client = httpd.client("127.0.0.2");
    let of = |cookie: &str| client.clone().header("Cookie", cookie);
    let one = of("lang=en; PHPSESSID=one");
    let _held = hold(&one, "/app/hold.php", 3);
    is_refused(&one.get("/app/hello.php"), "2");
    let elsewhere = httpd
        .client("127.0.0.3")
        .header("Cookie", "PHPSESSID=one;lang=en");
    is_refused(&elsewhere.get("/app/hello.php"), "2");
    assert_eq!(one.status("/hoge/small.txt"), 200);
    assert_eq!(of("PHPSESSID=two").status("/app/hello.php"), 200);

    // Without the cookie the address counts, and with one it does not.
    let _held = hold(&client, "/app/hold.php", 6);
    for none in ["PHPSESSID=", "OLDPHPSESSID=three"] {
        is_refused(&of(none).get("/app/hello.php"), "2");
    }
    assert_eq!(of("PHPSESSID=two").status("/app/hello.php"), 200);
    assert_eq!(httpd.client("127.0.0.3").status("/app/hello.php"), 200);
    for shown in [httpd.error_log(), format!("{:?}", httpd.gauge())] {
        assert!(
            !shown.contains("\"one") && !shown.contains("=one"),
            "{shown}"
        );
    }
}

fn invented_sessions_come_to_an_end(mpm: Mpm) {
    let httpd = application(mpm);
    let invents = |address: &str, n: usize| {
        httpd
            .client(address)
            .header("Cookie", &format!("PHPSESSID=new{n}"))
    };
    let _held: Vec<_> = (0..30)
        .map(|n| invents("127.0.0.2", n).hold("/app/hold.php"))
        .collect();
    is_refused(&invents("127.0.0.2", 30).get("/app/hello.php"), "2");
    assert_eq!(invents("127.0.0.3", 30).status("/app/hello.php"), 200);
}
