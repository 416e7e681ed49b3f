//! What nginx's own tests ask of limit_conn, in httpd's terms: numbers 3 and 6 of them, for keys
//! also 4 and 7, and of 14 what is behind the PROXY protocol. 1 and 2 stand in zones, 4 in status,
//! 5 in zone_keys, 7 in dry_run, 13 in http2 and delay_bodies, 15 in clients; what is about rates
//! in nginx_rates.

mod support;

use support::{DEADLINE, Httpd, Mpm, in_time, on_every_mpm, wait_until};

on_every_mpm!(
    client_that_closes_its_socket_is_let_in_again,
    status_variable_tells_what_became_of_a_request,
    connection_behind_the_proxy_protocol_is_refused_at_its_first_request,
    key_whose_client_closes_is_let_in_again,
    refusal_of_a_key_has_its_status_and_names_the_zone,
    status_variable_tells_what_became_of_a_key,
    dry_run_of_a_key_serves_and_a_nested_place_refuses,
);

/// nginx 3: the one in flight closes its socket, and the next passes.
fn client_that_closes_its_socket_is_let_in_again(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "SendBufferSize 16384
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>",
        )
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    let rule = "MaxConnPerIP@/hoge";
    for reset in [false, true] {
        in_time(|| {
            let held = client.read_slowly("/hoge/big.bin");
            assert_eq!(client.status("/hoge/small.txt"), 503);
            if reset {
                held.reset();
            } else {
                drop(held);
            }
            let seen = httpd.within_a_second(|gauge| gauge.count_of(rule, "127.0.0.2") == 0);
            assert_eq!(client.status("/hoge/small.txt"), 200);
            seen
        });
    }
}

/// nginx 6: PASSED within the limit and REJECTED over it; a place without a limit logs `-`.
/// Who is exempt is EXEMPT there, and nothing where there was no limit to be spared from.
fn status_variable_tells_what_became_of_a_request(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "LogFormat \"%h %>s %U %<{LIMITIP_STATUS}e\" marks
             CustomLog ${TMP}/marks marks
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
                 IPLimitExempt 127.0.0.7 method=GET
             </Location>
             <Location /hoge/free>
                 IPLimitExempt all
             </Location>
             <Location /hoge/off>
                 MaxConnPerIP off
             </Location>
             LocalIP 127.0.0.9",
        )
        .furnish("hoge/free")
        .furnish("hoge/off")
        .start();
    let client = httpd.client("127.0.0.2");
    let mut expected = Vec::new();
    let mut ask = |from: &str, path: &str, status: u16, mark: &str| {
        assert_eq!(httpd.client(from).status(path), status, "{from} {path}");
        expected.push(format!("{from} {status} {path} {mark}"));
    };
    ask("127.0.0.2", "/hoge/small.txt", 200, "PASSED");
    httpd.wait_for(|gauge| gauge.total() == 0);
    let held = client.hold("/hoge/hold.cgi");
    let exempt = httpd.client("127.0.0.7").hold("/hoge/hold.cgi");
    ask("127.0.0.2", "/hoge/small.txt", 503, "REJECTED");
    ask("127.0.0.2", "/hoge/none", 503, "REJECTED");
    ask("127.0.0.2", "/fuga/small.txt", 200, "-");
    ask("127.0.0.2", "/hoge/off/small.txt", 200, "-");
    ask("127.0.0.2", "/hoge/free/small.txt", 200, "EXEMPT");
    ask("127.0.0.3", "/hoge/small.txt", 200, "PASSED");
    ask("127.0.0.3", "/hoge/none", 404, "PASSED");
    ask("127.0.0.7", "/hoge/small.txt", 200, "EXEMPT");
    ask("127.0.0.9", "/hoge/small.txt", 200, "EXEMPT");
    ask("127.0.0.9", "/fuga/small.txt", 200, "-");
    held.finish();
    expected.push(String::from("127.0.0.2 200 /hoge/hold.cgi PASSED"));
    exempt.finish();
    expected.push(String::from("127.0.0.7 200 /hoge/hold.cgi EXEMPT"));
    expected.sort();
    wait_until(DEADLINE, || {
        let text = std::fs::read_to_string(httpd.dir().join("marks")).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.contains("limit-status"));
        let mut lines: Vec<_> = lines.map(str::to_owned).collect();
        lines.sort();
        if lines == expected {
            Ok(())
        } else {
            Err((lines, expected.clone()))
        }
    });
    let gauge = httpd.gauge();
    assert_eq!(
        gauge.number("exempt"),
        4,
        "once for each request: {gauge:?}"
    );
}

