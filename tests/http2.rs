//! HTTP/2: every stream is a request of its own, whatever its connection does.

mod support;

use std::time::Instant;

use support::{
    A_SECOND, Client, DEADLINE, H2, Httpd, Mpm, Program, Setup, Stream, count, curl, in_time,
    on_every_mpm, on_threaded_mpms, wait_until,
};

on_every_mpm!(
    forty_streams_of_one_connection_get_four_places,
    forty_streams_of_h2load_get_four_places_over_plain_tcp,
    limit_of_one_admits_every_way_to_http2,
    cancelled_stream_gives_its_place_back,
    stalled_stream_keeps_its_place_and_holds_up_nobody,
    full_place_refuses_three_of_five_and_the_free_one_none,
    refused_upload_ends_its_stream_only,
    dropped_connection_gives_back_the_places_of_its_streams,
);
// mod_http2 takes neither ALPN nor Upgrade on prefork.
on_threaded_mpms!(forty_streams_of_h2load_get_four_places_over_tls);

/// One place with a limit, by h2c at the first port and by HTTP/2 over TLS at the second.
///
/// For prefork mod_http2 calls itself unsuitable, and starts one stream at a time unless told.
/// What only the end of an idle connection would free comes too late.
fn over_h2(mpm: Mpm, limit: u32) -> Setup {
    Httpd::on(mpm)
        .load(&["http2", "socache_shmcb", "ssl"])
        .certificate()
        .expect_log("[ssl:warn]")
        .expect_log("AH10034: ")
        .expect_refusals()
        .conf(if mpm == Mpm::Prefork {
            "H2MinWorkers 8\nH2MaxWorkers 16"
        } else {
            ""
        })
        .conf(&format!(
            "Protocols h2 h2c http/1.1
             KeepAliveTimeout 300
             Listen 127.0.0.1:${{PORT2}}
             <VirtualHost *:${{PORT2}}>
                 ServerName localhost
                 SSLEngine On
                 SSLCertificateFile ${{TMP}}/cert.pem
                 SSLCertificateKeyFile ${{TMP}}/key.pem
             </VirtualHost>
             <Location /hoge>
                 MaxConnPerIP {limit} count=requests scope=location
             </Location>"
        ))
}

const RULE: &str = "MaxConnPerIP@/hoge";

/// This client, who has a count already: whoever is held up while he brings a new key into the
/// table makes others go uncounted.
#[track_caller]
fn known(httpd: &Httpd, source: &str) -> Client {
    let client = httpd.client(source);
    assert_eq!(client.status("/hoge/small.txt"), 200);
    client
}

/// All that was in flight has ended, and its places become free; nothing, if that took longer
/// than a second.
///
/// mod_http2 frees a request when it next looks at the connection, so the connection, if it is
/// still there, is pinged.
#[track_caller]
fn places_are_free(httpd: &Httpd, h2: Option<&H2>) -> Option<()> {
    let start = Instant::now();
    let gauge = wait_until(DEADLINE, || {
        h2.map_or(Ok(()), H2::try_ping)?;
        let gauge = httpd.gauge();
        if gauge.is_empty() {
            Ok(gauge)
        } else {
            Err(format!("{gauge:?}"))
        }
    });
    assert_eq!(
        (gauge.number("audit_mismatches"), gauge.number("untracked")),
        (0, 0),
        "{gauge:?}"
    );
    (start.elapsed() < A_SECOND).then_some(())
}

fn forty_streams_of_one_connection_get_four_places(mpm: Mpm) {
    let httpd = over_h2(mpm, 4).start();
    let h2 = known(&httpd, "127.0.0.2").h2();
    for round in 0..3 {
        let gate = httpd.gate("slow");
        let mut streams = h2.open_many(40, "/hoge/hold.cgi?slow");
        assert_eq!(
            (count(&mut streams, 200), count(&mut streams, 503)),
            (4, 36),
            "round {round}: {:?}",
            httpd.gauge()
        );
        drop(gate);
        let whole = streams
            .into_iter()
            .map(Stream::finish)
            .filter(|answer| answer.text() == "started\nended\n");
        assert_eq!(whole.count(), 4);
        places_are_free(&httpd, Some(&h2));
    }
}

