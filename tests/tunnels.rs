//! Tunnels: a WebSocket or a CONNECT holds its place for as long as it is open, in its own
//! rule only.

mod support;

use support::{Backend, Httpd, Mpm, Setup, in_time, on_every_mpm};

on_every_mpm!(
    websockets_count_in_their_own_rule,
    websockets_through_wstunnel_count_too,
    connect_holds_one_place_of_a_proxy_section,
    connect_holds_one_place_of_the_server,
    proxied_requests_hold_their_places,
);

/// Four WebSockets and three pages for each client; the gauge's page is under neither.
const SOCKETS_AND_PAGES: &str = "
<Location />
    MaxConnPerIP 3 count=requests scope=location
</Location>
<Location /ws>
    MaxConnPerIP 4 count=requests scope=location
</Location>";

/// A server in front of a backend, with a lead from /ws and /app to it.
fn in_front_of(backend: &Backend, mpm: Mpm, proxy: &str) -> Setup {
    Httpd::on(mpm)
        .load(&["proxy", "proxy_http"])
        .expect_refusals()
        .backend(backend)
        .conf(proxy)
}

/// C23: four tunnels and three pages at once; the fifth tunnel and the fourth page are refused.
fn sockets_beside_pages(setup: Setup) {
    let httpd = setup
        .conf(SOCKETS_AND_PAGES)
        // A limit as low as that on / is warned about.
        .expect_log("limitipconn(206): ")
        .start();
    let client = httpd.client("127.0.0.2");
    let mut tunnels: Vec<_> = (0..4).map(|_| client.websocket("/ws")).collect();
    let pages = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    let gauge = httpd.gauge();
    let counts =
        ["MaxConnPerIP@/ws", "MaxConnPerIP@/"].map(|rule| gauge.count_of(rule, "127.0.0.2"));
    assert_eq!(counts, [4, 3], "{gauge:?}");

    let refused = client
        .try_websocket("/ws")
        .err()
        .expect("a refusal of the fifth");
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (503, Some("5"))
    );
    assert_eq!(client.status("/hoge/small.txt"), 503);
    let other = httpd.client("127.0.0.3");
    other.websocket("/ws").echoes("another client's\n");
    for tunnel in &mut tunnels {
        tunnel.echoes("still open\n");
    }

    // One closes, one is cut off; both places are free, and are taken again.
    tunnels.pop().into_iter().for_each(drop);
    tunnels.pop().into_iter().for_each(|tunnel| tunnel.reset());
    httpd.wait_for(|gauge| gauge.count_of("MaxConnPerIP@/ws", "127.0.0.2") == 2);
    tunnels.extend([(); 2].map(|()| client.websocket("/ws")));
    assert!(client.try_websocket("/ws").is_err());
    drop(tunnels);
    httpd.wait_for(|gauge| gauge.total() == 3);
    drop(pages);
    httpd.wait_for(|gauge| gauge.total() == 0);
}

fn websockets_count_in_their_own_rule(mpm: Mpm) {
    let backend = Backend::start();
    let proxy = "ProxyPass /ws http://127.0.0.1:${BACKEND}/ws upgrade=websocket";
    sockets_beside_pages(in_front_of(&backend, mpm, proxy));
}

fn websockets_through_wstunnel_count_too(mpm: Mpm) {
    let backend = Backend::start();
    let proxy = "ProxyWebsocketFallbackToProxyHttp Off\nProxyPass /ws ws://127.0.0.1:${BACKEND}/ws";
    sockets_beside_pages(in_front_of(&backend, mpm, proxy).load(&["proxy_wstunnel"]));
}

/// A server that opens tunnels to the backend's port.
fn forward_proxy(backend: &Backend, mpm: Mpm, rules: &str) -> Httpd {
    in_front_of(backend, mpm, "ProxyRequests On\nAllowCONNECT ${BACKEND}")
        .load(&["proxy_connect"])
        .conf(rules)
        .start()
}

/// One tunnel at a time: it holds the only place while it is open, and gives it back.
fn one_tunnel_at_a_time(mpm: Mpm, rules: &str, rule: &str) {
    let backend = Backend::start();
    let httpd = forward_proxy(&backend, mpm, rules);
    let client = httpd.client("127.0.0.2");
    for _ in 0..2 {
        let mut tunnel = client.connect_to(backend.port());
        assert_eq!(tunnel.connection().get("/").text(), "ok\n");
        let gauge = httpd.gauge();
        assert_eq!(gauge.count_of(rule, "127.0.0.2"), 1, "{gauge:?}");
        let refused = client.try_connect_to(backend.port()).err();
        assert_eq!(refused.map(|answer| answer.status), Some(503));
        let mut other = httpd.client("127.0.0.3").connect_to(backend.port());
        assert_eq!(other.connection().get("/").text(), "ok\n");
        assert_eq!(
            tunnel.connection().get("/").text(),
            "ok\n",
            "it is still open"
        );
        drop((tunnel, other));
        httpd.wait_for(|gauge| gauge.total() == 0);
    }
    in_time(|| {
        client.connect_to(backend.port()).reset();
        httpd.within_a_second(|gauge| gauge.total() == 0)
    });
}

fn connect_holds_one_place_of_a_proxy_section(mpm: Mpm) {
    let rules = "<Proxy *>\n MaxConnPerIP 1 count=requests scope=location\n</Proxy>";
    one_tunnel_at_a_time(mpm, rules, "MaxConnPerIP@Proxy:*");
}

fn connect_holds_one_place_of_the_server(mpm: Mpm) {
    let rules = "MaxConnPerIP 1 count=requests";
    one_tunnel_at_a_time(mpm, rules, "requests@server (server level)");
}

fn proxied_requests_hold_their_places(mpm: Mpm) {
    let backend = Backend::start();
    let proxy = "ProxyPass /app http://127.0.0.1:${BACKEND} disablereuse=On";
    let httpd = in_front_of(&backend, mpm, proxy)
        .conf("<Location /app>\n MaxConnPerIP 2 count=requests scope=location\n</Location>")
        .start();
    let client = httpd.client("127.0.0.2");
    let held = [(); 2].map(|()| client.hold("/app/hold"));
    assert_eq!(client.status("/app/page"), 503);
    for request in held {
        assert_eq!(request.finish().text(), "ended\n");
    }
    httpd.wait_for(|gauge| gauge.total() == 0);
    assert_eq!(client.get("/app/page").text(), "ok\n");
}
