//! Rates of zones: one bucket or window for the zone, for each virtual host or for each place, and
//! what a request that another rule refuses gets back.

mod support;

use support::{Httpd, Mpm, on_every_mpm};

on_every_mpm!(
    bucket_is_shared_as_the_scope_says,
    periods_of_one_zone_stand_side_by_side,
    off_lifts_the_rates_of_its_zone_only,
    limits_of_zones_and_addresses_stand_side_by_side,
    hits_are_counted_per_key,
);

/// Two places on two virtual hosts: how many of eight come in, each way of sharing.
fn bucket_is_shared_as_the_scope_says(mpm: Mpm) {
    // Asked by turns: a place of one, the other of it, both of two, and once more.
    for (scope, statuses) in [
        ("zone", [200, 200, 429, 429, 429, 429, 429, 429]),
        ("vhost", [200, 200, 200, 200, 429, 429, 429, 429]),
        ("location", [200, 200, 200, 200, 429, 429, 429, 429]),
    ] {
        let httpd = Httpd::on(mpm)
            .expect_refusals()
            .conf(&format!(
                "IPLimitZone api key=%{{HTTP:X-Api-Key}}
                 <Location /hoge>
                     MaxRatePerKey api 2/h scope={scope}
                 </Location>
                 <Location /fuga>
                     MaxRatePerKey API 2/h scope={scope}
                 </Location>
                 <VirtualHost *:${{PORT}}>
                     ServerName one
                 </VirtualHost>
                 <VirtualHost *:${{PORT}}>
                     ServerName two
                 </VirtualHost>"
            ))
            .start();
        let ask = |key: &str, host: &str, place: &str| {
            let client = httpd.client("127.0.0.2").header("X-Api-Key", key);
            client
                .header("Host", host)
                .status(&format!("/{place}/small.txt"))
        };
        let turns = [
            ("one", "hoge"),
            ("one", "fuga"),
            ("two", "hoge"),
            ("two", "fuga"),
        ];
        let found: Vec<u16> = turns
            .iter()
            .chain(&turns)
            .map(|(host, place)| ask("k", host, place))
            .collect();
        assert_eq!(found, statuses, "{scope}");
        assert_eq!(ask("other", "one", "hoge"), 200, "{scope}");
    }
}

/// Three in an hour and four in a day.
fn periods_of_one_zone_stand_side_by_side(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone api key=%{HTTP:X-Api-Key}
             <Location /hoge>
                 MaxRatePerKey api 3/h scope=zone
                 MaxRatePerKey api 4/d scope=zone
             </Location>
             <Location /fuga>
                 MaxRatePerKey api 4/d scope=zone
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2").header("X-Api-Key", "k");
    let hoge = [(); 5].map(|()| client.status("/hoge/small.txt"));
    assert_eq!(hoge, [200, 200, 200, 429, 429]);
    // What the hour refused has cost the day nothing.
    let fuga = [(); 2].map(|()| client.status("/fuga/small.txt"));
    assert_eq!(fuga, [200, 429]);
}

fn off_lifts_the_rates_of_its_zone_only(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone api key=%{HTTP:X-Api-Key}
             IPLimitZone everybody key=all
             <Location /hoge>
                 MaxRatePerKey api 1/h
                 MaxRatePerKey api 2/d
                 MaxRatePerKey everybody 3/h
                 MaxHitsPerKey api 4/h
             </Location>
             <Location /hoge/inner>
                 MaxRatePerKey Api off
             </Location>",
        )
        .furnish("hoge/inner")
        .start();
    let client = httpd.client("127.0.0.2").header("X-Api-Key", "k");
    let inner = [(); 4].map(|()| client.status("/hoge/inner/small.txt"));
    assert_eq!(inner, [200, 200, 200, 429], "three for everybody");
    let gauge = httpd.gauge();
    assert_eq!(
        gauge.refused("MaxRatePerKey:everybody@/hoge"),
        1,
        "{gauge:?}"
    );
    assert_eq!(gauge.passed("MaxHitsPerKey:api@/hoge"), 3, "{gauge:?}");
    assert_eq!(gauge.passed("MaxRatePerKey:api@/hoge"), 0, "{gauge:?}");
}

/// A cap for keys outside sections, one for addresses within.
fn limits_of_zones_and_addresses_stand_side_by_side(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone api key=%{HTTP:X-Api-Key}
             MaxRatePerKey api 3/h
             IPLimitExempt 127.0.0.99
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let (a, b) = (
        client.clone().header("X-Api-Key", "a"),
        client.header("X-Api-Key", "b"),
    );
    let held = a.hold("/hoge/hold.cgi");
    // The section refuses: the key's token comes back.
    for _ in 0..5 {
        assert_eq!(a.status("/hoge/small.txt"), 503);
    }
    held.finish();
    httpd.wait_for(|gauge| gauge.total() == 0);
    assert_eq!(a.status("/hoge/small.txt"), 200);
    assert_eq!(a.status("/fuga/small.txt"), 200);
    assert_eq!(a.status("/fuga/small.txt"), 429);
    assert_eq!(b.status("/fuga/small.txt"), 200);
}

fn hits_are_counted_per_key(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone api key=%{HTTP:X-Api-Key}
             <Location /hoge>
                 MaxHitsPerKey api 3/d freeze=1h scope=zone
             </Location>
             <Location /fuga>
                 MaxHitsPerKey api 3/d freeze=1h scope=zone
             </Location>",
        )
        .start();
    let from = |last: u8, key: &str| {
        httpd
            .client(&format!("127.0.0.{last}"))
            .header("X-Api-Key", key)
    };
    assert_eq!(from(2, "a").status("/hoge/small.txt"), 200);
    assert_eq!(from(3, "a").status("/fuga/small.txt"), 200);
    assert_eq!(from(4, "a").status("/hoge/small.txt"), 200);
    assert_eq!(from(5, "a").status("/fuga/small.txt"), 429);
    assert_eq!(from(2, "b").status("/hoge/small.txt"), 200);
    let gauge = httpd.gauge();
    let frozen: Vec<_> = gauge.rows("frozen").collect();
    assert_eq!(frozen.len(), 1, "{gauge:?}");
    assert_eq!(
        (&frozen[0]["rule"], &frozen[0]["key"]),
        (&"MaxHitsPerKey:api@zone".into(), &"a".into()),
        "{gauge:?}"
    );
}
