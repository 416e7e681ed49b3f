//! A server under valgrind, while clients are refused, waited for and cut, children reloaded and
//! killed: nothing reads or writes memory that it must not, nor goes by what was never written.

mod support;

use std::fs;
use std::time::Duration;

use support::{Httpd, Mpm, on_every_mpm, wait_until};

on_every_mpm!(nothing_is_wrong_in_memory);

/// valgrind makes all of it many times slower.
const PATIENCE: Duration = Duration::from_secs(300);

const CONF: &str = "SendBufferSize 16384
     IPLimitMinRate 10000 after=1s window=2s
     MaxConnPerIP 20
     MaxHitsPerIP 1000/h on=slow freeze=1s
     <Location /hoge>
         MaxConnPerIP 9 scope=location
         MaxRatePerIP 1000/s burst=1000 delay=10
     </Location>
     <Location /fuga>
         MaxConnPerIP 2 scope=location
         IPLimitMinRate off
     </Location>";

fn nothing_is_wrong_in_memory(mpm: Mpm) {
    let setup = match mpm {
        Mpm::Prefork => Httpd::on(mpm),
        _ => Httpd::on(mpm).over_h2c(),
    };
    // What a child of the children writes is there, too.
    let setup = setup.writable_dir("valgrind");
    let log = format!("--log-file={}/valgrind/%p", setup.dir().display());
    let httpd = setup
        .run_by(&["valgrind", &log])
        .expect_refusals()
        .expect_log("limitipconn(")
        .expect_kills()
        .expect_log("AH0") // what httpd says of a child that was killed
        .expect_log("AH00046") // a child that took more than ten seconds to end
        .conf(CONF)
        .big_file("hoge/big.bin", 20 << 20)
        .big_file("fuga/big.bin", 20 << 20)
        .big_script("hoge/big.cgi", 20 << 20)
        .start();
    let cuts = |number| _ = httpd.wait_for_lines(PATIENCE, "limitipconn(501): ", number);
    let client = |n: u8| httpd.client(&format!("127.0.0.{n}"));
    let round = |before: usize| {
        // The third is one too many.
        let held = [(); 2].map(|()| client(8).hold("/fuga/hold.cgi"));
        assert_eq!(client(8).status("/fuga/small.txt"), 503);
        drop(held);
        assert_eq!(client(3).status("/hoge/hello.cgi"), 200);
        let readers =
            ["big.bin", "big.cgi"].map(|it| client(2).read_slowly(&format!("/hoge/{it}")));
        let mut all = 2;
        if mpm != Mpm::Prefork {
            // One that stands still, and two whose siblings go on: where nobody is cut, since
            // who is honest and held up is slow.
            let (still, drips) = (client(4).h2(), client(5).h2());
            let stalled = ["big.bin", "big.cgi"].map(|it| still.open(&format!("/hoge/{it}")));
            let dripping = drips.open("/hoge/big.cgi");
            assert_eq!(drips.status("/fuga/small.txt"), 200);
            // A file that is reset by the thread of its connection, which nobody may cut.
            let many = client(7).h2();
            let (spared, file) = (many.open("/fuga/big.bin"), many.open("/hoge/big.bin"));
            all += 4;
            wait_until(PATIENCE, || {
                assert_eq!(many.status("/fuga/small.txt"), 200);
                let lines = httpd.log_lines("limitipconn(501): ");
                if lines.len() < before + all {
                    Err(lines)
                } else {
                    Ok(())
                }
            });
            assert!(file.try_finish().is_err(), "it is whole");
            assert_eq!(many.status("/hoge/small.txt"), 200);
            drop((stalled, dripping, spared));
        }
        cuts(before + all);
        drop(readers);
        all
    };
    let first = round(0);
    // Cut in a child that finishes gracefully.
    let finishing = client(6).read_slowly("/hoge/big.bin");
    httpd.graceful();
    cuts(first + 1);
    drop(finishing);
    let killed = httpd.children()[0];
    killed.signal(libc::SIGKILL);
    httpd.wait_for_within(PATIENCE, |gauge| gauge.is_empty() && gauge.busy() <= 1);
    round(first + 1);
    let gauge = httpd.wait_for_within(PATIENCE, |gauge| gauge.is_empty() && gauge.busy() <= 1);
    assert_eq!(gauge.number("faults"), 0, "{gauge:?}");
    // Then all children but the killed one have ended, and said what they found.
    httpd.hard_restart();
    let files = fs::read_dir(httpd.dir().join("valgrind")).expect("a directory");
    let texts: Vec<String> = files
        .flatten()
        .map(|file| fs::read_to_string(file.path()).expect("what valgrind wrote"))
        .collect();
    let ends: Vec<&str> = texts
        .iter()
        .filter_map(|text| text.split("ERROR SUMMARY: ").nth(1))
        .collect();
    assert!(ends.len() >= 2, "{texts:#?}");
    let is_clean = ends.iter().all(|end| end.starts_with("0 errors "));
    assert!(is_clean, "{texts:#?}");
}
