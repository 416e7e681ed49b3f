//! No way around a rule: other spellings, good credentials, and everything that redirects.

mod support;

use support::{Client, Httpd, Mpm, Response, Setup, on_every_mpm};

on_every_mpm!(
    other_spellings_of_a_path_are_the_same_place,
    satisfy_any_lets_nobody_past,
);

/// One request at a time in /hoge, and nothing else limited.
const ONE: &str = "<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>\n";

/// As [`ONE`], but by the file that is served: some rewrites do not change the URI.
const ONE_ON_DISK: &str =
    "<Directory ${DOCROOT}/hoge>\n MaxConnPerIP 1 scope=location\n</Directory>\n";

/// While /hoge is full, `ask` must be refused; when it is free, `ask` must get there.
#[track_caller]
fn no_way_around(setup: Setup, ask: impl Fn(&Client) -> Response) {
    let httpd = setup.expect_refusals().start();
    let client = httpd.client("127.0.0.2");
    let served = ask(&client);
    assert_eq!(
        (served.status, served.text().as_str()),
        (200, "started\nended\n"),
        "the way leads there: {served:?}"
    );
    httpd.wait_for(|gauge| gauge.total() == 0);
    let held = client.hold("/hoge/hold.cgi");
    let refused = ask(&client);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(!refused.text().contains("started"), "{refused:?}");
    drop(held);
    httpd.wait_for(|gauge| gauge.total() == 0);
    assert_eq!(ask(&client).status, 200);
    httpd.wait_for(|gauge| gauge.total() == 0);
}

fn other_spellings_of_a_path_are_the_same_place(mpm: Mpm) {
    let httpd = Httpd::on(mpm).expect_refusals().conf(ONE).start();
    let client = httpd.client("127.0.0.2");
    let spellings = [
        "/hoge/hello.cgi",
        "//hoge/hello.cgi",
        "/hoge//hello.cgi",
        "/./hoge/hello.cgi",
        "/hoge/./hello.cgi",
        "/%68oge/hello.cgi",
        "/fuga/../hoge/hello.cgi",
        "/hoge/hello.cgi?query",
        "/hoge/hello.cgi/path/info",
        "http://localhost/hoge/hello.cgi",
    ];
    for path in spellings {
        assert_eq!(client.status(path), 200, "{path}");
        httpd.wait_for(|gauge| gauge.total() == 0);
    }
    let _held = client.hold("/hoge/hold.cgi");
    for path in spellings {
        assert_eq!(client.status(path), 503, "{path}");
    }
}

