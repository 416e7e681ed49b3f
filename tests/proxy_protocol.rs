//! Behind the PROXY protocol: the client is the one that the protocol tells, and rules about
//! connections wait for the first request, which they answer.

#![cfg(feature = "httpd")]

mod support;

use std::io::Read;
use std::time::Instant;

use support::{
    A_SECOND, Client, Connection, Httpd, Mpm, Setup, before, in_time, on_every_mpm, wait_until,
};

on_every_mpm!(
    key_is_the_address_that_the_protocol_tells,
    connection_is_refused_at_its_first_request,
    refused_connection_gets_the_error_document,
    dry_run_serves_what_it_would_refuse,
    rule_about_requests_counts_the_told_address,
);

const RULE: &str = "MaxConnPerIP@server";

/// At the second port the PROXY protocol is spoken; the balancer's own address is spared.
fn behind_a_balancer(mpm: Mpm) -> Setup {
    let setup = Httpd::on(mpm).load(&["remoteip"]).expect_log("AH03492");
    setup.expect_refusals().conf(
        "IPLimitExempt 127.0.0.1 127.0.0.99
         Listen 127.0.0.1:${PORT2}
         <VirtualHost *:${PORT2}>
             ServerName localhost
             RemoteIPProxyProtocol On
         </VirtualHost>",
    )
}

fn from(httpd: &Httpd, told: &str) -> Client {
    httpd
        .client("127.0.0.1")
        .at_port(httpd.port2())
        .through_proxy_protocol(told)
}

#[track_caller]
fn served(client: &Client) -> Connection {
    let mut connection = client.connect();
    assert_eq!(connection.get("/hoge/small.txt").status, 200);
    connection
}

fn key_is_the_address_that_the_protocol_tells(mpm: Mpm) {
    let httpd = behind_a_balancer(mpm)
        .conf("MaxConnPerIP 1 count=connections")
        .start();
    let _one = served(&from(&httpd, "198.51.100.1"));
    let _other = served(&from(&httpd, "198.51.100.2"));
    let _v6 = served(&from(&httpd, "2001:db8:0:1::1"));
    let gauge = httpd.gauge();
    for key in ["198.51.100.1", "198.51.100.2", "2001:db8:0:1::/64"] {
        assert_eq!(gauge.count_of(RULE, key), 1, "{key}: {gauge:?}");
    }
    assert_eq!(gauge.total(), 3, "{gauge:?}");
    // The same network, and so the same client.
    let refused = from(&httpd, "2001:db8:0:1:f::2").get("/hoge/small.txt");
    assert_eq!(refused.status, 503);
    drop(_v6);
    httpd.wait_for(|gauge| gauge.total() == 2);
    served(&from(&httpd, "2001:db8:0:1:f::2"));
}

fn connection_is_refused_at_its_first_request(mpm: Mpm) {
    let httpd = behind_a_balancer(mpm)
        .conf("MaxConnPerIP 1 count=connections\nIPLimitRetryAfter 7s")
        .conf("CustomLog ${TMP}/variables \"%>s %{LIMITIP}e %{LIMITIP_STATUS}e %{LIMITIP_RULE}e %{LIMITIP_COUNT}e %{LIMITIP_LIMIT}e\"")
        .start();
    let client = from(&httpd, "198.51.100.1");
    let _first = served(&client);
    let mut second = client.connect();
    second.send(second.request("POST", "/hoge/hello.cgi", "Content-Length: 1000000\r\n"));
    let refused = second.response();
    assert_eq!(
        (
            refused.status,
            refused.header("connection"),
            refused.header("retry-after"),
            refused.header("cache-control"),
        ),
        (503, Some("close"), Some("7"), Some("no-store")),
        "{refused:?}"
    );
    assert!(
        !matches!(second.reader().read(&mut [0]), Ok(1..)),
        "it goes on"
    );
    let line = httpd.wait_for_log("limitipconn(101): ").pop();
    let said = "client 198.51.100.1 refused: too many connections from this host: 2/1, \
                rule MaxConnPerIP@server";
    assert!(
        line.as_ref().is_some_and(|line| line.ends_with(said)),
        "{line:?}"
    );
    let variables = httpd.dir().join("variables");
    let all = wait_until(support::DEADLINE, || {
        let text = std::fs::read_to_string(&variables).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("503"));
        line.map(str::to_owned).ok_or(text.clone())
    });
    assert_eq!(all, "503 1 REJECTED MaxConnPerIP@server 2 1");
    assert_eq!(httpd.gauge().refused(RULE), 1);
}

