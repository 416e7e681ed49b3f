//! `for=`: clients of some networks have numbers of their own.

#![cfg(feature = "httpd")]

mod support;

use support::{Client, Configtest, Httpd, Mpm, Setup, on_every_mpm, under_load};

on_every_mpm!(
    clients_of_a_network_have_a_number_of_their_own,
    longest_network_around_a_client_wins,
    new_list_at_a_graceful_keeps_running_counts,
    connections_have_networks_too,
);

const WIDE: &str = "requests@server (server level)";

/// It has exactly so many places in /hoge.
#[track_caller]
fn has_places(client: &Client, number: usize) {
    let held: Vec<_> = (0..number).map(|_| client.hold("/hoge/hold.cgi")).collect();
    assert_eq!(
        client.status("/hoge/small.txt"),
        503,
        "one more than {number}"
    );
    drop(held);
}

/// C18: many people behind one address, at both boundaries.
fn clients_of_a_network_have_a_number_of_their_own(mpm: Mpm) {
    for rules in [
        "<Location /hoge>
             MaxConnPerIP 2 scope=location
             MaxConnPerIP 6 scope=location for=127.0.1.0/24
         </Location>",
        "<Location /hoge>
             MaxConnPerIP 6 for=127.0.1 scope=location
             MaxConnPerIP 2 scope=location
         </Location>",
        "MaxConnPerIP 6 count=requests for=127.0.1.0/255.255.255.0
         MaxConnPerIP 2 count=requests",
        "IPLimitDefaults scope=vhost
         MaxConnPerIP 2
         MaxConnPerIP 6 for=::1,127.0.1.0/24",
        "MaxConnPerIP 2
         MaxConnPerIP 6 for=127.0.1.0/24",
    ] {
        let httpd = Httpd::on(mpm).expect_refusals().conf(rules).start();
        for (client, number) in [
            ("127.0.0.255", 2),
            ("127.0.1.0", 6),
            ("127.0.1.255", 6),
            ("127.0.2.0", 2),
        ] {
            has_places(&httpd.client(client), number);
            httpd.wait_for_quiet();
        }
    }
}

/// In whatever order they are written; `off for=` sets free.
fn longest_network_around_a_client_wins(mpm: Mpm) {
    let rules = [
        "MaxConnPerIP 1 scope=location",
        "MaxConnPerIP 2 scope=location for=127.0.0.0/8",
        "MaxConnPerIP 3 scope=location for=127.0.1.0/24,127.0.9.0/24",
        "MaxConnPerIP 4 scope=location for=127.0.1.7,127.0.9.7",
        "MaxConnPerIP off for=127.0.1.128/25",
    ];
    let section = |rules: Vec<&str>| format!("<Location /hoge>\n{}\n</Location>", rules.join("\n"));
    for conf in [
        section(rules.to_vec()),
        section(rules.into_iter().rev().collect()),
    ] {
        let httpd = Httpd::on(mpm).expect_refusals().conf(&conf).start();
        for (client, number) in [
            ("127.0.0.7", 2),
            ("127.0.1.8", 3),
            ("127.0.9.8", 3),
            ("127.0.1.7", 4),
            ("127.0.9.7", 4),
        ] {
            has_places(&httpd.client(client), number);
            httpd.wait_for(|gauge| gauge.total() == 0);
        }
        let free = httpd.client("127.0.1.200");
        let _held = [(); 6].map(|()| free.hold("/hoge/hold.cgi"));
        assert_eq!(free.status("/hoge/small.txt"), 200);
        assert_eq!(httpd.gauge().total(), 0);
    }
}

/// C18: the list of networks is changed by a graceful under load.
fn new_list_at_a_graceful_keeps_running_counts(mpm: Mpm) {
    let rules = |networks: &str| {
        format!(
            "<Location /hoge>
                 MaxConnPerIP 2 scope=location
                 MaxConnPerIP 6 scope=location for={networks}
             </Location>"
        )
    };
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(&rules("127.0.1.0/24"))
        .start();
    let (guest, other) = (httpd.client("127.0.1.2"), httpd.client("127.0.2.2"));
    let guests = [(); 6].map(|()| guest.hold("/hoge/hold.cgi"));
    let mut others = vec![other.hold("/hoge/hold.cgi"), other.hold("/hoge/hold.cgi")];
    let ask = |n: usize, load: &support::Load| {
        let client = httpd.client(&format!("127.0.3.{n}"));
        while load.goes_on() {
            // A child that ends may close a connection before it has answered.
            if client.try_get("/hoge/small.txt").is_ok() {
                load.note_answer();
            }
        }
    };
    // Whoever is held up while he brings a new key into the table makes others go uncounted.
    for n in 0..3 {
        let client = httpd.client(&format!("127.0.3.{n}"));
        assert_eq!(client.status("/hoge/small.txt"), 200);
    }
    under_load(3, ask, |load| {
        load.wait_for_more(20);
        httpd.rewrite_conf(&rules("127.0.2.0/24"));
        httpd.graceful();
        load.wait_for_more(20);
    });
    assert_eq!(guest.status("/hoge/small.txt"), 503, "6 of now 2");
    others.extend((0..4).map(|_| other.hold("/hoge/hold.cgi")));
    assert_eq!(other.status("/hoge/small.txt"), 503, "6 of now 6");
    let gauge = httpd.wait_for(|gauge| gauge.total() == 12);
    let counts = ["127.0.1.2", "127.0.2.2"].map(|key| gauge.count_of("MaxConnPerIP@/hoge", key));
    assert_eq!(counts, [6, 6], "{gauge:?}");
    drop((guests, others));
    httpd.wait_for(|gauge| gauge.total() == 0);
    has_places(&guest, 2);
    has_places(&other, 6);
}

