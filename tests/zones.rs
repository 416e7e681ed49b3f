//! Zones: one count for all that its rules govern, each place with its own number, or one for
//! each place or virtual host. What the keys are made of stands in zone_keys,
//! rates in zone_rates.

mod support;

use support::{Client, Httpd, Mpm, on_every_mpm};

on_every_mpm!(
    places_of_a_zone_share_one_count,
    each_place_compares_the_one_count_with_its_own_number,
    location_and_virtual_host_have_counts_of_their_own,
    one_site_holds_at_most_so_many,
    zone_is_used_before_it_is_declared_in_virtual_host_and_htaccess,
    all_rules_of_a_request_must_pass,
    request_governed_at_both_levels_takes_one_place_and_one_token,
);

/// The status of one GET from this virtual host.
#[track_caller]
fn status_at(client: &Client, host: &str, path: &str) -> u16 {
    client.clone().header("Host", host).status(path)
}

/// nginx 1 and 2: the count belongs to the zone, not to the place.
fn places_of_a_zone_share_one_count(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone z key=client
             <Location /hoge>
                 MaxConnPerKey z 1
             </Location>
             <Location /fuga>
                 MaxConnPerKey Z 1
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    assert_eq!(client.status("/hoge/small.txt"), 503, "the same place");
    assert_eq!(client.status("/fuga/small.txt"), 503, "another of the zone");
    assert_eq!(client.status("/small.txt"), 200, "none of the zone");
    assert_eq!(httpd.client("127.0.0.3").status("/fuga/small.txt"), 200);
    let gauge = httpd.gauge();
    assert_eq!(
        (
            gauge.count_of("MaxConnPerKey:z@zone", "127.0.0.2"),
            gauge.total(),
            gauge.refused("MaxConnPerKey:z@/hoge"),
            gauge.refused("MaxConnPerKey:Z@/fuga"),
        ),
        (1, 1, 1, 1),
        "{gauge:?}"
    );
    let line = httpd.wait_for_log("rule MaxConnPerKey:z@/hoge").pop();
    let line = line.expect("a line");
    let said = "client 127.0.0.2 refused: too many connections for this key: 2/1, rule ";
    assert!(line.contains(said), "{line}");
    assert_eq!(held.finish().text(), "ended\n");
    httpd.wait_for(|gauge| gauge.total() == 0);
    assert_eq!(client.status("/fuga/small.txt"), 200);
}

fn each_place_compares_the_one_count_with_its_own_number(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone z key=client
             <Location /hoge>
                 MaxConnPerKey z 2
             </Location>
             <Location /fuga>
                 MaxConnPerKey z 4
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _hoge = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503, "3 of 2");
    let mut fuga = vec![client.hold("/fuga/hold.cgi"), client.hold("/fuga/hold.cgi")];
    assert_eq!(client.status("/fuga/small.txt"), 503, "5 of 4");
    drop(fuga.pop());
    httpd.wait_for(|gauge| gauge.total() == 3);
    assert_eq!(client.status("/fuga/small.txt"), 200, "4 of 4");
    httpd.wait_for(|gauge| gauge.total() == 3);
    assert_eq!(client.status("/hoge/small.txt"), 503, "4 of 2");
}

