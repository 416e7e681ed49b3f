//! A table that is far too small: who holds something is never forgotten, and nobody pays for it.

mod support;

use support::{Httpd, Mpm, on_every_mpm};

on_every_mpm!(ten_thousand_addresses_do_not_push_out_those_who_hold);

const RULE: &str = "MaxConnPerIP@/hoge";

fn ten_thousand_addresses_do_not_push_out_those_who_hold(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .load(&["remoteip"])
        .expect_refusals()
        .conf(
            "RemoteIPHeader X-Forwarded-For
             RemoteIPInternalProxy 127.0.0.1
             IPLimitTable keys=128
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>",
        )
        .start();
    let from = |address: &str| httpd.client("127.0.0.1").header("X-Forwarded-For", address);
    let holders: Vec<_> = (1..=10).map(|n| format!("203.0.113.{n}")).collect();
    let held: Vec<_> = holders
        .iter()
        .map(|address| from(address).hold("/hoge/hold.cgi"))
        .collect();

    let mut connection = httpd.client("127.0.0.1").connect();
    for n in 0..10_000 {
        let address = format!("X-Forwarded-For: 10.1.{}.{}\r\n", n / 250, 1 + n % 250);
        connection.send(connection.request("GET", "/hoge/small.txt", &address));
        assert_eq!(
            connection.response().status,
            200,
            "address {n}: {:?}",
            httpd.gauge()
        );
    }

    for address in &holders {
        assert_eq!(from(address).status("/hoge/small.txt"), 503, "{address}");
    }
    drop(connection);
    let gauge = httpd.wait_for(|gauge| gauge.total() == 10);
    for address in &holders {
        assert_eq!(gauge.count_of(RULE, address), 1, "{address}: {gauge:?}");
    }
    assert_eq!(gauge["keys"]["capacity"], 128, "{gauge:?}");
    assert!(gauge.number("evictions") >= 10_000 - 128, "{gauge:?}");
    assert_eq!(
        (gauge.number("untracked"), gauge.number("audit_mismatches")),
        (0, 0),
        "{gauge:?}"
    );
    assert_eq!(
        (gauge.refused(RULE), gauge.passed(RULE)),
        (10, 10_010),
        "{gauge:?}"
    );
    drop(held);
    httpd.wait_for(|gauge| gauge.total() == 0);
}
