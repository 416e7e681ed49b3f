//! `busy=N%`: a rule that counts always and refuses only while the pool is that full.

mod support;

use support::{Client, Held, Httpd, Mpm, Setup, on_every_mpm};

on_every_mpm!(
    place_refuses_only_under_pressure,
    requests_of_the_server_are_refused_only_under_pressure,
    workers_are_refused_only_under_pressure,
    defaults_give_it_and_a_rule_overrides_them,
    connections_are_refused_only_under_pressure,
    full_pool_is_a_hundred_percent,
);

/// Ten workers, all of which are there from the start.
fn ten_workers(mpm: Mpm) -> Setup {
    let pool = match mpm {
        Mpm::Prefork => {
            "ServerLimit 10\nMaxRequestWorkers 10\nStartServers 10\nMinSpareServers 10\nMaxSpareServers 10"
        }
        Mpm::Worker | Mpm::Event => {
            "ServerLimit 1\nThreadLimit 16\nThreadsPerChild 10\nMaxRequestWorkers 10\nStartServers 1\n\
             MinSpareThreads 1\nMaxSpareThreads 10"
        }
    };
    Httpd::on(mpm).expect_refusals().conf(pool)
}

/// Scripts of another client that keep so many workers busy.
fn others(httpd: &Httpd, number: usize) -> Vec<Held> {
    let client = httpd.client("127.0.0.3");
    (0..number).map(|_| client.hold("/fuga/hold.cgi")).collect()
}

/// Frees the others' workers, and waits until they are free.
fn end(httpd: &Httpd, others: Vec<Held>, left: u64) {
    drop(others);
    // The gauge's own worker is busy too.
    httpd.wait_for(|gauge| gauge.busy() == left + 1);
}

fn ask(client: &Client) -> u16 {
    client.status("/hoge/small.txt")
}

/// Two held of one allowed, all counted; five of ten workers are the border. The gauge may keep
/// its own worker for a moment after its answer, so nothing that must pass follows it at the
/// border.
#[track_caller]
fn assert_counts_always_and_refuses_from_five_on(httpd: &Httpd, rule: &str, counted: &str) {
    let client = httpd.client("127.0.0.2");
    let held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    // Two held, one of another client, and the one that asks: four.
    let mut pressure = others(httpd, 1);
    assert_eq!(ask(&client), 200, "four of ten are busy");
    httpd.wait_for(|gauge| gauge.busy() == 4);
    if !counted.is_empty() {
        assert_eq!(
            httpd.gauge().count_of(counted, "127.0.0.2"),
            2,
            "over the number, and counted"
        );
    }
    pressure.extend(others(httpd, 1));
    assert_eq!(ask(&client), 503, "five of ten are busy");
    assert_eq!(
        httpd.client("127.0.0.4").status("/hoge/small.txt"),
        200,
        "others are not"
    );
    httpd.wait_for(|gauge| gauge.busy() == 5);
    end(httpd, pressure, 2);
    assert_eq!(ask(&client), 200, "the pressure is gone");
    assert_eq!(httpd.gauge().refused(rule), 1, "{:?}", httpd.gauge());
    drop(held);
    httpd.wait_for_quiet();
}

fn place_refuses_only_under_pressure(mpm: Mpm) {
    let httpd = ten_workers(mpm)
        .conf("<Location /hoge>\n MaxConnPerIP 1 scope=location busy=50%\n</Location>")
        .start();
    let rule = "MaxConnPerIP@/hoge";
    assert_counts_always_and_refuses_from_five_on(&httpd, rule, rule);
    assert!(
        httpd
            .gauge()
            .rows("rules")
            .any(|row| row["rule"] == rule && row["busy"] == 50),
        "{:?}",
        httpd.gauge()
    );
}

fn requests_of_the_server_are_refused_only_under_pressure(mpm: Mpm) {
    let httpd = ten_workers(mpm)
        .conf("<Location /hoge>\n MaxConnPerIP 1 scope=server count=requests busy=50%\n</Location>")
        .start();
    let counted = "requests@server (directory level)";
    assert_counts_always_and_refuses_from_five_on(&httpd, "MaxConnPerIP@/hoge", counted);
}

fn workers_are_refused_only_under_pressure(mpm: Mpm) {
    let httpd = ten_workers(mpm)
        .conf("<Location /hoge>\n MaxConnPerIP 1 scope=server busy=50%\n</Location>")
        .start();
    assert_counts_always_and_refuses_from_five_on(&httpd, "MaxConnPerIP@/hoge", "");
}

fn defaults_give_it_and_a_rule_overrides_them(mpm: Mpm) {
    let httpd = ten_workers(mpm)
        .conf(
            "<Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>
             <Location /fuga>
                 MaxConnPerIP 9 scope=location
             </Location>
             <Location /always>
                 MaxConnPerIP 1 scope=location busy=1%
             </Location>
             IPLimitDefaults busy=50%",
        )
        .furnish("always")
        .start();
    let rule = "MaxConnPerIP@/hoge";
    assert_counts_always_and_refuses_from_five_on(&httpd, rule, rule);
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/always/hold.cgi");
    assert_eq!(
        client.status("/always/small.txt"),
        503,
        "one of ten is more than 1 %"
    );
}

fn connections_are_refused_only_under_pressure(mpm: Mpm) {
    let httpd = ten_workers(mpm)
        .conf("AcceptFilter http none\nIPLimitExempt 127.0.0.99\nMaxConnPerIP 1 count=connections busy=50%")
        .start();
    let client = httpd.client("127.0.0.2");
    let held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    httpd.wait_for(|gauge| gauge.busy() == 3);
    assert_eq!(ask(&client), 200, "three of ten are busy");
    httpd.wait_for(|gauge| gauge.busy() == 3);
    let pressure = [5, 6, 7].map(|n| httpd.client(&format!("127.0.0.{n}")).hold("/fuga/hold.cgi"));
    assert!(
        client.try_get("/hoge/small.txt").is_err(),
        "closed without a byte"
    );
    assert_eq!(httpd.client("127.0.0.4").status("/hoge/small.txt"), 200);
    httpd.wait_for(|gauge| gauge.busy() == 6);
    drop(pressure);
    httpd.wait_for(|gauge| gauge.busy() == 3);
    assert_eq!(ask(&client), 200, "the pressure is gone");
    let gauge = httpd.gauge();
    assert_eq!(gauge.refused("MaxConnPerIP@server"), 1, "{gauge:?}");
    drop(held);
}

/// The last free worker is enough to be served.
fn full_pool_is_a_hundred_percent(mpm: Mpm) {
    let httpd = ten_workers(mpm)
        .conf("<Location /hoge>\n MaxConnPerIP 1 scope=location busy=100%\n</Location>")
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    let mut pressure = others(&httpd, 7);
    assert_eq!(ask(&client), 200, "nine of ten are busy");
    httpd.wait_for(|gauge| gauge.busy() == 9);
    pressure.extend(others(&httpd, 1));
    assert_eq!(ask(&client), 503, "all ten are busy");
    httpd.wait_for(|gauge| gauge.busy() == 10);
    end(&httpd, pressure, 1);
    assert_eq!(ask(&client), 200);
    held.finish();
}
