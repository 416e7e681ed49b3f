//! `%{IPLIMIT_CLIENT}` in httpd's own expressions: the client's address as rules about addresses
//! see it, cut to IPLimitPrefix; an address without a length, so that `-ipmatch` takes it.

mod support;

use support::{Client, Httpd, Mpm, Setup, on_every_mpm};

on_every_mpm!(
    headers_and_conditions_know_the_client,
    client_is_the_one_that_mod_remoteip_tells,
    client_is_the_peer_where_the_configuration_says_so,
    condition_opens_a_place_of_its_own,
);

const SHOWN: &str = "Header always set X-Client \"expr=%{IPLIMIT_CLIENT}\"";

fn showing(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .load(&["headers", "remoteip"])
        .expect_refusals()
        .conf(SHOWN)
}

#[track_caller]
fn client_of(client: &Client, path: &str) -> String {
    let answer = client.get(path);
    answer.header("x-client").expect("the header").to_owned()
}

/// Where rules are and where none are, on a page of an error, too.
fn headers_and_conditions_know_the_client(mpm: Mpm) {
    for rule in ["", "MaxConnPerIP 50 count=requests"] {
        let httpd = showing(mpm)
            .expect_log("limitipconn(201): ")
            .conf(
                "Listen [::1]:${PORT}
                 IPLimitPrefix 24 64
                 <If \"%{IPLIMIT_CLIENT} == '127.0.3.0'\">
                     Header always set X-Net three
                 </If>
                 <If \"%{iplimit_client} -ipmatch '::/64'\">
                     Header always set X-Net six
                 </If>",
            )
            .conf(rule)
            .start();
        for (address, key, net) in [
            ("127.0.0.2", "127.0.0.0", None),
            ("127.0.3.4", "127.0.3.0", Some("three")),
            ("::1", "::", Some("six")),
        ] {
            let client = httpd.client(address);
            for path in ["/hoge/small.txt", "/hoge/nothing", "/hoge/hello.cgi"] {
                let answer = client.get(path);
                assert_eq!(
                    answer.header("x-client"),
                    Some(key),
                    "{rule}: {address} {path}"
                );
                assert_eq!(answer.header("x-net"), net, "{rule}: {address} {path}");
            }
        }
    }
}

fn client_is_the_one_that_mod_remoteip_tells(mpm: Mpm) {
    let httpd = showing(mpm)
        .conf(
            "RemoteIPHeader X-Forwarded-For
             RemoteIPInternalProxy 127.0.0.1
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>",
        )
        .start();
    let from = |address: &str| httpd.client("127.0.0.1").header("X-Forwarded-For", address);
    for (address, key) in [
        ("198.51.100.7", "198.51.100.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("203.0.113.9, 198.51.100.8", "198.51.100.8"),
    ] {
        assert_eq!(client_of(&from(address), "/hoge/small.txt"), key);
    }
    // The page of a refusal is the client's, too.
    let one = from("2001:db8:1:2::1");
    let _held = one.hold("/hoge/hold.cgi");
    let refused = from("2001:db8:1:2::2").get("/hoge/small.txt");
    assert_eq!(
        (refused.status, refused.header("x-client")),
        (503, Some("2001:db8:1:2::"))
    );
}

fn client_is_the_peer_where_the_configuration_says_so(mpm: Mpm) {
    let httpd = showing(mpm)
        .conf(
            "RemoteIPHeader X-Forwarded-For
             RemoteIPInternalProxy 127.0.0.1
             IPLimitAddress connection
             MaxConnPerIP 50 count=requests",
        )
        .start();
    let proxied = httpd
        .client("127.0.0.1")
        .header("X-Forwarded-For", "198.51.100.7");
    assert_eq!(client_of(&proxied, "/small.txt"), "127.0.0.1");
}

/// A rule in an `<If>` about the client.
fn condition_opens_a_place_of_its_own(mpm: Mpm) {
    let httpd = showing(mpm)
        .conf(
            "<Location /hoge>
                 <If \"%{IPLIMIT_CLIENT} == '127.0.0.2'\">
                     MaxConnPerIP 1 scope=location
                 </If>
             </Location>",
        )
        .start();
    let (two, three) = (httpd.client("127.0.0.2"), httpd.client("127.0.0.3"));
    let _held = [two.hold("/hoge/hold.cgi"), three.hold("/hoge/hold.cgi")];
    assert_eq!(two.status("/hoge/small.txt"), 503);
    assert_eq!(three.status("/hoge/small.txt"), 200);
}
