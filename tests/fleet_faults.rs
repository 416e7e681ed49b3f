//! Redis that is out of reach: whatever is wrong with it is one clear message and the failure
//! mode, never a 500 and never a stall.

#![cfg(feature = "redis")]

mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use support::{DEADLINE, Gauge, Httpd, Mpm, Redis, Setup, Value, wait_until};

/// In the line that says that it is out of reach, and in the one that ends it.
const DOWN: &str = "limitipconn(601): ";
const UP: &str = "limitipconn(602): ";

/// For servers that answer, be it with an error.
const PATIENT: &str = "timeout=5s connect=5s";

/// No bound is looked at closer than this: the machine may be loaded. If each of the questions
/// below waited for as long as [`PATIENT`] says it would be longer.
const SLACK: Duration = Duration::from_secs(30);

fn server(url: &str, options: &str) -> Setup {
    Httpd::on(Mpm::Event)
        .expect_refusals()
        .expect_log(DOWN)
        .expect_log(UP)
        .conf(&format!("IPLimitRedis {url} {options}"))
        .conf(
            "<Location /hoge>
                 MaxConnPerIP 2 scope=location shared
             </Location>
             <Location /fuga>
                 MaxRatePerIP 2/h shared
             </Location>",
        )
}

/// Nobody listens there, and nobody else can meanwhile.
fn refusing() -> (Socket, String) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
        .unwrap();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    (socket, format!("redis://127.0.0.1:{port}"))
}

#[track_caller]
fn is_degraded(gauge: &Gauge, failure: &str) {
    let shared = &gauge["shared"];
    assert_eq!(shared["degraded"], true, "{gauge:?}");
    assert_eq!(shared["failure"], failure, "{gauge:?}");
}

/// Local limits hold, one message tells why, and nobody gets a 500 or waits for long.
#[track_caller]
fn limits_locally(httpd: &Httpd, failure: &str, says: &str) {
    let client = httpd.client("127.0.0.2");
    let start = Instant::now();
    let held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    let refused = client.get("/hoge/small.txt");
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (503, Some("5"))
    );
    for expected in [200, 200, 429, 429] {
        assert_eq!(client.status("/fuga/small.txt"), expected);
    }
    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
    // Known to all a moment after the first is answered.
    httpd.wait_for(|gauge| gauge["shared"]["degraded"] == true);
    is_degraded(&httpd.gauge(), failure);
    let lines = httpd.wait_for_log(DOWN);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains(says) && lines[0].contains("limit by this server's own counts"),
        "{}",
        lines[0]
    );
    drop(held);
    httpd.wait_for(|gauge| gauge.total() == 0);
}

#[test]
fn refused_connection_is_a_server_that_cannot_be_reached() {
    let (_socket, url) = refusing();
    let httpd = server(&url, PATIENT).start();
    limits_locally(&httpd, "unreachable", "cannot be reached");
}

#[test]
fn open_limits_nobody_and_counts_on() {
    let (_socket, url) = refusing();
    let httpd = server(&url, &format!("{PATIENT} on-failure=open")).start();
    let client = httpd.client("127.0.0.2");
    assert_eq!(client.status("/hoge/small.txt"), 200);
    httpd.wait_for(|gauge| gauge["shared"]["degraded"] == true);
    let held = [(); 5].map(|()| client.hold("/hoge/hold.cgi"));
    for _ in 0..4 {
        assert_eq!(client.status("/fuga/small.txt"), 200);
    }
    let gauge = httpd.gauge();
    assert_eq!(
        gauge.count_of("MaxConnPerIP@/hoge", "127.0.0.2"),
        5,
        "{gauge:?}"
    );
    assert_eq!(gauge["shared"]["on_failure"], "open");
    drop(held);
    let lines = httpd.wait_for_log(DOWN);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("limit nobody"), "{}", lines[0]);
}

#[test]
fn closed_refuses_everybody_and_says_why() {
    let (_socket, url) = refusing();
    let httpd = server(&url, &format!("{PATIENT} on-failure=closed")).start();
    let client = httpd.client("127.0.0.2");
    for place in ["/hoge/small.txt", "/fuga/small.txt"] {
        let refused = client.get(place);
        assert_eq!(refused.status, 503, "{place}: {refused:?}");
        assert!(
            refused.header("retry-after").is_some(),
            "{place}: {refused:?}"
        );
    }
    // What is not shared is not concerned.
    assert_eq!(client.status("/small.txt"), 200);
    let lines = httpd.wait_for_log("the shared counts are out of reach");
    assert!(lines[0].contains("rule MaxConnPerIP@/hoge"), "{}", lines[0]);
    assert!(httpd.wait_for_log(DOWN)[0].contains("refuse everybody"));
}

#[test]
fn replica_takes_no_writes() {
    let (_socket, url) = refusing();
    let primary = url.rsplit(':').next().unwrap().to_owned();
    let redis = Redis::with(&["--replicaof", "127.0.0.1", &primary]);
    let httpd = server(&redis.url(), PATIENT).start();
    limits_locally(&httpd, "read-only", "takes no writes");
}

