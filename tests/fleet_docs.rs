//! What docs/several-servers.md and conf/examples/cluster.conf say is so.

#![cfg(feature = "redis")]

mod support;

#[path = "../examples/fleet_plan.rs"]
mod plan;

use support::{Httpd, Mpm, Redis, wait_until};

const PAGE: &str = include_str!("../docs/several-servers.md");
const EXAMPLE: &str = include_str!("../conf/examples/cluster.conf");

/// The user `joe` with the password `secret`, and two who try.
const USERS: &str = "joe:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";
const BAD: &str = "Basic am9lOmd1ZXNz";

#[test]
fn table_of_the_page_is_what_the_simulation_prints() {
    assert!(PAGE.contains(&plan::table()), "{}", plan::table());
}

/// Up to a whole Redis nothing goes wrong, beyond it nearly each server is alone.
#[test]
fn simulation_says_what_a_queue_must() {
    let rows = plan::table();
    let rows: Vec<Vec<f64>> = rows
        .lines()
        .skip(2)
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            let number = |cell: &str| cell.trim().trim_end_matches(" %").parse().unwrap();
            cells.map(number).collect()
        })
        .collect();
    assert!(rows.len() > 5);
    for row in rows {
        let [servers, rate, wanted, share, answered, holds] = row[..] else {
            panic!("{row:?}");
        };
        assert_eq!(wanted, servers * rate * 2.0);
        match share < 100.0 {
            true => assert_eq!((answered, holds), (100.0, 1.0), "{row:?}"),
            false => assert!(
                answered < 100.0 && holds > 1.0 && holds <= servers,
                "{row:?}"
            ),
        }
    }
}

/// The user that the page makes can do all that is needed and nothing else.
#[test]
fn user_of_the_page_can_do_what_is_needed() {
    let line = PAGE
        .split('`')
        .find_map(|text| text.strip_prefix("ACL SETUSER limits on >password "))
        .expect("the command that makes a user");
    let redis = Redis::start();
    let mut words = vec!["ACL", "SETUSER", "limits", "on", ">s3cret"];
    words.extend(line.split(' '));
    assert_eq!(redis.ask(&words), support::Value::Text("OK".into()));
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .expect_log("limitipconn(60")
        .conf(&format!(
            "IPLimitRedis redis://limits:s3cret@127.0.0.1:{}/1 timeout=5s connect=5s lease=3s
             <Location /hoge>
                 MaxConnPerIP 1 scope=location shared
                 MaxRatePerIP 9000/h burst=9000 shared
                 MaxHitsPerIP 9000/h shared
             </Location>",
            redis.port()
        ))
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    // A renewal puts back what is gone.
    redis.ask(&["FLUSHALL"]);
    wait_until(support::DEADLINE, || {
        match &redis.ask_all(&[&["SELECT", "1"], &["KEYS", "limitipconn:c*"]])[1] {
            support::Value::List(keys) if keys.len() == 1 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    drop(held);
    assert!(httpd.gauge()["shared"]["failure"].is_null());
    // And the probe, after an outage.
    let degraded = |expected: bool| {
        wait_until(support::DEADLINE, || {
            client.get("/hoge/small.txt");
            let gauge = httpd.gauge();
            if gauge["shared"]["degraded"] == expected {
                Ok(())
            } else {
                Err(gauge)
            }
        });
    };
    redis.ask(&["ACL", "SETUSER", "limits", "off"]);
    redis.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    degraded(true);
    redis.ask(&["ACL", "SETUSER", "limits", "on"]);
    degraded(false);
}

#[test]
fn example_counts_over_the_servers_of_a_site() {
    let redis = Redis::start();
    let conf = EXAMPLE
        .replace("redis://redis.internal:6379", &redis.url())
        .replace("on-failure=local", "timeout=5s connect=5s");
    assert_ne!(conf, EXAMPLE);
    let server = || {
        Httpd::on(Mpm::Event)
            .expect_refusals()
            .expect_log("AH01617: ")
            .load(&["auth_basic", "authn_file", "authz_user"])
            .furnish("shop")
            .file("shop/login", "ok\n")
            .file("users", USERS)
            .conf(&conf)
            .conf(
                "<Location /shop/login>
                     AuthType Basic
                     AuthName shop
                     AuthBasicProvider file
                     AuthUserFile ${DOCROOT}/users
                     Require valid-user
                 </Location>",
            )
            .start()
    };
    let servers = [server(), server()];
    let clients = |address: &str| [0, 1].map(|n| servers[n].client(address));
    let two = clients("127.0.0.2");
    let held: Vec<_> = (0..12).map(|n| two[n % 2].hold("/shop/hold.cgi")).collect();
    for client in &two {
        assert_eq!(client.status("/shop/small.txt"), 503);
    }
    drop(held);
    let bad = clients("127.0.0.3").map(|client| client.header("Authorization", BAD));
    for n in 0..11 {
        assert_eq!(bad[n % 2].status("/shop/login"), 401, "{n}");
    }
    for client in &bad {
        let refused = wait_until(support::DEADLINE, || match client.get("/shop/login") {
            answer if answer.status == 429 => Ok(answer),
            answer => Err(answer),
        });
        let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1700..=1800).contains(&after), "{after}");
    }
    assert!(redis.keys().iter().all(|key| key.starts_with("shop:")));
}
