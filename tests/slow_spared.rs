//! Who is never cut: whoever takes more than the minimum, and whoever waits for the server
//! and not the server for it.
//!
//! They last as long as they do in life, so all of them share a server and run side by side.

#![cfg(feature = "httpd")]

mod support;

// Each of its users has its own part of it.
#[allow(dead_code)]
#[path = "slow/readers.rs"]
mod readers;
#[path = "slow/source.rs"]
mod source;

use std::io::Write;
use std::time::{Duration, Instant};

use readers::{Reader, cut_lines, pass, small_pool};
use source::Source;
use support::{Backend, Client, Httpd, Mpm, on_mpms, sleep_until};

on_mpms!([prefork Prefork, event Event] nobody_is_cut_who_is_not_too_slow);

/// Ten bytes every two seconds, for a minute.
const DRIPS: &str = "#!/bin/sh
printf 'Content-Type: text/plain\\n\\n'
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
    echo 'ten bytes'
    sleep 2
done
";

fn nobody_is_cut_who_is_not_too_slow(mpm: Mpm) {
    let backend = Backend::start();
    let httpd = Httpd::on(mpm)
        .load(&["proxy", "proxy_http", "proxy_wstunnel"])
        .conf(small_pool(mpm))
        .backend(&backend)
        .conf(&Source::start().conf())
        .conf(
            "IPLimitMinRate 500 after=3s window=4s
             <Location /default>
                 IPLimitMinRate 1000
             </Location>
             <Location /busy>
                 IPLimitMinRate 5000 after=5s window=5s busy=90%
             </Location>
             <Location /pauses>
                 IPLimitMinRate 500 after=3s window=10s
             </Location>
             <Location /up>
                 IPLimitMinRate 1000 after=5s window=5s
             </Location>
             ProxyPass /app http://127.0.0.1:${SOURCE}
             ProxyPass /ws ws://127.0.0.1:${BACKEND}/ws",
        )
        .file("default/3mb.bin", vec![b'x'; 3_000_000])
        .file("default/700kb.bin", vec![b'x'; 700_000])
        .file("busy/100kb.bin", vec![b'x'; 100_000])
        .file("pauses/150kb.bin", vec![b'x'; 150_000])
        .script("hoge/drips.cgi", DRIPS)
        .script("up/takes.cgi", TAKES)
        .start();
    let client = |n: usize| httpd.client(&format!("127.0.1.{n}"));
    std::thread::scope(|scope| {
        for n in 1..=5 {
            let client = client(n);
            scope.spawn(move || thirty_kilobytes_a_second(&client));
        }
        scope.spawn(|| too_slow_but_workers_are_free(&client(6)));
        scope.spawn(|| script_drips(&client(7)));
        scope.spawn(|| stream_of_events(&client(8)));
        scope.spawn(|| long_poll(&client(9)));
        scope.spawn(|| idle_tunnel(&client(10)));
        scope.spawn(|| slow_upload(&client(11), "PUT"));
        scope.spawn(|| slow_upload(&client(12), "POST"));
        scope.spawn(|| pauses_shorter_than_the_window(&client(13)));
        scope.spawn(|| player_of_sound(&client(14)));
    });
    assert_eq!(cut_lines(&httpd), []);
    let gauge = httpd.wait_for_quiet();
    assert_eq!(gauge.number("cut_too_slow"), 0);
}

/// A hundred seconds of it, so that forty are judged.
fn thirty_kilobytes_a_second(client: &Client) {
    let ended = Reader::start(client, "/default/3mb.bin", 30_000).finish();
    assert_eq!(ended.bytes, 3_000_000);
    assert!(ended.took > Duration::from_secs(90), "{ended:?}");
}

/// It takes what it plays, through the buffers that every program has: the kernel tells us of
/// what it took in pieces of 64 kilobytes.
fn player_of_sound(client: &Client) {
    let ended = Reader::start(client, "/default/700kb.bin", 8000).finish();
    assert_eq!(ended.bytes, 700_000);
}

/// C25, below the mark; tests/slow_pressure.rs is above it.
fn too_slow_but_workers_are_free(client: &Client) {
    let client = client.clone().with_tiny_buffer();
    let ended = Reader::start(&client, "/busy/100kb.bin", 2000).finish();
    assert_eq!(ended.bytes, 100_000);
    assert!(ended.took > Duration::from_secs(40), "{ended:?}");
}

fn script_drips(client: &Client) {
    let response = client.get("/hoge/drips.cgi");
    assert_eq!(response.text(), "ten bytes\n".repeat(30));
}

fn stream_of_events(client: &Client) {
    let response = client.get("/app/drops?15");
    assert_eq!(response.text(), "data: hello\n\n".repeat(15));
}

fn long_poll(client: &Client) {
    assert_eq!(client.get("/app/late?20").text(), "ok\n");
}

/// C23: an idle tunnel is never cut.
fn idle_tunnel(client: &Client) {
    let mut tunnel = client.websocket("/ws");
    tunnel.echoes("before");
    // Twice the time of the defence.
    pass(2 * (3 + 4 + 1));
    tunnel.echoes("after");
}

/// Says how much it got.
const TAKES: &str = "#!/bin/sh
got=$(wc -c)
printf 'Content-Type: text/plain\\n\\n%s\\n' \"$got\"
";

/// C26: slow uploads.
/// Sixty seconds of it.
fn slow_upload(client: &Client, method: &str) {
    const ALL: usize = 1_200_000;
    let mut connection = client.connect();
    let length = format!("Content-Length: {ALL}\r\nConnection: close\r\n");
    connection.send(connection.request(method, "/up/takes.cgi", &length));
    let start = Instant::now();
    for n in 1..=ALL / 2000 {
        connection.stream().write_all(&[b'x'; 2000]).expect("send");
        sleep_until(start + Duration::from_millis(100 * n as u64));
    }
    let response = connection.response();
    assert_eq!(
        (response.status, response.text().trim()),
        (200, ALL.to_string().as_str())
    );
}

/// Nothing for four seconds, then ten kilobytes at once.
fn pauses_shorter_than_the_window(client: &Client) {
    let client = client.clone().with_tiny_buffer();
    let mut connection = client.connect();
    connection.send(connection.request("GET", "/pauses/150kb.bin", "Connection: close\r\n"));
    let head = connection.head();
    assert_eq!(head.status, 200);
    for _ in 0..15 {
        pass(4);
        let mut piece = vec![0; 10_000];
        std::io::Read::read_exact(connection.reader(), &mut piece).expect("read");
    }
}
