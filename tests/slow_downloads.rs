//! Files over HTTP/2: httpd needs no worker for what is left of them, and none is kept by being
//! measured. Their connection is judged.

mod support;

#[path = "slow/frames.rs"]
mod frames;

#[path = "slow/looks.rs"]
mod looks;

use std::time::{Duration, Instant};

use frames::{DATA, Raw, WIDE};
use looks::let_watches_look;
use support::{Client, DEADLINE, Httpd, Mpm, Setup, on_threaded_mpms, wait_until};

on_threaded_mpms!(
    downloads_leave_the_workers_to_others,
    who_does_not_read_its_socket_is_cut_or_told_of,
    files_that_last_too_long_end_with_a_connection_that_stands_still,
);

const BIG: u64 = 20 << 20;

fn over_http2(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .over_h2c()
        .big_file("hoge/big.bin", BIG)
        .big_file("fuga/big.bin", BIG)
}

fn downloads_leave_the_workers_to_others(mpm: Mpm) {
    for lines in [
        "IPLimitMinRate 1000 busy=80%",
        "IPLimitMaxTime 2h busy=90%",
        "IPLimitMinRate 1000\nIPLimitDryRun On",
    ] {
        let httpd = over_http2(mpm)
            .conf("StartServers 1\nServerLimit 1\nThreadLimit 16\nThreadsPerChild 16\nMaxRequestWorkers 16
                 MinSpareThreads 1\nMaxSpareThreads 16\nH2MinWorkers 8\nH2MaxWorkers 8")
            .conf(lines)
            .start();
        let clients = [2, 3, 4, 5].map(|n| httpd.client(&format!("127.0.0.{n}")).h2());
        // What a client has not read it grants no window for.
        let mut downloads: Vec<_> = clients
            .iter()
            .flat_map(|h2| h2.open_many(10, "/hoge/big.bin"))
            .collect();
        for stream in &mut downloads {
            assert_eq!(stream.status(), 200);
            assert!(matches!(stream.try_read(), Ok(Some(_))), "{lines}");
        }
        let innocent = httpd.client("127.0.0.6").h2();
        assert_eq!(innocent.get("/hoge/hello.cgi").status, 200, "{lines}");
        assert_eq!(innocent.get("/hoge/small.txt").text(), "ok\n");
        drop((downloads, clients, innocent));
        let gauge = httpd.wait_for_quiet();
        let cut = ["cut_too_slow", "cut_too_long", "faults"].map(|name| gauge.number(name));
        assert_eq!(cut, [0; 3], "{lines}");
    }
}

/// Asks for a path, with windows that nothing of it fills, and reads nothing.
fn ask_and_not_read(client: &Client, path: &str) -> Raw {
    let mut raw = Raw::connect(client, WIDE);
    raw.get(1, path);
    raw
}

fn who_does_not_read_its_socket_is_cut_or_told_of(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .expect_log("limitipconn(501): ")
        .conf(
            "SendBufferSize 16384
             IPLimitMinRate 10000 after=3s window=4s
             <Location /fuga>
                 IPLimitDryRun On
                 IPLimitMinRate 10000 after=1s window=2s
             </Location>",
        )
        .start();
    let ask = |n, path| {
        let client = httpd.client(&format!("127.0.0.{n}")).with_tiny_buffer();
        ask_and_not_read(&client, path)
    };
    let start = Instant::now();
    let (_cut, mut dry) = (ask(2, "/hoge/big.bin"), ask(3, "/fuga/big.bin"));
    // More than its buffer takes.
    dry.wait_for(|frame| frame.is(DATA, 1));
    httpd.wait_for_log("limitipconn(501): client 127.0.0.2 cut: too slow: ");
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(6), "too soon: {took:?}");
    let_watches_look(&httpd, 10);
    // It is told when the response is whole.
    dry.wait_for(|frame| frame.is_end_of(1));
    drop(dry);
    httpd.wait_for_log("limitipconn(501): client 127.0.0.3 would be cut (dry run): too slow: ");
    assert_eq!(httpd.log_lines("limitipconn(501): ").len(), 2);
}

fn files_that_last_too_long_end_with_a_connection_that_stands_still(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .expect_log("limitipconn(501): ")
        .conf("<Location /hoge>\nIPLimitMaxTime 4s\n</Location>")
        .conf("MaxHitsPerIP 1/h on=slow")
        .start();
    let (alone, beside) = (
        httpd.client("127.0.0.2").h2(),
        httpd.client("127.0.0.3").h2(),
    );
    // Nothing moves on this connection, so that nobody can end a stream of it.
    alone.try_ping().expect("the settings of both sides");
    let cut = alone.open_many(3, "/hoge/big.bin");
    let long = beside.open("/hoge/big.bin");
    let _other = beside.open("/fuga/big.bin");
    let line = "limitipconn(501): client 127.0.0.2 cut: held for ";
    assert_eq!(httpd.wait_for_lines(DEADLINE, line, 3).len(), 3);
    for stream in cut {
        assert!(stream.try_finish().is_err(), "it is whole");
    }
    // Its thread looks at this one again, and again: its watch may come later.
    let line = "limitipconn(501): client 127.0.0.3 cut: held for ";
    wait_until(DEADLINE, || {
        assert_eq!(beside.status("/hoge/small.txt"), 200);
        match httpd.log_lines(line).len() {
            1 => Ok(()),
            number => Err(number),
        }
    });
    assert!(long.try_finish().is_err(), "it is whole");
    assert_eq!(beside.status("/hoge/small.txt"), 200);
    assert_eq!(httpd.gauge().number("cut_too_long"), 4);
    // One cut is one charge: the next request is within the rate still.
    assert_eq!(
        httpd.client("127.0.0.2").h2().status("/fuga/small.txt"),
        200
    );
}
