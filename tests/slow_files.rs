//! Files over HTTP/2, of which each holds nothing but a stream: one that its client takes too
//! slowly, or that lasts too long, is reset by itself, and nothing else notices.

mod support;

#[path = "slow/frames.rs"]
mod frames;

use std::time::{Duration, Instant};

use frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PRIORITY, RST_STREAM, Raw, WIDE,
    frame, head,
};
use support::{DEADLINE, Httpd, Load, Mpm, Setup, Stream, noise, on_threaded_mpms, under_load};

on_threaded_mpms!(
    file_that_drips_is_reset_and_its_siblings_go_on,
    files_that_drip_are_reset_one_by_one,
    nothing_comes_after_the_reset_and_the_connection_lives_on,
    reset_waits_for_the_end_of_headers,
    whoever_may_not_be_cut_is_not_reset,
    file_that_lasts_too_long_is_reset_alone,
    starved_stream_of_an_honest_client_is_not_reset,
    children_that_finish_gracefully_go_on_resetting,
);

/// Whoever is read under `/fuga` may pause, as any thread may that reads.
const RULE: &str = "IPLimitMinRate 20000 after=2s window=3s
     <Location /fuga>
         IPLimitMinRate 20000 after=1h
     </Location>";
/// after= and window= take no less.
const AT_LEAST: Duration = Duration::from_millis(4500);

const BIG: u64 = 20 << 20;
/// The window of a stream: less than the minimum asks for, if it is given once in two seconds.
const DRIP: u32 = 16_000;

const TAKES: &str =
    "#!/bin/sh\ngot=$(wc -c)\nprintf 'Content-Type: text/plain\\n\\n%s\\n' \"$got\"\n";

fn over_http2(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .over_h2c()
        .expect_log("limitipconn(501): ")
        .big_file("hoge/big.bin", BIG)
        .big_file("fuga/big.bin", BIG)
        .file("fuga/noise.bin", noise(300_001))
        .script("hoge/takes.cgi", TAKES)
}

/// Takes less than the minimum until the stream ends.
#[track_caller]
fn drip(stream: &mut Stream, start: Instant) {
    while let Ok(Some(_)) = stream.try_read() {
        assert!(start.elapsed() < DEADLINE, "it is not reset");
        std::thread::sleep(Duration::from_secs(2));
    }
}

#[track_caller]
fn is_reset(stream: Stream) {
    let why = stream.try_finish().expect_err("it is whole");
    assert!(why.contains("stream no longer needed"), "{why}");
}

/// Waits for so many lines of cuts, and no other: each of this client.
#[track_caller]
fn wait_for_cuts(httpd: &Httpd, number: usize, client: &str) {
    let line = format!("limitipconn(501): client {client} cut: too slow: ");
    httpd.wait_for_lines(DEADLINE, &line, number);
    assert_eq!(httpd.log_lines("limitipconn(501): ").len(), number);
    let gauge = httpd.gauge();
    let counted = ["cut_too_slow", "faults"].map(|name| gauge.number(name));
    assert_eq!(counted, [number as u64, 0]);
}

/// Requests whose headers take several frames, so that a reset often falls among them, and
/// uploads.
fn file_that_drips_is_reset_and_its_siblings_go_on(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(RULE)
        .conf("MaxConnPerIP 3 count=requests\nMaxHitsPerIP 1/h on=slow")
        .expect_refusals()
        .start();
    let mut client = httpd.client("127.0.0.2");
    for name in ["x-one", "x-two", "x-three"] {
        client = client.header(name, &"Z".repeat(7000));
    }
    let h2 = client.h2_with_window(DRIP);
    let start = Instant::now();
    let mut drips = h2.download("/hoge/big.bin");
    let whole = noise(300_001);
    let ask = |n: usize, load: &Load| {
        while load.goes_on() {
            if n == 0 {
                assert!(h2.get("/fuga/noise.bin").body == whole);
                continue;
            }
            let mut upload = h2.upload("/hoge/takes.cgi");
            for part in 0..5 {
                upload.send(&[b'x'; 1000], part == 4).expect("send a piece");
                std::thread::sleep(Duration::from_millis(50));
            }
            assert_eq!(upload.finish().text(), "5000\n");
        }
    };
    under_load(2, ask, |_| {
        drip(&mut drips, start);
        // Its places are free, although the others go on.
        let mut another = h2.download("/fuga/big.bin");
        assert!(matches!(another.try_read(), Ok(Some(_))));
    });
    let took = start.elapsed();
    assert!(took >= AT_LEAST, "too soon: {took:?}");
    is_reset(drips);
    wait_for_cuts(&httpd, 1, "127.0.0.2");
    httpd.wait_for(|gauge| gauge.total() == 0);
    // One cut is one charge, and within the rate.
    let held = h2.open_many(3, "/fuga/big.bin");
    for mut stream in held {
        assert_eq!(stream.status(), 200);
    }
    h2.try_ping().expect("a connection that lives");
    drop(h2);
    assert_eq!(httpd.wait_for_quiet().number("cut_too_slow"), 1);
}

