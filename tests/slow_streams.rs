//! Single streams of HTTP/2 whose client takes them too slowly: what else goes on beside them
//! neither saves them nor suffers with them.

mod support;

#[path = "slow/frames.rs"]
mod frames;
#[path = "slow/looks.rs"]
mod looks;

use std::time::{Duration, Instant};

use frames::{
    END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, Raw, WIDE, WINDOW_UPDATE, frame, head,
};
use looks::let_watches_look;
use support::{DEADLINE, Httpd, Load, Mpm, Setup, at_once, on_threaded_mpms, under_load};

on_threaded_mpms!(
    control_frames_are_no_progress,
    upload_and_events_beside_a_download_do_not_save_it,
    small_window_hides_no_drip_and_harms_nobody,
    stalled_stream_is_reset_whatever_h2streamtimeout_says,
    whoever_may_not_be_cut_is_not_cut_with_its_connection,
    streams_of_one_client_leave_the_watch_to_others,
    response_that_lasts_too_long_is_reset_alone,
    client_that_does_not_read_beside_a_spared_stream_loses_the_others,
);

const RULE: &str = "IPLimitMinRate 10000 after=3s window=4s";
const BIG: u64 = 20 << 20;

fn over_http2(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .over_h2c()
        .expect_log("limitipconn(501): ")
        .big_file("hoge/big.bin", BIG)
        .big_file("fuga/big.bin", BIG)
        .big_script("hoge/big.cgi", BIG)
}

/// Waits for so many lines of cuts, each of a client that is too slow.
#[track_caller]
fn wait_for_cuts(httpd: &Httpd, number: u64, since: Instant) {
    httpd.wait_for_within(DEADLINE, |gauge| gauge.number("cut_too_slow") >= number);
    let took = since.elapsed();
    assert!(took >= Duration::from_secs(6), "too soon: {took:?}");
    // They are counted before they are written.
    let lines = httpd.wait_for_lines(DEADLINE, "limitipconn(501): ", number as usize);
    assert_eq!(lines.len() as u64, number, "{lines:#?}");
    for line in &lines {
        assert!(line.contains(" cut: too slow: "), "{line}");
    }
}

/// Answers to PING, and heads without a body, are more bytes than the minimum asks for.
fn control_frames_are_no_progress(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf("IPLimitMinRate 100 after=3s window=4s")
        .file("hoge/some.bin", vec![b'x'; 20_000])
        .start();
    let start = Instant::now();
    let stalls = httpd.client("127.0.0.2").h2();
    let stalled = stalls.download("/hoge/big.cgi");
    // The worker of this one is done with it: what is missing waits in mod_http2.
    let waits = httpd.client("127.0.0.3").h2_with_window(1000);
    let rest = waits.download("/hoge/some.bin");
    let head = || {
        stalls
            .try_open("HEAD", "/hoge/small.txt", true)?
            .try_finish()
    };
    let ask = |n: usize, load: &Load| {
        let (goes_well, pause): (&dyn Fn() -> bool, _) = match n {
            0 => (&|| stalls.try_ping().is_ok(), 20),
            1 => (&|| waits.try_ping().is_ok(), 20),
            _ => (&|| head().is_ok(), 50),
        };
        while load.goes_on() && goes_well() {
            std::thread::sleep(Duration::from_millis(pause));
        }
    };
    under_load(3, ask, |_| wait_for_cuts(&httpd, 2, start));
    for stream in [stalled, rest] {
        assert!(stream.try_finish().is_err(), "it is whole");
    }
    drop((stalls, waits));
    assert_eq!(httpd.wait_for_quiet().number("faults"), 0);
}

fn upload_and_events_beside_a_download_do_not_save_it(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(RULE)
        .script(
            "hoge/takes.cgi",
            "#!/bin/sh\ngot=$(wc -c)\nprintf 'Content-Type: text/plain\\n\\n%s\\n' \"$got\"\n",
        )
        .start();
    let gate = httpd.gate("events");
    let h2 = httpd.client("127.0.0.2").h2();
    let start = Instant::now();
    let events = h2.download("/hoge/hold.cgi?events");
    let mut upload = h2.upload("/hoge/takes.cgi");
    let stalled = h2.download("/hoge/big.cgi");
    let mut sent = 0;
    while httpd.log_lines("limitipconn(501): ").is_empty() {
        assert!(start.elapsed() < DEADLINE, "it is not cut");
        upload.send(&[b'x'; 100], false).expect("send a piece");
        sent += 100;
        std::thread::sleep(Duration::from_millis(100));
    }
    wait_for_cuts(&httpd, 1, start);
    assert!(stalled.try_finish().is_err(), "it is whole");
    upload.send(b"", true).expect("send the end");
    assert_eq!(upload.finish().text(), format!("{sent}\n"));
    drop(gate);
    assert_eq!(events.finish().text(), "started\nended\n");
    drop(h2);
    assert_eq!(httpd.wait_for_quiet().number("faults"), 0);
}