fn location_and_virtual_host_have_counts_of_their_own(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone place key=client
             IPLimitZone site key=client
             <Location /hoge>
                 MaxConnPerKey place 1 scope=location
                 MaxConnPerKey site 2 scope=vhost
             </Location>
             <Location /fuga>
                 MaxConnPerKey place 1 scope=location
                 MaxConnPerKey site 2 scope=vhost
             </Location>
             <VirtualHost *:${PORT}>
                 ServerName one
             </VirtualHost>
             <VirtualHost *:${PORT}>
                 ServerName two
             </VirtualHost>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let one = client.clone().header("Host", "one");
    let _hoge = one.hold("/hoge/hold.cgi");
    assert_eq!(status_at(&client, "one", "/hoge/small.txt"), 503);
    assert_eq!(
        status_at(&client, "two", "/hoge/small.txt"),
        503,
        "the place is one"
    );
    let _fuga = one.hold("/fuga/hold.cgi");
    let gauge = httpd.gauge();
    for (rule, count) in [
        ("MaxConnPerKey:place@/hoge", 1),
        ("MaxConnPerKey:place@/fuga", 1),
        ("MaxConnPerKey:site@vhost", 2),
    ] {
        assert_eq!(
            gauge.count_of(rule, "127.0.0.2"),
            count,
            "{rule}: {gauge:?}"
        );
    }
    let mut rows = gauge.rows("counts");
    let site = rows.find(|row| row["rule"] == "MaxConnPerKey:site@vhost");
    assert_eq!(
        site.expect("a row")["vhost"],
        format!("one:{}", httpd.port()),
        "{gauge:?}"
    );
    // What is refused is the place, though the site is full, too.
    assert_eq!(status_at(&client, "one", "/fuga/small.txt"), 503);
    let gauge = httpd.gauge();
    assert_eq!(gauge.refused("MaxConnPerKey:place@/fuga"), 1, "{gauge:?}");
}

/// `key=all scope=vhost`: one count for each site, whoever asks.
fn one_site_holds_at_most_so_many(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone everybody key=all
             MaxConnPerKey everybody 3 scope=vhost
             <VirtualHost *:${PORT}>
                 ServerName one
             </VirtualHost>
             <VirtualHost *:${PORT}>
                 ServerName two
             </VirtualHost>
             <VirtualHost *:${PORT}>
                 ServerName three
                 MaxConnPerKey everybody 1 scope=vhost
             </VirtualHost>
             <VirtualHost *:${PORT}>
                 ServerName free
                 MaxConnPerKey everybody off
             </VirtualHost>",
        )
        .start();
    let from = |last: u8, host: &str| {
        httpd
            .client(&format!("127.0.0.{last}"))
            .header("Host", host)
    };
    let _one: Vec<_> = (2..5)
        .map(|last| from(last, "one").hold("/hoge/hold.cgi"))
        .collect();
    assert_eq!(from(9, "one").status("/small.txt"), 503);
    assert_eq!(from(9, "two").status("/small.txt"), 200);
    let _three = from(2, "three").hold("/hoge/hold.cgi");
    assert_eq!(from(9, "three").status("/small.txt"), 503);
    let _free: Vec<_> = (2..7)
        .map(|last| from(last, "free").hold("/hoge/hold.cgi"))
        .collect();
    assert_eq!(from(9, "free").status("/small.txt"), 200);
}

/// Its declaration may come last; .htaccess is read by the child, long after it.
fn zone_is_used_before_it_is_declared_in_virtual_host_and_htaccess(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_log("bad/.htaccess: ")
        .conf(
            "<VirtualHost *:${PORT}>
                 ServerName one
                 MaxConnPerKey api 1
                 <Directory ${DOCROOT}>
                     AllowOverride Limit
                 </Directory>
             </VirtualHost>
             <VirtualHost *:${PORT}>
                 ServerName two
                 <Directory ${DOCROOT}>
                     AllowOverride Limit
                 </Directory>
             </VirtualHost>
             IPLimitZone API key=%{HTTP:X-Api-Key}",
        )
        .file("hoge/.htaccess", "MaxConnPerKey Api 1\n")
        .furnish("bad")
        .file("bad/.htaccess", "MaxConnPerKey nothing 1\n")
        .start();
    let client = httpd.client("127.0.0.2").header("X-Api-Key", "k");
    let one = client.clone().header("Host", "one");
    let two = client.clone().header("Host", "two");
    let _held = one.hold("/fuga/hold.cgi");
    assert_eq!(one.status("/small.txt"), 503);
    assert_eq!(two.status("/small.txt"), 200, "no rule there");
    assert_eq!(two.status("/hoge/small.txt"), 503, "the same zone");
    let gauge = httpd.gauge();
    assert_eq!(
        gauge.count_of("MaxConnPerKey:API@zone", "k"),
        1,
        "{gauge:?}"
    );
    assert_eq!(two.status("/bad/small.txt"), 500);
    let line = httpd.wait_for_log("bad/.htaccess").pop().expect("a line");
    for text in ["MaxConnPerKey", "\"nothing\"", "API", "IPLimitZone"] {
        assert!(line.contains(text), "no {text} in {line}");
    }
}