fn connections_have_networks_too(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf("AcceptFilter http none\nIPLimitExempt 127.0.0.99")
        .conf("MaxConnPerIP 1 count=connections\nMaxConnPerIP 2 count=connections for=127.0.1.0/24")
        .start();
    for (client, number) in [("127.0.0.2", 1), ("127.0.1.2", 2)] {
        let client = httpd.client(client);
        let mut open: Vec<_> = (0..number).map(|_| client.connect()).collect();
        for connection in &mut open {
            assert_eq!(connection.get("/hoge/small.txt").status, 200);
        }
        assert!(client.try_get("/hoge/small.txt").is_err());
    }
    let lines = httpd.log_lines("limitipconn(101): ");
    for end in [
        "2/1, rule MaxConnPerIP@server",
        "3/2, rule MaxConnPerIP@server for=127.0.1.0/24",
    ] {
        assert!(lines.iter().any(|line| line.ends_with(end)), "{lines:?}");
    }
}

fn on_event(conf: &str) -> Setup {
    Httpd::on(Mpm::Event).expect_refusals().conf(conf)
}

/// A section that says the directive has only what it says itself.
#[test]
fn rule_of_a_section_replaces_all_that_it_inherits() {
    let httpd = on_event(
        "<Location /hoge>
             MaxConnPerIP 1 scope=location
             MaxConnPerIP 2 scope=location for=127.0.1.0/24
         </Location>
         <Location /hoge/hold.cgi>
             MaxConnPerIP 3 scope=location for=127.0.2.0/24
         </Location>",
    )
    .start();
    for client in ["127.0.0.2", "127.0.1.2"] {
        let client = httpd.client(client);
        let _held = [(); 4].map(|()| client.hold("/hoge/hold.cgi"));
        assert_eq!(client.status("/hoge/hello.cgi"), 200);
    }
    let client = httpd.client("127.0.2.2");
    let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.get("/hoge/hold.cgi").status, 503);
    drop(_held);
    httpd.wait_for_quiet();

    let httpd = on_event(
        "<Location /hoge>
             MaxConnPerIP 1 scope=location for=127.0.1.0/24
             MaxConnPerIP 1 scope=location
         </Location>
         <Location /hoge/hold.cgi>
             MaxConnPerIP off
         </Location>",
    )
    .start();
    for client in ["127.0.0.2", "127.0.1.2"] {
        let client = httpd.client(client);
        let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    }
}

/// A virtual host overrides like with like as a whole, too.
#[test]
fn rule_of_a_virtual_host_replaces_all_of_the_main_server() {
    let httpd = on_event(
        "MaxConnPerIP 1 count=requests for=127.0.1.0/24
         <VirtualHost *:${PORT}>
             ServerName inherits.example
         </VirtualHost>
         <VirtualHost *:${PORT}>
             ServerName own.example
             MaxConnPerIP 3 count=requests
         </VirtualHost>",
    )
    .start();
    let inherits = httpd.client("127.0.1.2").header("Host", "inherits.example");
    has_places(&inherits, 1);
    httpd.wait_for(|gauge| gauge.total() == 0);
    let own = httpd.client("127.0.1.2").header("Host", "own.example");
    has_places(&own, 3);
}

