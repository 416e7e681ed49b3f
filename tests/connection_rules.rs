//! Where rules about connections may stand, beside which others, and what a start warns about:
//! they are asked before any request is read, so sections, virtual hosts and .htaccess cannot
//! have them.

#![cfg(feature = "httpd")]

mod support;

use support::{Configtest, Httpd, Mpm, Setup, on_every_mpm};

on_every_mpm!(
    pressure_decides_where_a_rule_says_so,
    rules_about_requests_and_connections_stand_side_by_side,
);

const RULE: &str = "MaxConnPerIP@server";

fn server(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .expect_refusals()
        .conf("AcceptFilter http none\nIPLimitExempt 127.0.0.99")
}

fn setup(conf: &str) -> Setup {
    Httpd::on(Mpm::Event).load(&["remoteip"]).conf(conf)
}

fn test(conf: &str) -> Configtest {
    setup(conf).configtest()
}

#[test]
fn they_stand_in_the_main_server_only() {
    let rule = "MaxConnPerIP 5 count=connections";
    for (open, close) in [
        ("<VirtualHost *:${PORT}>", "</VirtualHost>"),
        ("<Location /hoge>", "</Location>"),
        ("<Directory ${DOCROOT}>", "</Directory>"),
        ("<Files x>", "</Files>"),
        ("<If \"true\">", "</If>"),
        (
            "<VirtualHost *:${PORT}>\n<Location />",
            "</Location>\n</VirtualHost>",
        ),
    ] {
        let said = test(&format!("{open}\n{rule}\n{close}"));
        assert_eq!(said.code, 1, "{open}: {said:?}");
        for text in [
            "MaxConnPerIP: \"5 count=connections\"",
            "main server",
            "use count=requests",
        ] {
            assert!(said.stderr.contains(text), "{open}: {said:?}");
        }
    }
    let said = test(&format!(
        "<IfModule mod_limitipconn.c>\n{rule}\n</IfModule>"
    ));
    assert_eq!((said.code, said.stderr.trim()), (0, "Syntax OK"));
}

#[test]
fn htaccess_with_one_is_an_error_of_its_own_requests() {
    let httpd = setup("<Directory ${DOCROOT}/hoge>\n AllowOverride Limit\n</Directory>")
        .file("hoge/.htaccess", "MaxConnPerIP 5 count=connections\n")
        .expect_log("AH00526")
        .expect_log("hoge/.htaccess: MaxConnPerIP: ")
        .start();
    let client = httpd.client("127.0.0.2");
    assert_eq!(client.status("/hoge/small.txt"), 500);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    let lines = httpd.wait_for_log("hoge/.htaccess: MaxConnPerIP: ");
    assert!(
        lines[0].contains("\"5 count=connections\"") && lines[0].contains("main server"),
        "{lines:?}"
    );
}

#[test]
fn they_have_no_scope_and_are_no_default() {
    for (line, texts) in [
        (
            "IPLimitDefaults count=connections",
            ["IPLimitDefaults: ", "count=", "connections"],
        ),
        (
            "MaxConnPerIP 5 count=connections scope=location",
            ["MaxConnPerIP: ", "scope=location", "count=requests"],
        ),
        (
            "MaxConnPerIP 5 scope=vhost count=connections",
            ["MaxConnPerIP: ", "scope=vhost", "count=requests"],
        ),
        (
            "MaxConnPerIP 5 count=connections\nMaxConnPerIP 6 count=connections",
            [
                "MaxConnPerIP: ",
                "6 count=connections",
                "the first is on line ",
            ],
        ),
    ] {
        let said = test(line);
        assert_eq!(said.code, 1, "{line}: {said:?}");
        for text in texts {
            assert!(said.stderr.contains(text), "{line}: {said:?}");
        }
    }
    // Others' defaults are not theirs.
    let said =
        test("IPLimitDefaults scope=location count=requests\nMaxConnPerIP 5 count=connections");
    assert_eq!((said.code, said.stderr.trim()), (0, "Syntax OK"));
}

