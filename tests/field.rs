//! Reports from the field, one test each: C02, C09, C10, C11, C27, C37, C39, and C13
//! as far as it goes without zones. The others stand where their behaviour is tested:
//! C01 in levels, C03 in htaccess, C04 and C07 in warnings, C05 in location, C06 in cache,
//! C08 in types, C19 in status, C28 in flood, C29 and C30 in answer, C34 in places.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::{Client, Httpd, Load, Mpm, at_once, in_time, on_every_mpm, under_load, wait_until};

on_every_mpm!(
    customers_raise_their_limit_only_where_they_may,
    accelerator_gets_two_ranges_at_a_time_and_the_whole_file,
    gracefuls_under_load_break_nothing,
    thirty_clients_are_thirty_counts,
    server_that_proxies_to_itself_does_not_refuse_itself,
    loaded_and_off_or_at_two_on_static_cgi_and_proxy,
    twenty_first_download_is_refused_and_others_are_not,
    client_behind_a_balancer_is_itself,
);

/// As many as are admitted before the first refusal; all are let go again.
fn admitted(httpd: &Httpd, client: &Client, path: &str) -> usize {
    let mut held = Vec::new();
    while let Ok(request) = client.try_hold(path) {
        held.push(request);
        assert!(held.len() < 10, "no limit in {path}");
    }
    let number = held.len();
    drop(held);
    httpd.wait_for_quiet();
    number
}

/// C02: under `AllowOverride Limit` the customer's number wins over the hoster's Directory; with
/// another class httpd says no; with None it is not read. The server's own rule, and one of
/// Location, hold in any case. The log has number and limit.
fn customers_raise_their_limit_only_where_they_may(mpm: Mpm) {
    let hoster = |class: &str, more: &str| {
        let conf = format!(
            "<Directory ${{DOCROOT}}/hoge>
                 AllowOverride {class}
                 MaxConnPerIP 2 scope=location
             </Directory>
             {more}"
        );
        let setup = Httpd::on(mpm)
            .expect_refusals()
            .expect_log(".htaccess: ")
            .conf(&conf);
        setup
            .file("hoge/.htaccess", "MaxConnPerIP 4 scope=location\n")
            .start()
    };
    let count = |httpd: &Httpd| admitted(httpd, &httpd.client("127.0.0.2"), "/hoge/hold.cgi");

    let limit = hoster("Limit", "");
    assert_eq!(count(&limit), 4);
    let line = limit
        .wait_for_log("limitipconn(101): ")
        .pop()
        .expect("a line");
    assert!(
        line.contains("too many connections from this host: 5/4, rule MaxConnPerIP@.htaccess:"),
        "{line}"
    );

    let other = hoster("AuthConfig", "");
    assert_eq!(other.client("127.0.0.2").status("/hoge/small.txt"), 500);
    assert!(
        other
            .wait_for_log(".htaccess: ")
            .pop()
            .is_some_and(|line| line.contains("not allowed here"))
    );

    assert_eq!(count(&hoster("None", "")), 2);
    assert_eq!(
        count(&hoster("Limit", "MaxConnPerIP 3 count=requests")),
        3,
        "the hard cap of the server"
    );
    let location = "<Location />\n MaxConnPerIP 3 scope=location\n</Location>";
    let capped = hoster("Limit", location);
    capped.expect_log("limitipconn(206): ");
    assert_eq!(count(&capped), 3, "Location comes after .htaccess");
}