/// nginx 14 and 15: who the client is shows only with the first bytes, so the first request is
/// refused, with all that a refusal says, and the connection ends.
fn connection_behind_the_proxy_protocol_is_refused_at_its_first_request(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_log("AH03492")
        .load(&["remoteip"])
        .conf(
            "LogFormat \"%a %>s %{LIMITIP}e %{LIMITIP_STATUS}e %{LIMITIP_RULE}e %{LIMITIP_COUNT}e/%{LIMITIP_LIMIT}e\" marks
             CustomLog ${TMP}/marks marks
             AcceptFilter http none
             RemoteIPProxyProtocol On
             RemoteIPProxyProtocolExceptions 127.0.0.99
             IPLimitExempt 127.0.0.99 127.0.0.1
             IPLimitErrorStatus 429
             MaxConnPerIP 1 count=connections",
        )
        .start();
    let proxy = httpd.client("127.0.0.1");
    let from = |address: &str| {
        let mut connection = proxy.connect();
        connection.send(format!("PROXY TCP4 {address} 127.0.0.1 4711 80\r\n"));
        let answer = connection.get("/hoge/small.txt");
        (connection, answer)
    };
    let (first, admitted) = from("198.51.100.1");
    assert_eq!(admitted.status, 200);
    let (mut second, refused) = from("198.51.100.1");
    let header = |name| refused.header(name);
    assert_eq!(
        (
            refused.status,
            header("retry-after"),
            header("cache-control"),
            header("connection")
        ),
        (429, Some("5"), Some("no-store"), Some("close"))
    );
    let end = std::io::copy(second.reader(), &mut std::io::sink());
    assert!(matches!(end, Ok(0)), "{end:?}");
    assert_eq!(from("198.51.100.2").1.status, 200, "another client");
    let line = httpd
        .wait_for_log("limitipconn(101): ")
        .pop()
        .expect("a line");
    let said = "client 198.51.100.1 refused: too many connections from this host: 2/1, rule MaxConnPerIP@server";
    assert!(line.contains(said), "{line}");
    wait_until(DEADLINE, || {
        let text = std::fs::read_to_string(httpd.dir().join("marks")).unwrap_or_default();
        let mark = "198.51.100.1 429 1 REJECTED MaxConnPerIP@server 2/1";
        if text.lines().any(|line| line == mark) {
            Ok(())
        } else {
            Err(text)
        }
    });
    drop(first);
    httpd.wait_for(|gauge| gauge.count_of("MaxConnPerIP@server", "198.51.100.1") == 0);
    assert_eq!(from("198.51.100.1").1.status, 200);
}

/// nginx 3, by a key: another client with the same key gets the place.
fn key_whose_client_closes_is_let_in_again(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "SendBufferSize 16384
             IPLimitZone z key=%{HTTP:X-Api-Key}
             <Location /hoge>
                 MaxConnPerKey z 1
             </Location>",
        )
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let with = |address: &str| httpd.client(address).header("X-Api-Key", "k");
    for reset in [false, true] {
        in_time(|| {
            let held = with("127.0.0.2").read_slowly("/hoge/big.bin");
            assert_eq!(with("127.0.0.3").status("/hoge/small.txt"), 503);
            if reset {
                held.reset();
            } else {
                drop(held);
            }
            let seen =
                httpd.within_a_second(|gauge| gauge.count_of("MaxConnPerKey:z@zone", "k") == 0);
            assert_eq!(with("127.0.0.3").status("/hoge/small.txt"), 200);
            httpd.wait_for(|gauge| gauge.total() == 0);
            seen
        });
    }
}

/// nginx 4, by a key: 501, logged at info where that is shown, and not where it is not.
fn refusal_of_a_key_has_its_status_and_names_the_zone(mpm: Mpm) {
    for (level, is_shown) in [("info", true), ("notice", false)] {
        let httpd = Httpd::on(mpm)
            .expect_log("[limitipconn:info]")
            .conf(&format!(
                "LogLevel limitipconn:{level}
                 IPLimitZone z key=client
                 IPLimitErrorStatus 501 502
                 IPLimitLogLevel info
                 <Location /hoge>
                     MaxConnPerKey z 1
                 </Location>
                 <Location /fuga>
                     MaxRatePerKey z 1/h
                 </Location>"
            ))
            .start();
        let client = httpd.client("127.0.0.2");
        let held = client.hold("/hoge/hold.cgi");
        assert_eq!(client.status("/hoge/small.txt"), 501);
        assert_eq!(client.status("/fuga/small.txt"), 200);
        assert_eq!(client.status("/fuga/small.txt"), 502);
        held.finish();
        for rule in [
            "rule MaxConnPerKey:z@/hoge, ",
            "rule MaxRatePerKey:z@/fuga, ",
        ] {
            if is_shown {
                let line = httpd.wait_for_log(rule).swap_remove(0);
                assert!(line.contains("[limitipconn:info]"), "{line}");
            } else {
                // It would have been written before the answer.
                assert!(httpd.log_lines("limitipconn(101)").is_empty());
            }
        }
    }
}

