//! IPLimitDryRun: what is over a number is served, marked and told, and each place, section
//! and virtual host chooses. That the marks are the refusals stands in dry_marks.

mod support;

use support::{DEADLINE, Httpd, Mpm, on_every_mpm, wait_until};

on_every_mpm!(
    over_the_limit_is_served_and_marked,
    section_and_virtual_host_choose,
);

const MARKS: &str =
    "LogFormat \"%U %>s limited=%<{LIMITIP}e %<{LIMITIP_STATUS}e %<{LIMITIP_RULE}e\" marks
                     CustomLog ${TMP}/marks marks";

/// The lines of the access log about one path.
#[track_caller]
fn marks_of(httpd: &Httpd, path: &str, number: usize) -> Vec<String> {
    wait_until(DEADLINE, || {
        let text = std::fs::read_to_string(httpd.dir().join("marks")).unwrap_or_default();
        let lines = text
            .lines()
            .filter(|line| line.starts_with(&format!("{path} ")));
        let lines: Vec<_> = lines.map(str::to_owned).collect();
        if lines.len() == number {
            Ok(lines)
        } else {
            Err(text)
        }
    })
}

/// nginx 7: served, marked and told; a nested place that is no dry run refuses.
fn over_the_limit_is_served_and_marked(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(MARKS)
        .conf(
            "<Location /hoge>
                 MaxConnPerIP 1 scope=location
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
    let served = client.get("/hoge/small.txt");
    assert_eq!((served.status, served.text().as_str()), (200, "ok\n"));
    for name in ["retry-after", "cache-control", "ratelimit"] {
        assert_eq!(served.header(name), None, "{name}");
    }
    assert_eq!(
        marks_of(&httpd, "/hoge/small.txt", 1),
        ["/hoge/small.txt 200 limited=- REJECTED_DRY_RUN MaxConnPerIP@/hoge"]
    );
    let lines = httpd.wait_for_log("limitipconn(101): ");
    let said = format!(
        "limitipconn(101): client 127.0.0.2 would be refused (dry run): too many connections from this host: 2/1, \
         rule MaxConnPerIP@/hoge, vhost localhost:{}, uri \"/hoge/small.txt\"",
        httpd.port()
    );
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(&said), "{}\n{said}", lines[0]);

    assert_eq!(client.status("/hoge/inner/small.txt"), 503);
    assert_eq!(
        marks_of(&httpd, "/hoge/inner/small.txt", 1),
        ["/hoge/inner/small.txt 503 limited=1 REJECTED MaxConnPerIP@/hoge"]
    );
    let rule = "MaxConnPerIP@/hoge";
    assert_eq!(
        (httpd.gauge().marked(rule), httpd.gauge().refused(rule)),
        (1, 1)
    );
    held.finish();
    assert_eq!(
        marks_of(&httpd, "/hoge/hold.cgi", 1),
        ["/hoge/hold.cgi 200 limited=- PASSED MaxConnPerIP@/hoge"]
    );
    httpd.wait_for(|gauge| gauge.total() == 0);
}

/// In the main server it is for both levels and all virtual hosts; a virtual host and a
/// section choose for themselves.
fn section_and_virtual_host_choose(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitDryRun On
             MaxConnPerIP 2 count=requests
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>
             <Location /fuga>
                 MaxConnPerIP 1 scope=location
                 IPLimitDryRun Off
             </Location>
             <VirtualHost *:${PORT}>
                 ServerName dry
                 DocumentRoot ${DOCROOT}
             </VirtualHost>
             <VirtualHost *:${PORT}>
                 ServerName enforced
                 DocumentRoot ${DOCROOT}
                 IPLimitDryRun Off
             </VirtualHost>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let ask = |host: &str, path: &str| {
        let mut connection = client.connect();
        let more = format!("Host: {host}\r\nConnection: close\r\n");
        connection.send(connection.request("GET", path, &more));
        let status = connection.response().status;
        // The server's end says that the place is free again, too.
        let end = std::io::copy(connection.reader(), &mut std::io::sink());
        assert!(matches!(end, Ok(0)), "{end:?}");
        status
    };
    let _hoge = client.hold("/hoge/hold.cgi");
    assert_eq!(
        ask("dry", "/hoge/small.txt"),
        200,
        "marked by the section's rule"
    );
    assert_eq!(
        ask("enforced", "/hoge/small.txt"),
        503,
        "the section says nothing, its server Off"
    );
    let _fuga = client.hold("/fuga/hold.cgi");
    assert_eq!(
        ask("dry", "/fuga/small.txt"),
        503,
        "marked by the server's rule, refused by the section's"
    );
    assert_eq!(ask("enforced", "/small.txt"), 503, "the server's rule");
    assert_eq!(ask("dry", "/small.txt"), 200, "marked by the server's rule");
    let gauge = httpd.gauge();
    assert_eq!(gauge.refused("MaxConnPerIP@server"), 1, "{gauge:?}");
    assert_eq!(gauge.refused("MaxConnPerIP@/hoge"), 1, "{gauge:?}");
    assert_eq!(gauge.refused("MaxConnPerIP@/fuga"), 1, "{gauge:?}");
}
