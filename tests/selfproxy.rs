//! A server that proxies to itself (C37): the inner requests all come from loopback, and the
//! front limits the true clients.

mod support;

use support::{Client, Httpd, Mpm, at_once, on_every_mpm};

on_every_mpm!(
    rule_of_the_front_alone_never_refuses_the_server_itself,
    place_of_the_front_alone_never_refuses_the_server_itself,
    rule_over_all_is_lifted_in_the_back,
);

fn front_and_back(mpm: Mpm, server: &str, front: &str, back: &str) -> Httpd {
    Httpd::on(mpm)
        .expect_refusals()
        .proxies_to_itself(front, back)
        .conf(server)
        .start()
}

/// Ten clients hold three each, and each one's fourth is the front's to refuse.
fn three_each_and_no_more(httpd: &Httpd) {
    let clients: Vec<_> = (2..12)
        .map(|n| httpd.client(&format!("127.0.0.{n}")))
        .collect();
    let three = |client: &Client| [(); 3].map(|()| client.hold("/app/hold.cgi"));
    let held = at_once(clients.len(), |n| three(&clients[n]));
    assert!(httpd.log_lines("limitipconn(101): ").is_empty());
    assert_eq!(clients[0].status("/app/small.txt"), 503);
    let lines = httpd.wait_for_log("limitipconn(101): ");
    let front = format!("vhost front.example:{}, ", httpd.port());
    assert!(
        lines.len() == 1
            && lines[0].contains("client 127.0.0.2 refused: ")
            && lines[0].contains(&front),
        "{lines:?}"
    );
    drop(held);
    httpd.wait_for(|gauge| gauge.total() == 0);
    assert_eq!(clients[0].status("/app/small.txt"), 200);
}

fn rule_of_the_front_alone_never_refuses_the_server_itself(mpm: Mpm) {
    let rule = "MaxConnPerIP 3 count=requests scope=vhost";
    three_each_and_no_more(&front_and_back(mpm, "", rule, ""));
}

fn place_of_the_front_alone_never_refuses_the_server_itself(mpm: Mpm) {
    let rule = "<Location /app>\n MaxConnPerIP 3 count=requests scope=location\n</Location>";
    three_each_and_no_more(&front_and_back(mpm, "", rule, ""));
}

/// `off` in the back lifts the server's rule for the inner requests.
fn rule_over_all_is_lifted_in_the_back(mpm: Mpm) {
    let rule = "MaxConnPerIP 3 count=requests scope=vhost";
    three_each_and_no_more(&front_and_back(mpm, rule, "", "MaxConnPerIP off"));
}