#[test]
fn full_redis_is_out_of_memory() {
    let redis = Redis::with(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]);
    let httpd = server(&redis.url(), PATIENT).start();
    // A place is taken even so, since its script first gives back; a rate is not.
    assert_eq!(httpd.client("127.0.0.3").status("/fuga/small.txt"), 200);
    limits_locally(&httpd, "out-of-memory", "out of memory");
}

#[test]
fn errors_are_told_as_they_are() {
    let redis = Redis::with(&["--rename-command", "EVALSHA", ""]);
    let httpd = server(&redis.url(), PATIENT).start();
    limits_locally(&httpd, "error", "unknown command");
    // What it does it does for probes, too, and stays out of reach.
    let removals = || match redis.ask(&["INFO", "commandstats"]) {
        Value::Text(stats) => {
            let calls = stats.split("cmdstat_zrem:calls=").nth(1);
            let calls = calls.and_then(|rest| rest.split(',').next());
            calls.map_or(0, |calls| calls.parse::<u32>().expect("a number"))
        }
        other => panic!("{other:?}"),
    };
    let before = removals();
    wait_until(DEADLINE, || match removals() {
        now if now >= before + 2 => Ok(()),
        now => Err(now),
    });
    is_degraded(&httpd.gauge(), "error");
    assert_eq!(httpd.log_lines(UP), Vec::<String>::new());
}

#[test]
fn missing_and_wrong_passwords_are_told_without_the_password() {
    let redis = Redis::with(&["--requirepass", "s3cret"]);
    let port = redis.port();
    for url in [
        format!("redis://127.0.0.1:{port}"),
        format!("redis://:wr0ng@127.0.0.1:{port}"),
    ] {
        let httpd = server(&url, PATIENT).start();
        limits_locally(&httpd, "password", "look at password-file= or at the URL");
        assert!(
            !httpd.error_log().contains("wr0ng"),
            "{}",
            httpd.error_log()
        );
    }
}

#[test]
fn somebody_elses_http_server_is_no_redis() {
    let other = Httpd::on(Mpm::Event).without_module().start();
    let httpd = server(&format!("redis://127.0.0.1:{}", other.port()), PATIENT).start();
    limits_locally(&httpd, "not-redis", "is not a Redis or Valkey");
}

/// A real one that reads its data, slowly.
#[test]
fn loading_redis_is_waited_for_by_nobody() {
    let mut redis = Redis::with(&["--rdbcompression", "no"]);
    let value = "x".repeat(2000);
    let keys: Vec<String> = (0..3000).map(|key| key.to_string()).collect();
    let sets: Vec<[&str; 3]> = keys.iter().map(|key| ["SET", key, &value]).collect();
    let sets: Vec<&[&str]> = sets.iter().map(|words| &words[..]).collect();
    redis.ask_all(&sets);
    redis.ask(&["SAVE"]);
    // A tenth of a second for each key, five minutes, and it answers between any two.
    let slowly = ["--key-load-delay", "100000"];
    redis.restart_with(
        &[
            &slowly[..],
            &["--loading-process-events-interval-bytes", "1024"],
        ]
        .concat(),
    );
    let httpd = server(&redis.url(), PATIENT).start();
    limits_locally(&httpd, "loading", "is still loading its data");
}

/// It holds its connections and its port, and answers nobody.
#[test]
fn hung_redis_is_waited_for_once() {
    let redis = Redis::start();
    let httpd = server(&redis.url(), "timeout=300ms connect=300ms lease=1h").start();
    redis.freeze();
    limits_locally(&httpd, "hung", "does not answer in time");
    // By now nobody waits at all, not even for the answer to a probe.
    let client = httpd.client("127.0.0.3");
    let before = httpd.gauge()["shared"]["asked"].clone();
    for _ in 0..50 {
        assert_eq!(client.status("/hoge/small.txt"), 200);
    }
    assert_eq!(httpd.gauge()["shared"]["asked"], before);
    redis.thaw();
    httpd.wait_for(|gauge| gauge["shared"]["degraded"] == false);
    assert_eq!(httpd.wait_for_log(UP).len(), 1);
    // What was asked of the hung server is not held by it for ever.
    wait_until(DEADLINE, || match redis.keys() {
        keys if keys.iter().any(|key| key.starts_with("limitipconn:c")) => Err(keys),
        _ => Ok(()),
    });
}

/// A flapping one: the log stays readable.
#[test]
fn outage_is_told_once_a_minute() {
    let mut redis = Redis::start();
    let httpd = server(&redis.url(), PATIENT).start();
    let client = httpd.client("127.0.0.2");
    let start = Instant::now();
    for _ in 0..3 {
        redis.kill();
        wait_until(DEADLINE, || {
            assert_eq!(client.status("/hoge/small.txt"), 200);
            let gauge = httpd.gauge();
            if gauge["shared"]["degraded"] == true {
                Ok(())
            } else {
                Err(gauge)
            }
        });
        redis.restart();
        httpd.wait_for(|gauge| gauge["shared"]["degraded"] == false);
    }
    let (told, minutes) = (httpd.log_lines(DOWN), start.elapsed().as_secs() / 60);
    assert!(
        (1..=1 + minutes as usize).contains(&told.len()),
        "{told:#?}"
    );
    assert_eq!(httpd.gauge()["shared"]["outages"], 3);
}