/// A proxy that is not spared would share one number among all of its clients.
#[test]
fn proxies_that_are_counted_are_a_warning() {
    let rule = "MaxConnPerIP 5 count=connections";
    for said in [
        "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1",
        "<VirtualHost *:${PORT}>\n RemoteIPProxyProtocol On\n</VirtualHost>",
        "RemoteIPHeader X-Forwarded-For\nIPLimitExempt method=HEAD",
        "RemoteIPHeader X-Forwarded-For\n<Location />\n IPLimitExempt 127.0.0.1\n</Location>",
        "RemoteIPHeader X-Forwarded-For\nIPLimitExempt 127.0.0.1 method=HEAD",
    ] {
        let name = if said.contains("ProxyProtocol") {
            "RemoteIPProxyProtocol"
        } else {
            "RemoteIPHeader"
        };
        let test = test(&format!("{rule}\n{said}"));
        let warnings: Vec<_> = test
            .stderr
            .lines()
            .filter(|line| line.contains("limitipconn(209): MaxConnPerIP@server on line "))
            .collect();
        assert_eq!((test.code, warnings.len()), (0, 1), "{said}: {test:?}");
        assert!(
            warnings[0].contains(name) && warnings[0].contains("IPLimitExempt"),
            "{said}: {warnings:?}"
        );
    }
    for said in [
        "",
        "RemoteIPHeader X-Forwarded-For\nIPLimitExempt 127.0.0.1",
        "RemoteIPHeader X-Forwarded-For\nLocalIP 127.0.0.1",
        "RemoteIPHeader X-Forwarded-For\nIPLimitClientHeader X-Real-IP trusted=127.0.0.1",
        "<VirtualHost *:${PORT}>\n RemoteIPProxyProtocol Off\n</VirtualHost>",
    ] {
        let test = test(&format!("{rule}\n{said}"));
        let lines = test.stderr.replace("[remoteip:notice]", "");
        assert!(!lines.contains("limitipconn("), "{said}: {test:?}");
        assert_eq!(test.code, 0, "{said}: {test:?}");
    }
    let without =
        test("RemoteIPHeader X-Forwarded-For\nMaxConnPerIP 5\nMaxConnPerIP off count=connections");
    assert_eq!((without.code, without.stderr.trim()), (0, "Syntax OK"));
    // The start says it, once.
    let httpd = setup(rule)
        .conf("RemoteIPHeader X-Forwarded-For")
        .expect_log("limitipconn(209): ")
        .start();
    assert_eq!(httpd.log_lines("limitipconn(209): ").len(), 1);
}

/// At 1 % the worker that looks is enough; 100 % is never reached here.
fn pressure_decides_where_a_rule_says_so(mpm: Mpm) {
    for (busy, refuses) in [("1%", true), ("100%", false)] {
        let httpd = server(mpm)
            .conf(&format!("MaxConnPerIP 1 count=connections busy={busy}"))
            .start();
        let client = httpd.client("127.0.0.2");
        let mut first = client.connect();
        assert_eq!(first.get("/hoge/small.txt").status, 200);
        if refuses {
            client.connect().is_closed_without_a_byte();
        } else {
            let mut second = client.connect();
            assert_eq!(second.get("/hoge/small.txt").status, 200);
            httpd.wait_for(|gauge| gauge.count_of(RULE, "127.0.0.2") == 2);
        }
    }
}

fn rules_about_requests_and_connections_stand_side_by_side(mpm: Mpm) {
    let httpd = server(mpm)
        .conf("MaxConnPerIP 3 count=connections\nMaxConnPerIP 1 count=requests scope=location")
        .conf("<VirtualHost *:${PORT}>\n MaxConnPerIP off\n</VirtualHost>")
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    // The virtual host lifts the rule about requests and not that about connections.
    client.connect().is_closed_without_a_byte();
}
