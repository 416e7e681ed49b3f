//! Exactness: however many arrive together, as many are admitted as the number says.

mod support;

use std::io::Read;

use support::{Httpd, Mpm, at_once, on_every_mpm};

on_every_mpm!(
    twelve_at_once_for_scope_location,
    twelve_at_once_for_scope_vhost,
    twelve_at_once_for_scope_server,
    twelve_at_once_outside_sections,
    twelve_at_once_under_three_rules,
    three_hundred_broken_downloads_leave_nothing,
);

const ROUNDS: usize = 6;

/// The admitted hold until all twelve have their answer, however long the pool takes to grow.
fn exactly_two_of_twelve(mpm: Mpm, conf: &str) {
    let httpd = Httpd::on(mpm).expect_refusals().conf(conf).start();
    for round in 0..ROUNDS {
        let client = httpd.client("127.0.0.2");
        let answers = at_once(12, |_| client.try_hold("/hoge/hold.cgi"));
        let refused: Vec<_> = answers
            .iter()
            .filter_map(|answer| answer.as_ref().err())
            .collect();
        assert_eq!(refused.len(), 10, "round {round}: {:?}", httpd.gauge());
        assert!(
            refused.iter().all(|response| response.status == 503),
            "round {round}: {refused:?}"
        );
        drop(answers);
        httpd.wait_for(|gauge| gauge.total() == 0);
    }
    let gauge = httpd.wait_for_quiet();
    assert_eq!(
        (gauge.number("audit_mismatches"), gauge.number("untracked")),
        (0, 0),
        "{gauge:?}"
    );
}

fn twelve_at_once_for_scope_location(mpm: Mpm) {
    exactly_two_of_twelve(
        mpm,
        "<Location /hoge>\n MaxConnPerIP 2 scope=location\n</Location>",
    );
}

fn twelve_at_once_for_scope_vhost(mpm: Mpm) {
    exactly_two_of_twelve(
        mpm,
        "<Location /hoge>\n MaxConnPerIP 2 scope=vhost\n</Location>",
    );
}

fn twelve_at_once_for_scope_server(mpm: Mpm) {
    exactly_two_of_twelve(
        mpm,
        "<Location /hoge>\n MaxConnPerIP 2 scope=server count=requests\n</Location>",
    );
}

fn twelve_at_once_outside_sections(mpm: Mpm) {
    exactly_two_of_twelve(mpm, "MaxConnPerIP 2 scope=server count=requests");
}

/// The widest rule has the least room, so that the places of the narrower go back each time.
fn twelve_at_once_under_three_rules(mpm: Mpm) {
    exactly_two_of_twelve(
        mpm,
        "MaxConnPerIP 2 scope=vhost
         <Location /hoge>
             MaxConnPerIP 4 scope=location
         </Location>
         NoIPLimit video/*",
    );
}

fn three_hundred_broken_downloads_leave_nothing(mpm: Mpm) {
    let conf = "<Location /hoge>\n MaxConnPerIP 40 scope=location\n</Location>";
    let httpd = Httpd::on(mpm)
        .conf(conf)
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    for cycle in 0..300 {
        let mut connection = client.connect();
        connection.send(connection.request("GET", "/hoge/big.bin", ""));
        assert_eq!(
            connection.head().status,
            200,
            "cycle {cycle}: {:?}",
            httpd.gauge()
        );
        connection
            .reader()
            .read_exact(&mut [0; 64 << 10])
            .expect("64 KB of the file");
        connection.reset();
        // However late the workers are to see that: never forty at a time.
        if cycle % 30 == 29 {
            httpd.wait_for(|gauge| gauge.total() == 0);
        }
    }
    let gauge = httpd.wait_for_quiet();
    assert_eq!(gauge.refused("MaxConnPerIP@/hoge"), 0, "{gauge:?}");
}
