//! Measures on this machine what shared rules cost: the tables of docs/several-servers.md.
//! `cargo run --release --example fleet_waits`

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use support::{Httpd, Mpm, Redis, Value};

/// How long each line is measured.
const TIME: Duration = Duration::from_secs(5);
/// Clients that ask one request after the other.
const CLIENTS: usize = 2;

const NONE: &str = "";
const LOCAL: &str = "MaxConnPerIP 50 scope=location";
const PLACES: &str = "MaxConnPerIP 50 scope=location shared";
const BOTH: &str =
    "MaxConnPerIP 50 scope=location shared\nMaxRatePerIP 100000/s burst=100000 shared";

fn server(redis: &Redis, rules: &str) -> Httpd {
    let shares = match rules.contains("shared") {
        true => format!("IPLimitRedis {}", redis.url()),
        false => String::new(),
    };
    Httpd::on(Mpm::Event)
        .expect_log("limitipconn(60")
        .expect_refusals()
        .conf(&format!("{shares}\n<Location /hoge>\n{rules}\n</Location>"))
        .start()
}

/// How long each request took, while `events` happen at a fifth of the time.
fn waits(httpd: &Httpd, event: impl FnOnce() + Send) -> Vec<Duration> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| {
                scope.spawn(move || {
                    let mut connection = httpd.client(&format!("127.0.0.{}", n + 2)).connect();
                    let mut waits = Vec::new();
                    while start.elapsed() < TIME {
                        let asked = Instant::now();
                        assert_eq!(connection.get("/hoge/small.txt").status, 200);
                        waits.push(asked.elapsed());
                    }
                    waits
                })
            })
            .collect();
        std::thread::sleep(TIME / 5);
        event();
        let all = clients.into_iter().map(|client| client.join());
        all.flat_map(|waits| waits.expect("a client")).collect()
    })
}

fn line(name: &str, mut waits: Vec<Duration>) {
    waits.sort();
    let at = |share: usize| waits[(waits.len() - 1) * share / 1000].as_secs_f64() * 1000.0;
    println!(
        "| {name} | {} | {:.2} | {:.2} | {:.2} | {:.1} |",
        waits.len(),
        at(500),
        at(990),
        at(999),
        at(1000)
    );
}

fn main() {
    println!("| what | requests | p50 ms | p99 ms | p99.9 ms | longest ms |");
    println!("|---|---|---|---|---|---|");
    let mut redis = Redis::start();
    for (name, rules) in [
        ("no rule", NONE),
        ("a rule of this server", LOCAL),
        ("a shared limit", PLACES),
        ("a shared limit and a shared rate", BOTH),
    ] {
        let httpd = server(&redis, rules);
        line(name, waits(&httpd, || {}));
    }
    {
        let httpd = server(&redis, BOTH);
        line(
            "both, Redis is stopped (SIGSTOP) meanwhile",
            waits(&httpd, || redis.freeze()),
        );
        redis.thaw();
    }
    {
        let httpd = server(&redis, BOTH);
        line(
            "both, Redis is killed meanwhile",
            waits(&httpd, || redis.kill()),
        );
    }
    redis.restart();
    sizes(&redis);
}

/// Commands a request, and bytes a key.
fn sizes(redis: &Redis) {
    let httpd = server(redis, BOTH);
    let client = httpd.client("127.0.0.9");
    client.get("/hoge/small.txt");
    let before = redis.info("total_commands_processed");
    const MANY: i64 = 200;
    for _ in 0..MANY {
        client.get("/hoge/small.txt");
    }
    let commands = redis.info("total_commands_processed") - before;
    // Those that the scripts call are counted, too.
    println!(
        "\ncommands a request, those of the scripts included: {}",
        commands / MANY
    );
    for held in [1, 9, 30] {
        let _held: Vec<_> = (0..held).map(|_| client.hold("/hoge/hold.cgi")).collect();
        for key in redis.keys() {
            if let Value::Number(bytes) = redis.ask(&["MEMORY", "USAGE", &key]) {
                println!("{held} held: {} {bytes} bytes", &key[..14]);
            }
        }
        drop(_held);
        httpd.wait_for(|gauge| gauge.total() == 0);
    }
}
