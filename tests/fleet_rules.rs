//! What shared rules have in common with others: freezes, charges by status, refunds, keys, dry
//! runs, reloads; and by which names servers know each other's rules.

#![cfg(feature = "redis")]

mod support;

use support::{Httpd, Mpm, Redis, Setup, on_every_mpm, wait_until};

on_every_mpm!(
    freeze_on_one_is_a_freeze_on_the_other,
    failures_count_over_both,
    reload_keeps_what_is_held,
);

fn server(mpm: Mpm, redis: &Redis, rules: &str) -> Setup {
    let url = redis.url();
    Httpd::on(mpm)
        .expect_refusals()
        .conf(&format!("IPLimitRedis {url} timeout=5s connect=5s"))
        .conf(rules)
}

/// Two of them, for the same rules.
fn two(mpm: Mpm, redis: &Redis, rules: &str) -> [Httpd; 2] {
    [0, 1].map(|_| server(mpm, redis, rules).start())
}

/// The seconds of a Retry-After.
#[track_caller]
fn seconds(answer: &support::Response) -> u64 {
    let value = answer.header("retry-after");
    value
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("{answer:?}"))
}

/// Each server counts by itself first, so the hits are spread.
fn freeze_on_one_is_a_freeze_on_the_other(mpm: Mpm) {
    let redis = Redis::start();
    let rules = "<Location /hoge>\n MaxHitsPerIP 3/10min freeze=30min shared\n</Location>";
    let servers = two(mpm, &redis, rules);
    let [a, b] = [0, 1].map(|n| servers[n].client("127.0.0.2"));
    for client in [&a, &b, &a] {
        assert_eq!(client.status("/hoge/small.txt"), 200);
    }
    let frozen = b.get("/hoge/small.txt");
    assert_eq!((frozen.status, seconds(&frozen)), (429, 1800));
    for client in [&a, &b] {
        let refused = client.get("/hoge/small.txt");
        assert_eq!(refused.status, 429);
        assert!((1..=1800).contains(&seconds(&refused)), "{refused:?}");
    }
    let lines = servers[0].wait_for_log("frozen for ");
    assert!(lines[0].contains("rule MaxHitsPerIP@/hoge"), "{}", lines[0]);
    assert_eq!(
        servers[0].client("127.0.0.3").status("/hoge/small.txt"),
        200
    );
}

/// The charge goes on its way when the answer is known, without anybody waiting for it.
fn failures_count_over_both(mpm: Mpm) {
    let redis = Redis::start();
    let rules = "<Location /hoge>\n MaxHitsPerIP 3/10min freeze=30min on=404 shared\n</Location>";
    let servers = two(mpm, &redis, rules);
    let [a, b] = [0, 1].map(|n| servers[n].client("127.0.0.2"));
    for client in [&a, &b, &a, &b] {
        assert_eq!(client.status("/hoge/small.txt"), 200);
        assert_eq!(client.status("/hoge/missing"), 404);
    }
    for client in [&a, &b] {
        wait_until(support::DEADLINE, || {
            match client.status("/hoge/small.txt") {
                429 => Ok(()),
                other => Err(other),
            }
        });
    }
}

fn reload_keeps_what_is_held(mpm: Mpm) {
    let redis = Redis::start();
    let rules = "<Location /hoge>\n MaxConnPerIP 2 scope=location shared\n</Location>";
    let [a, b] = two(mpm, &redis, rules);
    let held = [(); 2].map(|()| a.client("127.0.0.2").hold("/hoge/hold.cgi"));
    a.graceful();
    let client = b.client("127.0.0.2");
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(a.client("127.0.0.2").status("/hoge/small.txt"), 503);
    drop(held);
    wait_until(support::DEADLINE, || {
        client.try_hold("/hoge/hold.cgi").map(drop)
    });
    redis.wait_for_no_keys(support::DEADLINE, "");
}

/// Neither port nor file nor line is in the names of shared rules; the ServerName is.
#[test]
fn servers_know_each_other_by_server_name_and_section() {
    let redis = Redis::start();
    let host = |name: &str, port: &str| {
        format!(
            "<VirtualHost *:${{{port}}}>
                 ServerName {name}
                 DocumentRoot ${{DOCROOT}}
                 <Location /hoge>
                     MaxConnPerIP 1 scope=location shared
                 </Location>
             </VirtualHost>\n"
        )
    };
    let mpm = Mpm::Event;
    let a = server(
        mpm,
        &redis,
        &(host("SHOP.example", "PORT") + &host("blog.example", "PORT")),
    )
    .start();
    let other_lines = "# Another file.\nListen 127.0.0.1:${PORT2}\n".to_owned();
    let b = server(
        mpm,
        &redis,
        &(other_lines + &host("blog.example", "PORT2") + &host("shop.example", "PORT2")),
    )
    .start();
    let at = |httpd: &Httpd, name: &str| httpd.client("127.0.0.2").header("Host", name);
    let _held = at(&a, "shop.example").hold("/hoge/hold.cgi");
    let on_b = |name: &str| at(&b, name).at_port(b.port2()).status("/hoge/small.txt");
    assert_eq!(on_b("shop.example"), 503);
    assert_eq!(on_b("blog.example"), 200);
    // Its place is given back a moment later; shop.example's is held.
    wait_until(support::DEADLINE, || {
        match at(&a, "blog.example").status("/hoge/small.txt") {
            200 => Ok(()),
            other => Err(other),
        }
    });
}

