//! A flood of addresses against a table that is far too small for them: memory stays as it
//! was, whoever holds something or is frozen is not forgotten, and nobody pays for it.

mod support;

use std::fs;

use support::{Gauge, Httpd, Mpm, Process, at_once, on_every_mpm};

on_every_mpm!(
    twenty_thousand_addresses_cost_no_memory_and_free_nobody,
    the_smallest_table_refuses_nobody_by_mistake,
    another_size_waits_for_a_full_restart_and_rates_go_on,
);

const RATE: &str = "MaxRatePerIP@/hoge";
const HITS: &str = "MaxHitsPerIP@/login";
const PLACES: &str = "MaxConnPerIP@/hoge";

/// Everything that a client can be limited by; nothing comes back while a test runs.
const RULES: &str = "IPLimitClientHeader X-Forwarded-For trusted=127.0.0.1
     <Location /hoge>
         MaxConnPerIP 1 scope=location
         MaxRatePerIP 2/d burst=2
     </Location>
     <Location /login>
         MaxHitsPerIP 1/d freeze=366d
     </Location>";

fn get(httpd: &Httpd, address: &str, path: &str) -> u16 {
    let client = httpd.client("127.0.0.1");
    client.header("X-Forwarded-For", address).status(path)
}

/// One request of each of these addresses, in four connections that are kept alive.
fn flood(httpd: &Httpd, addresses: u32, path: &str) {
    at_once(4, |thread| {
        // httpd closes a connection after so many requests.
        let mut connection = httpd.client("127.0.0.1").connect();
        for n in (thread as u32..addresses).step_by(4) {
            let [_, high, middle, low] = n.to_be_bytes();
            let address = format!("X-Forwarded-For: 10.{high}.{middle}.{low}\r\n");
            connection.send(connection.request("GET", path, &address));
            let response = connection.response();
            assert_eq!(response.status, 200, "address {n}: {:?}", httpd.gauge());
            if response.header("connection") == Some("close") {
                connection = httpd.client("127.0.0.1").connect();
            }
        }
    });
}

/// What a process has for itself, shared memory left out, in KiB.
fn private_kib(process: Process) -> u64 {
    let path = format!("/proc/{}/smaps_rollup", process.0);
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
    kib.unwrap_or(0)
}

/// The parent, and the child that has most: children come and go.
fn memory(httpd: &Httpd) -> (u64, u64) {
    let children = httpd.children().into_iter().map(private_kib).max();
    (private_kib(httpd.parent()), children.unwrap_or(0))
}

fn is_frozen(gauge: &Gauge, address: &str) -> bool {
    let mut rows = gauge.rows("frozen");
    rows.any(|row| row["rule"] == HITS && row["key"] == address)
}

fn twenty_thousand_addresses_cost_no_memory_and_free_nobody(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        // A machine that is busy with other things makes one wait too long for a lock.
        .expect_log("limitipconn(308): ")
        .conf(&format!("IPLimitTable keys=1000\n{RULES}"))
        .start();
    let from = |address: &str| {
        let client = httpd.client("127.0.0.1");
        client.header("X-Forwarded-For", address)
    };
    let people = |net: u32| (1..=5).map(move |n| format!("203.0.{net}.{n}"));
    let held: Vec<_> = people(1)
        .map(|address| from(&address).hold("/hoge/hold.cgi"))
        .collect();
    for address in people(2) {
        let answers = [(); 3].map(|()| get(&httpd, &address, "/login/"));
        assert_eq!(answers, [404, 429, 429], "{address}");
    }
    // Once, so that what each thread needs for itself is there.
    flood(&httpd, 2_000, "/hoge/small.txt");
    let before = memory(&httpd);

    flood(&httpd, 20_000, "/hoge/small.txt");

    let after = memory(&httpd);
    assert!(before.0 > 0 && before.1 > 0, "{before:?}");
    assert!(
        after.0 <= before.0 + 256 && after.1 <= before.1 + 1024,
        "KiB of the parent and the greatest child: {before:?}, then {after:?}"
    );
    for address in people(1) {
        assert_eq!(get(&httpd, &address, "/hoge/small.txt"), 503, "{address}");
    }
    for address in people(2) {
        assert_eq!(get(&httpd, &address, "/login/"), 429, "{address}");
    }
    let gauge = httpd.gauge();
    for address in people(1) {
        assert_eq!(gauge.count_of(PLACES, &address), 1, "{gauge:?}");
    }
    for address in people(2) {
        assert!(is_frozen(&gauge, &address), "{address}: {gauge:?}");
    }
    assert_eq!(gauge["keys"]["capacity"], 1000, "{gauge:?}");
    assert_eq!(gauge["keys"]["frozen"], 5, "{gauge:?}");
    // Of each address a rate and a count were kept.
    assert!(gauge.number("evictions") >= 22_000 - 1000, "{gauge:?}");
    assert_eq!(gauge.number("faults"), 0, "{gauge:?}");
    assert_eq!(gauge.number("audit_mismatches"), 0, "{gauge:?}");
    assert_eq!((gauge.refused(RATE), gauge.refused(PLACES)), (0, 5));
    assert_eq!(gauge.refused(HITS), 5 * 3);
    assert_eq!(gauge.passed(RATE), 22_005);
    drop(held);
    httpd.wait_for_quiet();
}

