//! Children that are killed while they hold: the parent gives their places back, whatever
//! step the signal hit.

mod support;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::{Client, Held, Httpd, Mpm, Process, Setup, at_once, on_every_mpm, wait_until};

on_every_mpm!(
    killed_children_give_their_places_back,
    places_of_the_living_are_kept_when_others_die,
    storm_of_kills_and_restarts_leaves_nothing,
);

const RULE: &str = "MaxConnPerIP@/hoge";

/// A dead child is noticed up to one second late.
const TWO_SECONDS: Duration = Duration::from_secs(2);

fn three_in_hoge(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .expect_refusals()
        .expect_log("exit signal Killed")
        .expect_log("limitipconn(305): ")
        .big_file("hoge/big.bin", 20 << 20)
        .conf("<Location /hoge>\n MaxConnPerIP 3 scope=location\n</Location>")
}

/// Kills, and waits until they are dead: until then they may still accept.
fn kill(victims: &BTreeSet<Process>) {
    victims.iter().for_each(|child| child.signal(libc::SIGKILL));
    assert!(
        victims
            .iter()
            .all(|child| child.is_gone_within(TWO_SECONDS)),
        "{victims:?} live on"
    );
}

/// The children that carry these responses.
fn children_of(httpd: &Httpd, held: &mut [Held]) -> BTreeSet<Process> {
    held.iter_mut()
        .map(|request| httpd.child_serving(request.connection().local()))
        .collect()
}

fn killed_children_give_their_places_back(mpm: Mpm) {
    let httpd = three_in_hoge(mpm).start();
    let client = httpd.client("127.0.0.2");
    for _ in 0..3 {
        let mut held: Vec<_> = (0..3)
            .map(|_| client.read_slowly("/hoge/big.bin"))
            .collect();
        assert_eq!(client.status("/hoge/small.txt"), 503);
        kill(&children_of(&httpd, &mut held));
        let _next = three_within_two_seconds(&client);
        assert_eq!(client.status("/hoge/small.txt"), 503);
        drop(_next);
        httpd.wait_for(|gauge| gauge.total() == 0);
        let burst = at_once(12, |_| client.try_hold("/hoge/hold.cgi"));
        let admitted = burst.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(admitted, 3, "{:?}", httpd.gauge());
        drop(burst);
        httpd.wait_for(|gauge| gauge.total() == 0);
    }
    let gauge = httpd.gauge();
    assert_eq!(gauge["reaped"]["held"], 9, "{gauge:?}");
    assert_eq!(gauge.number("audit_mismatches"), 0, "{gauge:?}");
}

fn three_within_two_seconds(client: &Client) -> Vec<Held> {
    let start = Instant::now();
    let next = (0..3).map(|_| {
        let left = TWO_SECONDS.saturating_sub(start.elapsed());
        wait_until(left, || client.try_hold("/hoge/hold.cgi"))
    });
    next.collect()
}

fn places_of_the_living_are_kept_when_others_die(mpm: Mpm) {
    let httpd = three_in_hoge(mpm).start();
    let client = httpd.client("127.0.0.2");
    let mut held: Vec<_> = (0..3)
        .map(|_| client.read_slowly("/hoge/big.bin"))
        .collect();
    let children: Vec<_> = held
        .iter_mut()
        .map(|request| httpd.child_serving(request.connection().local()))
        .collect();
    let spared = children[0];
    let victims: BTreeSet<_> = httpd
        .children()
        .into_iter()
        .filter(|child| *child != spared)
        .collect();
    kill(&victims);
    let living = children.iter().filter(|child| **child == spared).count() as u64;
    httpd.wait_for(|gauge| gauge.count_of(RULE, "127.0.0.2") == living);
    assert_eq!(
        held.remove(0).finish().body.len(),
        20 << 20,
        "the spared child goes on"
    );
    httpd.wait_for(|gauge| gauge.count_of(RULE, "127.0.0.2") == living - 1);
}

/// Kill -9, graceful, SIGHUP and (on prefork, where cleanups run in its handler) SIGTERM to
/// children, all under load with several rules a request.
fn storm_of_kills_and_restarts_leaves_nothing(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_log("exit signal Killed")
        .expect_log("limitipconn(305): ")
        .expect_log("AH00045")
        .conf(
            "MaxConnPerIP 40 count=requests
             <Location />
                 MaxConnPerIP 30 scope=vhost
             </Location>
             <Location /hoge>
                 MaxConnPerIP 6 scope=location
             </Location>",
        )
        .start();
    let stop = AtomicBool::new(false);
    let served = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let client = httpd.client(&format!("127.0.0.{}", 2 + n % 2));
            let (stop, served) = (&stop, &served);
            scope.spawn(move || ask_until(&client, stop, served));
        }
        let _stop_in_any_case = StopOnDrop(&stop);
        for round in 0..30 {
            let before = served.load(Ordering::Relaxed);
            match round % 3 {
                0 => victims(&httpd, round)
                    .iter()
                    .for_each(|child| child.signal(libc::SIGKILL)),
                1 => httpd.graceful(),
                _ => httpd.hard_restart(),
            }
            if mpm == Mpm::Prefork {
                victims(&httpd, round)
                    .iter()
                    .for_each(|child| child.signal(libc::SIGTERM));
            }
            wait_until(support::DEADLINE, || {
                let now = served.load(Ordering::Relaxed);
                if now > before + 50 { Ok(()) } else { Err(now) }
            });
        }
    });
    let gauge = httpd.wait_for_quiet();
    println!(
        "{mpm:?}: served {}, reaped {}",
        served.load(Ordering::Relaxed),
        gauge["reaped"]
    );
    assert_eq!(
        (gauge.number("audit_mismatches"), gauge.number("faults")),
        (0, 0),
        "{gauge:?}"
    );
    let client = httpd.client("127.0.0.2");
    let held: Vec<_> = (0..6).map(|_| client.hold("/hoge/hold.cgi")).collect();
    assert_eq!(client.status("/hoge/small.txt"), 503);
    drop(held);
    httpd.wait_for_quiet();
}

/// Half of the children, another half each round.
fn victims(httpd: &Httpd, round: usize) -> Vec<Process> {
    httpd
        .children()
        .into_iter()
        .skip(round / 3 % 2)
        .step_by(2)
        .collect()
}

/// Requests on kept connections, a new one whenever the server broke the last.
fn ask_until(client: &Client, stop: &AtomicBool, served: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut connection) = client.try_connect() else {
            continue;
        };
        while !stop.load(Ordering::Relaxed) {
            let sent = connection.try_send(connection.request("GET", "/hoge/small.txt", ""));
            match sent.and_then(|()| connection.try_response()) {
                Ok(response) => {
                    assert!(matches!(response.status, 200 | 503), "{response:?}");
                    served.fetch_add(1, Ordering::Relaxed);
                    if response.header("connection") == Some("close") {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
    }
}

/// Ends the load also when the storm panics, so that the scope can end.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