/// Number and log name the rule that was for this client.
#[test]
fn names_tell_whom_a_rule_is_for() {
    let httpd = on_event(
        "MaxConnPerIP 2 count=requests
         MaxConnPerIP 1 count=requests for=127.0.1.0/24,10.0.0.0/8,::1,192.0.2.7
         CustomLog ${TMP}/variables \"%>s %{LIMITIP_RULE}e\"",
    )
    .start();
    let (guest, other) = (httpd.client("127.0.1.2"), httpd.client("127.0.0.2"));
    let guests = guest.hold("/hoge/hold.cgi");
    let others = [(); 2].map(|()| other.hold("/hoge/hold.cgi"));
    for client in [&guest, &other] {
        assert_eq!(client.status("/hoge/small.txt"), 503);
    }
    let name = "MaxConnPerIP@server for=127.0.1.0/24,10.0.0.0/8,::1,...";
    let lines = httpd.log_lines("limitipconn(101): ");
    assert!(
        lines[0].contains(&format!("2/1, rule {name}, vhost localhost:")),
        "{lines:?}"
    );
    assert!(
        lines[1].contains("3/2, rule MaxConnPerIP@server, vhost localhost:"),
        "{lines:?}"
    );
    let gauge = httpd.gauge();
    for (rule, passed) in [(name, 1), ("MaxConnPerIP@server", 2)] {
        assert_eq!(gauge.refused(rule), 1, "{gauge:?}");
        assert!(gauge.passed(rule) >= passed, "{gauge:?}");
        let limit = gauge.rows("rules").find(|row| row["rule"] == rule);
        let limit = limit.map(|row| row["limit"].as_u64());
        assert_eq!(limit, Some(Some(passed)), "{gauge:?}");
    }
    let counts = ["127.0.1.2", "127.0.0.2"].map(|key| gauge.count_of(WIDE, key));
    assert_eq!(counts, [1, 2], "{gauge:?}");
    drop((guests, others));
    httpd.wait_for_quiet();
    let said = std::fs::read_to_string(httpd.dir().join("variables")).expect("an access log");
    assert!(said.contains(&format!("503 {name}\n")), "{said}");
    assert!(said.contains("503 MaxConnPerIP@server\n"), "{said}");
}

/// The verdict on these lines, all in one section.
fn in_one_section(lines: &str) -> Configtest {
    on_event(&format!("<Location /hoge>\n{lines}\n</Location>")).configtest()
}

#[test]
fn two_rules_for_the_same_clients_are_an_error_that_says_where_the_first_is() {
    let first = "MaxConnPerIP 2 scope=location for=127.0.1.0/24\n";
    for second in [
        "MaxConnPerIP 3 scope=location for=127.0.1.0/24",
        "MaxConnPerIP 3 scope=server for=127.0.1.7/24",
        "MaxConnPerIP off for=127.0.1.0/255.255.255.0",
        "MaxConnPerIP 4 scope=location for=10.0.0.0/8,127.0.1",
        "MaxConnPerIP 4 scope=location for=::ffff:127.0.1.0/120",
    ] {
        let test = in_one_section(&format!("{first}{second}"));
        assert_eq!(test.code, 1, "{second}: {test:?}");
        for text in [
            "MaxConnPerIP: ",
            "127.0.1.0/24",
            "the first is on line ",
            "httpd.conf",
        ] {
            assert!(test.stderr.contains(text), "{second}: {test:?}");
        }
    }
    for second in [
        "MaxConnPerIP 3 scope=location",
        "MaxConnPerIP 3 scope=location for=127.0.1.0/25",
        "MaxConnPerIP 3 scope=location for=127.0.0.0/16",
    ] {
        let test = in_one_section(&format!("{first}{second}"));
        assert_eq!(
            (test.code, test.stderr.trim()),
            (0, "Syntax OK"),
            "{second}"
        );
    }
    for wrong in ["for=", "for=x", "for=127.0.0.1/33", "for=300.1.1.1"] {
        let test = in_one_section(&format!("MaxConnPerIP 3 scope=location {wrong}"));
        assert_eq!(test.code, 1, "{wrong}: {test:?}");
        assert!(
            test.stderr.contains("MaxConnPerIP: for="),
            "{wrong}: {test:?}"
        );
    }
}

/// Like rules for other clients stand side by side: `-D DUMP_IPLIMIT` says so too.
#[test]
fn dump_tells_each_of_them() {
    let said = Httpd::on(Mpm::Event)
        .without_status()
        .conf(
            "<Location /fuga>
                MaxConnPerIP 1 scope=location
                MaxConnPerIP 20 scope=location for=192.0.2.0/24,2001:db8::/32
                MaxConnPerIP off for=192.0.2.9
            </Location>",
        )
        .configtest_with(&["-D", "DUMP_IPLIMIT"]);
    for rule in [
        "rule MaxConnPerIP@/fuga: 1 scope=location count=requests ",
        "rule MaxConnPerIP@/fuga for=192.0.2.0/24,2001:db8::/32: 20 scope=location count=requests ",
        "rule MaxConnPerIP@/fuga for=192.0.2.9: off ",
    ] {
        assert!(said.stdout.contains(rule), "no {rule} in {}", said.stdout);
    }
    assert!(!said.stdout.contains("whose place"), "{}", said.stdout);
}