/// h2load is held by its four admitted streams until all others were refused.
fn forty_by_h2load(mpm: Mpm, url: impl Fn(&Httpd) -> String) {
    let httpd = over_h2(mpm, 4).start();
    known(&httpd, "127.0.0.1");
    let gate = httpd.gate("slow");
    let url = url(&httpd);
    let h2load = Program::start(
        "h2load",
        &format!("-n 40 -c 1 -m 40 {url}/hoge/hold.cgi?slow"),
    );
    httpd.wait_for(|gauge| gauge.refused(RULE) == 36 && gauge.count_of(RULE, "127.0.0.1") == 4);
    drop(gate);
    let said = h2load.finish();
    assert!(
        said.contains("status codes: 4 2xx, 0 3xx, 0 4xx, 36 5xx"),
        "{said}"
    );
    places_are_free(&httpd, None);
}

fn forty_streams_of_h2load_get_four_places_over_plain_tcp(mpm: Mpm) {
    forty_by_h2load(mpm, |httpd| format!("http://127.0.0.1:{}", httpd.port()));
}

fn forty_streams_of_h2load_get_four_places_over_tls(mpm: Mpm) {
    forty_by_h2load(mpm, |httpd| format!("https://127.0.0.1:{}", httpd.port2()));
}

/// On prefork mod_http2 takes no upgrade: such a request stays one of HTTP/1.
fn limit_of_one_admits_every_way_to_http2(mpm: Mpm) {
    let httpd = over_h2(mpm, 1).start();
    let plain = format!(
        "--interface 127.0.0.2 http://127.0.0.1:{}/hoge/hello.cgi",
        httpd.port()
    );
    let tls = format!(
        "--insecure --http2 https://127.0.0.1:{}/hoge/hello.cgi",
        httpd.port2()
    );
    let upgraded = if mpm == Mpm::Prefork {
        "200 1.1"
    } else {
        "200 2"
    };
    for _ in 0..5 {
        assert_eq!(curl(&format!("--http2 {plain}")), upgraded);
        places_are_free(&httpd, None);
        assert_eq!(curl(&format!("--http2-prior-knowledge {plain}")), "200 2");
        places_are_free(&httpd, None);
        assert_eq!(curl(&tls), upgraded);
        places_are_free(&httpd, None);
    }
    let _held = httpd.client("127.0.0.2").hold("/hoge/hold.cgi");
    assert_eq!(curl(&format!("--http2-prior-knowledge {plain}")), "503 2");
}

fn cancelled_stream_gives_its_place_back(mpm: Mpm) {
    let httpd = over_h2(mpm, 2).big_file("hoge/big.bin", 20 << 20).start();
    let h2 = known(&httpd, "127.0.0.2").h2();
    for _ in 0..5 {
        in_time(|| {
            let mut streams = h2.open_many(2, "/hoge/big.bin");
            assert_eq!(count(&mut streams, 200), 2);
            assert_eq!(h2.status("/hoge/small.txt"), 503);
            streams.into_iter().for_each(Stream::cancel);
            let cancelled = places_are_free(&httpd, Some(&h2));
            assert_eq!(h2.status("/hoge/small.txt"), 200, "on the same connection");
            cancelled.and(places_are_free(&httpd, Some(&h2)))
        });
    }
}

fn stalled_stream_keeps_its_place_and_holds_up_nobody(mpm: Mpm) {
    let httpd = over_h2(mpm, 1).big_file("hoge/big.bin", 5 << 20).start();
    let h2 = httpd.client("127.0.0.2").h2_with_window(1000);
    let mut stalled = h2.open("/hoge/big.bin");
    assert_eq!(stalled.status(), 200);
    assert_eq!(h2.status("/hoge/small.txt"), 503);
    assert_eq!(h2.get("/fuga/small.txt").text(), "ok\n");
    assert_eq!(httpd.gauge().count_of(RULE, "127.0.0.2"), 1);
    assert_eq!(
        stalled.finish().body.len(),
        5 << 20,
        "it goes on when it is read"
    );
    places_are_free(&httpd, Some(&h2));
}

