//! Who is spared: never refused, in no count but that of busy workers, and counted as exempt.

#![cfg(feature = "httpd")]

mod support;

use support::{Client, Httpd, Mpm, Setup, at_once, on_every_mpm};

on_every_mpm!(
    thousand_probes_are_served_while_others_are_limited,
    every_kind_of_condition_spares,
    all_conditions_of_a_line_must_hold,
    section_spares_from_its_level_and_the_server_from_both,
    spared_traffic_still_holds_workers,
    what_is_spared_is_in_no_wide_count,
);

/// C17: probes of balancers must not be refused, whatever their number.
fn thousand_probes_are_served_while_others_are_limited(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "MaxConnPerIP 1 count=requests
             IPLimitHeaders On
             IPLimitExempt 127.0.0.8/30
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>",
        )
        .start();
    let normal = httpd.client("127.0.0.2");
    let _held = normal.hold("/hoge/hold.cgi");
    let before = httpd.gauge();
    at_once(5, |n| {
        if n == 4 {
            for _ in 0..20 {
                let refused = normal.get("/hoge/small.txt");
                assert_eq!(refused.status, 503);
                assert!(refused.header("ratelimit").is_some(), "{refused:?}");
            }
            return;
        }
        let mut probe = httpd.client("127.0.0.9").connect();
        for _ in 0..250 {
            let served = probe.get("/hoge/small.txt");
            assert_eq!(served.status, 200);
            let told = ["ratelimit", "ratelimit-policy"].map(|name| served.header(name));
            assert_eq!(told, [None, None], "{served:?}");
        }
    });
    let gauge = httpd.gauge();
    assert_eq!(gauge.number("exempt"), 1000, "{gauge:?}");
    assert_eq!(gauge["keys"]["used"], before["keys"]["used"], "{gauge:?}");
    assert!(gauge.rows("counts").all(|row| row["key"] != "127.0.0.9"));
}

/// One request on a connection of its own.
fn status(client: &Client, method: &str, path: &str, more: &str) -> u16 {
    let mut connection = client.connect();
    let more = format!("{more}Connection: close\r\n");
    connection.send(connection.request(method, path, &more));
    connection.head().status
}

/// A client that has its one place in /hoge already, on a server that says this about
/// exemptions outside sections.
#[track_caller]
fn with_its_place_taken(mpm: Mpm, exempt: &str, ask: impl Fn(&Client)) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf("<Location />\n MaxConnPerIP 1 scope=location\n</Location>")
        .expect_log("limitipconn(206): ")
        .conf(exempt)
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    ask(&client);
}

/// By network, place, method and expression.
fn every_kind_of_condition_spares(mpm: Mpm) {
    let get = |path: &'static str| move |client: &Client| client.status(path);
    with_its_place_taken(
        mpm,
        "IPLimitExempt 10.0.0.0/8 127.0.0.3
         IPLimitExempt method=HEAD,options
         IPLimitExempt \"expr=%{HTTP_USER_AGENT} =~ /^kube-probe/\"
         IPLimitExempt expr=\"%{HTTP_USER_AGENT} == 'Monitor 1'\"
         <Location /fuga>
             IPLimitExempt all
         </Location>",
        |client| {
            assert_eq!(get("/hoge/small.txt")(client), 503);
            assert_eq!(get("/fuga/small.txt")(client), 200);
            let ask = |method, more| status(client, method, "/hoge/small.txt", more);
            assert_eq!(ask("HEAD", ""), 200);
            assert_eq!(ask("OPTIONS", ""), 200);
            // Another method, which httpd would give to a script, body and all.
            assert_eq!(ask("head", ""), 503);
            assert_eq!(ask("Options", ""), 503);
            assert_eq!(ask("POST", "Content-Length: 0\r\n"), 503);
            assert_eq!(ask("GET", "User-Agent: kube-probe/1.2\r\n"), 200);
            assert_eq!(ask("GET", "User-Agent: Monitor 1\r\n"), 200);
            assert_eq!(ask("GET", "User-Agent: Monitor 2\r\n"), 503);
        },
    );
    for (addresses, status) in [
        ("127.0.0.2", 200),
        ("127.0.0.0/8", 200),
        ("127", 200),
        ("127.0.0.0/255.0.0.0", 200),
        ("10.0.0.1 127.0.0.2", 200),
        ("10.0.0.1,127.0.0.2", 200),
        ("::ffff:127.0.0.2", 200),
        ("127.0.0.3 ::1 127.0.1.0/24", 503),
    ] {
        for directive in ["IPLimitExempt", "LocalIP"] {
            // Who is spared holds no place either.
            let line = format!("<Location /hoge/small.txt>\n{directive} {addresses}\n</Location>");
            with_its_place_taken(mpm, &line, |client| {
                assert_eq!(client.status("/hoge/small.txt"), status, "{line}");
            });
        }
        if mpm != Mpm::Event {
            break;
        }
    }
}