/// More than are reset at once, while nothing else is on the connection but a small request
/// now and then.
fn files_that_drip_are_reset_one_by_one(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(RULE)
        .conf("<Location /fuga>\nIPLimitMinRate off\n</Location>")
        .start();
    let h2 = httpd.client("127.0.0.2").h2_with_window(DRIP);
    let start = Instant::now();
    // Beside it the connection is not cut.
    let _spared = h2.download("/fuga/big.bin");
    let streams = h2.open_many(12, "/hoge/big.bin");
    while httpd.gauge().number("cut_too_slow") < 12 {
        assert!(start.elapsed() < DEADLINE, "they are not reset");
        assert_eq!(h2.status("/hoge/small.txt"), 200);
        std::thread::sleep(Duration::from_millis(500));
    }
    streams.into_iter().for_each(is_reset);
    wait_for_cuts(&httpd, 12, "127.0.0.2");
    assert_eq!(h2.status("/hoge/small.txt"), 200);
}

/// Reads a quick sibling, grants little to stream 1, and returns when that is reset.
#[track_caller]
fn wait_for_reset(raw: &mut Raw, start: Instant, grant: impl Fn(&mut Raw)) {
    let (mut bytes, mut granted) = (0, 0);
    loop {
        assert!(start.elapsed() < DEADLINE, "it is not reset");
        let frame = raw.next();
        match frame.kind {
            RST_STREAM => {
                assert_eq!((frame.stream, frame.payload), (1, vec![0, 0, 0, 8]));
                let took = start.elapsed();
                return assert!(took >= AT_LEAST, "too soon: {took:?}");
            }
            DATA if frame.stream == 3 => {
                // Half a megabyte a second. More than that never waits in the socket, where
                // stream 1 would have a share in it.
                bytes += frame.payload.len() as u64;
                raw.grant(3, frame.payload.len() as u32);
            }
            _ => {}
        }
        let due = Duration::from_micros(2 * bytes);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        if start.elapsed().as_millis() > granted * 200 {
            granted += 1;
            grant(raw);
        }
    }
}

/// Over TLS and without, with frames that come a byte at a time.
fn nothing_comes_after_the_reset_and_the_connection_lives_on(mpm: Mpm) {
    let httpd = over_http2(mpm).over_tls_too().conf(RULE).start();
    let plain = Raw::connect(&httpd.client("127.0.0.1"), DRIP);
    let tls = Raw::connect_tls(httpd.port2(), DRIP);
    let mut both = [(plain, true), (tls, false)];
    std::thread::scope(|scope| {
        for (raw, in_bytes) in &mut both {
            scope.spawn(move || {
                let start = Instant::now();
                raw.get(1, "/hoge/big.bin");
                raw.get(3, "/fuga/big.bin");
                let window = frame(frames::WINDOW_UPDATE, 0, 1, &200u32.to_be_bytes());
                wait_for_reset(raw, start, |raw| match *in_bytes {
                    true => (0..5).for_each(|_| {
                        raw.send_in_bytes(&frame(PING, 0, 0, b"tinyping"));
                        raw.send_in_bytes(&window[..]);
                    }),
                    false => raw.send(&window),
                });
                raw.grant(3, WIDE);
                // It did not know when it sent these.
                raw.grant(1, WIDE);
                raw.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
                let mut last = raw.next();
                while !last.is_end_of(3) {
                    assert!(last.stream != 1, "{last:?} after the reset");
                    last = raw.next();
                }
                raw.get(5, "/hoge/small.txt");
                assert!(raw.wait_for(|frame| frame.is(DATA, 5)).payload == b"ok\n");
                raw.send(&frame(PING, 0, 0, b"lastping"));
                let pong = |frame: &frames::Frame| frame.payload == b"lastping";
                assert_eq!(raw.wait_for(pong).kind, PING);
            });
        }
    });
    wait_for_cuts(&httpd, 2, "127.0.0.1");
}

fn reset_waits_for_the_end_of_headers(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(RULE)
        .script(
            "hoge/ticks.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'
             for n in $(seq 140); do echo tick; sleep 0.1; done\n",
        )
        .start();
    let mut raw = Raw::connect(&httpd.client("127.0.0.2"), DRIP);
    raw.get(1, "/hoge/big.bin");
    // It lets the thread of the connection look at its input.
    raw.get(3, "/hoge/ticks.cgi");
    let (first, rest) = (head("/hoge/small.txt"), [0x00, 1, b'x', 1, b'y']);
    raw.send(&frame(HEADERS, END_STREAM, 5, &first));
    let start = Instant::now();
    // It is due long before.
    while start.elapsed() < Duration::from_secs(9) {
        let frame = raw.next();
        assert!(frame.kind != RST_STREAM, "{frame:?}");
    }
    raw.send(&frame(CONTINUATION, END_HEADERS, 5, &rest));
    let (mut answered, mut reset) = (false, false);
    while !answered || !reset {
        // The script may be done before a watch that comes late.
        std::thread::sleep(Duration::from_millis(20));
        raw.send(&frame(PING, 0, 0, b"tinyping"));
        let frame = raw.next();
        answered |= frame.is(DATA, 5) && frame.payload == b"ok\n";
        reset |= frame.is(RST_STREAM, 1);
    }
    wait_for_cuts(&httpd, 1, "127.0.0.2");
}

