//! The watch at its edges: no room, no thread to speak, several requests on one connection,
//! a client that takes in lumps, and a defence that is off.

#![cfg(feature = "httpd")]

mod support;

// Each of its users has its own part of it.
#[path = "slow/looks.rs"]
mod looks;
#[allow(dead_code)]
#[path = "slow/readers.rs"]
mod readers;

use std::io::Read;
use std::time::{Duration, Instant};

use looks::let_watches_look;
use readers::{cut_lines, pass, small_pool, wait_for_cuts};
use support::{Client, DEADLINE, Httpd, Mpm, Setup, on_every_mpm, wait_until};

on_every_mpm!(pipelined_requests_are_one_cut,);

fn server(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .expect_log("limitipconn(501): ")
        .conf(small_pool(mpm))
        .big_file("hoge/big.bin", 20 << 20)
}

/// All that was asked for on a connection ends with it: one line, one charge.
fn pipelined_requests_are_one_cut(mpm: Mpm) {
    let httpd = server(mpm)
        .expect_refusals()
        .file("hoge/20kb.bin", vec![b'x'; 20_000])
        .conf(
            "IPLimitMinRate 500 after=1s window=2s
             <Location /hoge>
                 MaxHitsPerIP 1/10min freeze=60s on=slow
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.1.1").with_tiny_buffer();
    for (n, paths) in [
        "/hoge/20kb.bin /hoge/20kb.bin /hoge/20kb.bin /hoge/big.bin",
        "/hoge/big.bin /hoge/big.bin",
    ]
    .into_iter()
    .enumerate()
    {
        let mut connection = client.connect();
        let requests = paths.split(' ');
        let requests: String = requests
            .map(|path| connection.request("GET", path, ""))
            .collect();
        connection.send(requests);
        wait_for_cuts(&httpd, n + 1, DEADLINE);
        httpd.wait_for(|gauge| gauge.busy() <= 1);
        pass(2);
        assert_eq!(cut_lines(&httpd).len(), n + 1, "{paths}");
        assert_eq!(httpd.gauge().number("cut_too_slow"), n as u64 + 1);
        let status = client.status("/hoge/20kb.bin");
        assert_eq!(status, [200, 429][n], "one cut is free");
    }
}

/// What finds no room is counted, told once an hour, and served.
#[test]
fn responses_beyond_the_room_are_counted_and_told() {
    const MANY: usize = 140;
    // So many readers of one child wait for their clients without a worker, and it watches 128.
    let httpd = Httpd::on(Mpm::Event)
        .expect_log("limitipconn(506): ")
        .expect_log("MaxRequestWorkers setting")
        .conf(
            "StartServers 1\nServerLimit 1\nThreadLimit 3\nThreadsPerChild 3\nMaxRequestWorkers 3
             MinSpareThreads 1\nMaxSpareThreads 3
             AsyncRequestWorkerFactor 100
             EnableMMAP Off\nEnableSendfile On\nSendBufferSize 16384
             IPLimitMinRate 500 after=1h",
        )
        .big_file("hoge/big.bin", 1 << 20)
        .start();
    let client = httpd.client("127.0.1.1");
    let held: Vec<_> = (0..MANY)
        .map(|_| client.read_slowly("/hoge/big.bin"))
        .collect();
    let told = httpd.wait_for_lines(DEADLINE, "limitipconn(506): ", 1);
    let unwatched = httpd.gauge().number("unwatched");
    assert!(
        (MANY as u64 - 128..=MANY as u64).contains(&unwatched),
        "{unwatched}"
    );
    assert!(
        told[0].contains("[limitipconn:warn]")
            && told[0].contains(" responses found nobody to watch them for a slow client, "),
        "{told:?}"
    );
    // They are served like all others.
    drop(held);
    httpd.wait_for(|gauge| gauge.busy() <= 1);
    // The gauge's own response is watched, too, once there is room again.
    let unwatched = wait_until(DEADLINE, || {
        let two = [(); 2].map(|()| httpd.gauge().number("unwatched"));
        if two[0] == two[1] {
            Ok(two[1])
        } else {
            Err(two)
        }
    });
    let watched = client.read_slowly("/hoge/big.bin");
    assert_eq!(httpd.gauge().number("unwatched"), unwatched);
    drop(watched);
    assert_eq!(httpd.log_lines("limitipconn(506): ").len(), 1);
}

/// prefork ends a child in a signal handler, amid whatever was going on: what was found is
/// counted, and the line is left out, since nobody could write it there.
#[test]
fn child_that_is_ended_writes_no_line_of_its_own() {
    // So its handler is done, and the last of the request is left for the end of its pool.
    let httpd = server(Mpm::Prefork)
        .expect_log("limitipconn(102): ")
        .conf(
            "EnableMMAP Off
             EnableSendfile On
             IPLimitDryRun On
             IPLimitMinRate 500 after=1s window=2s
             IPLimitMaxTime 3s
             <Location /hoge>
                 MaxHitsPerIP 1/10min freeze=60s on=200,slow
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.1.1").with_tiny_buffer();
    let mut slow = client.connect();
    let local = slow.stream().local_addr().expect("an address");
    slow.send(slow.request("GET", "/hoge/big.bin", "Connection: close\r\n"));
    assert_eq!(slow.head().status, 200);
    // Twice as often as it takes to be too slow, and too long.
    let_watches_look(&httpd, 14);
    httpd.child_serving(local).signal(libc::SIGTERM);
    // Too slow, and held for too long.
    let gauge = httpd.wait_for(|gauge| gauge.number("log_lines_left_out") == 2);
    assert_eq!(
        (gauge.number("cut_too_slow"), gauge.number("cut_too_long")),
        (1, 1)
    );
    let told = httpd.wait_for_lines(DEADLINE, "limitipconn(102): ", 1);
    assert!(
        told[0].ends_with("limitipconn(102): 2 refusals and cuts were left out of the log"),
        "{told:?}"
    );
    assert_eq!(cut_lines(&httpd), []);
    let gauge = httpd.wait_for_quiet();
    assert_eq!(
        (gauge.number("faults"), gauge.number("audit_mismatches")),
        (0, 0)
    );
}

/// Three times the minimum on the average, and nothing for four fifths of the time.
fn takes_in_lumps(client: &Client, bytes: usize, pause: u64) {
    let mut connection = client.clone().with_tiny_buffer().connect();
    connection.send(connection.request("GET", "/hoge/200kb.bin", "Connection: close\r\n"));
    assert_eq!(connection.head().status, 200);
    let start = Instant::now();
    let mut got = 0;
    while got < 200_000 {
        pass(pause);
        let mut piece = vec![0; bytes.min(200_000 - got)];
        connection
            .reader()
            .read_exact(&mut piece)
            .expect("more of the body");
        got += piece.len();
    }
    assert!(
        start.elapsed() > Duration::from_secs(30),
        "too quick to be judged"
    );
}

/// Whoever takes more than the minimum over each window is not cut, however unevenly.
#[test]
fn lumps_are_no_slowness() {
    let httpd = server(Mpm::Prefork)
        .file("hoge/200kb.bin", vec![b'x'; 200_000])
        .conf("IPLimitMinRate 1500 after=5s window=15s")
        .start();
    std::thread::scope(|scope| {
        for (n, pause) in [4, 6].into_iter().enumerate() {
            let client = httpd.client(&format!("127.0.1.{}", n + 1));
            scope.spawn(move || takes_in_lumps(&client, 5000 * pause as usize, pause));
        }
    });
    assert_eq!(cut_lines(&httpd), []);
}

/// `off` alone is no defence: no child has a watch for it, and nothing is said that is wrong.
#[test]
fn off_alone_starts_no_watch() {
    let threads = |conf: &str, wanted: usize| {
        let httpd = Httpd::on(Mpm::Prefork)
            .without_status()
            .expect_log("no limits configured")
            .conf(conf)
            .start();
        wait_until(support::DEADLINE, || {
            let children = httpd.children().into_iter();
            let threads: Vec<_> = children.map(|child| child.threads()).collect();
            let is_so = !threads.is_empty() && threads.iter().all(|threads| *threads == wanted);
            match is_so {
                true => Ok(()),
                false => Err(threads),
            }
        });
        httpd.log_lines("limitipconn(201): ").len()
    };
    assert_eq!(threads("IPLimitMinRate off\nIPLimitMaxTime off", 1), 1);
    // No rule, but not nothing.
    assert_eq!(threads("IPLimitMinRate 1000", 2), 0);
    assert_eq!(
        threads("<Location /hoge>\nIPLimitMaxTime 1h\n</Location>", 2),
        0
    );
}
