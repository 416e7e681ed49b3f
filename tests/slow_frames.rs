//! What a client may do on a connection of HTTP/2 while one of its files is reset: an upload
//! that goes on, even on the stream of a file, and small requests all the while.

mod support;

#[path = "slow/frames.rs"]
mod frames;

use std::time::{Duration, Instant};

use frames::{DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, Raw, frame, head};
use support::{DEADLINE, Httpd, Mpm, Setup, on_threaded_mpms};

on_threaded_mpms!(
    file_whose_request_still_has_a_body_is_reset_after_its_end,
    small_requests_keep_no_file_that_drips,
    file_that_is_copied_gives_its_worker_back,
);

/// The window of a stream.
const DRIP: u32 = 4000;
/// What it gets now and then: far less than the minimum.
const DROP: u32 = 200;
const CANCEL: [u8; 4] = [0, 0, 0, 8];
const CUT: &str = "limitipconn(501): client 127.0.0.2 cut: too slow: ";

/// Beside what is under `/fuga` a connection is not cut.
fn over_http2(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .over_h2c()
        .expect_log("limitipconn(501): ")
        .big_file("hoge/big.bin", 20 << 20)
        .big_file("fuga/big.bin", 20 << 20)
        .conf(
            "IPLimitMinRate 20000 after=1s window=2s
             <Location /fuga>
                 IPLimitMinRate off
             </Location>",
        )
}

/// Does something again and again until the server has reset these streams, and no other.
#[track_caller]
fn wait_for_resets<const N: usize>(
    raw: &mut Raw,
    streams: [u32; N],
    mut at_each: impl FnMut(&mut Raw),
) {
    let (start, mut left) = (Instant::now(), streams.to_vec());
    while !left.is_empty() {
        assert!(start.elapsed() < DEADLINE, "{left:?} are not reset");
        std::thread::sleep(Duration::from_millis(200));
        at_each(raw);
        raw.send(&frame(PING, 0, 0, b"tinyping"));
        loop {
            let frame = raw.next();
            if frame.kind == RST_STREAM {
                let at = left.iter().position(|stream| *stream == frame.stream);
                left.swap_remove(at.unwrap_or_else(|| panic!("{frame:?}")));
                assert_eq!(frame.payload, CANCEL);
            }
            if frame.kind == PING {
                break;
            }
        }
    }
}

#[track_caller]
fn gets_small(raw: &mut Raw, stream: u32) {
    raw.get(stream, "/hoge/small.txt");
    let answer = raw.wait_for(|frame| frame.is(DATA, stream) || frame.kind == RST_STREAM);
    assert_eq!(
        (answer.kind, answer.payload.as_slice()),
        (DATA, &b"ok\n"[..])
    );
}

/// httpd begins with the file although more of the request comes. What its client sends after
/// a reset that it did not send would end the connection.
fn file_whose_request_still_has_a_body_is_reset_after_its_end(mpm: Mpm) {
    let httpd = over_http2(mpm).start();
    let mut raw = Raw::connect(&httpd.client("127.0.0.2"), DRIP);
    raw.get(1, "/fuga/big.bin");
    raw.send(&frame(HEADERS, END_HEADERS, 3, &head("/hoge/big.bin")));
    raw.wait_for(|frame| frame.is(DATA, 3));
    raw.get(5, "/hoge/big.bin");
    let drip_and_upload = |raw: &mut Raw| {
        raw.grant(3, DROP);
        raw.grant(5, DROP);
        raw.send(&frame(DATA, 0, 3, b"a piece"));
    };
    // It is as slow, and younger: when that is reset the other one is due, too.
    wait_for_resets(&mut raw, [5], drip_and_upload);
    let mut turns = 0;
    let upload = |raw: &mut Raw| {
        turns += 1;
        raw.grant(3, DROP);
        match turns {
            ..10 => raw.send(&frame(DATA, 0, 3, b"a piece")),
            10 => gets_small(raw, 7),
            11 => raw.send(&frame(DATA, END_STREAM, 3, b"the last piece")),
            _ => {}
        }
    };
    wait_for_resets(&mut raw, [3], upload);
    assert!(turns >= 11, "reset amid its upload");
    gets_small(&mut raw, 9);
    httpd.wait_for_lines(DEADLINE, CUT, 2);
    drop(raw);
    let gauge = httpd.wait_for_quiet();
    let counted = ["cut_too_slow", "faults"].map(|name| gauge.number(name));
    assert_eq!(counted, [2, 0]);
}

/// Each of them is young, and everything on the connection but the file moves.
fn small_requests_keep_no_file_that_drips(mpm: Mpm) {
    let httpd = over_http2(mpm).start();
    let mut raw = Raw::connect(&httpd.client("127.0.0.2"), DRIP);
    raw.get(1, "/fuga/big.bin");
    raw.get(3, "/hoge/big.bin");
    raw.wait_for(|frame| frame.is(DATA, 3));
    let (mut turns, mut stream) = (0, 3);
    let ask = |raw: &mut Raw| {
        raw.grant(3, DROP);
        turns += 1;
        if turns % 5 == 0 {
            stream += 2;
            raw.get(stream, "/hoge/small.txt");
        }
    };
    wait_for_resets(&mut raw, [3], ask);
    gets_small(&mut raw, stream + 2);
    httpd.wait_for_lines(DEADLINE, CUT, 1);
    drop(raw);
    assert_eq!(httpd.wait_for_quiet().number("cut_too_slow"), 1);
}

/// With H2CopyFiles on its worker waits inside mod_http2 until the last of it has gone out.
fn file_that_is_copied_gives_its_worker_back(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(
            "StartServers 1
             H2MinWorkers 3
             H2MaxWorkers 3
             H2CopyFiles on",
        )
        .start();
    let mut raw = Raw::connect(&httpd.client("127.0.0.2"), DRIP);
    raw.get(1, "/fuga/big.bin");
    raw.wait_for(|frame| frame.is(DATA, 1));
    raw.get(3, "/hoge/big.bin");
    raw.get(5, "/hoge/big.bin");
    let drip = |raw: &mut Raw| {
        raw.grant(3, DROP);
        raw.grant(5, DROP);
    };
    wait_for_resets(&mut raw, [3, 5], drip);
    gets_small(&mut raw, 7);
    httpd.wait_for_lines(DEADLINE, CUT, 2);
    drop(raw);
    assert_eq!(httpd.wait_for_quiet().number("cut_too_slow"), 2);
}