/// The page that says so is neither counted nor refused.
fn refused_connection_gets_the_error_document(mpm: Mpm) {
    let httpd = behind_a_balancer(mpm)
        .file("busy.html", "come back later\n")
        .conf("MaxConnPerIP 1 count=connections\nErrorDocument 503 /busy.html")
        .start();
    let client = from(&httpd, "198.51.100.1");
    let first = served(&client);
    let refused = client.get("/hoge/small.txt");
    assert_eq!(
        (refused.status, refused.text().as_str()),
        (503, "come back later\n")
    );
    drop(first);
    httpd.wait_for(|gauge| gauge.total() == 0);
    assert_eq!(client.status("/hoge/small.txt"), 200);
}

fn dry_run_serves_what_it_would_refuse(mpm: Mpm) {
    let httpd = behind_a_balancer(mpm)
        .conf("MaxConnPerIP 1 count=connections\nIPLimitDryRun On")
        .start();
    let client = from(&httpd, "198.51.100.1");
    let _first = served(&client);
    let mut second = served(&client);
    assert_eq!(second.get("/fuga/small.txt").status, 200);
    let lines = httpd.wait_for_log("limitipconn(101): ");
    let said = "client 198.51.100.1 would be refused (dry run): \
                too many connections from this host: 2/1, rule MaxConnPerIP@server";
    assert!(lines.len() == 1 && lines[0].ends_with(said), "{lines:?}");
}

fn rule_about_requests_counts_the_told_address(mpm: Mpm) {
    let httpd = behind_a_balancer(mpm)
        .conf("MaxConnPerIP 2 count=requests")
        .start();
    let client = from(&httpd, "198.51.100.1");
    let _held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(from(&httpd, "198.51.100.2").status("/hoge/small.txt"), 200);
}

/// Every stream of a refused HTTP/2 connection is refused; the count is one.
#[test]
fn streams_that_come_at_once_ask_once() {
    let httpd = behind_a_balancer(Mpm::Event)
        .load(&["http2"])
        .conf("Protocols h2c http/1.1\nH2Direct On\nMaxConnPerIP 2 count=connections")
        .start();
    let client = from(&httpd, "198.51.100.1");
    let first = served(&client);
    let mut h2 = client.connect();
    h2.send(streams(&[1, 3, 5, 7]));
    httpd.wait_for(|gauge| gauge.count_of(RULE, "198.51.100.1") == 2);
    assert_eq!(client.status("/hoge/small.txt"), 503);
    drop(h2);
    httpd.wait_for(|gauge| gauge.count_of(RULE, "198.51.100.1") == 1);
    drop(first);
    httpd.wait_for(|gauge| gauge.total() == 0);
    assert_eq!(httpd.gauge().refused(RULE), 1);
}

/// Streams that come while the first of them still asks are refused with it.
#[test]
fn no_stream_of_a_refused_connection_is_served() {
    let httpd = behind_a_balancer(Mpm::Event)
        .load(&["http2"])
        .env("LIMITIPCONN_SLOW_STEPS", "2000")
        .conf("Protocols h2c http/1.1\nH2Direct On\nMaxConnPerIP 1 count=connections")
        .start();
    let client = from(&httpd, "198.51.100.1");
    let _first = served(&client);
    for _ in 0..20 {
        in_time(|| {
            let mut h2 = client.connect();
            let asked = Instant::now();
            h2.send(streams(&[1, 3, 5, 7, 9, 11, 13, 15]));
            let statuses = [(); 8].map(|()| first_byte_of_headers(&mut h2));
            // They wait no longer for the first.
            before(asked + A_SECOND)?;
            // A fully indexed field: ":status: 200" is number 8 of HPACK's table.
            assert!(!statuses.contains(&0x88), "{statuses:x?}");
            Some(())
        });
    }
}

/// HTTP/2's preface, SETTINGS, and GET / on these streams: indexed :method GET, :scheme http,
/// :path /, and a literal :authority.
fn streams(numbers: &[u8]) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for number in numbers {
        bytes.extend([0, 0, 6, 1, 5, 0, 0, 0, *number]);
        bytes.extend([0x82, 0x86, 0x84, 0x41, 1, b'x']);
    }
    bytes
}

/// The first field of the next answer's headers, changes of the table's size left out.
fn first_byte_of_headers(connection: &mut Connection) -> u8 {
    const HEADERS: u8 = 1;
    loop {
        let mut head = [0; 9];
        let reader = connection.reader();
        reader.read_exact(&mut head).expect("a frame of HTTP/2");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut frame = vec![0; length as usize];
        reader.read_exact(&mut frame).expect("a whole frame");
        if head[3] == HEADERS {
            let field = frame.iter().find(|byte| **byte >> 5 != 1);
            return *field.expect("a field");
        }
    }
}