/// A window of less than a piece: each of its bytes counts when it has gone out.
fn small_window_hides_no_drip_and_harms_nobody(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(
            "IPLimitMinRate 2000 after=3s window=4s
             <Location /fuga>
                 IPLimitMinRate 2000 after=3s window=12s
             </Location>",
        )
        .big_script("fuga/big.cgi", BIG)
        .start();
    let start = Instant::now();
    let drips = httpd.client("127.0.0.2").h2_with_window(1000);
    let mut dripping = drips.download("/hoge/big.cgi");
    let fast = httpd.client("127.0.0.3").h2_with_window(1000);
    let mut flowing = fast.download("/fuga/big.cgi");
    let until = start + Duration::from_secs(20);
    std::thread::scope(|scope| {
        // Half a kilobyte at a time, since a client gives windows back by halves.
        scope.spawn(|| {
            while let Ok(Some(_)) = dripping.try_read() {
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        scope.spawn(|| {
            while Instant::now() < until {
                assert!(matches!(flowing.try_read(), Ok(Some(_))));
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        wait_for_cuts(&httpd, 1, start);
        let line = httpd.log_lines("limitipconn(501): ").remove(0);
        assert!(line.contains("client 127.0.0.2 cut: too slow: "), "{line}");
    });
}

fn stalled_stream_is_reset_whatever_h2streamtimeout_says(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf("H2StreamTimeout 3")
        .conf(RULE)
        .conf("<Location /fuga>\nIPLimitMinRate off\n</Location>")
        // Its client may pause.
        .conf("<Location /active>\nIPLimitMinRate 10000 after=1h\n</Location>")
        .big_file("active/big.bin", BIG)
        .big_script("fuga/big.cgi", BIG)
        .start();
    let start = Instant::now();
    let h2 = httpd.client("127.0.0.2").h2();
    let stalled = h2.download("/hoge/big.cgi");
    let mut active = h2.download("/active/big.bin");
    // Nobody measures these two: they are mod_http2's.
    let unmeasured = h2.download("/fuga/big.cgi");
    let other = httpd.client("127.0.0.3").h2();
    let alone = other.download("/fuga/big.cgi");
    let mut bytes = 0;
    while httpd.log_lines("limitipconn(501): ").is_empty() {
        assert!(start.elapsed() < DEADLINE, "it is not cut");
        let piece = active.try_read().expect("a stream that goes on");
        bytes += piece.expect("more of the body").len();
        std::thread::sleep(Duration::from_millis(50));
    }
    wait_for_cuts(&httpd, 1, start);
    for stream in [stalled, unmeasured, alone] {
        assert!(stream.try_finish().is_err(), "it is whole");
    }
    let rest = active.finish();
    assert_eq!((bytes + rest.body.len()) as u64, BIG);
    assert_eq!(h2.status("/hoge/small.txt"), 200);
    drop((h2, other));
    let gauge = httpd.wait_for_quiet();
    assert_eq!(
        (gauge.number("cut_too_slow"), gauge.number("faults")),
        (1, 0)
    );
}

fn whoever_may_not_be_cut_is_not_cut_with_its_connection(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(RULE)
        .conf(
            "H2StreamTimeout 60
             <Location /fuga>
                 IPLimitMinRate off
             </Location>
             <Location /dry>
                 IPLimitDryRun On
                 IPLimitMinRate 20000 after=1s window=2s
             </Location>
             <Location /spared>
                 IPLimitExempt all
             </Location>",
        )
        .big_file("dry/big.bin", BIG)
        .big_file("spared/big.bin", BIG)
        .start();
    let start = Instant::now();
    let clients = [("/fuga", 2), ("/dry", 3), ("/spared", 4)].map(|(place, n)| {
        let h2 = httpd.client(&format!("127.0.0.{n}")).h2();
        let spared = h2.download(&format!("{place}/big.bin"));
        let stalled = h2.download("/hoge/big.cgi");
        (h2, spared, stalled)
    });
    wait_for_cuts(&httpd, 3, start);
    at_once_each(clients, |(h2, spared, stalled)| {
        assert!(stalled.try_finish().is_err(), "it is whole");
        assert_eq!(spared.finish().body.len() as u64, BIG);
        assert_eq!(h2.status("/hoge/small.txt"), 200);
    });
    let dry = "limitipconn(501): client 127.0.0.3 would be cut (dry run): too slow: ";
    assert_eq!(httpd.wait_for_log(dry).len(), 1);
}

/// Does it to each, side by side.
fn at_once_each<T: Send, const N: usize>(all: [T; N], work: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for one in all {
            let work = &work;
            scope.spawn(move || work(one));
        }
    });
}

fn streams_of_one_client_leave_the_watch_to_others(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(
            "StartServers 1\nServerLimit 1\nThreadLimit 12\nThreadsPerChild 12\nMaxRequestWorkers 12
             MinSpareThreads 1\nMaxSpareThreads 12
             H2MaxWorkers 200
             SendBufferSize 16384",
        )
        .conf(RULE)
        // Lines of hundreds of streams would leave no room for others.
        .conf("<Location /fuga>\nIPLimitLogLevel debug\n</Location>")
        .start();
    let many: Vec<_> = at_once(4, |_| {
        let h2 = httpd.client("127.0.0.2").h2();
        let streams = h2.open_many(100, "/fuga/big.bin");
        (h2, streams)
    });
    let slow = httpd.client("127.0.0.3").read_slowly("/hoge/big.bin");
    let line = "limitipconn(501): client 127.0.0.3 cut: too slow: ";
    httpd.wait_for_lines(DEADLINE, line, 1);
    assert_eq!(httpd.gauge().number("unwatched"), 0);
    drop((many, slow));
    assert_eq!(httpd.wait_for_quiet().number("faults"), 0);
}

fn response_that_lasts_too_long_is_reset_alone(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf("<Location /hoge>\nIPLimitMaxTime 2s\n</Location>")
        .start();
    let h2 = httpd.client("127.0.0.2").h2();
    let (mut long, sibling) = (h2.download("/hoge/big.cgi"), h2.download("/fuga/big.bin"));
    assert_eq!(long.outlived_by(sibling, DEADLINE), BIG);
    let line = "limitipconn(501): client 127.0.0.2 cut: held for ";
    assert_eq!(httpd.wait_for_log(line).len(), 1);
    assert_eq!(httpd.gauge().number("cut_too_long"), 1);
}

/// Nobody may cut the connection, and its thread waits for the socket: it resets the file when
/// that goes on. The worker of the script ends it at once.
fn client_that_does_not_read_beside_a_spared_stream_loses_the_others(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(RULE)
        .conf("SendBufferSize 16384\n<Location /fuga>\nIPLimitMinRate off\n</Location>")
        .start();
    let client = httpd.client("127.0.0.2").with_tiny_buffer();
    let mut raw = Raw::connect(&client, 16_000);
    let start = Instant::now();
    // All at once: its thread looks at nothing more when the socket is full.
    let get = |stream, path| frame(HEADERS, END_STREAM | END_HEADERS, stream, &head(path));
    let asked = [
        get(1, "/fuga/big.bin"),
        get(3, "/hoge/big.cgi"),
        get(5, "/hoge/big.bin"),
        frame(WINDOW_UPDATE, 0, 1, &WIDE.to_be_bytes()),
        frame(WINDOW_UPDATE, 0, 3, &WIDE.to_be_bytes()),
    ];
    raw.send(&asked.concat());
    wait_for_cuts(&httpd, 1, start);
    // The file is found at the same time or a little later.
    let_watches_look(&httpd, 8);
    let (mut reset, mut is_whole) = ([false; 2], false);
    while !is_whole || reset != [true; 2] {
        if is_whole {
            // It lets the thread of the connection look at its input.
            raw.send(&frame(PING, 0, 0, b"lastping"));
            std::thread::sleep(Duration::from_millis(200));
        }
        let frame = raw.next();
        is_whole |= frame.is_end_of(1);
        for (reset, stream) in reset.iter_mut().zip([3, 5]) {
            assert!(
                !*reset || frame.stream != stream,
                "{frame:?} after it was reset"
            );
            *reset |= frame.is(RST_STREAM, stream);
        }
    }
    wait_for_cuts(&httpd, 2, start);
}
