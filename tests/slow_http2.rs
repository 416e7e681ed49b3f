//! Slow readers over HTTP/2: a stream that drips is reset, a connection that stands still is
//! cut, and nobody else notices that streams are measured. tests/slow_streams.rs has more.

mod support;

#[path = "slow/looks.rs"]
mod looks;

use std::time::{Duration, Instant};

use looks::let_watches_look;
use support::{DEADLINE, Httpd, Mpm, Program, Setup, Stream, at_once, noise, on_threaded_mpms};

on_threaded_mpms!(
    connection_of_which_no_stream_moves_is_cut,
    stream_that_drips_is_reset_and_its_siblings_go_on,
    honest_streams_are_not_cut,
    nothing_is_cut_in_a_dry_run_or_below_the_mark,
    bodies_are_what_they_were,
    hundred_streams_at_once_are_served,
);

const BIG: u64 = 20 << 20;

fn over_http2(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .over_h2c()
        .big_file("hoge/big.bin", BIG)
        .big_script("hoge/big.cgi", BIG)
}

/// Reads so many bytes a second, for so long.
#[track_caller]
fn read_at(stream: &mut Stream, rate: u64, time: Duration) {
    let (start, mut bytes) = (Instant::now(), 0);
    while start.elapsed() < time {
        let piece = stream.try_read().expect("a stream that goes on");
        bytes += piece.expect("more of the body").len() as u64;
        let due = Duration::from_millis(bytes * 1000 / rate);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
}

fn connection_of_which_no_stream_moves_is_cut(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .expect_log("limitipconn(501): ")
        .conf("IPLimitMinRate 10000 after=3s window=4s\nMaxConnPerIP 10")
        .file("hoge/some.bin", noise(20_000))
        .start();
    let start = Instant::now();
    let h2 = httpd.client("127.0.0.2").h2();
    // One that is done says nothing against it.
    assert_eq!(h2.status("/hoge/small.txt"), 200);
    let mut stalled = vec![h2.download("/hoge/big.bin"), h2.download("/hoge/big.cgi")];
    // This one's worker is done with it: what is missing waits in mod_http2.
    let other = httpd.client("127.0.0.3").h2_with_window(1000);
    stalled.push(other.download("/hoge/some.bin"));
    httpd.wait_for_within(DEADLINE, |gauge| gauge.number("cut_too_slow") == 3);
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(6), "too soon: {took:?}");
    for stream in stalled {
        assert!(stream.try_finish().is_err(), "it is whole");
    }
    // They are counted before they are written.
    let lines = httpd.wait_for_lines(DEADLINE, "limitipconn(501): ", 3);
    assert_eq!(lines.len(), 3, "{lines:#?}");
    for line in &lines {
        assert!(
            line.contains("cut: too slow: ") && line.contains("minimum 10000 B/s, vhost localhost"),
            "{line}"
        );
    }
    assert_eq!(httpd.wait_for_quiet().number("faults"), 0);
}

fn stream_that_drips_is_reset_and_its_siblings_go_on(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .expect_log("limitipconn(501): ")
        .conf(
            "IPLimitMinRate 10000 after=3s window=4s
             <Location /fuga>
                 IPLimitMinRate 10000 after=1h
             </Location>",
        )
        .big_file("fuga/big.bin", BIG)
        .start();
    let h2 = httpd.client("127.0.0.2").h2();
    let mut drips = h2.download("/hoge/big.cgi");
    let mut sibling = h2.download("/fuga/big.bin");
    let start = Instant::now();
    while httpd.log_lines("limitipconn(501): ").is_empty() {
        assert!(start.elapsed() < DEADLINE, "it is not cut");
        // At most 16 kB in two seconds, while the other has 16 times as many.
        if !matches!(drips.try_read(), Ok(Some(_))) {
            break;
        }
        read_at(&mut sibling, 128 << 10, Duration::from_secs(2));
        assert_eq!(h2.get("/hoge/small.txt").status, 200);
    }
    assert!(drips.try_finish().is_err(), "it is whole");
    httpd.wait_for_log("limitipconn(501): ");
    assert_eq!(h2.get("/hoge/small.txt").text(), "ok\n");
    read_at(&mut sibling, 4 << 20, Duration::from_secs(1));
    let gauge = httpd.gauge();
    assert_eq!(
        (gauge.number("cut_too_slow"), gauge.number("faults")),
        (1, 0)
    );
}

