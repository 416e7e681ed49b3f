//! What the gauge tells of each rule beside its decisions: whom an exemption spared of it,
//! and which keys are nearest to its limit.

mod support;

use serde_json::{Value, json};
use support::{Gauge, Httpd, Mpm, on_every_mpm};

on_every_mpm!(nearest_keys_are_those_that_the_rule_compares_with);

/// The row of a rule of this number.
#[track_caller]
fn row<'g>(gauge: &'g Gauge, rule: &str, limit: u64) -> &'g Value {
    let is_it = |row: &&Value| row["rule"] == rule && row["limit"] == limit;
    let mut rows = gauge.rows("rules").filter(is_it);
    let found = rows.next();
    assert!(rows.next().is_none(), "{rule} twice: {gauge:?}");
    found.unwrap_or_else(|| panic!("no {rule} of {limit}: {gauge:?}"))
}

/// The keys nearest to a rule's limit, with what they have of it; without the gauge's reader.
fn nearest(gauge: &Gauge, rule: &str, limit: u64) -> Vec<(String, u64)> {
    let keys = row(gauge, rule, limit)["busiest"].as_array().unwrap();
    let keys = keys.iter().filter(|key| key["key"] != "127.0.0.99");
    let read = |key: &Value| {
        let name = key["key"].as_str().unwrap().to_owned();
        (name, key["count"].as_u64().unwrap())
    };
    keys.map(read).collect()
}

fn some(keys: &[(&str, u64)]) -> Vec<(String, u64)> {
    keys.iter()
        .map(|(key, count)| ((*key).to_owned(), *count))
        .collect()
}

fn nearest_keys_are_those_that_the_rule_compares_with(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone token key=%{HTTP:X-Api-Key} secret
             MaxConnPerIP 31
             MaxConnPerIP 32 count=connections
             <Location /hoge>
                 MaxConnPerIP 33 scope=location
                 MaxConnPerKey token 34
                 MaxRatePerIP 5/d
             </Location>
             <Location /fuga>
                 MaxConnPerIP 35 scope=vhost
                 MaxHitsPerIP 3/h freeze=1h
             </Location>
             <VirtualHost *:${PORT}>
                 ServerName one.example
                 DocumentRoot ${DOCROOT}
             </VirtualHost>
             <VirtualHost *:${PORT2}>
                 ServerName two.example
                 DocumentRoot ${DOCROOT}
                 <Location /hoge>
                     MaxConnPerIP 36 scope=vhost
                 </Location>
             </VirtualHost>
             Listen 127.0.0.1:${PORT2}",
        )
        .start();
    let [two, three] = ["127.0.0.2", "127.0.0.3"].map(|address| httpd.client(address));
    let keyed = three.clone().header("X-Api-Key", "secret");
    let there = three.clone().at_port(httpd.port2());
    let _held = [
        two.hold("/hoge/hold.cgi"),
        two.hold("/hoge/hold.cgi"),
        two.hold("/fuga/hold.cgi"),
        keyed.hold("/hoge/hold.cgi"),
        there.hold("/hoge/hold.cgi"),
        there.hold("/hold.cgi"),
    ];
    let frozen = httpd.client("127.0.0.4");
    let statuses = [(); 4].map(|()| frozen.status("/fuga/small.txt"));
    assert_eq!(statuses, [200, 200, 200, 429]);
    // The last connection of that client ends a moment after its answer.
    let has_gone = |gauge: &Gauge, limit| {
        let nearest = nearest(gauge, "MaxConnPerIP@server", limit);
        nearest.iter().all(|(key, _)| key != "127.0.0.4")
    };
    let gauge = httpd.wait_for(|gauge| has_gone(gauge, 31) && has_gone(gauge, 32));
    for (rule, limit, expected) in [
        (
            "MaxConnPerIP@server",
            31,
            &[("127.0.0.2", 3), ("127.0.0.3", 3)][..],
        ),
        (
            "MaxConnPerIP@server",
            32,
            &[("127.0.0.2", 3), ("127.0.0.3", 3)],
        ),
        // In the place only, on whichever host.
        (
            "MaxConnPerIP@/hoge",
            33,
            &[("127.0.0.2", 2), ("127.0.0.3", 1)],
        ),
        (
            "MaxRatePerIP@/hoge",
            5,
            &[("127.0.0.2", 2), ("127.0.0.3", 2)],
        ),
        (
            "MaxHitsPerIP@/fuga",
            3,
            &[("127.0.0.4", 3), ("127.0.0.2", 1)],
        ),
        // All of the second host, and nothing of the first.
        ("MaxConnPerIP@/hoge", 36, &[("127.0.0.3", 2)]),
    ] {
        assert_eq!(
            nearest(&gauge, rule, limit),
            some(expected),
            "{rule}: {gauge:?}"
        );
    }
    // A rule of the main server compares with what each host has on its own.
    let of_hosts = nearest(&gauge, "MaxConnPerIP@/fuga", 35);
    assert_eq!(of_hosts[0], ("127.0.0.2".to_owned(), 3), "{gauge:?}");
    let secret = nearest(&gauge, "MaxConnPerKey:token@/hoge", 34);
    assert!(
        secret[0].0.starts_with("digest:") && secret[0].1 == 1,
        "{secret:?}"
    );
}

