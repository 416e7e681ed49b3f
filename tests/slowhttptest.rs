//! slowhttptest, the tool with which people try this, against our server: the site stays open.

#![cfg(feature = "httpd")]

mod support;

// Each of its users has its own part of it.
#[allow(dead_code)]
#[path = "slow/readers.rs"]
mod readers;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use readers::stopwatch::Stopwatch;
use readers::{cut_lines, small_pool};
use support::{DEADLINE, Httpd, Mpm, on_every_mpm, wait_until};

on_every_mpm!(site_stays_open_under_slow_read);

/// Stopped when dropped.
struct Attack(Child);

impl Attack {
    /// Fifty connections at once that read 5 bytes every 5 seconds through a window of at most
    /// 1024.
    fn start(port: u16) -> Attack {
        let url = format!("http://127.0.0.1:{port}/hoge/big.bin");
        let arguments = format!("-X -c 50 -r 50 -w 512 -y 1024 -n 5 -z 5 -k 1 -l 25 -p 3 -u {url}");
        let child = Command::new("slowhttptest")
            .args(arguments.split(' '))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = child.unwrap_or_else(|error| {
            panic!("cannot run slowhttptest: {error}; install the package slowhttptest")
        });
        Attack(child)
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn site_stays_open_under_slow_read(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_log("limitipconn(501): ")
        .expect_refusals()
        .conf(small_pool(mpm))
        .conf(
            "KeepAliveTimeout 1
             IPLimitMinRate 500 after=1s window=2s
             <Location /hoge>
                 MaxHitsPerIP 5/10min freeze=10min on=slow
             </Location>",
        )
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let begun = Instant::now();
    let attack = Attack::start(httpd.port());
    // The parent may come to it only when the first are cut.
    wait_until(DEADLINE, || {
        let log = httpd.error_log();
        let texts = ["MaxRequestWorkers", "limitipconn(501): "];
        let is_so = texts.iter().any(|text| log.contains(text));
        if is_so { Ok(()) } else { Err(log) }
    });
    let client = httpd.client("127.0.2.1");
    let start = Instant::now();
    let mut waits = Vec::new();
    while start.elapsed() < Duration::from_secs(15) {
        let asked = Stopwatch::start();
        assert_eq!(client.status("/fuga/small.txt"), 200);
        waits.push(asked.elapsed());
    }
    drop(attack);
    // The first has to wait for the first cuts. Then the address is frozen, but those that are
    // in the queue before us have a worker each until their KeepAliveTimeout.
    let longest = waits.iter().max().unwrap();
    assert!(
        *longest < Duration::from_secs(1 + 2 + 2 + 1 + 1),
        "{waits:?}"
    );
    let quick = waits.iter().filter(|wait| **wait < Duration::from_secs(1));
    assert!(quick.count() + 3 > waits.len(), "{waits:?}");
    let cuts = cut_lines(&httpd);
    assert!(cuts.len() > 5, "{cuts:#?}");
    for cut in cuts {
        assert_eq!(cut.client, "127.0.0.1");
        cut.is_right_for(2, 500);
        cut.is_measured_since(begun + Duration::from_secs(1));
    }
    httpd.wait_for(|gauge| gauge.busy() <= 1);
}
