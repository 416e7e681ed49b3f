//! Which addresses make one client: prefixes, the forms in which proxies write them, and the
//! TCP peer where only that shall count.

#![cfg(feature = "httpd")]

mod support;

use std::process::Command;

use support::{Client, Httpd, Mpm, on_every_mpm};

on_every_mpm!(
    addresses_of_one_network_are_one_client,
    rules_may_count_the_tcp_peer,
    ipv6_and_ipv4_of_one_listener_are_told_apart,
);

const WIDE: &str = "requests@server (server level)";

/// A client behind the proxy 127.0.0.1.
fn told(httpd: &Httpd, forwarded_for: &str) -> Client {
    httpd
        .client("127.0.0.1")
        .header("X-Forwarded-For", forwarded_for)
}

/// C16: the holder of a network does not get a place for each of its addresses.
fn addresses_of_one_network_are_one_client(mpm: Mpm) {
    let (one, two, next) = ("2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:2::1");
    for (said, key, two_gets, v4_key, v4_neighbour_gets) in [
        ("", "2001:db8:0:1::/64", 503, "198.51.100.1", 200),
        (
            "IPLimitPrefix 32 64",
            "2001:db8:0:1::/64",
            503,
            "198.51.100.1",
            200,
        ),
        (
            "IPLimitPrefix 32 128",
            "2001:db8:0:1::1",
            200,
            "198.51.100.1",
            200,
        ),
        (
            "IPLimitPrefix 24 56",
            "2001:db8::/56",
            503,
            "198.51.100.0/24",
            503,
        ),
    ] {
        let httpd = Httpd::on(mpm)
            .load(&["remoteip"])
            .expect_refusals()
            .conf("RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1")
            .conf("MaxConnPerIP 1 count=requests")
            .conf(said)
            .start();
        let _held = told(&httpd, one).hold("/hoge/hold.cgi");
        let _v4 = told(&httpd, "198.51.100.1").hold("/hoge/hold.cgi");
        let gauge = httpd.gauge();
        assert_eq!(gauge.count_of(WIDE, key), 1, "{said}: {gauge:?}");
        assert_eq!(gauge.count_of(WIDE, v4_key), 1, "{said}: {gauge:?}");
        assert_eq!(told(&httpd, one).status("/hoge/small.txt"), 503, "{said}");
        let status = told(&httpd, two).status("/hoge/small.txt");
        assert_eq!(status, two_gets, "{said}");
        let status = told(&httpd, "198.51.100.2").status("/hoge/small.txt");
        assert_eq!(status, v4_neighbour_gets, "{said}");
        if said != "IPLimitPrefix 24 56" {
            assert_eq!(told(&httpd, next).status("/hoge/small.txt"), 200, "{said}");
        }
        // The log has the full address.
        let lines = httpd.log_lines("limitipconn(101): ");
        let full = format!("client {one} refused: ");
        assert!(lines.iter().any(|line| line.contains(&full)), "{lines:?}");
    }
}

/// `IPLimitAddress connection`: whatever proxies say.
fn rules_may_count_the_tcp_peer(mpm: Mpm) {
    for reads in [
        "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1",
        "IPLimitClientHeader X-Forwarded-For trusted=127.0.0.1",
    ] {
        for rule in ["count=requests", "count=workers"] {
            let httpd = Httpd::on(mpm)
                .load(&["remoteip"])
                .expect_refusals()
                .conf("IPLimitAddress connection")
                .conf(reads)
                .conf(&format!("MaxConnPerIP 2 {rule}"))
                .start();
            let _held = ["198.51.100.1", "198.51.100.2"]
                .map(|client| told(&httpd, client).hold("/hoge/hold.cgi"));
            assert_eq!(told(&httpd, "198.51.100.3").status("/hoge/small.txt"), 503);
            assert_eq!(httpd.client("127.0.0.2").status("/hoge/small.txt"), 200);
            let line = httpd.wait_for_log("limitipconn(101): ").pop();
            assert!(
                line.as_ref()
                    .is_some_and(|line| line.contains("client 127.0.0.1 refused: ")),
                "{line:?}"
            );
        }
    }
}

/// At a listener for both families IPv4 comes as ::ffff:a.b.c.d, and is IPv4 all the same.
fn ipv6_and_ipv4_of_one_listener_are_told_apart(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf("Listen [::]:${PORT2}")
        .conf("MaxConnPerIP 1 count=requests\nIPLimitExempt 127.0.0.9")
        .start();
    let at_both = |client: &str| httpd.client(client).at_port(httpd.port2());
    let (v6, v4) = (at_both("::1"), at_both("127.0.0.2"));
    let _v6 = v6.hold("/hoge/hold.cgi");
    let _v4 = v4.hold("/hoge/hold.cgi");
    let gauge = httpd.gauge();
    for key in ["::/64", "127.0.0.2"] {
        assert_eq!(gauge.count_of(WIDE, key), 1, "{key}: {gauge:?}");
    }
    assert_eq!(
        [&v6, &v4].map(|client| client.status("/small.txt")),
        [503; 2]
    );
    assert_eq!(at_both("127.0.0.3").status("/small.txt"), 200);
    let elsewhere = httpd.client("127.0.0.2");
    assert_eq!(elsewhere.status("/small.txt"), 503, "it is one client");
    let spared = at_both("127.0.0.9");
    let _spared = [(); 2].map(|()| spared.hold("/hoge/hold.cgi"));
    let lines = httpd.log_lines("limitipconn(101): ");
    for name in ["client ::1 refused: ", "client 127.0.0.2 refused: "] {
        assert!(lines.iter().any(|line| line.contains(name)), "{lines:?}");
    }
}