/// Each request that an exemption spares counts once for each rule that would have looked.
#[test]
fn exemptions_count_at_each_rule_that_would_have_looked() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "MaxConnPerIP 40 count=requests
             MaxConnPerIP 41 count=connections
             IPLimitExempt 127.0.0.50
             IPLimitExempt preflight
             <Location /hoge>
                 MaxConnPerIP 42 scope=location
                 MaxRatePerIP 43/s
                 IPLimitExempt 127.0.0.60
             </Location>
             <Location /fuga>
                 MaxConnPerIP 44 scope=location
             </Location>
             <Location /one>
                 MaxConnPerIP 1 scope=location
                 ErrorDocument 503 /sorry/small.txt
             </Location>
             <Location /sorry>
                 MaxConnPerIP 45 scope=location
                 IPLimitExempt all
             </Location>",
        )
        .furnish("one")
        .furnish("sorry")
        .start();
    // The page that answers a refusal would not have been asked.
    let refused = httpd.client("127.0.0.71");
    let held = refused.hold("/one/hold.cgi");
    assert_eq!(refused.status("/one/small.txt"), 503);
    drop(held);
    for address in ["127.0.0.50", "127.0.0.60", "127.0.0.70"] {
        assert_eq!(httpd.client(address).status("/hoge/small.txt"), 200);
    }
    let preflight = "Origin: http://a.example\r\nAccess-Control-Request-Method: GET\r\n";
    let answer = httpd
        .client("127.0.0.70")
        .ask("OPTIONS", "/hoge/small.txt", preflight);
    assert_eq!(answer.status, 200);
    let gauge = httpd.wait_for_quiet();
    for (rule, limit, exempt) in [
        ("MaxConnPerIP@server", 40, 1),
        ("MaxConnPerIP@server", 41, 1),
        ("MaxConnPerIP@/hoge", 42, 2),
        // The preflight is spared of rates only.
        ("MaxRatePerIP@/hoge", 43, 3),
        ("MaxConnPerIP@/fuga", 44, 0),
        ("MaxConnPerIP@/sorry", 45, 0),
    ] {
        assert_eq!(
            row(&gauge, rule, limit)["exempt"],
            exempt,
            "{rule}: {gauge:?}"
        );
    }
    assert_eq!(gauge.number("exempt"), 3, "{gauge:?}");
}

