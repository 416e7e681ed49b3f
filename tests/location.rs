//! The main job: a number of requests in one place, counted exactly, free again at once.

mod support;

use support::{Gauge, Httpd, Mpm, Setup, in_time, on_every_mpm};

on_every_mpm!(
    fourth_request_is_refused,
    hoge_does_not_see_fuga,
    another_address_has_its_own_count,
    places_are_free_within_a_second,
    slow_readers_count_with_sendfile,
    slow_readers_count_without_sendfile,
    aborted_response_frees_its_place_within_a_second,
    closed_connection_frees_its_place_within_a_second,
    pipelined_requests_count_one_after_the_other,
    idle_keepalives_hold_no_place,
    every_method_counts,
    ipv6_peer_counts_by_its_network,
    without_a_rule_nothing_is_refused,
);

const RULE: &str = "MaxConnPerIP@/hoge";

/// What only the end of an idle connection would free comes too late.
fn three_in_hoge(mpm: Mpm) -> Setup {
    Httpd::on(mpm).expect_refusals().conf(
        "KeepAliveTimeout 300
         <Location /hoge>
             MaxConnPerIP 3 scope=location
         </Location>",
    )
}

fn fourth_request_is_refused(mpm: Mpm) {
    let httpd = three_in_hoge(mpm).start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(httpd.gauge().count_of(RULE, "127.0.0.2"), 3);
    for path in [
        "/hoge/hold.cgi",
        "/hoge/hello.cgi",
        "/hoge/small.txt",
        "/hoge/",
        "/hoge/nothing",
    ] {
        assert_eq!(client.status(path), 503, "{path}");
    }
    let gauge = httpd.gauge();
    assert_eq!(
        (gauge.count_of(RULE, "127.0.0.2"), gauge.refused(RULE)),
        (3, 5),
        "{gauge:?}"
    );
}

fn hoge_does_not_see_fuga(mpm: Mpm) {
    let httpd = three_in_hoge(mpm).start();
    let client = httpd.client("127.0.0.2");
    let _elsewhere = [(); 5].map(|()| client.hold("/fuga/hold.cgi"));
    let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    assert_eq!(client.status("/small.txt"), 200);
    assert_eq!(
        client.status("/hogehoge"),
        404,
        "a section covers whole path segments"
    );
}

fn another_address_has_its_own_count(mpm: Mpm) {
    let httpd = three_in_hoge(mpm).start();
    let (two, three) = (httpd.client("127.0.0.2"), httpd.client("127.0.0.3"));
    let _held = [(); 3].map(|()| two.hold("/hoge/hold.cgi"));
    assert_eq!(two.status("/hoge/small.txt"), 503);
    let _others = [(); 3].map(|()| three.hold("/hoge/hold.cgi"));
    assert_eq!(three.status("/hoge/small.txt"), 503);
    let gauge = httpd.gauge();
    assert_eq!(
        (
            gauge.count_of(RULE, "127.0.0.2"),
            gauge.count_of(RULE, "127.0.0.3")
        ),
        (3, 3),
        "{gauge:?}"
    );
}

fn places_are_free_within_a_second(mpm: Mpm) {
    let httpd = three_in_hoge(mpm).start();
    let client = httpd.client("127.0.0.2");
    for _ in 0..5 {
        in_time(|| {
            let mut held = [(); 3].map(|()| Some(client.hold("/hoge/hold.cgi")));
            assert_eq!(client.status("/hoge/small.txt"), 503);
            assert_eq!(held[1].take().expect("held").finish().text(), "ended\n");
            let one = httpd.within_a_second(|gauge| gauge.count_of(RULE, "127.0.0.2") == 2);
            assert_eq!(client.status("/hoge/small.txt"), 200);
            drop(held);
            one.and(httpd.within_a_second(|gauge| gauge.total() == 0))
        });
    }
}

fn slow_readers_count(mpm: Mpm, sendfile: &str) {
    let httpd = three_in_hoge(mpm)
        .conf(sendfile)
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    let mut held: Vec<_> = (0..3)
        .map(|_| client.read_slowly("/hoge/big.bin"))
        .collect();
    assert_eq!(client.status("/hoge/big.bin"), 503);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    assert_eq!(httpd.gauge().count_of(RULE, "127.0.0.2"), 3);
    let whole = held.pop().expect("held").finish();
    assert_eq!(whole.body.len(), 20 << 20);
    httpd.wait_for(|gauge| gauge.count_of(RULE, "127.0.0.2") == 2);
    assert_eq!(client.status("/hoge/small.txt"), 200);
}