/// C10: thirty ranges at once, two are served, the rest come later; the file is whole.
fn accelerator_gets_two_ranges_at_a_time_and_the_whole_file(mpm: Mpm) {
    const PIECES: usize = 30;
    const PIECE: usize = 1 << 20;
    let content: Vec<u8> = (0..PIECES * PIECE / 8)
        .flat_map(|n| (n as u64).wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect();
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf("SendBufferSize 16384\n<Location /hoge>\n MaxConnPerIP 2 count=requests scope=location\n</Location>")
        .file("hoge/image.iso", &content)
        .start();
    let ranged = |n: usize| {
        let range = format!("bytes={}-{}", n * PIECE, (n + 1) * PIECE - 1);
        httpd
            .client("127.0.0.2")
            .with_tiny_buffer()
            .header("Range", &range)
    };

    let first = at_once(PIECES, |n| ranged(n).try_read_slowly("/hoge/image.iso"));
    let refused: Vec<_> = first
        .iter()
        .filter_map(|answer| answer.as_ref().err())
        .collect();
    assert_eq!(refused.len(), PIECES - 2, "{:?}", httpd.gauge());
    assert!(
        refused
            .iter()
            .all(|answer| answer.status == 503 && answer.header("retry-after") == Some("5"))
    );
    assert!(first.iter().flatten().all(|held| held.head().status == 206));
    drop(first);

    let done = AtomicUsize::new(0);
    let pieces = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while done.load(Ordering::Relaxed) < PIECES {
                most = most.max(httpd.gauge().count_of("MaxConnPerIP@/hoge", "127.0.0.2"));
            }
            most
        });
        let pieces = at_once(PIECES, |n| {
            // The watch ends with the last piece, also when one of them panics.
            let _counted = CountOnDrop(&done);
            wait_until(Duration::from_secs(600), || {
                let answer = ranged(n).get("/hoge/image.iso");
                assert!(matches!(answer.status, 206 | 503), "{:?}", answer.headers);
                if answer.status == 206 {
                    Ok(answer.body)
                } else {
                    Err(answer.status)
                }
            })
        });
        assert!(
            watch.join().expect("the watch") <= 2,
            "never more than two at a time"
        );
        pieces
    });
    assert!(pieces.concat() == content, "the file is not what it was");
}

struct CountOnDrop<'a>(&'a AtomicUsize);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// C11: twenty clients below the limit and twenty gracefuls: every answer is a 200.
fn gracefuls_under_load_break_nothing(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .conf("MaxConnPerIP 60 count=requests\n<Location /hoge>\n MaxConnPerIP 40 scope=location\n</Location>")
        .start();
    let ask = |n: usize, load: &Load| {
        let client = httpd.client("127.0.0.2");
        // A graceful restarts mod_cgid's daemon, and httpd itself answers 503 meanwhile.
        let script = mpm == Mpm::Prefork && n.is_multiple_of(5);
        let path = if script {
            "/hoge/hello.cgi"
        } else {
            "/hoge/small.txt"
        };
        while load.goes_on() {
            assert_eq!(client.status(path), 200);
            load.note_answer();
        }
    };
    under_load(20, ask, |load| {
        for _ in 0..20 {
            httpd.graceful();
            load.wait_for_more(40);
        }
    });
    let gauge = httpd.wait_for_quiet();
    assert_eq!(gauge.number("audit_mismatches"), 0, "{gauge:?}");
}

/// C27: thirty clients with one request each are thirty counts of one.
fn thirty_clients_are_thirty_counts(mpm: Mpm) {
    let httpd = Httpd::on(mpm).conf("MaxConnPerIP 5 count=requests").start();
    let addresses: Vec<_> = (2..32).map(|n| format!("127.0.0.{n}")).collect();
    let _held: Vec<_> = at_once(30, |n| httpd.client(&addresses[n]).hold("/hoge/hold.cgi"));
    let gauge = httpd.gauge();
    let one = |key: &String| gauge.count_of("requests@server (server level)", key) == 1;
    assert!(addresses.iter().all(one), "{gauge:?}");
    assert_eq!(gauge.refused("MaxConnPerIP@server"), 0, "{gauge:?}");
}

/// C37: the inner requests all come from loopback; with the limit off there, nobody is refused
/// who should not be, and the front still limits the true client.
fn server_that_proxies_to_itself_does_not_refuse_itself(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .proxies_to_itself("", "MaxConnPerIP off")
        .expect_refusals()
        .conf("MaxConnPerIP 3 count=requests scope=vhost")
        .start();
    let clients: Vec<_> = (2..12)
        .map(|n| httpd.client(&format!("127.0.0.{n}")))
        .collect();
    let _held: Vec<_> = clients
        .iter()
        .flat_map(|client| [(); 3].map(|()| client.hold("/app/hold.cgi")))
        .collect();
    for client in &clients {
        assert_eq!(client.status("/app/small.txt"), 503);
    }
    let gauge = httpd.gauge();
    let front = format!("front.example:{}", httpd.port());
    let of_front: Vec<_> = gauge
        .rows("counts")
        .filter(|row| row["vhost"] == front.as_str())
        .collect();
    let threes = of_front.iter().filter(|row| row["count"] == 3).count();
    assert_eq!(threes, clients.len(), "{gauge:?}");
    let lines = httpd.wait_for_log("limitipconn(101): ");
    assert!(
        lines
            .iter()
            .all(|line| line.contains(&format!("vhost {front}, "))),
        "{lines:?}"
    );
}