/// Like rules of a place share their counts; each shows the clients that it is for.
#[test]
fn rules_for_some_clients_show_these() {
    let httpd = Httpd::on(Mpm::Event)
        .conf(
            "MaxConnPerIP 21 scope=server count=workers
             MaxConnPerIP 22 scope=server count=workers for=127.0.0.3
             <Location /hoge>
                 MaxConnPerIP 11 scope=location
                 MaxConnPerIP 12 scope=location for=127.0.0.0/30
                 MaxConnPerIP off for=127.0.0.2
                 MaxRatePerIP 13/d
                 MaxRatePerIP 14/d for=127.0.0.3
             </Location>",
        )
        .start();
    let clients = [3, 4].map(|n| httpd.client(&format!("127.0.0.{n}")));
    let _held = clients
        .each_ref()
        .map(|client| client.hold("/hoge/hold.cgi"));
    let gauge = httpd.gauge();
    for (rule, limit, client) in [
        ("MaxConnPerIP@server", 21, "127.0.0.4"),
        ("MaxConnPerIP@server for=127.0.0.3", 22, "127.0.0.3"),
        ("MaxConnPerIP@/hoge", 11, "127.0.0.4"),
        ("MaxConnPerIP@/hoge for=127.0.0.0/30", 12, "127.0.0.3"),
        ("MaxRatePerIP@/hoge", 13, "127.0.0.4"),
        ("MaxRatePerIP@/hoge for=127.0.0.3", 14, "127.0.0.3"),
    ] {
        let found = nearest(&gauge, rule, limit);
        assert_eq!(found, some(&[(client, 1)]), "{rule}: {gauge:?}");
    }
}

/// A rule says whether it refuses now, and whether it only marks.
#[test]
fn rules_and_guards_say_whether_they_act() {
    let httpd = Httpd::on(Mpm::Event)
        .conf(
            "IPLimitAlarm busy=70%
             IPLimitMaxTime 2h
             IPLimitMaxTime 1h busy=1%
             <Location /hoge>
                 MaxConnPerIP 50 scope=location busy=1%
                 MaxRatePerIP 51/s burst=9 delay=4
                 IPLimitDryRun On
                 IPLimitMinRate 1234 after=40s window=20s
             </Location>
             <Location /fuga>
                 MaxConnPerIP 52 scope=location busy=90%
                 MaxHitsPerIP 53/min on=404
                 IPLimitMinRate 5
                 IPLimitMinRate off
             </Location>",
        )
        .start();
    let gauge = httpd.gauge();
    for (rule, limit, fields) in [
        (
            "MaxConnPerIP@/hoge",
            50,
            json!({"busy": 1, "busy_reached": true, "dry_run": true}),
        ),
        (
            "MaxRatePerIP@/hoge",
            51,
            json!({"burst": 9, "delay": 4, "dry_run": true}),
        ),
        (
            "MaxConnPerIP@/fuga",
            52,
            json!({"busy": 90, "busy_reached": false, "dry_run": false}),
        ),
        (
            "MaxHitsPerIP@/fuga",
            53,
            json!({"charged_by_status": true, "busy_reached": null}),
        ),
    ] {
        let row = row(&gauge, rule, limit);
        for (name, value) in fields.as_object().unwrap() {
            assert_eq!(row[name], *value, "{name} of {rule}");
        }
    }
    let all = json!({"vhost": null, "busy": null, "busy_reached": null, "bytes_per_second": null,
        "after_milliseconds": null, "window_milliseconds": null, "longest_milliseconds": null});
    let expected = [
        json!({"guard": "IPLimitAlarm@server", "busy": 70, "busy_reached": false}),
        json!({"guard": "IPLimitMaxTime@server", "busy": 1, "busy_reached": true,
            "longest_milliseconds": 3_600_000}),
        json!({"guard": "IPLimitMinRate@/hoge", "bytes_per_second": 1234,
            "after_milliseconds": 40_000, "window_milliseconds": 20_000}),
    ];
    let expected: Vec<Value> = expected
        .iter()
        .map(|own| {
            let mut guard = all.clone();
            let fields = guard.as_object_mut().unwrap();
            fields.extend(own.as_object().unwrap().clone());
            guard
        })
        .collect();
    assert_eq!(gauge["guards"], Value::Array(expected));
}
