//! Children that are killed while they hold: the parent gives their places back, whatever
//! step the signal hit.

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use support::{
    Client, DEADLINE, Gauge, Held, Httpd, Load, Mpm, Process, Setup, at_once, in_time,
    on_every_mpm, under_load, wait_until,
};

on_every_mpm!(
    killed_children_give_their_places_back,
    places_of_the_living_are_kept_when_others_die,
    storm_of_kills_and_restarts_leaves_nothing,
);

const RULE: &str = "MaxConnPerIP@/hoge";

/// A dead child is noticed up to one second late.
const TWO_SECONDS: Duration = Duration::from_secs(2);

/// At a hard restart worker and event close the sockets of their threads while these free them.
const HTTPDS_OWN_CRASH: &str = "exit signal Segmentation fault";

/// How long a storm goes on until it has hit something.
const FIVE_MINUTES: Duration = Duration::from_secs(300);

/// Prefork makes one child a second at first: it has enough left when some are killed.
fn three_in_hoge(mpm: Mpm) -> Setup {
    let pool = match mpm {
        Mpm::Prefork => "StartServers 12\nMinSpareServers 8",
        Mpm::Worker | Mpm::Event => "",
    };
    Httpd::on(mpm)
        .conf(pool)
        .expect_refusals()
        .expect_kills()
        .expect_log("limitipconn(305): ")
        .big_file("hoge/big.bin", 20 << 20)
        .conf("<Location /hoge>\n MaxConnPerIP 3 scope=location\n</Location>")
}

/// Kills, and waits until they are dead: until then they may still accept.
fn kill(victims: &BTreeSet<Process>) {
    victims.iter().for_each(|child| child.signal(libc::SIGKILL));
    assert!(
        victims.iter().all(|child| child.is_gone_within(DEADLINE)),
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
    let mut killed = 0;
    for _ in 0..3 {
        in_time(|| {
            let mut held: Vec<_> = (0..3)
                .map(|_| client.read_slowly("/hoge/big.bin"))
                .collect();
            assert_eq!(client.status("/hoge/small.txt"), 503);
            kill(&children_of(&httpd, &mut held));
            killed += 3;
            let start = Instant::now();
            let next = three_next(&client);
            let is_in_time = start.elapsed() < TWO_SECONDS;
            assert_eq!(client.status("/hoge/small.txt"), 503);
            drop(next);
            httpd.wait_for(|gauge| gauge.total() == 0);
            let burst = at_once(12, |_| client.try_hold("/hoge/hold.cgi"));
            let admitted = burst.iter().filter(|answer| answer.is_ok()).count();
            assert_eq!(admitted, 3, "{:?}", httpd.gauge());
            drop(burst);
            httpd.wait_for(|gauge| gauge.total() == 0);
            is_in_time.then_some(())
        });
    }
    let gauge = httpd.gauge();
    assert_eq!(gauge["reaped"]["held"], killed, "{gauge:?}");
    assert_eq!(gauge.number("audit_mismatches"), 0, "{gauge:?}");
}

/// As soon as there is room for them.
fn three_next(client: &Client) -> Vec<Held> {
    let next = (0..3).map(|_| wait_until(DEADLINE, || client.try_hold("/hoge/hold.cgi")));
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
/// children, under load with two places a request; then more kills, until one of them hit a
/// child in the middle of a step: without that the storm proves nothing about the steps.
fn storm_of_kills_and_restarts_leaves_nothing(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .env("LIMITIPCONN_SLOW_STEPS", "20")
        .expect_refusals()
        .expect_kills()
        .expect_log("limitipconn(305): ")
        // Slow steps can make an insert wait longer than it may.
        .expect_log("limitipconn(308): ")
        .expect_log(HTTPDS_OWN_CRASH)
        .conf(
            "MaxConnPerIP 40 count=requests
             <Location /hoge>
                 MaxConnPerIP 6 scope=location
             </Location>",
        )
        .start();
    let ask =
        |n: usize, load: &Load| ask_on(&httpd.client(&format!("127.0.0.{}", 2 + n % 3)), load);
    let (rounds, served) = under_load(12, ask, |load| {
        for round in 0..30 {
            match round % 3 {
                0 => half_of_the_children(&httpd, round)
                    .iter()
                    .for_each(|child| child.signal(libc::SIGKILL)),
                1 => httpd.graceful(),
                _ => httpd.hard_restart_under_load(),
            }
            if mpm == Mpm::Prefork {
                half_of_the_children(&httpd, round)
                    .iter()
                    .for_each(|child| child.signal(libc::SIGTERM));
            }
            load.wait_for_more(50);
        }
        let mut rounds = 30;
        let patience = Instant::now();
        // Only debug builds know slow steps; at full speed one kill in hundreds hits one.
        while cfg!(debug_assertions) && in_the_middle(&httpd.wait_for(|_| true)) == 0 {
            assert!(
                patience.elapsed() < FIVE_MINUTES,
                "{rounds} rounds hit no step: they prove nothing"
            );
            half_of_the_children(&httpd, 0)
                .iter()
                .for_each(|child| child.signal(libc::SIGKILL));
            load.wait_for_more(50);
            rounds += 1;
        }
        (rounds, load.served())
    });
    let gauge = httpd.wait_for_quiet();
    let crashes = httpd.log_lines(HTTPDS_OWN_CRASH).len();
    let allowed = if mpm == Mpm::Prefork { 0 } else { 10 };
    assert!(
        crashes <= allowed,
        "{crashes} crashes: {}",
        httpd.error_log()
    );
    println!(
        "{mpm:?}: {rounds} rounds, {served} answers, reaped {}",
        gauge["reaped"]
    );
    assert_eq!(
        (gauge.number("audit_mismatches"), gauge.number("faults")),
        (0, 0),
        "{gauge:?}"
    );
    for address in ["127.0.0.2", "127.0.0.3", "127.0.0.4"] {
        let client = httpd.client(address);
        let _held: Vec<_> = (0..6).map(|_| client.hold("/hoge/hold.cgi")).collect();
        assert_eq!(client.status("/hoge/small.txt"), 503, "{address}");
    }
    httpd.wait_for_quiet();
}

/// Leases that the parent found in the middle of a step when it reaped.
fn in_the_middle(gauge: &Gauge) -> u64 {
    let states = ["pending", "releasing", "released"].map(|state| gauge["reaped"][state].as_u64());
    states
        .into_iter()
        .map(|number| number.expect("a number of reaped leases"))
        .sum()
}

/// Every other child, starting with another one every third round.
fn half_of_the_children(httpd: &Httpd, round: usize) -> Vec<Process> {
    httpd
        .children()
        .into_iter()
        .skip(round / 3 % 2)
        .step_by(2)
        .collect()
}

/// Requests on kept connections, a new one whenever the server broke the last.
fn ask_on(client: &Client, load: &Load) {
    while load.goes_on() {
        let Ok(mut connection) = client.try_connect() else {
            continue;
        };
        while load.goes_on() {
            let sent = connection.try_send(connection.request("GET", "/hoge/small.txt", ""));
            let Ok(response) = sent.and_then(|()| connection.try_response()) else {
                break;
            };
            assert!(matches!(response.status, 200 | 503), "{response:?}");
            load.note_answer();
            if response.header("connection") == Some("close") {
                break;
            }
        }
    }
}