/// nginx 6, by a key, for places and for rates: a request without a key is under no rule.
fn status_variable_tells_what_became_of_a_key(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "LogFormat \"%U%q %>s %<{LIMITIP_STATUS}e %<{LIMITIP_RULE}e\" marks
             CustomLog ${TMP}/marks marks
             IPLimitZone z key=%{QUERY_STRING}
             <Location /hoge>
                 MaxConnPerKey z 1
             </Location>
             <Location /hoge/free>
                 MaxConnPerKey z off
             </Location>
             <Location /fuga>
                 MaxRatePerKey z 1/h
             </Location>",
        )
        .furnish("hoge/free")
        .start();
    let client = httpd.client("127.0.0.2");
    let gate = httpd.gate("a");
    let mut held = client.connect();
    held.send(held.request("GET", "/hoge/hold.cgi?a", "Connection: close\r\n"));
    let head = held.head();
    let mut expected = vec![String::from(
        "/hoge/hold.cgi?a 200 PASSED MaxConnPerKey:z@/hoge",
    )];
    for (path, status, mark) in [
        ("/hoge/small.txt?a", 503, "REJECTED MaxConnPerKey:z@/hoge"),
        ("/hoge/small.txt?b", 200, "PASSED MaxConnPerKey:z@/hoge"),
        ("/hoge/small.txt", 200, "- -"),
        ("/hoge/free/small.txt?a", 200, "- -"),
        ("/small.txt?a", 200, "- -"),
        ("/fuga/small.txt?a", 200, "PASSED MaxRatePerKey:z@/fuga"),
        ("/fuga/small.txt?a", 429, "REJECTED MaxRatePerKey:z@/fuga"),
        ("/fuga/small.txt", 200, "- -"),
    ] {
        assert_eq!(client.status(path), status, "{path}");
        expected.push(format!("{path} {status} {mark}"));
    }
    drop(gate);
    assert_eq!(held.body_of(head).status, 200);
    expected.sort();
    wait_until(DEADLINE, || {
        let text = std::fs::read_to_string(httpd.dir().join("marks")).unwrap_or_default();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        if lines == expected {
            Ok(())
        } else {
            Err(lines)
        }
    });
}

/// nginx 7, by a key: over the number in a dry run it is served and told; a nested place that is
/// none refuses, by the same count.
fn dry_run_of_a_key_serves_and_a_nested_place_refuses(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitZone z key=client
             <Location /hoge>
                 MaxConnPerKey z 1
                 MaxRatePerKey z 3/h
                 IPLimitDryRun On
             </Location>
             <Location /hoge/inner>
                 IPLimitDryRun Off
             </Location>",
        )
        .furnish("hoge/inner")
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    assert_eq!(client.status("/hoge/small.txt"), 200);
    let said = "would be refused (dry run): too many connections for this key: 2/1, rule MaxConnPerKey:z@/hoge, ";
    httpd.wait_for_log(said);
    assert_eq!(client.status("/hoge/inner/small.txt"), 503);
    held.finish();
    httpd.wait_for(|gauge| gauge.total() == 0);
    // The one held and these two are three; what was marked and what was refused cost nothing.
    for _ in 0..2 {
        assert_eq!(client.status("/hoge/inner/small.txt"), 200);
        httpd.wait_for(|gauge| gauge.total() == 0);
    }
    assert_eq!(client.status("/hoge/inner/small.txt"), 429);
    assert_eq!(client.status("/hoge/small.txt"), 200, "marked");
    let gauge = httpd.gauge();
    let numbers = ["MaxConnPerKey:z@/hoge", "MaxRatePerKey:z@/hoge"]
        .map(|rule| (gauge.marked(rule), gauge.refused(rule)));
    assert_eq!(numbers, [(1, 1), (1, 1)], "{gauge:?}");
}