/// Under `Satisfy Any` good credentials overrule what access_checker said.
fn satisfy_any_lets_nobody_past(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .load(&["access_compat", "auth_basic", "authn_file", "authz_user"])
        .expect_refusals()
        .expect_log("AH01797")
        // The password is "secret".
        .file("../passwords", "anna:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
        .conf(
            "<Location /hoge>
                 MaxConnPerIP 1 scope=location
                 AuthType Basic
                 AuthName area
                 AuthUserFile ${TMP}/passwords
                 Require valid-user
                 Order deny,allow
                 Deny from all
                 Satisfy Any
             </Location>",
        )
        .start();
    let stranger = httpd.client("127.0.0.2");
    let anna = stranger
        .clone()
        .header("Authorization", "Basic YW5uYTpzZWNyZXQ=");
    assert_eq!(stranger.status("/hoge/hello.cgi"), 401);
    assert_eq!(anna.status("/hoge/hello.cgi"), 200);
    httpd.wait_for(|gauge| gauge.total() == 0);
    let held = anna.hold("/hoge/hold.cgi");
    assert_eq!(anna.status("/hoge/hello.cgi"), 503);
    drop(held);
    httpd.wait_for(|gauge| gauge.total() == 0);
    assert_eq!(anna.status("/hoge/hello.cgi"), 200);
}

#[test]
fn directory_index_is_no_way_around() {
    let setup = Httpd::on(Mpm::Event).conf("DirectoryIndex hold.cgi").conf(
        "<Location /hoge/hold.cgi>
             MaxConnPerIP 1 scope=location
         </Location>",
    );
    no_way_around(setup, |client| client.get("/hoge/"));
}

#[test]
fn fallback_resource_is_no_way_around() {
    let conf = "<Directory ${DOCROOT}/fuga>\n FallbackResource /hoge/hold.cgi\n</Directory>";
    no_way_around(Httpd::on(Mpm::Event).conf(ONE).conf(conf), |client| {
        client.get("/fuga/nothing")
    });
}

#[test]
fn rewrite_in_a_directory_is_no_way_around() {
    let conf = "<Directory ${DOCROOT}/fuga>\n RewriteEngine On\n RewriteRule ^go$ /hoge/hold.cgi\n</Directory>";
    no_way_around(
        Httpd::on(Mpm::Event)
            .load(&["rewrite"])
            .conf(ONE)
            .conf(conf),
        |client| client.get("/fuga/go"),
    );
}

#[test]
fn rewrite_of_the_server_is_no_way_around() {
    let through = "RewriteEngine On\nRewriteRule ^/go$ /hoge/hold.cgi [PT]";
    no_way_around(
        Httpd::on(Mpm::Event)
            .load(&["rewrite"])
            .conf(ONE)
            .conf(through),
        |client| client.get("/go"),
    );
    let to_file = "RewriteEngine On\nRewriteRule ^/go$ /hoge/hold.cgi";
    no_way_around(
        Httpd::on(Mpm::Event)
            .load(&["rewrite"])
            .conf(ONE_ON_DISK)
            .conf(to_file),
        |client| client.get("/go"),
    );
}

#[test]
fn alias_is_no_way_around_a_directory() {
    let conf = "Alias /other ${DOCROOT}/hoge";
    no_way_around(
        Httpd::on(Mpm::Event).conf(ONE_ON_DISK).conf(conf),
        |client| client.get("/other/hold.cgi"),
    );
}

#[test]
fn action_handler_is_no_way_around() {
    let conf =
        "Action through /hoge/hold.cgi virtual\n<Location /fuga>\n SetHandler through\n</Location>";
    no_way_around(
        Httpd::on(Mpm::Event)
            .load(&["actions"])
            .conf(ONE)
            .conf(conf),
        |client| client.get("/fuga/small.txt"),
    );
}

#[test]
fn error_document_of_another_error_is_no_way_around() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(ONE)
        .conf("ErrorDocument 404 /hoge/hold.cgi")
        .start();
    let client = httpd.client("127.0.0.2");
    let served = client.get("/nothing");
    assert_eq!(
        (served.status, served.text().as_str()),
        (404, "started\nended\n")
    );
    httpd.wait_for(|gauge| gauge.total() == 0);
    let held = client.hold("/hoge/hold.cgi");
    let refused = client.get("/nothing");
    assert!(
        !refused.text().contains("started"),
        "the script of a 404 ran past its limit: {refused:?}"
    );
    assert_eq!(httpd.gauge().refused("MaxConnPerIP@/hoge"), 1);
    drop(held);
    httpd.wait_for(|gauge| gauge.total() == 0);
    assert!(client.get("/nothing").text().contains("started"));
}

/// What was taken before a redirect stays taken, and both places are asked.
#[test]
fn redirect_holds_both_places() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(ONE)
        .conf("<Location /fuga>\n MaxConnPerIP 2 scope=location\n</Location>")
        .conf("<Directory ${DOCROOT}/fuga>\n FallbackResource /hoge/hold.cgi\n</Directory>")
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/fuga/nothing");
    let gauge = httpd.gauge();
    let counts =
        ["MaxConnPerIP@/hoge", "MaxConnPerIP@/fuga"].map(|rule| gauge.count_of(rule, "127.0.0.2"));
    assert_eq!(counts, [1, 1], "{gauge:?}");
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    drop(held);
    httpd.wait_for(|gauge| gauge.total() == 0);
}