/// A rule of the main server is one over all virtual hosts, on all servers; and one for some
/// clients is another rule than the one for the rest.
#[test]
fn rules_outside_sections_count_over_hosts_and_servers() {
    let redis = Redis::start();
    let rules = "MaxConnPerIP 2 count=requests shared
         MaxConnPerIP 1 count=requests shared for=127.0.0.8/29
         <VirtualHost *:${PORT}>\n ServerName one.example\n DocumentRoot ${DOCROOT}\n</VirtualHost>
         <VirtualHost *:${PORT}>\n ServerName two.example\n DocumentRoot ${DOCROOT}\n</VirtualHost>";
    let [a, b] = two(Mpm::Event, &redis, rules);
    let from =
        |httpd: &Httpd, host: &str, address: &str| httpd.client(address).header("Host", host);
    let _one = from(&a, "one.example", "127.0.0.2").hold("/hoge/hold.cgi");
    let _two = from(&a, "two.example", "127.0.0.2").hold("/hoge/hold.cgi");
    assert_eq!(
        from(&b, "one.example", "127.0.0.2").status("/hoge/small.txt"),
        503
    );
    let _other = from(&a, "one.example", "127.0.0.9").hold("/hoge/hold.cgi");
    assert_eq!(
        from(&b, "two.example", "127.0.0.9").status("/hoge/small.txt"),
        503
    );
    assert_eq!(
        from(&b, "two.example", "127.0.0.3").status("/hoge/small.txt"),
        200
    );
}

#[test]
fn what_another_shared_rule_refuses_is_given_back() {
    let redis = Redis::start();
    let rules = "<Location /hoge>
             MaxRatePerIP 5/h shared
             MaxHitsPerIP 2/h shared
         </Location>
         <Location /hoge/free>
             MaxHitsPerIP off
         </Location>";
    let [a, b] = [0, 1].map(|_| {
        server(Mpm::Event, &redis, rules)
            .furnish("hoge/free")
            .start()
    });
    let [a, b] = [&a, &b].map(|httpd| httpd.client("127.0.0.2"));
    let statuses = [&a, &b, &a, &b, &a, &b].map(|client| client.status("/hoge/small.txt"));
    assert_eq!(statuses, [200, 200, 429, 429, 429, 429]);
    // Two of five tokens were spent; those of the refused ones come back a moment later.
    for client in [&a, &b, &a] {
        wait_until(support::DEADLINE, || {
            match client.status("/hoge/free/small.txt") {
                200 => Ok(()),
                other => Err(other),
            }
        });
    }
    assert_eq!(b.status("/hoge/free/small.txt"), 429);
}

#[test]
fn keys_of_zones_are_shared_whatever_they_are_made_of() {
    let redis = Redis::start();
    let rules = "IPLimitZone api key=%{HTTP:X-Api-Key} secret
         IPLimitZone all-of-it key=all
         <Location /hoge>\n MaxConnPerKey api 1 shared\n</Location>
         <Location /fuga>\n MaxRatePerKey all-of-it 2/h scope=zone shared\n</Location>";
    let [a, b] = two(Mpm::Event, &redis, rules);
    let with = |httpd: &Httpd, key: &str| httpd.client("127.0.0.2").header("X-Api-Key", key);
    let _held = with(&a, "k1").hold("/hoge/hold.cgi");
    assert_eq!(with(&b, "k1").status("/hoge/small.txt"), 503);
    assert_eq!(with(&b, "k2").status("/hoge/small.txt"), 200);
    assert_eq!(
        b.client("127.0.0.2").status("/hoge/small.txt"),
        200,
        "without a key"
    );
    let statuses = [(&a, "2"), (&b, "3"), (&a, "4"), (&b, "5")].map(|(httpd, n)| {
        httpd
            .client(&format!("127.0.0.{n}"))
            .status("/fuga/small.txt")
    });
    assert_eq!(statuses, [200, 200, 429, 429]);
}

/// Counted and marked on both, refused on none.
#[test]
fn dry_run_marks_over_servers() {
    let redis = Redis::start();
    let rules = "IPLimitDryRun On
         <Location /hoge>\n MaxConnPerIP 1 scope=location shared\n</Location>";
    let [a, b] = two(Mpm::Event, &redis, rules);
    let _held = a.client("127.0.0.2").hold("/hoge/hold.cgi");
    assert_eq!(b.client("127.0.0.2").status("/hoge/small.txt"), 200);
    let lines = b.wait_for_log("would be refused (dry run)");
    assert!(
        lines[0].contains("2/1, rule MaxConnPerIP@/hoge"),
        "{}",
        lines[0]
    );
}

/// What a server refuses by its own count goes nowhere.
#[test]
fn local_refusals_never_reach_redis() {
    let redis = Redis::start();
    let rules = "<Location /hoge>\n MaxConnPerIP 1 scope=location shared\n</Location>";
    let httpd = server(Mpm::Event, &redis, rules).start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    let before = httpd.gauge()["shared"]["asked"].clone();
    for _ in 0..20 {
        assert_eq!(client.status("/hoge/small.txt"), 503);
    }
    // Nor does what no shared rule is about.
    assert_eq!(client.status("/fuga/small.txt"), 200);
    assert_eq!(httpd.gauge()["shared"]["asked"], before);
}