/// C39: loaded and off it costs nobody anything; at two it does the same on every MPM, for
/// static files, scripts and proxied requests.
fn loaded_and_off_or_at_two_on_static_cgi_and_proxy(mpm: Mpm) {
    for (rule, limit) in [
        ("MaxConnPerIP off", None),
        ("MaxConnPerIP 2 scope=location", Some(2)),
    ] {
        let places = format!(
            "<Location /hoge>\n {rule}\n</Location>\n<Location /app>\n {rule}\n</Location>"
        );
        let back = "<Location /hoge>\n MaxConnPerIP off\n</Location>";
        let httpd = Httpd::on(mpm)
            .proxies_to_itself(&places, back)
            .expect_refusals()
            .expect_log("limitipconn(201): ")
            .big_file("hoge/big.bin", 20 << 20)
            .start();
        let client = httpd.client("127.0.0.2");
        for path in [
            "/hoge/big.bin",
            "/hoge/hold.cgi",
            "/app/hold.cgi",
            "/app/big.bin",
        ] {
            let mut held = Vec::new();
            for _ in 0..4 {
                let answer = if path.ends_with("cgi") {
                    client.try_hold(path)
                } else {
                    client.try_read_slowly(path)
                };
                held.extend(answer);
            }
            assert_eq!(held.len(), limit.unwrap_or(4), "{rule}: {path}");
            drop(held);
            httpd.wait_for_quiet();
            assert_eq!(client.status(path), 200, "{rule}: {path}");
            httpd.wait_for_quiet();
        }
    }
}

/// C09: a tool that opens too much and closes nothing is told so at once, alone, with a short
/// page and when to retry, and is served again a second after it stops.
fn twenty_first_download_is_refused_and_others_are_not(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .load(&["reqtimeout"])
        .conf(
            "MaxConnPerIP 20 count=requests
             RequestReadTimeout header=20-40,minrate=500 body=10,minrate=500",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    // Of a few: this machine may be busy with something else.
    in_time(|| {
        let held = at_once(20, |_| client.hold("/hoge/hold.cgi"));
        wait_until(support::DEADLINE, || {
            let start = Instant::now();
            let refused = client.get("/hoge/small.txt");
            let time = start.elapsed();
            assert_eq!(
                (refused.status, refused.header("retry-after")),
                (503, Some("5"))
            );
            assert!(refused.body.len() < 1000, "{}", refused.text());
            if time < Duration::from_millis(100) {
                Ok(())
            } else {
                Err(time)
            }
        });
        assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
        drop(held);
        httpd.within_a_second(|gauge| gauge.total() == 0)
    });
    assert_eq!(client.status("/hoge/small.txt"), 200);
}

/// C13: behind a balancer the key is the client that mod_remoteip tells, at both levels.
fn client_behind_a_balancer_is_itself(mpm: Mpm) {
    for rule in [
        "MaxConnPerIP 2 count=requests",
        "<Location /hoge>\n MaxConnPerIP 2 scope=location\n</Location>",
    ] {
        let httpd = Httpd::on(mpm)
            .expect_refusals()
            .load(&["remoteip"])
            .conf("RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1")
            .conf(rule)
            .start();
        let from = |address: &str| httpd.client("127.0.0.1").header("X-Forwarded-For", address);
        let one = from("198.51.100.1");
        let _held = [(); 2].map(|()| one.hold("/hoge/hold.cgi"));
        assert_eq!(one.status("/hoge/small.txt"), 503);
        assert_eq!(from("198.51.100.2").status("/hoge/small.txt"), 200);
        let line = httpd
            .wait_for_log("limitipconn(101): ")
            .pop()
            .expect("a line");
        assert!(line.contains("client 198.51.100.1 refused: "), "{line}");
    }
}