/// The narrowest refuses first and what is refused holds nothing anywhere.
fn all_rules_of_a_request_must_pass(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone api key=%{HTTP:X-Api-Key}
             IPLimitZone everybody key=all
             MaxConnPerKey everybody 4
             IPLimitExempt 127.0.0.99
             <Location /hoge>
                 MaxConnPerIP 2 scope=location
                 MaxConnPerKey api 3
                 MaxRatePerKey api 100/h
             </Location>",
        )
        .start();
    let from = |last: u8, key: &str| {
        httpd
            .client(&format!("127.0.0.{last}"))
            .header("X-Api-Key", key)
    };
    let _two = [(); 2].map(|()| from(2, "k").hold("/hoge/hold.cgi"));
    for _ in 0..3 {
        assert_eq!(from(2, "k").status("/hoge/small.txt"), 503);
        assert_eq!(from(2, "other").status("/hoge/small.txt"), 503);
    }
    let _third = from(3, "k").hold("/hoge/hold.cgi");
    for _ in 0..3 {
        assert_eq!(
            from(3, "k").status("/hoge/small.txt"),
            503,
            "the key is full"
        );
    }
    let _fourth = from(3, "other").hold("/hoge/hold.cgi");
    assert_eq!(
        from(4, "other").status("/hoge/small.txt"),
        503,
        "all is full"
    );
    assert_eq!(from(4, "other").status("/small.txt"), 503);
    let gauge = httpd.gauge();
    for (rule, refused) in [
        ("MaxConnPerIP@/hoge", 6),
        ("MaxConnPerKey:api@/hoge", 3),
        ("MaxConnPerKey:everybody@server", 2),
        ("MaxRatePerKey:api@/hoge", 0),
    ] {
        assert_eq!(gauge.refused(rule), refused, "{rule}: {gauge:?}");
    }
    for (rule, key, count) in [
        ("MaxConnPerIP@/hoge", "127.0.0.2", 2),
        ("MaxConnPerIP@/hoge", "127.0.0.3", 2),
        ("MaxConnPerKey:api@zone", "k", 3),
        ("MaxConnPerKey:api@zone", "other", 1),
        ("MaxConnPerKey:everybody@zone", "all", 4),
    ] {
        assert_eq!(gauge.count_of(rule, key), count, "{rule} {key}: {gauge:?}");
    }
}

/// One zone at both levels: both numbers hold, and the request is counted once.
fn request_governed_at_both_levels_takes_one_place_and_one_token(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone z key=client
             MaxConnPerKey z 3
             MaxRatePerKey z 6/h scope=zone
             IPLimitExempt 127.0.0.99
             <Location /hoge>
                 MaxConnPerKey z 2
                 MaxRatePerKey z 6/h scope=zone
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let hoge = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    let gauge = httpd.gauge();
    assert_eq!(
        gauge.count_of("MaxConnPerKey:z@zone", "127.0.0.2"),
        2,
        "{gauge:?}"
    );
    assert_eq!(client.status("/hoge/small.txt"), 503, "3 of 2 there");
    let fuga = client.hold("/fuga/hold.cgi");
    assert_eq!(client.status("/fuga/small.txt"), 503, "4 of 3 outside");
    hoge.into_iter()
        .chain([fuga])
        .for_each(|held| drop(held.finish()));
    httpd.wait_for(|gauge| gauge.total() == 0);
    // Three tokens of six are gone, wherever they were asked for; refusals cost none.
    for path in ["/hoge/small.txt", "/fuga/small.txt", "/hoge/small.txt"] {
        assert_eq!(client.status(path), 200, "{path}");
        httpd.wait_for(|gauge| gauge.total() == 0);
    }
    assert_eq!(client.status("/hoge/small.txt"), 429);
    assert_eq!(client.status("/fuga/small.txt"), 429);
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
}