fn honest_streams_are_not_cut(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .over_tls_too()
        .conf(
            "H2StreamTimeout 60
             IPLimitMinRate 10000 after=1s window=8s
             <Location /fuga>
                 IPLimitMaxTime 10s
             </Location>",
        )
        .start();
    let port = httpd.port();
    let tls = format!(
        "--silent --show-error --fail --output /dev/null --limit-rate 1M --http2 -k \
         https://127.0.0.1:{}/hoge/big.bin",
        httpd.port2()
    );
    // The request that upgrades is over, although the connection goes on inside it.
    let upgrade = format!(
        "-n -u http://127.0.0.1:{port}/fuga/small.txt http://127.0.0.1:{port}/hoge/hold.cgi?events"
    );
    let programs = [("curl", tls), ("nghttp", upgrade)];
    let programs = programs.map(|(name, arguments)| Program::start(name, &arguments));
    // A script that says something now and then, and a connection between two requests.
    let gate = httpd.gate("events");
    let events = httpd.client("127.0.0.3").h2();
    let events = events.download("/hoge/hold.cgi?events");
    let idle = httpd.client("127.0.0.4").h2();
    assert_eq!(idle.status("/fuga/small.txt"), 200);
    let h2 = httpd.client("127.0.0.2").h2();
    read_at(
        &mut h2.download("/hoge/big.bin"),
        900 << 10,
        Duration::from_secs(20),
    );
    assert_eq!(idle.status("/fuga/small.txt"), 200);
    drop(gate);
    let _ = (events, programs.map(Program::finish));
    let gauge = httpd.gauge();
    let cut = ["cut_too_slow", "cut_too_long", "faults"].map(|name| gauge.number(name));
    assert_eq!(cut, [0; 3]);
}

fn nothing_is_cut_in_a_dry_run_or_below_the_mark(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .expect_log("limitipconn(501): ")
        .conf(
            "IPLimitMinRate 10000 after=1s window=2s busy=90%
             <Location /hoge>
                 IPLimitDryRun On
                 IPLimitMinRate 10000 after=1s window=2s
             </Location>
             <Location /off>
                 IPLimitMinRate off
             </Location>",
        )
        .big_file("fuga/big.bin", BIG)
        .big_script("fuga/big.cgi", BIG)
        .big_file("off/big.bin", BIG)
        .big_script("off/big.cgi", BIG)
        .start();
    let paths = [
        "/hoge/big.bin",
        "/hoge/big.cgi",
        "/fuga/big.bin",
        "/fuga/big.cgi",
        "/off/big.bin",
        "/off/big.cgi",
    ];
    let clients: Vec<_> = (2..).zip(paths).collect();
    let streams = clients.iter().map(|(n, path)| {
        let h2 = httpd.client(&format!("127.0.0.{n}")).h2();
        let stream = h2.download(path);
        (h2, stream)
    });
    let streams: Vec<_> = streams.collect();
    let_watches_look(&httpd, 14);
    for (_h2, stream) in streams {
        assert_eq!(stream.finish().body.len() as u64, BIG);
    }
    let both = [2, 3].map(|n| format!("client 127.0.0.{n} would be cut (dry run): too slow"));
    for text in &both {
        httpd.wait_for_log(text);
    }
    let lines = httpd.log_lines("limitipconn(501): ");
    assert_eq!(lines.len(), 2, "{lines:#?}");
}

