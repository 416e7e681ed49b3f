//! Requests that wait for their turn and have a body, over HTTP/1 and HTTP/2: it reaches the
//! backend whole, or is thrown away; and streams that are given up while they wait.

mod support;

use std::time::{Duration, Instant};

use support::{A_SECOND, H2, Httpd, Mpm, Setup, Stream, before, in_time, on_every_mpm, so_by};

on_every_mpm!(
    body_that_arrives_while_its_request_waits_reaches_the_backend,
    body_of_a_stream_that_waits_reaches_the_backend,
    body_of_a_stream_that_waits_is_thrown_away,
    stream_that_is_reset_waits_no_more,
);

/// How often this rule made a request wait, or would have.
fn delayed(httpd: &Httpd, rule: &str, name: &str) -> u64 {
    let gauge = httpd.gauge();
    let mut rows = gauge.rows("rules").filter(|row| row["rule"] == rule);
    let row = rows
        .next()
        .unwrap_or_else(|| panic!("no {rule} in {gauge:?}"));
    row[name].as_u64().expect("a number")
}

/// Waits until so many have had to wait; nothing, if they have not before the turn of the last
/// one, which is then.
fn so_many_wait(httpd: &Httpd, rule: &str, number: u64, turn: Instant) -> Option<()> {
    so_by(turn, || delayed(httpd, rule, "delayed") == number)?;
    before(turn)
}

/// A front whose /app waits, and a back whose script tells checksum and length of what it got.
fn behind_a_proxy(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .load(&["http2"])
        .expect_log("AH10034: ")
        .expect_log("AH01095: ") // Who came too late gives up what it was about to send.
        .expect_refusals()
        .proxies_to_itself(
            "Protocols h2c http/1.1
             <Location /app>
                 MaxRatePerIP 1/4s burst=3 delay=1
             </Location>
             <Location /hoge>
                 MaxRatePerIP 1/4s burst=3 delay=1
             </Location>",
            "",
        )
        .conf(match mpm {
            // mod_http2 starts one stream at a time there unless told.
            Mpm::Prefork => "H2MinWorkers 8\nH2MaxWorkers 16",
            // Else httpd ends spare children, and with them connections that wait for nothing.
            _ => "MaxSpareThreads 128",
        })
        .script(
            "hoge/sum.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\ncksum\n",
        )
}

const AT_APP: &str = "MaxRatePerIP@/app";

/// More than any buffer on the way, and nothing that repeats.
fn body() -> Vec<u8> {
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..600_000).map(next).collect()
}