fn the_smallest_table_refuses_nobody_by_mistake(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_log("limitipconn(308): ")
        .conf(&format!("IPLimitTable keys=16\n{RULES}"))
        .start();
    let frozen = "203.0.113.1";
    let answers = [(); 2].map(|()| get(&httpd, frozen, "/login/"));
    assert_eq!(answers, [404, 429]);
    flood(&httpd, 2_000, "/hoge/small.txt");
    assert_eq!(get(&httpd, frozen, "/login/"), 429);
    let gauge = httpd.gauge();
    assert!(is_frozen(&gauge, frozen), "{gauge:?}");
    assert_eq!(gauge["keys"]["capacity"], 16, "{gauge:?}");
    assert_eq!(gauge.refused(RATE), 0, "{gauge:?}");
    assert!(gauge.number("evictions") > 1_000, "{gauge:?}");
    // More that are frozen than there are cells: admitted from then on, and counted.
    for n in 1..=40 {
        let address = format!("198.51.100.{n}");
        let first = get(&httpd, &address, "/login/");
        assert_eq!(first, 404, "{address}: {:?}", httpd.gauge());
        assert!([404, 429].contains(&get(&httpd, &address, "/login/")));
    }
    let gauge = httpd.gauge();
    assert_eq!(gauge.rows("frozen").count(), 16, "{gauge:?}");
    assert!(gauge.number("untracked") >= 2 * 25, "{gauge:?}");
    assert_eq!(get(&httpd, "192.0.2.1", "/hoge/small.txt"), 200);
    assert_eq!(get(&httpd, frozen, "/login/"), 429);
}

fn another_size_waits_for_a_full_restart_and_rates_go_on(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_log("limitipconn(301): ")
        .conf(&format!("IPLimitTable keys=1000\n{RULES}"))
        .start();
    let (spent, frozen) = ("203.0.113.1", "203.0.113.2");
    let answers = [(); 3].map(|()| get(&httpd, spent, "/hoge/small.txt"));
    assert_eq!(answers, [200, 200, 429]);
    let answers = [(); 2].map(|()| get(&httpd, frozen, "/login/"));
    assert_eq!(answers, [404, 429]);
    httpd.rewrite_conf(&format!("IPLimitTable keys=16\n{RULES}"));
    httpd.graceful();
    let lines = httpd.log_lines("limitipconn(301): ");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let text = "the table of 1000 keys stays until httpd is stopped and started";
    assert!(lines[0].contains(text), "{lines:?}");
    assert_eq!(httpd.gauge()["keys"]["capacity"], 1000);
    assert_eq!(get(&httpd, spent, "/hoge/small.txt"), 429);
    assert_eq!(get(&httpd, frozen, "/login/"), 429);
}