/// nginx 13: the refused leave their siblings alone, and the connection is good for more.
fn full_place_refuses_three_of_five_and_the_free_one_none(mpm: Mpm) {
    let httpd = over_h2(mpm, 2).start();
    let h2 = known(&httpd, "127.0.0.2").h2();
    let gate = httpd.gate("slow");
    let mut limited = h2.open_many(5, "/hoge/hold.cgi?slow");
    assert_eq!((count(&mut limited, 200), count(&mut limited, 503)), (2, 3));
    let mut free = h2.open_many(5, "/fuga/small.txt");
    assert_eq!(count(&mut free, 200), 5);
    assert!(
        free.into_iter()
            .all(|stream| stream.finish().text() == "ok\n")
    );
    drop(gate);
    for mut stream in limited {
        let expected = if stream.status() == 200 {
            "started\nended\n"
        } else {
            "503 Service Unavailable"
        };
        let answer = stream.finish();
        assert!(answer.text().contains(expected), "{answer:?}");
    }
    places_are_free(&httpd, Some(&h2));
    assert_eq!(h2.status("/hoge/small.txt"), 200);
}

fn refused_upload_ends_its_stream_only(mpm: Mpm) {
    let read_all = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nwc -c\n";
    let httpd = over_h2(mpm, 1).script("hoge/size.cgi", read_all).start();
    let h2 = httpd.client("127.0.0.2").h2();
    let piece = vec![b'x'; 300_000];

    // The admitted one has sent a part of its body when the others come.
    let mut admitted = h2.upload("/hoge/size.cgi");
    admitted.send(&piece, false).expect("send a part");
    httpd.wait_for(|gauge| gauge.count_of(RULE, "127.0.0.2") == 1);
    for _ in 0..3 {
        let mut refused = h2.upload("/hoge/size.cgi");
        // The answer may come before the body has gone.
        let _ = refused.send(&piece, true);
        assert_eq!(refused.status(), 503);
    }
    admitted.send(&piece, true).expect("send the rest");
    assert_eq!(admitted.finish().text().trim(), "600000");
    places_are_free(&httpd, Some(&h2));
    assert_eq!(h2.status("/hoge/small.txt"), 200);
}

fn dropped_connection_gives_back_the_places_of_its_streams(mpm: Mpm) {
    let httpd = over_h2(mpm, 4).big_file("hoge/big.bin", 20 << 20).start();
    let client = known(&httpd, "127.0.0.2");
    for round in 0..6 {
        in_time(|| {
            let h2 = client.h2();
            let mut streams = h2.open_many(4, "/hoge/big.bin");
            assert_eq!(count(&mut streams, 200), 4);
            if round % 2 == 0 {
                drop(h2)
            } else {
                h2.reset()
            }
            places_are_free(&httpd, None)
        });
    }
}

/// One request after the other never needs two places.
#[test]
fn scripts_one_after_the_other_need_one_place() {
    for mpm in Mpm::ALL {
        let httpd = over_h2(mpm, 1).start();
        let h2 = httpd.client("127.0.0.2").h2();
        let refused = (0..100).filter(|_| h2.status("/hoge/hello.cgi") == 503);
        assert_eq!(refused.count(), 0, "of 100 on {mpm:?}");
    }
}

/// Nobody pings: the client has all that it asked for and says nothing more.
#[test]
fn idle_connection_gives_its_places_back_within_a_second() {
    for mpm in Mpm::ALL {
        let httpd = over_h2(mpm, 4).start();
        let client = known(&httpd, "127.0.0.2");
        for _ in 0..30 {
            in_time(|| {
                let h2 = client.h2();
                let gate = httpd.gate("slow");
                let mut streams = h2.open_many(4, "/hoge/hold.cgi?slow");
                assert_eq!(count(&mut streams, 200), 4);
                drop(gate);
                streams.into_iter().for_each(|stream| drop(stream.finish()));
                places_are_free(&httpd, None)
            });
        }
    }
}