fn whoever_may_not_be_cut_is_not_reset(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(RULE)
        .conf(
            "H2StreamTimeout 60
             <Location /off>
                 IPLimitMinRate off
             </Location>
             <Location /busy>
                 IPLimitMinRate 20000 after=2s window=3s busy=95%
             </Location>
             <Location /dry>
                 IPLimitDryRun On
             </Location>
             <Location /spared>
                 IPLimitExempt all
             </Location>",
        )
        .big_file("off/big.bin", BIG)
        .big_file("busy/big.bin", BIG)
        .big_file("dry/big.bin", BIG)
        .big_file("spared/big.bin", BIG)
        .start();
    let h2 = httpd.client("127.0.0.2").h2_with_window(DRIP);
    let start = Instant::now();
    let stay =
        ["off", "busy", "dry", "spared"].map(|place| h2.download(&format!("/{place}/big.bin")));
    let mut drips = h2.download("/hoge/big.bin");
    drip(&mut drips, start);
    is_reset(drips);
    for stream in stay {
        assert_eq!(stream.finish().body.len() as u64, BIG);
    }
    let dry = "limitipconn(501): client 127.0.0.2 would be cut (dry run): too slow: ";
    assert_eq!(httpd.wait_for_log(dry).len(), 1);
    assert_eq!(httpd.log_lines("limitipconn(501): ").len(), 2);
}

fn file_that_lasts_too_long_is_reset_alone(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf("<Location /hoge>\nIPLimitMaxTime 2s\n</Location>")
        .start();
    let h2 = httpd.client("127.0.0.2").h2();
    let (mut long, sibling) = (h2.download("/hoge/big.bin"), h2.download("/fuga/big.bin"));
    assert_eq!(long.outlived_by(sibling, DEADLINE), BIG);
    is_reset(long);
    let line = "limitipconn(501): client 127.0.0.2 cut: held for ";
    assert_eq!(httpd.wait_for_log(line).len(), 1);
    assert_eq!(httpd.gauge().number("cut_too_long"), 1);
    // By itself on its connection, too. With that it is cut where nothing moves for two seconds.
    loop {
        let h2 = httpd.client("127.0.0.2").h2();
        let mut alone = h2.download("/hoge/big.bin");
        let pause = longest_pause_of(&mut alone);
        let why = alone.try_finish().expect_err("it is whole");
        if why.contains("stream no longer needed") {
            assert_eq!(h2.status("/hoge/small.txt"), 200);
            break;
        }
        assert!(pause > Duration::from_millis(1500), "{why}, {pause:?}");
    }
    httpd.wait_for_lines(DEADLINE, line, 2);
}

/// Reads what comes, slowly enough to last.
fn longest_pause_of(stream: &mut Stream) -> Duration {
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        let piece = stream.try_read();
        longest = longest.max(last.elapsed());
        if !matches!(piece, Ok(Some(_))) {
            return longest;
        }
        last = Instant::now();
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Its sibling, which it asks for first, fills the line: it gets nothing, and could take more.
fn starved_stream_of_an_honest_client_is_not_reset(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf("SendBufferSize 16384")
        .conf("IPLimitMinRate 2000 after=1s window=6s")
        .start();
    let mut raw = Raw::connect(&httpd.client("127.0.0.2"), WIDE);
    raw.get(1, "/hoge/big.bin");
    // After stream 1, with all weight.
    let after = [[0x80, 0, 0, 1, 255].as_slice(), &head("/fuga/big.bin")].concat();
    let flags = END_STREAM | END_HEADERS | PRIORITY;
    raw.send(&frame(HEADERS, flags, 3, &after));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(13) {
        raw.read_at(500_000);
    }
    assert_eq!(httpd.gauge().number("cut_too_slow"), 0);
}

fn children_that_finish_gracefully_go_on_resetting(mpm: Mpm) {
    let httpd = over_http2(mpm).conf(RULE).conf("StartServers 1").start();
    let h2 = httpd.client("127.0.0.2").h2_with_window(DRIP);
    let start = Instant::now();
    let (mut drips, mut sibling) = (h2.download("/hoge/big.bin"), h2.download("/fuga/big.bin"));
    let read = |stream: &mut Stream| {
        let piece = stream.try_read().expect("a stream that goes on");
        piece.expect("more of the body").len()
    };
    read(&mut drips);
    let mut bytes = read(&mut sibling);
    httpd.graceful();
    std::thread::scope(|scope| {
        let dripping = scope.spawn(|| drip(&mut drips, start));
        while !dripping.is_finished() {
            bytes += read(&mut sibling);
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    is_reset(drips);
    let rest = sibling.finish();
    assert_eq!((bytes + rest.body.len()) as u64, BIG);
    wait_for_cuts(&httpd, 1, "127.0.0.2");
}
