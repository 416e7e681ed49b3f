//! `count=workers`: busy workers of one client over the whole server, as mod_limitipconn
//! counts them, but by addresses of our own instead of the scoreboard's texts.

mod support;

use std::io::Read;

use support::{Connection, Gauge, Httpd, Mpm, Setup, on_every_mpm, wait_until};

on_every_mpm!(
    the_classic_counts_the_whole_server,
    images_are_let_through,
    own_request_counts_and_limit_one_admits_one,
    server_rule_counts_workers_everywhere,
    refusal_tells_number_and_limit,
    long_ipv6_addresses_count_by_network,
    host_names_do_not_hide_a_client,
    extended_status_is_not_needed,
    rule_only_in_htaccess_limits,
    idle_keepalives_count_where_they_hold_a_worker,
    half_sent_requests_count_for_their_peer_only,
    stalled_tls_connections_frame_nobody,
);

/// Warned about: the rule stands in a section and counts the whole server.
const WHOLE_SERVER: &str = "limitipconn(205): ";

fn classic(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .expect_refusals()
        .expect_log(WHOLE_SERVER)
        .file("hoge/picture.png", "png")
        .conf(
            "<Location /hoge>
             MaxConnPerIP 3
             NoIPLimit image/*
         </Location>",
        )
}

fn the_classic_counts_the_whole_server(mpm: Mpm) {
    let httpd = classic(mpm).conf("ExtendedStatus On").start();
    let client = httpd.client("127.0.0.2");
    let held = [(); 3].map(|()| client.hold("/fuga/hold.cgi"));
    assert_eq!(
        client.status("/hoge/small.txt"),
        503,
        "the known pitfall: /fuga counts too"
    );
    assert_eq!(client.status("/fuga/small.txt"), 200);
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
    drop(held);
    httpd.wait_for_quiet();
    assert_eq!(client.status("/hoge/small.txt"), 200);
}

fn images_are_let_through(mpm: Mpm) {
    let httpd = classic(mpm).start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(client.status("/hoge/picture.png"), 200);
}

fn own_request_counts_and_limit_one_admits_one(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf("MaxConnPerIP 1")
        .start();
    let client = httpd.client("127.0.0.2");
    for _ in 0..5 {
        httpd.wait_for_quiet();
        let held = client.hold("/hoge/hold.cgi");
        assert_eq!(client.status("/fuga/small.txt"), 503);
        assert_eq!(httpd.client("127.0.0.3").status("/fuga/small.txt"), 200);
        drop(held);
    }
}

fn server_rule_counts_workers_everywhere(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf("MaxConnPerIP 3 scope=server count=workers")
        .start();
    let client = httpd.client("127.0.0.2");
    let _hoge = client.hold("/hoge/hold.cgi");
    let _fuga = client.hold("/fuga/hold.cgi");
    let _root = client.hold("/hold.cgi");
    assert_eq!(client.status("/small.txt"), 503);
    let gauge = httpd.gauge();
    assert_eq!(
        gauge.total(),
        0,
        "workers are counted in the scoreboard, not in the table: {gauge:?}"
    );
}

fn refusal_tells_number_and_limit(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf("MaxConnPerIP 2")
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/fuga/small.txt"), 503);
    let line = httpd
        .wait_for_log("limitipconn(101): ")
        .pop()
        .expect("a line");
    let said = "client 127.0.0.2 refused: too many connections from this host: 3/2, rule MaxConnPerIP@server, ";
    assert!(line.contains(said), "{line}");
}

/// Texts of 31 characters or more are cut in the scoreboard; a /64 is one client.
fn long_ipv6_addresses_count_by_network(mpm: Mpm) {
    let httpd = classic(mpm)
        .load(&["remoteip"])
        .conf("RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.0/8")
        .start();
    let from = |address: &str| httpd.client("127.0.0.1").header("X-Forwarded-For", address);
    let _held = [1, 2, 3]
        .map(|n| from(&format!("2001:db8:aaaa:bbbb:cccc:dddd:eeee:{n}111")).hold("/hoge/hold.cgi"));
    assert_eq!(
        from("2001:db8:aaaa:bbbb:1:2:3:4").status("/hoge/small.txt"),
        503,
        "the same /64"
    );
    assert_eq!(
        from("2001:db8:aaaa:bbbc:cccc:dddd:eeee:1111").status("/hoge/small.txt"),
        200,
        "the next /64"
    );
    assert_eq!(from("198.51.100.7").status("/hoge/small.txt"), 200);
    // The text would say the same as 198.51.100.8 in another spelling.
    let _mapped = [(); 3].map(|()| from("::ffff:198.51.100.8").hold("/hoge/hold.cgi"));
    assert_eq!(from("198.51.100.8").status("/hoge/small.txt"), 503);
}

/// 127.0.0.1 has a name in every hosts file: the scoreboard then shows that name.
fn host_names_do_not_hide_a_client(mpm: Mpm) {
    let httpd = classic(mpm)
        .conf("HostnameLookups On\nExtendedStatus On")
        .start();
    let client = httpd.client("127.0.0.1");
    let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
}

fn extended_status_is_not_needed(mpm: Mpm) {
    let httpd = classic(mpm).conf("ExtendedStatus Off").start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
}

fn rule_only_in_htaccess_limits(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_log("limitipconn(201): ")
        .conf("<Directory ${DOCROOT}>\n AllowOverride Limit\n</Directory>")
        .file("hoge/.htaccess", "MaxConnPerIP 3\n")
        .start();
    let client = httpd.client("127.0.0.2");
    let held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    drop(held);
    httpd.wait_for_quiet();
    let _elsewhere = [(); 3].map(|()| client.hold("/fuga/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
}

/// As in the old module; event keeps idle connections without a worker.
fn idle_keepalives_count_where_they_hold_a_worker(mpm: Mpm) {
    let httpd = classic(mpm)
        .conf("MaxConnPerIP 50 count=connections")
        .start();
    let client = httpd.client("127.0.0.2");
    let idle = [(); 3].map(|()| {
        let mut connection = client.connect();
        assert_eq!(connection.get("/fuga/small.txt").status, 200);
        connection
    });
    let workers = if mpm == Mpm::Event { 1 } else { 4 };
    httpd.wait_for(|gauge| gauge.busy() == workers);
    assert_eq!(
        client.status("/hoge/small.txt"),
        if mpm == Mpm::Event { 200 } else { 503 }
    );
    drop(idle);
    // With event each of them still passes through a worker when it ends.
    httpd.wait_for(|gauge| gauge.total() == 0);
    httpd.wait_for_quiet();
    assert_eq!(client.status("/hoge/small.txt"), 200);
}

/// The classic on a server with sixteen workers that does not grow, so that ten connections meet
/// slots that knew another client.
fn classic_with_sixteen_workers(mpm: Mpm) -> Setup {
    // Where that lasts until the parent looks, it says that there are hardly any left.
    classic(mpm).conf(if mpm == Mpm::Prefork {
        "StartServers 16\nMaxRequestWorkers 16\nMaxSpareServers 16"
    } else {
        "StartServers 1\nMaxRequestWorkers 16"
    })
}

/// Lets 127.0.0.2 sit in fourteen of sixteen slots, so that its address is the last they knew.
fn most_slots_knew_another_client(httpd: &Httpd) {
    let client = httpd.client("127.0.0.2");
    let held = support::at_once(14, |_| client.hold("/fuga/hold.cgi"));
    drop(held);
    httpd.wait_for_quiet();
}

/// How many workers a client holds, as the classic rule sees it.
fn workers_of(gauge: &Gauge, client: &str) -> u64 {
    let mut rules = gauge.rows("rules");
    let rule = rules.find(|row| row["rule"] == "MaxConnPerIP@/hoge");
    let holders = rule.and_then(|rule| rule["busiest"].as_array());
    let mut holders = holders.expect("the rule").iter();
    let found = holders.find(|holder| holder["key"] == client);
    found.map_or(0, |holder| holder["count"].as_u64().expect("a number"))
}

/// Five requests of 127.0.0.2, one after the other, each when the last has left its worker.
#[track_caller]
fn is_never_refused(httpd: &Httpd) {
    for _ in 0..5 {
        // Who is framed holds some for ever.
        httpd.wait_for(|gauge| workers_of(gauge, "127.0.0.2") == 0);
        let client = httpd.client("127.0.0.2");
        assert_eq!(client.status("/hoge/small.txt"), 200, "framed");
    }
}

/// Connections of 127.0.0.66 that send so much and no more.
fn open_ten(httpd: &Httpd, port: u16, opening: &[u8]) -> Vec<Connection> {
    let client = httpd.client("127.0.0.66").at_port(port);
    let mut connections: Vec<_> = (0..10).map(|_| client.connect()).collect();
    connections
        .iter_mut()
        .for_each(|connection| connection.send(opening));
    connections
}

/// As [`open_ten`], and a worker waits on each of them.
fn ten_stalled(httpd: &Httpd, port: u16, opening: &[u8]) -> Vec<Connection> {
    let connections = open_ten(httpd, port, opening);
    httpd.wait_for(|gauge| workers_of(gauge, "127.0.0.66") == 10);
    connections
}

fn half_sent_requests_count_for_their_peer_only(mpm: Mpm) {
    let httpd = classic_with_sixteen_workers(mpm).start();
    most_slots_knew_another_client(&httpd);
    let _stalled = ten_stalled(&httpd, httpd.port(), b"GET /hoge/small.txt HT");
    is_never_refused(&httpd);
    assert_eq!(
        httpd.client("127.0.0.66").status("/hoge/small.txt"),
        503,
        "its own connections count"
    );
}

fn stalled_tls_connections_frame_nobody(mpm: Mpm) {
    let httpd = classic_with_sixteen_workers(mpm)
        .load(&["socache_shmcb", "ssl"])
        .certificate()
        .expect_log("[ssl:warn]")
        .conf(
            "Listen 127.0.0.1:${PORT2}
             <VirtualHost *:${PORT2}>
                 ServerName localhost
                 SSLEngine On
                 SSLCertificateFile ${TMP}/cert.pem
                 SSLCertificateKeyFile ${TMP}/key.pem
             </VirtualHost>",
        )
        .start();
    most_slots_knew_another_client(&httpd);
    let stalled = ten_stalled(&httpd, httpd.port2(), &[0x16, 3, 1, 2, 0, 1, 0]);
    is_never_refused(&httpd);
    assert_eq!(
        httpd.client("127.0.0.66").status("/hoge/small.txt"),
        503,
        "its own connections count"
    );
    drop(stalled);
    // A prefork child that ends in the middle of SSL_free frees twice: mod_ssl's own fault.
    httpd.wait_for_quiet();
}

/// Connections that say HTTP/2 and then no more. Whether they hold a worker is the MPM's affair:
/// worker holds one for half a preface, event for none of it. mod_http2 does not go with prefork.
fn stalled_h2c_connections_frame_nobody_on(mpm: Mpm) {
    let httpd = classic_with_sixteen_workers(mpm)
        .load(&["http2"])
        .conf("Protocols h2c http/1.1\nH2Direct On")
        .start();
    most_slots_knew_another_client(&httpd);
    let half: &[u8] = b"PRI * HTTP/2.0\r\n";
    let mut stalled = if mpm == Mpm::Event {
        open_ten(&httpd, httpd.port(), half)
    } else {
        ten_stalled(&httpd, httpd.port(), half)
    };
    is_never_refused(&httpd);
    for connection in &mut stalled {
        // The rest, an empty SETTINGS frame, and the header of a frame that never comes.
        connection.send(b"\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x20\x01\x05\0\0\0\x01");
        let first = connection.reader().read_exact(&mut [0; 9]);
        first.expect("the header of the server's first frame");
    }
    is_never_refused(&httpd);
}

#[test]
fn stalled_h2c_connections_frame_nobody_on_worker() {
    stalled_h2c_connections_frame_nobody_on(Mpm::Worker);
}

#[test]
fn stalled_h2c_connections_frame_nobody_on_event() {
    stalled_h2c_connections_frame_nobody_on(Mpm::Event);
}

/// A child that only finishes old requests keeps as many threads as it has connections, idle ones
/// too, with status G; what they served last is not theirs any more.
#[test]
fn idle_threads_of_a_finishing_child_frame_nobody() {
    let httpd = classic_with_sixteen_workers(Mpm::Event)
        .load(&["status"])
        // By sendfile event delivers without a worker.
        .conf("EnableMMAP Off\nEnableSendfile On\nAsyncRequestWorkerFactor 16")
        .conf("<Location /server-status>\n SetHandler server-status\n</Location>")
        .big_file("fuga/big.bin", 20 << 20)
        .start();
    let other = httpd.client("127.0.0.3");
    let _downloads: Vec<_> = (0..12)
        .map(|_| other.read_slowly("/fuga/big.bin"))
        .collect();
    most_slots_knew_another_client(&httpd);
    httpd.graceful();
    wait_until(support::DEADLINE, || {
        let page = httpd.client("127.0.0.99").get("/server-status?auto").text();
        let scoreboard = page
            .lines()
            .find_map(|line| line.strip_prefix("Scoreboard: "));
        let finishing = scoreboard.unwrap_or_default().matches('G').count();
        if finishing > 8 { Ok(()) } else { Err(page) }
    });
    is_never_refused(&httpd);
}