fn all_conditions_of_a_line_must_hold(mpm: Mpm) {
    with_its_place_taken(
        mpm,
        "IPLimitExempt 127.0.0.2 127.0.0.4 method=HEAD,OPTIONS expr=\"%{HTTP:X-Probe} == 'yes'\"
         IPLimitExempt 127.0.0.3",
        |client| {
            let ask = |method, more| status(client, method, "/hoge/small.txt", more);
            assert_eq!(ask("HEAD", "X-Probe: yes\r\n"), 200);
            assert_eq!(ask("OPTIONS", "X-Probe: yes\r\n"), 200);
            assert_eq!(ask("HEAD", "X-Probe: no\r\n"), 503);
            assert_eq!(ask("HEAD", ""), 503);
            assert_eq!(ask("GET", "X-Probe: yes\r\n"), 503);
        },
    );
    with_its_place_taken(mpm, "IPLimitExempt 127.0.0.3 method=HEAD", |client| {
        assert_eq!(status(client, "HEAD", "/hoge/small.txt", ""), 503);
    });
}

/// What stands in a section never lifts the cap of the server.
fn section_spares_from_its_level_and_the_server_from_both(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "MaxConnPerIP 2 count=requests
             IPLimitExempt 127.0.0.4
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
                 IPLimitExempt 127.0.0.2
             </Location>",
        )
        .start();
    let by_the_section = httpd.client("127.0.0.2");
    let _two = [(); 2].map(|()| by_the_section.hold("/hoge/hold.cgi"));
    assert_eq!(by_the_section.status("/hoge/small.txt"), 503);
    assert_eq!(httpd.gauge().refused("MaxConnPerIP@server"), 1);
    let by_nobody = httpd.client("127.0.0.3");
    let _one = by_nobody.hold("/hoge/hold.cgi");
    assert_eq!(by_nobody.status("/hoge/small.txt"), 503);
    assert_eq!(httpd.gauge().refused("MaxConnPerIP@/hoge"), 1);
    let by_the_server = httpd.client("127.0.0.4");
    let _four = [(); 4].map(|()| by_the_server.hold("/hoge/hold.cgi"));
    assert_eq!(by_the_server.status("/hoge/small.txt"), 200);
    let gauge = httpd.gauge();
    let counts = |rule: &str| {
        ["127.0.0.2", "127.0.0.3", "127.0.0.4"].map(|client| gauge.count_of(rule, client))
    };
    assert_eq!(counts("MaxConnPerIP@/hoge"), [0, 1, 0], "{gauge:?}");
    assert_eq!(
        counts("requests@server (server level)"),
        [2, 1, 0],
        "{gauge:?}"
    );
}

/// The pool sees them, and so does count=workers when the same client asks for more.
fn spared_traffic_still_holds_workers(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf("MaxConnPerIP 2\nIPLimitExempt expr=\"%{REQUEST_URI} =~ m#^/fuga/#\"")
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 4].map(|()| client.hold("/fuga/hold.cgi"));
    assert_eq!(client.status("/fuga/small.txt"), 200);
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
}

/// Counts over the whole server see limited and other places alike, but nobody spared.
fn what_is_spared_is_in_no_wide_count(mpm: Mpm) {
    let of_the_server = "MaxConnPerIP 2 count=requests
         IPLimitExempt expr=\"%{REQUEST_URI} =~ m#^/fuga/#\"";
    let of_a_section = "<Location /hoge>
             MaxConnPerIP 2 scope=server count=requests
         </Location>
         <Location /fuga>
             IPLimitExempt all
         </Location>";
    let of_a_vhost = "<Location /hoge>
             MaxConnPerIP 2 scope=vhost
         </Location>
         <Location /fuga>
             IPLimitExempt 127.0.0.2
         </Location>";
    for conf in [of_the_server, of_a_section, of_a_vhost] {
        let httpd = Httpd::on(mpm).expect_refusals().conf(conf).start();
        let client = httpd.client("127.0.0.2");
        let _spared = [(); 3].map(|()| client.hold("/fuga/hold.cgi"));
        assert_eq!(httpd.gauge().total(), 0, "{conf}");
        let _elsewhere = client.hold("/hold.cgi");
        let _one = client.hold("/hoge/hold.cgi");
        assert_eq!(client.status("/hoge/small.txt"), 503, "{conf}");
        assert_eq!(client.status("/fuga/small.txt"), 200, "{conf}");
    }
}

fn on_event(conf: &str) -> Setup {
    Httpd::on(Mpm::Event).expect_refusals().conf(conf)
}

