//! No request counts twice: pages of includes, and all that httpd looks up on its own.

mod support;

use support::{Httpd, Mpm, on_every_mpm};

on_every_mpm!(page_with_ten_includes_counts_once);

/// One request at a time in /hoge, and nothing else limited.
const ONE: &str = "<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>\n";

/// Pages of server-side includes.
const INCLUDES: &str = "<Directory ${DOCROOT}>
    Options +Includes
    AddType text/html .shtml
    AddOutputFilter INCLUDES .shtml
</Directory>";

fn page_with_ten_includes_counts_once(mpm: Mpm) {
    let page = "<!--#include virtual=\"part.html\"-->\n".repeat(9)
        + "<!--#include virtual=\"hello.cgi\"-->\n";
    let httpd = Httpd::on(mpm)
        .load(&["include"])
        .conf(ONE)
        .conf(INCLUDES)
        .file("hoge/page.shtml", page)
        .file("hoge/part.html", "part\n")
        .start();
    let answer = httpd.client("127.0.0.2").get("/hoge/page.shtml");
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert_eq!(
        (text.matches("part").count(), text.matches("hello").count()),
        (9, 1),
        "{text}"
    );
    let gauge = httpd.wait_for_quiet();
    assert_eq!(gauge.passed("MaxConnPerIP@/hoge"), 1, "{gauge:?}");
}

#[test]
fn include_from_a_full_place_shows_the_error_of_includes() {
    let httpd = Httpd::on(Mpm::Event)
        .load(&["include"])
        .expect_refusals()
        .expect_log("unable to include")
        .conf(ONE)
        .conf(INCLUDES)
        .file(
            "page.shtml",
            "before\n<!--#include virtual=\"/hoge/hello.cgi\"-->\nafter\n",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    assert!(client.get("/page.shtml").text().contains("hello"));
    httpd.wait_for_quiet();
    let _held = client.hold("/hoge/hold.cgi");
    let page = client.get("/page.shtml");
    assert_eq!(page.status, 200);
    let text = page.text();
    assert!(
        text.contains("before") && text.contains("after") && !text.contains("hello"),
        "{text}"
    );
    assert!(
        text.contains("error occurred while processing this directive"),
        "{text}"
    );
}

#[test]
fn multiviews_count_once() {
    let conf = "<Directory ${DOCROOT}/hoge>\n Options +MultiViews\n</Directory>";
    let httpd = Httpd::on(Mpm::Event)
        .load(&["negotiation"])
        .conf(ONE)
        .conf(conf)
        .file("hoge/doc.html", "doc\n")
        .file("hoge/doc.txt", "doc\n")
        .file("hoge/doc.xml", "doc\n")
        .start();
    for _ in 0..3 {
        assert_eq!(httpd.client("127.0.0.2").get("/hoge/doc").text(), "doc\n");
        httpd.wait_for_quiet();
    }
    assert_eq!(httpd.gauge().passed("MaxConnPerIP@/hoge"), 3);
}

#[test]
fn index_of_a_directory_counts_once() {
    let mut setup = Httpd::on(Mpm::Event)
        .load(&["autoindex"])
        .conf(ONE)
        .conf("<Directory ${DOCROOT}/hoge>\n Options +Indexes\n DirectoryIndex none\n</Directory>");
    for n in 0..20 {
        setup = setup.file(&format!("hoge/file{n}.txt"), "x");
    }
    let httpd = setup.start();
    let page = httpd.client("127.0.0.2").get("/hoge/");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("file19.txt"), "{}", page.text());
    let gauge = httpd.wait_for_quiet();
    assert_eq!(gauge.passed("MaxConnPerIP@/hoge"), 1, "{gauge:?}");
}