fn slow_readers_count_with_sendfile(mpm: Mpm) {
    slow_readers_count(mpm, "EnableSendfile On");
}

fn slow_readers_count_without_sendfile(mpm: Mpm) {
    slow_readers_count(mpm, "EnableSendfile Off");
}

fn aborted_response_frees_its_place_within_a_second(mpm: Mpm) {
    let httpd = three_in_hoge(mpm)
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    in_time(|| {
        let mut held: Vec<_> = (0..3)
            .map(|_| client.read_slowly("/hoge/big.bin"))
            .collect();
        assert_eq!(client.status("/hoge/small.txt"), 503);
        let mut seen = Some(());
        for left in (0..3).rev() {
            held.pop().expect("held").reset();
            let is_left = |gauge: &Gauge| gauge.count_of(RULE, "127.0.0.2") == left;
            seen = seen.and(httpd.within_a_second(is_left));
        }
        assert_eq!(client.status("/hoge/small.txt"), 200);
        seen
    });
}

fn closed_connection_frees_its_place_within_a_second(mpm: Mpm) {
    let httpd = three_in_hoge(mpm)
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    in_time(|| {
        let held: Vec<_> = (0..3)
            .map(|_| client.read_slowly("/hoge/big.bin"))
            .collect();
        assert_eq!(client.status("/hoge/small.txt"), 503);
        drop(held);
        httpd.within_a_second(|gauge| gauge.total() == 0)
    });
}

fn pipelined_requests_count_one_after_the_other(mpm: Mpm) {
    let conf =
        "KeepAliveTimeout 300\n<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>";
    let httpd = Httpd::on(mpm).conf(conf).start();
    for path in ["/hoge/hello.cgi", "/hoge/small.txt"] {
        let mut connection = httpd.client("127.0.0.2").connect();
        let five = connection.request("GET", path, "").repeat(5);
        connection.send(five);
        let statuses = [(); 5].map(|()| connection.response().status);
        assert_eq!(statuses, [200; 5], "{path}");
        httpd.wait_for(|gauge| gauge.total() == 0);
    }
    assert_eq!(httpd.gauge().passed(RULE), 10);
}

/// C05: idle keep-alive connections are no requests.
fn idle_keepalives_hold_no_place(mpm: Mpm) {
    let httpd = three_in_hoge(mpm).start();
    let client = httpd.client("127.0.0.2");
    let _idle = [(); 5].map(|()| {
        let mut connection = client.connect();
        assert_eq!(connection.get("/hoge/small.txt").status, 200);
        httpd.wait_for(|gauge| gauge.total() == 0);
        connection
    });
    let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
}

fn every_method_counts(mpm: Mpm) {
    let httpd = three_in_hoge(mpm).start();
    let client = httpd.client("127.0.0.2");
    let ask = |method: &str, more: &str| {
        let mut connection = client.connect();
        connection.send(connection.request(
            method,
            "/hoge/hello.cgi",
            &format!("Connection: close\r\n{more}"),
        ));
        connection.head().status
    };
    assert_eq!(
        (
            ask("HEAD", ""),
            ask("POST", "Content-Length: 0\r\n"),
            ask("OPTIONS", "")
        ),
        (200, 200, 200)
    );
    httpd.wait_for(|gauge| gauge.total() == 0);
    let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(
        (
            ask("HEAD", ""),
            ask("POST", "Content-Length: 0\r\n"),
            ask("OPTIONS", "")
        ),
        (503, 503, 503)
    );
}

fn ipv6_peer_counts_by_its_network(mpm: Mpm) {
    let httpd = three_in_hoge(mpm).conf("Listen [::1]:${PORT}").start();
    let client = httpd.client("::1");
    let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(httpd.client("127.0.0.1").status("/hoge/small.txt"), 200);
    let gauge = httpd.gauge();
    assert_eq!(gauge.count_of(RULE, "::/64"), 3, "{gauge:?}");
    let line = httpd
        .wait_for_log("limitipconn(101): ")
        .pop()
        .expect("a line");
    assert!(
        line.contains("client ::1 refused: "),
        "the whole address: {line}"
    );
}

fn without_a_rule_nothing_is_refused(mpm: Mpm) {
    let httpd = Httpd::on(mpm).expect_log("limitipconn(201): ").start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 8].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 200);
    assert_eq!(httpd.gauge().held(), 0);
}
