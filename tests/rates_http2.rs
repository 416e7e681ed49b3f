//! Rates over HTTP/2: every stream is a request.

mod support;

use support::{Httpd, Mpm, Program, Setup, at_once, count, on_every_mpm, wait_until};

on_every_mpm!(
    hundred_streams_of_one_connection_get_ten_tokens,
    hundred_streams_of_h2load_are_like_a_hundred_connections,
    next_stream_knows_of_the_charge,
    refused_upload_ends_its_stream_only,
    cancelled_streams_cost_what_they_asked_for,
);

/// For prefork mod_http2 calls itself unsuitable, and starts one stream at a time unless told.
fn over_h2(mpm: Mpm, rule: &str) -> Setup {
    let pool = match mpm {
        Mpm::Prefork => "H2MinWorkers 8\nH2MaxWorkers 16",
        _ => "",
    };
    Httpd::on(mpm)
        .load(&["http2"])
        .expect_log("AH10034: ")
        .expect_refusals()
        .conf(pool)
        .conf(&format!(
            "Protocols h2c http/1.1\n<Location /hoge>\n {rule}\n</Location>"
        ))
}

/// C22: a request-count rule must see what is inside of a connection.
fn hundred_streams_of_one_connection_get_ten_tokens(mpm: Mpm) {
    for rule in ["MaxRatePerIP 10/h", "MaxHitsPerIP 10/h freeze=1h"] {
        let httpd = over_h2(mpm, rule).start();
        let h2 = httpd.client("127.0.0.2").h2();
        let mut streams = h2.open_many(100, "/hoge/small.txt");
        let statuses = (count(&mut streams, 200), count(&mut streams, 429));
        assert_eq!(statuses, (10, 90), "{rule}");
        let refused = h2.get("/hoge/small.txt");
        assert_eq!(
            (refused.status, h2.status("/fuga/small.txt")),
            (429, 200),
            "{rule}"
        );
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        assert_eq!(refused.header("cache-control"), Some("no-store"));
    }
}

/// C22: the same totals, whatever the protocol.
fn hundred_streams_of_h2load_are_like_a_hundred_connections(mpm: Mpm) {
    let httpd = over_h2(mpm, "MaxRatePerIP 10/h").start();
    let place = format!("http://127.0.0.1:{}/hoge/small.txt", httpd.port());
    let said = Program::start("h2load", &format!("-n100 -c1 -m100 {place}")).finish();
    assert!(
        said.contains("status codes: 10 2xx, 0 3xx, 90 4xx, 0 5xx"),
        "{said}"
    );
    let client = httpd.client("127.0.0.3");
    let statuses = at_once(25, |_| [(); 4].map(|()| client.status("/hoge/small.txt")));
    let admitted = statuses.iter().flatten().filter(|status| **status == 200);
    assert_eq!(admitted.count(), 10);
    let gauge = httpd.gauge();
    let rule = "MaxRatePerIP@/hoge";
    assert_eq!(
        (gauge.passed(rule), gauge.refused(rule)),
        (20, 180),
        "{gauge:?}"
    );
}

/// On the same connection and on the next.
fn next_stream_knows_of_the_charge(mpm: Mpm) {
    let httpd = over_h2(mpm, "MaxRatePerIP 3/h on=404")
        .script(
            "hoge/status.cgi",
            "#!/bin/sh\nprintf 'Status: 404 None\\nContent-Type: text/plain\\n\\nnone\\n'\n",
        )
        .start();
    for n in 2..14 {
        let client = httpd.client(&format!("127.0.0.{n}"));
        let path = ["/hoge/none", "/hoge/status.cgi"][n % 2];
        let mut h2 = client.h2();
        assert_eq!(h2.status("/hoge/small.txt"), 200);
        let mut statuses = Vec::new();
        for _ in 0..4 {
            if n % 4 < 2 {
                h2 = client.h2();
            }
            // No more than the head: the next is sent before the stream has ended.
            statuses.push(h2.open(path).status());
        }
        assert_eq!(statuses, [404, 404, 404, 429], "{path}");
        assert_eq!(h2.status("/hoge/small.txt"), 429);
    }
}

fn refused_upload_ends_its_stream_only(mpm: Mpm) {
    let httpd = over_h2(mpm, "MaxRatePerIP 1/h").start();
    let h2 = httpd.client("127.0.0.2").h2();
    assert_eq!(h2.status("/hoge/small.txt"), 200);
    let mut upload = h2.upload("/hoge/hello.cgi");
    assert_eq!(upload.status(), 429);
    assert_eq!(h2.status("/fuga/small.txt"), 200);
    assert_eq!(h2.status("/hoge/small.txt"), 429);
}

/// Whoever opens streams and breaks them off has asked for as many.
fn cancelled_streams_cost_what_they_asked_for(mpm: Mpm) {
    let httpd = over_h2(mpm, "MaxRatePerIP 5/h").start();
    let client = httpd.client("127.0.0.2");
    let h2 = client.h2();
    let passed = || httpd.gauge().passed("MaxRatePerIP@/hoge");
    for n in 1..=5 {
        let mut stream = h2.open("/hoge/hold.cgi?none");
        stream.head();
        stream.cancel();
        wait_until(support::DEADLINE, || {
            h2.try_ping()?;
            let now = passed();
            if now == n {
                Ok(())
            } else {
                Err(now.to_string())
            }
        });
    }
    assert_eq!(h2.status("/hoge/small.txt"), 429);
    assert_eq!(client.status("/hoge/small.txt"), 429);
}
