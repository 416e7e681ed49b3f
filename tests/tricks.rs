//! What a client, or a configuration that looks harmless, could try to be counted less
//! than it holds. Each was possible once.

mod support;

use support::{Client, Connection, Gate, Httpd, Mpm, on_every_mpm};

on_every_mpm!(
    pipelined_404_opens_no_door,
    forged_dummy_connection_hides_nobody,
    refused_include_leaves_the_page_its_place,
    every_included_place_is_asked,
);

/// What came of clients that each send `before` and a request for a script that waits
/// on one connection: how many of the scripts were admitted, and what holds them.
fn after(
    before: &str,
    httpd: &Httpd,
    client: &Client,
    number: usize,
) -> (usize, Vec<(Connection, Gate)>) {
    let mut admitted = 0;
    let held = (0..number).map(|n| {
        let gate = httpd.gate(&format!("trick{n}"));
        let mut connection = client.connect();
        let wanted = connection.request("GET", &format!("/hoge/hold.cgi?{}", gate.name()), "");
        connection.send(format!("{before}{wanted}"));
        connection.response();
        admitted += usize::from(connection.head().status == 200);
        (connection, gate)
    });
    let held = held.collect();
    (admitted, held)
}

/// Under pipelining the place of a request passes to the next one of its connection: but
/// only as far as the next one's own limit has room.
fn pipelined_404_opens_no_door(mpm: Mpm) {
    for scope in ["server", "vhost"] {
        let httpd = Httpd::on(mpm)
            .expect_refusals()
            .conf(&format!(
                "<Location /hoge>\n MaxConnPerIP 3 scope={scope} count=requests\n</Location>"
            ))
            .start();
        let client = httpd.client("127.0.0.2");
        let missing = client.connect().request("GET", "/nothing", "");
        let (admitted, held) = after(&missing, &httpd, &client, 8);
        assert_eq!(admitted, 3, "scope={scope}");
        httpd.wait_for(|gauge| gauge.total() == 3);
        drop(held);
        httpd.wait_for_quiet();
    }
}

/// The requests by which httpd wakes its own workers are counted nowhere. A client at the
/// server's own address can send one that looks like them, and is counted for the next.
fn forged_dummy_connection_hides_nobody(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf("MaxConnPerIP 2")
        .start();
    let client = httpd.client("127.0.0.1");
    let forged = "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nUser-Agent: x (internal dummy connection)\r\n\r\n";
    let (admitted, held) = after(forged, &httpd, &client, 6);
    assert_eq!(admitted, 2);
    drop(held);
    httpd.wait_for_quiet();
}

const INCLUDES: &str = "
    AddType text/html .shtml
    AddOutputFilter INCLUDES .shtml
    <Directory ${DOCROOT}>
        Options +Includes +ExecCGI
    </Directory>
";

fn refused_include_leaves_the_page_its_place(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .load(&["include"])
        .expect_refusals()
        .expect_log("unable to include")
        .conf(INCLUDES)
        .conf(
            "<Location /fuga>
                 MaxConnPerIP 1 scope=server count=requests
             </Location>",
        )
        .file(
            "page.shtml",
            "<!--#include virtual=\"/fuga/small.txt\" --><!--#include virtual=\"/hoge/hold.cgi?${QUERY_STRING}\" -->",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    let gate = httpd.gate("page");
    let mut page = client.connect();
    page.send(page.request("GET", &format!("/page.shtml?{}", gate.name()), ""));
    httpd.wait_for(|gauge| gauge.refused("MaxConnPerIP@/fuga") == 1 && gauge.total() == 2);
    drop(gate);
    assert_eq!(page.response().status, 200);
    drop(page);
}

/// Places that exist only as long as their subrequest must not be taken for each other.
fn every_included_place_is_asked(mpm: Mpm) {
    let places = ["a", "b", "c"];
    let sections: String = places
        .iter()
        .map(|place| {
            format!(
                "<Location /{place}>\n MaxConnPerIP 1 scope=location\n NoIPLimit off\n</Location>\n"
            )
        })
        .collect();
    let includes: String = places
        .iter()
        .map(|place| format!("<!--#include virtual=\"/{place}/x.txt\" -->"))
        .collect();
    let mut setup = Httpd::on(mpm)
        .load(&["include"])
        .conf(INCLUDES)
        // Each section is merged with this one, in the subrequest's own pool.
        .conf("<Location />\n IPLimitDefaults count=requests\n NoIPLimit image/none\n</Location>")
        .conf(&sections)
        .file("page.shtml", includes);
    for place in places {
        setup = setup.file(&format!("{place}/x.txt"), "x");
    }
    let httpd = setup.start();
    assert_eq!(httpd.client("127.0.0.2").status("/page.shtml"), 200);
    for place in places {
        httpd.wait_for(|gauge| gauge.passed(&format!("MaxConnPerIP@/{place}")) == 1);
    }
}

/// Names that are not UTF-8 are names: two of them are two places.
#[test]
fn places_that_are_not_utf8_are_told_apart() {
    let section = |name: &[u8]| {
        [
            b"<Location \"/",
            name,
            b"\">\n MaxConnPerIP 2 scope=location\n</Location>\n",
        ]
        .concat()
    };
    let httpd = Httpd::on(Mpm::Event)
        .file(
            "bytes.conf",
            [section(b"caf\xe9"), section(b"th\xe9")].concat(),
        )
        .conf("Include ${DOCROOT}/bytes.conf")
        .start();
    let gauge = httpd.gauge();
    let mut names: Vec<_> = gauge
        .rows("rules")
        .map(|row| row["rule"].to_string())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["\"MaxConnPerIP@/caf%E9\"", "\"MaxConnPerIP@/th%E9\""]
    );
}

/// An `<Else>` is named after its `<If>`, outside sections too.
#[test]
fn else_of_one_condition_is_not_that_of_another() {
    let pair = |agent: &str, limit: u16| {
        format!(
            "<If \"%{{HTTP_USER_AGENT}} == '{agent}'\">\n</If>\n<Else>\n MaxConnPerIP {limit} scope=location\n</Else>\n"
        )
    };
    let httpd = Httpd::on(Mpm::Event)
        .conf(&pair("a", 7))
        .conf(&pair("b", 8))
        .start();
    let gauge = httpd.gauge();
    let mut limits: Vec<_> = gauge
        .rows("rules")
        .map(|row| row["limit"].as_u64())
        .collect();
    limits.sort();
    assert_eq!(limits, [Some(7), Some(8)], "{gauge:?}");
}
