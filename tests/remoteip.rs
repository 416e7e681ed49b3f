//! mod_remoteip: the key is the address that it tells, whichever way it learns it and whether
//! it is loaded before our module or after it.

mod support;

use support::{Client, Httpd, Mpm, Setup, on_every_mpm};

on_every_mpm!(
    forwarded_address_is_the_key_in_either_order_of_modules,
    address_of_the_proxy_protocol_is_the_key_in_either_order_of_modules,
);

/// The server and the directory level, each with two requests at a time.
const RULES: [&str; 2] = [
    "MaxConnPerIP 2 count=requests",
    "<Location /hoge>\n MaxConnPerIP 2 count=requests scope=location\n</Location>",
];

type Load = fn(Setup, &[&str]) -> Setup;

/// The first client's third request is refused, the other client's first is not, and the log
/// names the client, never the proxy.
fn two_each(mpm: Mpm, conf: &str, from: impl Fn(&Httpd, &str) -> Client) {
    let orders: [(&str, Load); 2] = [("before", Setup::load), ("after", Setup::load_after)];
    for (order, load) in orders {
        for rule in RULES {
            let httpd = load(Httpd::on(mpm), &["remoteip"])
                .expect_refusals()
                // The PROXY protocol is enabled.
                .expect_log("AH03492: ")
                .conf(conf)
                .conf(rule)
                .start();
            let one = from(&httpd, "198.51.100.1");
            let _held = [(); 2].map(|()| one.hold("/hoge/hold.cgi"));
            assert_eq!(one.status("/hoge/small.txt"), 503, "{order}: {rule}");
            let other = from(&httpd, "198.51.100.2");
            assert_eq!(other.status("/hoge/small.txt"), 200, "{order}: {rule}");
            let lines = httpd.wait_for_log("limitipconn(101): ");
            assert_eq!(lines.len(), 1, "{order}: {rule}: {lines:?}");
            let named = lines[0].contains("client 198.51.100.1 refused: ");
            assert!(named, "{order}: {rule}: {lines:?}");
        }
    }
}

/// C13: a balancer in front.
fn forwarded_address_is_the_key_in_either_order_of_modules(mpm: Mpm) {
    let conf = "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1";
    two_each(mpm, conf, |httpd, address| {
        httpd.client("127.0.0.1").header("X-Forwarded-For", address)
    });
}

/// The gauge is read without a proxy.
fn address_of_the_proxy_protocol_is_the_key_in_either_order_of_modules(mpm: Mpm) {
    let conf = "RemoteIPProxyProtocol On\nRemoteIPProxyProtocolExceptions 127.0.0.99";
    two_each(mpm, conf, |httpd, address| {
        httpd.client("127.0.0.1").through_proxy_protocol(address)
    });
}
