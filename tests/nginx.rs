//! What nginx's own tests ask of limit_conn, in httpd's terms: numbers 3 and 6 of them; 4
//! stands in status, 7 in dry_run.

mod support;

use support::{A_SECOND, DEADLINE, Httpd, Mpm, on_every_mpm, wait_until};

on_every_mpm!(
    client_that_closes_its_socket_is_let_in_again,
    status_variable_tells_what_became_of_a_request,
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
        let held = client.read_slowly("/hoge/big.bin");
        assert_eq!(client.status("/hoge/small.txt"), 503);
        if reset {
            held.reset();
        } else {
            drop(held);
        }
        httpd.wait_for_within(A_SECOND, |gauge| gauge.count_of(rule, "127.0.0.2") == 0);
        assert_eq!(client.status("/hoge/small.txt"), 200);
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
