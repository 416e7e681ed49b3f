//! Virtual hosts: what they inherit of the main server, and what counts in each alone.

mod support;

use support::{Httpd, Mpm, Setup, on_every_mpm};

on_every_mpm!(
    one_location_in_two_virtual_hosts_is_two_counts,
    location_of_the_main_server_is_one_count_over_all_virtual_hosts,
    scope_vhost_counts_each_virtual_host,
);

/// Two virtual hosts of one name on two ports, each with its lines.
fn two_vhosts(mpm: Mpm, first: &str, second: &str) -> Setup {
    Httpd::on(mpm).expect_refusals().conf(&format!(
        "Listen 127.0.0.1:${{PORT2}}
         <VirtualHost *:${{PORT}}>
             ServerName site.example
             {first}
         </VirtualHost>
         <VirtualHost *:${{PORT2}}>
             ServerName site.example
             {second}
         </VirtualHost>"
    ))
}

fn one_location_in_two_virtual_hosts_is_two_counts(mpm: Mpm) {
    let place = "<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>";
    let httpd = two_vhosts(mpm, place, place).start();
    let first = httpd.client("127.0.0.2");
    let second = first.clone().at_port(httpd.port2());
    let _first = first.hold("/hoge/hold.cgi");
    assert_eq!(
        (
            first.status("/hoge/small.txt"),
            second.status("/hoge/small.txt")
        ),
        (503, 200)
    );
    httpd.wait_for(|gauge| gauge.total() == 1);
    let _second = second.hold("/hoge/hold.cgi");
    assert_eq!(second.status("/hoge/small.txt"), 503);
    let gauge = httpd.gauge();
    let mut vhosts: Vec<_> = gauge
        .rows("counts")
        .map(|row| row["vhost"].to_string())
        .collect();
    vhosts.sort();
    let mut expected = [httpd.port(), httpd.port2()].map(|port| format!("\"site.example:{port}\""));
    expected.sort();
    assert_eq!(vhosts, expected, "{gauge:?}");
}

fn location_of_the_main_server_is_one_count_over_all_virtual_hosts(mpm: Mpm) {
    let httpd = two_vhosts(mpm, "", "")
        .conf("<Location /hoge>\n MaxConnPerIP 2 scope=location\n</Location>")
        .start();
    let first = httpd.client("127.0.0.2");
    let second = first.clone().at_port(httpd.port2());
    let _held = (first.hold("/hoge/hold.cgi"), second.hold("/hoge/hold.cgi"));
    assert_eq!(
        (
            first.status("/hoge/small.txt"),
            second.status("/hoge/small.txt")
        ),
        (503, 503)
    );
    let gauge = httpd.gauge();
    assert_eq!(
        gauge.count_of("MaxConnPerIP@/hoge", "127.0.0.2"),
        2,
        "{gauge:?}"
    );
    assert!(
        gauge.rows("counts").all(|row| row["vhost"].is_null()),
        "{gauge:?}"
    );
}

/// A virtual host inherits the main server's rules, and overrides like with like.
#[test]
fn virtual_host_with_its_own_list_keeps_the_rule() {
    let httpd = two_vhosts(Mpm::Event, "NoIPLimit image/*", "MaxConnPerIP off")
        .conf("MaxConnPerIP 2 count=requests scope=vhost")
        .file("hoge/picture.png", "png")
        .start();
    let first = httpd.client("127.0.0.2");
    let _held = [(); 2].map(|()| first.hold("/hoge/hold.cgi"));
    assert_eq!(first.status("/hoge/small.txt"), 503);
    assert_eq!(first.status("/hoge/picture.png"), 200);
    let second = first.clone().at_port(httpd.port2());
    let _unlimited = [(); 4].map(|()| second.hold("/hoge/hold.cgi"));
    assert_eq!(
        second.status("/hoge/small.txt"),
        200,
        "off lifts the main server's rule here"
    );
}

#[test]
fn virtual_host_has_its_own_number() {
    let httpd = two_vhosts(Mpm::Event, "MaxConnPerIP 3 count=requests scope=vhost", "")
        .conf("MaxConnPerIP 1 count=requests scope=vhost")
        .start();
    let first = httpd.client("127.0.0.2");
    let second = first.clone().at_port(httpd.port2());
    let _held = [(); 3].map(|()| first.hold("/hoge/hold.cgi"));
    assert_eq!(first.status("/hoge/small.txt"), 503);
    let _other = second.hold("/hoge/hold.cgi");
    assert_eq!(second.status("/hoge/small.txt"), 503);
    let lines = httpd.wait_for_log("limitipconn(101): ");
    assert!(
        lines[0].contains("3, rule MaxConnPerIP@vhost, "),
        "{}",
        lines[0]
    );
    assert!(
        lines[0].contains(&format!("vhost site.example:{}, ", httpd.port())),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].contains("2/1, rule MaxConnPerIP@server, "),
        "{}",
        lines[1]
    );
    assert!(
        lines[1].contains(&format!("vhost site.example:{}, ", httpd.port2())),
        "{}",
        lines[1]
    );
}

/// One rule on paper, but each virtual host counts for itself.
fn scope_vhost_counts_each_virtual_host(mpm: Mpm) {
    let httpd = two_vhosts(mpm, "", "")
        .conf("MaxConnPerIP 1 scope=vhost")
        .start();
    let first = httpd.client("127.0.0.2");
    let second = first.clone().at_port(httpd.port2());
    let _held = (first.hold("/hoge/hold.cgi"), second.hold("/hoge/hold.cgi"));
    assert_eq!(
        (
            first.status("/fuga/small.txt"),
            second.status("/fuga/small.txt")
        ),
        (503, 503)
    );
}