/// However a proxy writes it.
#[test]
fn forms_of_an_address_are_one_client() {
    const FORMS: [(&str, &str); 12] = [
        ("198.51.100.1", "198.51.100.1"),
        ("198.51.100.1:4711", "198.51.100.1"),
        ("\"198.51.100.1\"", "198.51.100.1"),
        ("\"198.51.100.1:4711\"", "198.51.100.1"),
        ("  198.51.100.1\t", "198.51.100.1"),
        ("::ffff:198.51.100.1", "198.51.100.1"),
        ("[::ffff:198.51.100.1]:80", "198.51.100.1"),
        ("2001:db8:0:1::7", "2001:db8:0:1::/64"),
        ("[2001:DB8:0:1::7]", "2001:db8:0:1::/64"),
        ("[2001:db8:0:1::7]:443", "2001:db8:0:1::/64"),
        ("\"[2001:db8:0:1::7]:443\"", "2001:db8:0:1::/64"),
        ("2001:db8:0:1::7, 198.51.100.8:99, ", "198.51.100.8"),
    ];
    for header in ["X-Forwarded-For", "X-Real-IP", "CF-Connecting-IP"] {
        let httpd = Httpd::on(Mpm::Event)
            .conf("MaxConnPerIP 1 count=requests")
            .conf(&format!("IPLimitClientHeader {header} trusted=127.0.0.1"))
            .start();
        for (written, key) in FORMS {
            let client = httpd.client("127.0.0.1").header(header, written);
            let held = client.hold("/hoge/hold.cgi");
            let gauge = httpd.gauge();
            assert_eq!(gauge.count_of(WIDE, key), 1, "{written}: {gauge:?}");
            drop(held);
            httpd.wait_for(|gauge| gauge.total() == 0);
        }
    }
}

/// mod_remoteip takes what it has read out of the header: what is left is a forgery.
#[test]
fn rest_of_a_header_that_mod_remoteip_has_read_is_not_read() {
    let httpd = Httpd::on(Mpm::Event)
        .load(&["remoteip"])
        .expect_refusals()
        .conf(
            "RemoteIPHeader X-Forwarded-For
             RemoteIPInternalProxy 127.0.0.1
             IPLimitClientHeader X-Forwarded-For trusted=127.0.0.0/8,198.51.100.0/24
             MaxConnPerIP 1 count=requests",
        )
        .start();
    let _held = told(&httpd, "203.0.113.1, 198.51.100.1").hold("/hoge/hold.cgi");
    let gauge = httpd.gauge();
    assert_eq!(gauge.count_of(WIDE, "198.51.100.1"), 1, "{gauge:?}");
    assert_eq!(
        told(&httpd, "203.0.113.2, 198.51.100.1").status("/small.txt"),
        503
    );
    // Whom mod_remoteip does not know, we may trust.
    let ours = httpd
        .client("127.0.0.8")
        .header("X-Forwarded-For", "203.0.113.3, 198.51.100.1");
    let _ours = ours.hold("/hoge/hold.cgi");
    let gauge = httpd.gauge();
    assert_eq!(gauge.count_of(WIDE, "203.0.113.3"), 1, "{gauge:?}");
}

/// The streams of one HTTP/2 connection of a proxy are as many clients as it tells.
#[test]
fn streams_of_a_proxy_are_their_clients() {
    let httpd = Httpd::on(Mpm::Event)
        .load(&["http2"])
        .expect_refusals()
        .conf("Protocols h2c http/1.1\nH2Direct On")
        .conf("IPLimitClientHeader X-Forwarded-For trusted=127.0.0.1")
        .conf("MaxConnPerIP 1 count=requests")
        .start();
    let _held = told(&httpd, "198.51.100.1").hold("/hoge/hold.cgi");
    let ask = |client: &str| {
        let url = format!("http://127.0.0.1:{}/hoge/small.txt", httpd.port());
        let said = Command::new("curl")
            .args([
                "-s",
                "--http2-prior-knowledge",
                "-w",
                "%{http_code} %{http_version}",
            ])
            .args(["-o", "/dev/null", "-H"])
            .args([format!("X-Forwarded-For: {client}"), url])
            .output()
            .expect("run curl; install curl");
        String::from_utf8_lossy(&said.stdout).into_owned()
    };
    assert_eq!(ask("198.51.100.1"), "503 2");
    assert_eq!(ask("198.51.100.2"), "200 2");
}

/// Each virtual host may trust its own proxies.
#[test]
fn virtual_hosts_trust_their_own_proxies() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "MaxConnPerIP 1 count=requests
             IPLimitClientHeader X-Forwarded-For trusted=127.0.0.1
             <VirtualHost *:${PORT}>
                 ServerName inherits.example
             </VirtualHost>
             <VirtualHost *:${PORT}>
                 ServerName own.example
                 IPLimitClientHeader X-Real-IP trusted=127.0.0.8
             </VirtualHost>",
        )
        .start();
    let says = |host: &str, peer: &str| {
        httpd
            .client(peer)
            .header("Host", host)
            .header("X-Forwarded-For", "198.51.100.1")
            .header("X-Real-IP", "198.51.100.2")
    };
    for (host, peer, key) in [
        ("inherits.example", "127.0.0.1", "198.51.100.1"),
        ("inherits.example", "127.0.0.8", "127.0.0.8"),
        ("own.example", "127.0.0.1", "127.0.0.1"),
        ("own.example", "127.0.0.8", "198.51.100.2"),
    ] {
        let _held = says(host, peer).hold("/hoge/hold.cgi");
        let gauge = httpd.gauge();
        assert_eq!(gauge.count_of(WIDE, key), 1, "{host} {peer}: {gauge:?}");
        drop(_held);
        httpd.wait_for(|gauge| gauge.total() == 0);
    }
}