fn bodies_are_what_they_were(mpm: Mpm) {
    let bytes = noise(3_000_001);
    let rule = "IPLimitMinRate 1";
    let httpd = over_http2(mpm)
        .load(&["deflate", "filter", "proxy", "proxy_http", "headers"])
        .conf(&format!(
            "{rule}
             EnableSendfile On
             ProxyPass /app http://127.0.0.1:${{PORT}}/hoge
             <Location /mapped>
                 SetOutputFilter DEFLATE
             </Location>
             Alias /mapped ${{DOCROOT}}/hoge"
        ))
        .file("hoge/noise.bin", &bytes)
        .file("hoge/empty.bin", "")
        .script(
            "hoge/cat.cgi",
            "#!/bin/sh\nprintf 'Content-Type: x/y\\n\\n'\ncat \"${SCRIPT_FILENAME%/*}/noise.bin\"\n",
        )
        .script(
            "hoge/none.cgi",
            "#!/bin/sh\nprintf 'Status: 204\\n\\n'\n",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let h2 = client.h2();
    for path in [
        "/hoge/noise.bin",
        "/hoge/cat.cgi",
        "/app/noise.bin",
        "/app/cat.cgi",
    ] {
        let whole = h2.get(path);
        assert!(whole.status == 200 && whole.body == bytes, "{path}");
    }
    let packed = client.clone().header("Accept-Encoding", "gzip").h2();
    for path in ["/mapped/noise.bin", "/mapped/cat.cgi"] {
        let body = packed.get(path);
        assert_eq!(body.header("content-encoding"), Some("gzip"), "{path}");
        let place = httpd.dir().join("packed.gz");
        std::fs::write(&place, &body.body).expect("write a file");
        let said = std::process::Command::new("gzip")
            .arg("-dc")
            .arg(&place)
            .output();
        assert!(said.expect("run gzip").stdout == bytes, "{path}");
    }
    let ranges = [
        ("bytes=5-20000", 5, 20_001),
        ("bytes=-16384", 2_983_617, 3_000_001),
    ];
    for (range, from, to) in ranges {
        let part = client
            .clone()
            .header("Range", range)
            .h2()
            .get("/hoge/noise.bin");
        assert!(
            part.status == 206 && part.body == bytes[from..to],
            "{range}"
        );
    }
    let parts = client.clone().header("Range", "bytes=0-9,40000-80000");
    let parts = parts.h2().get("/hoge/noise.bin");
    assert!(
        parts.status == 206
            && parts
                .body
                .windows(99)
                .any(|part| *part == bytes[50_000..50_099])
    );
    let tag = h2
        .get("/hoge/noise.bin")
        .header("etag")
        .expect("an ETag")
        .to_owned();
    let cached = client.clone().header("If-None-Match", &tag).h2();
    for (status, body) in [
        (304, cached.get("/hoge/noise.bin")),
        (200, h2.get("/hoge/empty.bin")),
        (204, h2.get("/hoge/none.cgi")),
        (
            200,
            h2.try_open("HEAD", "/hoge/noise.bin", true)
                .unwrap()
                .finish(),
        ),
    ] {
        assert_eq!((body.status, body.body.len()), (status, 0));
    }
    assert_eq!(h2.get("/hoge/missing").status, 404);
    let gauge = httpd.gauge();
    assert_eq!(
        (gauge.number("cut_too_slow"), gauge.number("faults")),
        (0, 0)
    );
}

fn hundred_streams_at_once_are_served(mpm: Mpm) {
    let bytes = noise(150_000);
    let httpd = over_http2(mpm)
        .conf("IPLimitMinRate 100\nH2MaxSessionStreams 100")
        .file("hoge/noise.bin", &bytes)
        .start();
    let client = httpd.client("127.0.0.2");
    // Each connection is read all the time: one that waits for its turn stands still. So does a
    // stream, but not for a minute.
    at_once(3, |_| {
        let h2 = client.h2_with_window(70_000);
        for _ in 0..3 {
            for stream in h2.open_many(100, "/hoge/noise.bin") {
                let body = stream.finish();
                assert!(body.status == 200 && body.body == bytes);
            }
        }
    });
    let gauge = httpd.gauge();
    assert_eq!(
        (gauge.number("cut_too_slow"), gauge.number("faults")),
        (0, 0)
    );
}