/// What cksum says to these bytes.
fn cksum(httpd: &Httpd, bytes: &[u8]) -> String {
    let file = httpd.dir().join("body");
    std::fs::write(&file, bytes).expect("write a file");
    let said = std::process::Command::new("cksum")
        .stdin(std::fs::File::open(file).expect("open a file"))
        .output()
        .expect("run cksum");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

/// A connection whose streams are the front's.
fn front(httpd: &Httpd) -> H2 {
    httpd.client("127.0.0.2").h2()
}

/// nginx 13, over HTTP/1: what comes while its request waits reaches the backend whole.
fn body_that_arrives_while_its_request_waits_reaches_the_backend(mpm: Mpm) {
    in_time(|| {
        let httpd = behind_a_proxy(mpm).start();
        let (body, client) = (body(), httpd.client("127.0.0.2"));
        let (start, rest) = body.split_at(1000);
        let turn = Instant::now() + Duration::from_secs(4);
        for more in [
            format!("Content-Length: {}\r\n", body.len()),
            String::from("Transfer-Encoding: chunked\r\n"),
        ] {
            let is_chunked = more.starts_with('T');
            let pieces = |bytes: &[u8]| match is_chunked {
                true => [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat(),
                false => bytes.to_vec(),
            };
            let mut connection = client.connect();
            connection.send(connection.request(
                "POST",
                "/app/sum.cgi",
                &format!("{more}Host: front.example\r\n"),
            ));
            connection.send(pieces(start));
            if is_chunked {
                so_many_wait(&httpd, AT_APP, 1, turn)?;
            }
            connection.send(pieces(rest));
            connection.send(if is_chunked { "0\r\n\r\n" } else { "" });
            let answer = connection.response();
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.text(), cksum(&httpd, &body), "{more}");
            // The connection is good for more.
            let next = connection.request("GET", "/small.txt", "Host: front.example\r\n");
            connection.send(next);
            assert_eq!(connection.response().text(), "ok\n");
        }
        assert_eq!(delayed(&httpd, AT_APP, "delayed"), 1);
        Some(())
    });
}

/// nginx 13: the same over HTTP/2, with frames that are empty.
fn body_of_a_stream_that_waits_reaches_the_backend(mpm: Mpm) {
    in_time(|| {
        let httpd = behind_a_proxy(mpm).start();
        let body = body();
        let h2 = front(&httpd);
        let turn = Instant::now() + Duration::from_secs(4);
        for round in 0..2 {
            let mut stream = h2.upload("/app/sum.cgi");
            if round == 1 {
                so_many_wait(&httpd, AT_APP, 1, turn)?;
            }
            for piece in [&body[..1000], b"", &body[1000..]] {
                stream.send(piece, false).expect("send a part");
            }
            stream.send(b"", true).expect("send the end");
            assert_eq!(stream.status(), 200);
            assert_eq!(stream.finish().text(), cksum(&httpd, &body));
        }
        assert_eq!(delayed(&httpd, AT_APP, "delayed"), 1);
        Some(())
    });
}

/// nginx 13: nobody reads the body of a POST for a file; the next stream is none the worse.
fn body_of_a_stream_that_waits_is_thrown_away(mpm: Mpm) {
    in_time(|| {
        let httpd = behind_a_proxy(mpm).start();
        let h2 = front(&httpd);
        let turn = Instant::now() + Duration::from_secs(4);
        assert_eq!(h2.get("/hoge/small.txt").text(), "ok\n");
        let mut stream = h2.upload("/hoge/small.txt");
        so_many_wait(&httpd, "MaxRatePerIP@/hoge", 1, turn)?;
        stream.send(b"", false).expect("send an empty frame");
        stream.send(&[b'x'; 20_000], false).expect("send a part");
        stream.send(b"", true).expect("send the end");
        // Others are not held up by it.
        assert_eq!(h2.get("/fuga/small.txt").text(), "ok\n");
        assert_eq!(stream.status(), 200);
        assert_eq!(stream.finish().text(), "ok\n");
        assert_eq!(h2.get("/fuga/small.txt").text(), "ok\n");
        assert_eq!(h2.get("/hoge/small.txt").text(), "ok\n", "waits, too");
        Some(())
    });
}

/// Its turn is the next one's, on the same connection.
fn stream_that_is_reset_waits_no_more(mpm: Mpm) {
    in_time(|| {
        let httpd = Httpd::on(mpm)
            .load(&["http2"])
            .expect_log("AH10034: ")
            .expect_refusals()
            .conf(match mpm {
                Mpm::Prefork => "H2MinWorkers 8\nH2MaxWorkers 16",
                _ => "",
            })
            .conf(
                "Protocols h2c http/1.1
                 <Location /hoge>
                     MaxRatePerIP 2/9s burst=2 delay=1
                     MaxConnPerIP 5 scope=location
                 </Location>",
            )
            .start();
        let rule = "MaxRatePerIP@/hoge";
        let h2 = front(&httpd);
        let first = Instant::now();
        let turn = first + Duration::from_millis(4500);
        assert_eq!(h2.status("/hoge/small.txt"), 200);
        let second = h2.open("/hoge/small.txt");
        so_many_wait(&httpd, rule, 1, turn)?;
        let status = h2.status("/hoge/small.txt");
        before(turn)?;
        assert_eq!(status, 429, "all are taken");
        Stream::cancel(second);
        so_by(Instant::now() + A_SECOND, || {
            h2.try_ping().expect("a connection that goes on");
            httpd.gauge().count_of("MaxConnPerIP@/hoge", "127.0.0.2") == 0
        })?;
        let mut again = h2.open("/hoge/small.txt");
        so_many_wait(&httpd, rule, 2, turn)?;
        assert_eq!(again.status(), 200);
        // The connection goes while one waits.
        let turn = first + Duration::from_secs(9);
        let _third = h2.open("/hoge/small.txt");
        so_many_wait(&httpd, rule, 3, turn)?;
        h2.reset();
        so_by(Instant::now() + A_SECOND, || httpd.gauge().total() == 0)?;
        before(turn)
    });
}