/// What a virtual host or an inner section says is one more.
#[test]
fn exemptions_of_servers_and_sections_add_up() {
    let httpd = on_event(
        "IPLimitExempt 127.0.0.4
         MaxConnPerIP 1 count=requests
         <VirtualHost *:${PORT}>
             ServerName other.example
         </VirtualHost>
         <VirtualHost *:${PORT}>
             ServerName vhost.example
             IPLimitExempt 127.0.0.5
             MaxConnPerIP off
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
                 IPLimitExempt 127.0.0.6
             </Location>
             <Location /hoge/hold.cgi>
                 IPLimitExempt 127.0.0.7
             </Location>
         </VirtualHost>",
    )
    .start();
    for (client, other, vhost, inner) in [
        ("127.0.0.3", false, false, false),
        ("127.0.0.4", true, true, true),
        ("127.0.0.5", false, true, true),
        ("127.0.0.6", false, true, true),
        ("127.0.0.7", false, false, true),
    ] {
        for (host, path, spared) in [
            ("other.example", "/hoge/hello.cgi", other),
            ("vhost.example", "/hoge/hello.cgi", vhost),
            ("vhost.example", "/hoge/hold.cgi", inner),
        ] {
            let before = httpd.gauge().number("exempt");
            let client = httpd.client(client).header("Host", host);
            assert_eq!(client.status(path), 200);
            let now = httpd.gauge().number("exempt");
            assert_eq!(now - before, u64::from(spared), "{client:?} {host}{path}");
        }
    }
}

/// S11 of the snippets: the spelling of the widespread patch.
#[test]
fn local_ip_of_the_patch_spares() {
    let httpd = on_event(
        "IPLimitDefaults scope=location
         <Location /hoge>
             MaxConnPerIP 3
             LocalIP 127.0.0.1 192.0.2.100
         </Location>",
    )
    .start();
    let (local, other) = (httpd.client("127.0.0.1"), httpd.client("127.0.0.2"));
    let _local = [(); 5].map(|()| local.hold("/hoge/hold.cgi"));
    let _other = [(); 3].map(|()| other.hold("/hoge/hold.cgi"));
    assert_eq!(local.status("/hoge/small.txt"), 200);
    assert_eq!(other.status("/hoge/small.txt"), 503);
}

/// It spares nobody then, and says so once an hour, whatever httpd says of each evaluation.
#[test]
fn expression_that_fails_spares_nobody() {
    let httpd = on_event(
        "MaxConnPerIP 1 count=requests
         IPLimitExempt expr=\"file('${TMP}/is-not-there') == 'x'\"",
    )
    .expect_log("limitipconn(403): ")
    .expect_log("Evaluation of expression")
    .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    for _ in 0..30 {
        assert_eq!(client.status("/hoge/small.txt"), 503);
    }
    let lines = httpd.log_lines("limitipconn(403): ");
    assert_eq!(lines.len(), 1, "{lines:?}");
    for text in ["IPLimitExempt", "spares nobody", "is-not-there"] {
        assert!(lines[0].contains(text), "{lines:?}");
    }
    assert_eq!(httpd.gauge().number("exempt"), 0);
}

#[test]
fn wrong_expressions_are_told_by_configtest() {
    for expression in [
        "%{HTTP_USER_AGENT} =~",
        "%{REMOTE_ADDR",
        "nothing == 'x'",
        "foo('x') == 'y'",
    ] {
        for place in ["", "<Location /hoge>"] {
            let line = format!("IPLimitExempt \"expr={expression}\"");
            let end = if place.is_empty() { "" } else { "</Location>" };
            let test = on_event(&format!("{place}\n{line}\n{end}")).configtest();
            assert_eq!(test.code, 1, "{expression}: {test:?}");
            for text in ["IPLimitExempt: ", expression] {
                assert!(test.stderr.contains(text), "{expression}: {test:?}");
            }
        }
    }
}

/// The place that is left does not spare where a redirect leads.
#[test]
fn redirect_from_a_spared_place_is_no_way_around() {
    let httpd = on_event(
        "<Location /hoge>
             MaxConnPerIP 1 scope=location
         </Location>
         <Location /fuga>
             IPLimitExempt all
             MaxConnPerIP 1 scope=location
         </Location>
         <Directory ${DOCROOT}/fuga>
             FallbackResource /hoge/hold.cgi
         </Directory>",
    )
    .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/fuga/nothing");
    let gauge = httpd.gauge();
    let counts =
        ["MaxConnPerIP@/hoge", "MaxConnPerIP@/fuga"].map(|rule| gauge.count_of(rule, "127.0.0.2"));
    assert_eq!(counts, [1, 0], "{gauge:?}");
    assert_eq!(client.status("/fuga/nothing"), 503);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    drop(held);
    httpd.wait_for(|gauge| gauge.total() == 0);
}
