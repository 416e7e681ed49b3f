//! `busy=` and the workers that mod_http2 has of its own in each child: while so many percent
//! of them are held, slow streams are ended, though hardly a worker of httpd is busy.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use support::{DEADLINE, Gate, H2, Httpd, Mpm, Setup, Stream, on_threaded_mpms, wait_until};

on_threaded_mpms!(
    slow_streams_are_ended_while_workers_of_http2_are_short,
    dry_run_tells_of_streams_that_would_be_ended,
    streams_that_last_too_long_are_ended_while_workers_of_http2_are_short,
);

/// One child of 32 workers, and in it four of mod_http2.
const POOL: &str = "StartServers 1
ServerLimit 1
ThreadLimit 32
ThreadsPerChild 32
MaxRequestWorkers 32
MinSpareThreads 1
MaxSpareThreads 32
SendBufferSize 16384
H2MinWorkers 4
H2MaxWorkers 4
H2StreamTimeout 300";

const BIG: u64 = 20 << 20;
const CUT: &str = "limitipconn(501): ";

fn over_http2(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .over_h2c()
        .expect_log(CUT)
        .conf(POOL)
        .big_file("clock/big.bin", BIG)
        .big_script("hoge/big.cgi", BIG)
}

/// Lets the watch look at everybody for longer than it takes to find out about a stream: until
/// it has cut a response over HTTP/1 for which it waits no pressure.
#[track_caller]
fn let_it_look(httpd: &Httpd, address: &str) {
    let clock = httpd.client(address).read_slowly("/clock/big.bin");
    let line = format!("{CUT}client {address} cut: ");
    httpd.wait_for_lines(DEADLINE, &line, 1);
    drop(clock);
}

/// Who was cut, or would have been, by the addresses' last numbers; the clocks are left out.
fn cut(httpd: &Httpd) -> Vec<String> {
    let mut found: Vec<String> = httpd
        .log_lines(&format!("{CUT}client 127.0.0."))
        .iter()
        .filter_map(|line| line.split_once("(501): client 127.0.0."))
        .filter_map(|(_, rest)| Some(rest.split_once(' ')?.0.to_owned()))
        .collect();
    found.sort();
    found
}

/// A stream that is read on and on, with a pause after each piece. Dropped, it is cancelled.
struct Reading {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reading {
    fn start(mut stream: Stream, pause: Duration) -> Reading {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let read = move || {
            while !seen.load(Ordering::Relaxed) && matches!(stream.try_read(), Ok(Some(_))) {
                std::thread::sleep(pause);
            }
        };
        let thread = Some(std::thread::spawn(read));
        Reading { stop, thread }
    }

    fn goes_on(&self) -> bool {
        let thread = self.thread.as_ref();
        thread.is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Half a kilobyte after each pause, where the window is 1000 bytes.
fn drip(h2: &H2, pause: u64) -> Reading {
    Reading::start(h2.download("/hoge/big.cgi"), Duration::from_millis(pause))
}

fn slow_streams_are_ended_while_workers_of_http2_are_short(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(
            "IPLimitMinRate 20000 after=1s window=4s busy=75%
             <Location /clock>
                 IPLimitMinRate 20000 after=4s window=5s
             </Location>
             <Location /fuga>
                 IPLimitMinRate off
             </Location>",
        )
        .start();
    let gate: Gate = httpd.gate("events");
    let [a, b, c, d] = [2, 3, 4, 5].map(|n| {
        let client = httpd.client(&format!("127.0.0.{n}"));
        client.h2_with_window(1000)
    });
    let (slowest, slower) = (drip(&a, 4000), drip(&b, 1000));
    let_it_look(&httpd, "127.0.1.1");
    assert_eq!(cut(&httpd), [""; 0], "2 of 4 are held");
    assert!(slowest.goes_on() && slower.goes_on());
    // With these all four are held, and whoever comes now has to wait.
    let events = a.download("/hoge/hold.cgi?events");
    let slow = drip(&c, 60);
    assert_eq!(d.status("/fuga/small.txt"), 200);
    // Two are ended, and the clock: then it is below the mark.
    httpd.wait_for(|gauge| gauge.number("cut_too_slow") == 3);
    assert!(httpd.gauge().busy() <= 8);
    let_it_look(&httpd, "127.0.1.2");
    assert_eq!(cut(&httpd), ["2", "3"], "2 of 4 are held again");
    // The first has yet to read up to where its stream was reset.
    assert!(slow.goes_on());
    wait_until(DEADLINE, || if slower.goes_on() { Err(()) } else { Ok(()) });
    drop(gate);
    assert_eq!(events.finish().text(), "started\nended\n");
    drop((slow, slowest, a, b, c, d));
    let gauge = httpd.wait_for_quiet();
    assert_eq!(
        (gauge.number("cut_too_slow"), gauge.number("faults")),
        (4, 0)
    );
}

fn dry_run_tells_of_streams_that_would_be_ended(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(
            "IPLimitDryRun On
             IPLimitMinRate 20000 after=1s window=1s busy=75%
             <Location /clock>
                 IPLimitDryRun Off
                 IPLimitMinRate 20000 after=3s window=2s
             </Location>",
        )
        .big_script("hoge/some.cgi", 1 << 20)
        .start();
    let clients = [2, 3, 4, 5].map(|n| httpd.client(&format!("127.0.0.{n}")).h2());
    let stalled = |n: usize| clients[n].download("/hoge/some.cgi");
    let (first, second) = (stalled(0), stalled(1));
    let_it_look(&httpd, "127.0.1.1");
    assert_eq!(first.finish().body.len(), 1 << 20);
    let others = [second, stalled(2), stalled(3)];
    let_it_look(&httpd, "127.0.1.2");
    for stream in others {
        assert_eq!(stream.finish().body.len(), 1 << 20);
    }
    let line = format!("{CUT}client 127.0.0.");
    let lines = httpd.wait_for_lines(DEADLINE, &line, 3);
    for line in &lines {
        assert!(
            line.contains(" would be cut (dry run): too slow: "),
            "{line}"
        );
    }
    // The first had an end of its own when no more than two of four were held.
    assert_eq!(cut(&httpd), ["3", "4", "5"]);
}

fn streams_that_last_too_long_are_ended_while_workers_of_http2_are_short(mpm: Mpm) {
    let httpd = over_http2(mpm)
        .conf(
            "IPLimitMaxTime 5s busy=75%
             <Location /clock>
                 IPLimitMaxTime 7s
             </Location>",
        )
        .big_script("hoge/long.cgi", 1 << 40)
        .start();
    let clients = [2, 3, 4].map(|n| httpd.client(&format!("127.0.0.{n}")).h2());
    let read = |n: usize| {
        let stream = clients[n].download("/hoge/long.cgi");
        Reading::start(stream, Duration::from_millis(10))
    };
    let old = [read(0), read(1)];
    let_it_look(&httpd, "127.0.1.1");
    assert!(old.iter().all(Reading::goes_on), "2 of 4 are held");
    assert_eq!(cut(&httpd), [""; 0]);
    let young = read(2);
    let line = format!("{CUT}client 127.0.0.");
    let lines = httpd.wait_for_lines(DEADLINE, &line, 2);
    for line in &lines {
        assert!(line.contains(" cut: held for "), "{line}");
    }
    let_it_look(&httpd, "127.0.1.2");
    assert_eq!(cut(&httpd), ["2", "3"], "1 of 4 is held");
    assert!(young.goes_on());
}
