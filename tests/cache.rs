//! mod_cache, whose quick handler answers before any section is known.

mod support;

use support::{Client, Held, Httpd, Mpm, Setup, in_time, on_every_mpm};

on_every_mpm!(cache_hit_is_under_the_server_rule);

/// One request at a time in /hoge, and nothing else limited.
const ONE: &str = "<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>\n";

/// A server with a cache that is asked before all directory rules.
fn with_cache(mpm: Mpm, quick: &str) -> Setup {
    Httpd::on(mpm)
        .load(&["cache", "cache_disk", "headers"])
        .writable_dir("cache")
        .big_file("hoge/big.bin", 20 << 20)
        .conf(
            "CacheRoot ${TMP}/cache
             CacheEnable disk /hoge
             CacheMaxFileSize 30000000
             CacheHeader On
             CacheIgnoreNoLastMod On
             Header set Cache-Control max-age=600",
        )
        .conf(&format!("CacheQuickHandler {quick}"))
}

/// Fills the cache, and makes sure that it is used.
fn warm(httpd: &Httpd) {
    let filler = httpd.client("127.0.0.77");
    support::wait_until(support::DEADLINE, || {
        let answer = filler.get("/hoge/big.bin");
        assert_eq!(answer.body.len(), 20 << 20);
        let from_cache = answer
            .header("x-cache")
            .is_some_and(|text| text.starts_with("HIT"));
        if from_cache {
            Ok(())
        } else {
            Err(answer.headers)
        }
    });
    httpd.wait_for_quiet();
}

fn cache_hit_is_under_the_server_rule(mpm: Mpm) {
    for rule in ["MaxConnPerIP 3 count=requests", "MaxConnPerIP 3"] {
        let httpd = with_cache(mpm, "On").expect_refusals().conf(rule).start();
        warm(&httpd);
        let client = httpd.client("127.0.0.2");
        // What event delivers without a worker, count=workers does not see.
        if rule == "MaxConnPerIP 3" && mpm == Mpm::Event {
            continue;
        }
        let held = three_hits(&client);
        assert_eq!(client.status("/hoge/big.bin"), 503, "{rule}");
        drop(held);
        httpd.wait_for_quiet();
    }
}

/// Three downloads that are under way, out of the cache.
#[track_caller]
fn three_hits(client: &Client) -> [Held; 3] {
    let held = [(); 3].map(|()| client.read_slowly("/hoge/big.bin"));
    assert!(held.iter().all(|request| {
        request
            .head()
            .header("x-cache")
            .is_some_and(|x| x.starts_with("HIT"))
    }));
    held
}

/// C06: the quick handler answers before Location is known, and the start says so; without it
/// the rule holds for hits too, and the place is free at the end of a cached response.
#[test]
fn location_rule_and_cache() {
    let quick = with_cache(Mpm::Event, "On").conf(ONE).configtest();
    assert_eq!(quick.code, 0, "{quick:?}");
    assert!(
        quick.stderr.contains("limitipconn(208): ") && quick.stderr.contains("CacheQuickHandler"),
        "{quick:?}"
    );

    let rule = "<Location /hoge>\n MaxConnPerIP 3 scope=location\n</Location>";
    let httpd = with_cache(Mpm::Event, "Off")
        .expect_refusals()
        .conf(rule)
        .start();
    warm(&httpd);
    let client = httpd.client("127.0.0.2");
    in_time(|| {
        let held = three_hits(&client);
        assert_eq!(client.status("/hoge/big.bin"), 503);
        drop(held);
        httpd.within_a_second(|gauge| gauge.total() == 0)
    });
}
