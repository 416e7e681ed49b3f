//! IPLimitHeaders: what the fields RateLimit and RateLimit-Policy tell, on which answers.

mod support;

use support::{Client, Httpd, Mpm, Response, on_every_mpm};

on_every_mpm!(
    answers_of_a_limited_place_tell_their_limit,
    several_rules_are_one_list,
    internal_redirects_tell_each_rule_once,
);

/// All that both fields say, lines joined as any reader does.
fn told(answer: &Response) -> (String, String) {
    let all = |name: &str| {
        let values = answer.headers.iter().filter(|(n, _)| n == name);
        values
            .map(|(_, value)| value.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    (all("ratelimit-policy"), all("ratelimit"))
}

fn items(names_and_limits: &[(&str, u16)], left: &[u32]) -> (String, String) {
    let policies = names_and_limits
        .iter()
        .map(|(name, limit)| format!("\"{name}\";q={limit};qu=\"concurrent-requests\""));
    let states = names_and_limits
        .iter()
        .zip(left)
        .map(|((name, _), left)| format!("\"{name}\";r={left}"));
    (
        policies.collect::<Vec<_>>().join(", "),
        states.collect::<Vec<_>>().join(", "),
    )
}

fn nothing() -> (String, String) {
    (String::new(), String::new())
}

#[track_caller]
fn get_from(client: &Client, host: &str, path: &str) -> Response {
    let mut connection = client.connect();
    connection.send(connection.request(
        "GET",
        path,
        &format!("Host: {host}\r\nConnection: close\r\n"),
    ));
    let answer = connection.response();
    // The server's end says that the place is free again, too.
    let end = std::io::copy(connection.reader(), &mut std::io::sink());
    assert!(matches!(end, Ok(0)), "{end:?}");
    answer
}

fn answers_of_a_limited_place_tell_their_limit(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_log("AH01630")
        .load(&["rewrite"])
        .conf(
            "IPLimitHeaders On
             <Location /hoge>
                 MaxConnPerIP 3 scope=location
             </Location>
             <Directory ${DOCROOT}/hoge>
                 RewriteEngine On
                 RewriteRule ^moved$ /fuga/small.txt [R]
             </Directory>
             <Location /hoge/exempt>
                 IPLimitExempt all
             </Location>
             <Location /hoge/secret>
                 Require all denied
             </Location>
             <Location /hoge/off>
                 MaxConnPerIP off
             </Location>
             <Location /hoge/silent>
                 IPLimitHeaders Off
             </Location>",
        )
        .furnish("hoge/exempt")
        .furnish("hoge/silent")
        .furnish("hoge/off")
        .start();
    let client = httpd.client("127.0.0.2");
    let of_hoge = |left| items(&[("MaxConnPerIP@/hoge", 3)], &[left]);
    assert_eq!(
        told(&client.get("/hoge/small.txt")),
        (
            String::from("\"MaxConnPerIP@/hoge\";q=3;qu=\"concurrent-requests\""),
            String::from("\"MaxConnPerIP@/hoge\";r=2")
        )
    );
    let tag = client
        .get("/hoge/small.txt")
        .header("etag")
        .expect("a tag")
        .to_owned();
    let cached = client
        .clone()
        .header("If-None-Match", &tag)
        .get("/hoge/small.txt");
    assert_eq!((cached.status, told(&cached)), (304, of_hoge(2)));
    for (path, status) in [
        ("/hoge/hello.cgi", 200),
        ("/hoge/", 200),
        ("/hoge/none", 404),
        ("/hoge/moved", 302),
        ("/hoge/secret/", 403),
        ("/hoge", 301),
    ] {
        let answer = client.get(path);
        assert_eq!(
            (answer.status, told(&answer)),
            (status, of_hoge(2)),
            "{path}"
        );
    }
    for path in [
        "/hoge/exempt/small.txt",
        "/hoge/silent/small.txt",
        "/hoge/off/small.txt",
        "/fuga/small.txt",
    ] {
        assert_eq!(told(&client.get(path)), nothing(), "{path}");
    }
    let first = client.hold("/hoge/hold.cgi");
    assert_eq!(told(first.head()), of_hoge(2));
    let second = client.hold("/hoge/hold.cgi");
    assert_eq!(told(second.head()), of_hoge(1));
    let third = client.hold("/hoge/hold.cgi");
    assert_eq!(told(third.head()), of_hoge(0));
    let refused = client.get("/hoge/small.txt");
    assert_eq!((refused.status, told(&refused)), (503, of_hoge(0)));
    let silent = client.get("/hoge/silent/small.txt");
    assert_eq!((silent.status, told(&silent)), (503, nothing()));
    let other = httpd.client("127.0.0.3").get("/hoge/small.txt");
    assert_eq!((other.status, told(&other)), (200, of_hoge(2)));
}

/// Rules of both levels, in the order in which they were asked.
fn several_rules_are_one_list(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "IPLimitHeaders On
             MaxConnPerIP 4 count=requests
             <Location /hoge>
                 MaxConnPerIP 2 scope=location
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let rules = [("MaxConnPerIP@server", 4), ("MaxConnPerIP@/hoge", 2)];
    let ask = |path: &str| {
        let answer = client.get(path);
        (answer.status, told(&answer))
    };
    assert_eq!(ask("/hoge/small.txt"), (200, items(&rules, &[3, 1])));
    assert_eq!(ask("/fuga/small.txt"), (200, items(&rules[..1], &[3])));
    let _one = client.hold("/hoge/hold.cgi");
    assert_eq!(ask("/hoge/small.txt"), (200, items(&rules, &[2, 0])));
    let _two = client.hold("/hoge/hold.cgi");
    assert_eq!(ask("/hoge/small.txt"), (503, items(&rules, &[1, 0])));
    assert_eq!(ask("/fuga/small.txt"), (200, items(&rules[..1], &[1])));
    let _more = [(); 2].map(|()| client.hold("/fuga/hold.cgi"));
    assert_eq!(
        ask("/hoge/small.txt"),
        (503, items(&rules[..1], &[0])),
        "the server's refuses first"
    );
}

/// DirectoryIndex, FallbackResource and ErrorDocument lead on; each rule is told once.
fn internal_redirects_tell_each_rule_once(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .load(&["rewrite"])
        .conf(
            "IPLimitHeaders On
             IPLimitErrorStatus 429
             MaxConnPerIP 9 count=requests
             ErrorDocument 404 /fuga/small.txt
             ErrorDocument 429 /fuga/small.txt
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>
             <Location /fuga>
                 MaxConnPerIP 5 scope=location
             </Location>
             <Directory ${DOCROOT}/hoge/app>
                 FallbackResource /hoge/hello.cgi
             </Directory>
             RewriteEngine On
             <Directory ${DOCROOT}/hoge/rewritten>
                 RewriteEngine On
                 RewriteRule .* /fuga/small.txt
             </Directory>",
        )
        .file("hoge/app/there.txt", "there\n")
        .file("hoge/rewritten/there.txt", "there\n")
        .start();
    let client = httpd.client("127.0.0.2");
    let (server, hoge, fuga) = (
        ("MaxConnPerIP@server", 9),
        ("MaxConnPerIP@/hoge", 1),
        ("MaxConnPerIP@/fuga", 5),
    );
    for (path, status, expected) in [
        ("/hoge/", 200, items(&[server, hoge], &[8, 0])),
        ("/hoge/app/gone", 200, items(&[server, hoge], &[8, 0])),
        ("/hoge/none", 404, items(&[server, hoge, fuga], &[8, 0, 4])),
        ("/fuga/none", 404, items(&[server, fuga], &[8, 4])),
        ("/none", 404, items(&[server, fuga], &[8, 4])),
        (
            "/hoge/rewritten/there.txt",
            200,
            items(&[server, hoge, fuga], &[8, 0, 4]),
        ),
    ] {
        let answer = client.get(path);
        assert_eq!((answer.status, told(&answer)), (status, expected), "{path}");
    }
    let _held = client.hold("/hoge/hold.cgi");
    let refused = client.get("/hoge/small.txt");
    assert_eq!(
        (refused.status, refused.text().as_str(), told(&refused)),
        (429, "ok\n", items(&[server, hoge], &[7, 0])),
        "the page of a refusal is asked of no rule"
    );
}

#[test]
fn nothing_is_told_by_default() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf("MaxConnPerIP 9 count=requests\n<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>")
        .start();
    let client = httpd.client("127.0.0.2");
    assert_eq!(told(&client.get("/hoge/small.txt")), nothing());
    let _held = client.hold("/hoge/hold.cgi");
    let refused = client.get("/hoge/small.txt");
    assert_eq!((refused.status, told(&refused)), (503, nothing()));
}

/// In a section they are about rules of sections; in a virtual host about its own answers.
#[test]
fn virtual_hosts_and_sections_choose() {
    let httpd = Httpd::on(Mpm::Event)
        .conf(
            "MaxConnPerIP 4 count=requests
             <Location /hoge>
                 MaxConnPerIP 2 scope=location
                 IPLimitHeaders On
             </Location>
             <VirtualHost *:${PORT}>
                 ServerName quiet
                 DocumentRoot ${DOCROOT}
             </VirtualHost>
             <VirtualHost *:${PORT}>
                 ServerName telling
                 DocumentRoot ${DOCROOT}
                 IPLimitHeaders On
             </VirtualHost>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let (server, hoge) = (("MaxConnPerIP@server", 4), ("MaxConnPerIP@/hoge", 2));
    for (host, path, expected) in [
        ("quiet", "/fuga/small.txt", nothing()),
        ("quiet", "/hoge/small.txt", items(&[hoge], &[1])),
        ("telling", "/fuga/small.txt", items(&[server], &[3])),
        (
            "telling",
            "/hoge/small.txt",
            items(&[server, hoge], &[3, 1]),
        ),
    ] {
        assert_eq!(
            told(&get_from(&client, host, path)),
            expected,
            "{host}{path}"
        );
    }
}

/// The name of a rule stands in a string of structured fields.
#[test]
fn regular_expression_of_a_section_is_escaped() {
    let httpd = Httpd::on(Mpm::Event)
        .conf("<LocationMatch \"^/hog\\w/[^\\\"]+\\.txt$\">\n MaxConnPerIP 2 scope=location\n IPLimitHeaders On\n</LocationMatch>")
        .start();
    let answer = httpd.client("127.0.0.2").get("/hoge/small.txt");
    let (policy, state) = told(&answer);
    assert!(
        policy.ends_with(";q=2;qu=\"concurrent-requests\""),
        "{policy}"
    );
    let name = state.strip_suffix(";r=1").expect("what is left");
    assert!(
        name.starts_with("\"MaxConnPerIP@") && name.ends_with('"'),
        "{name}"
    );
    assert!(name.contains(r"^/hog\\w/"), "{name}");
    let inner = &name[1..name.len() - 1];
    let unescaped = inner.replace("\\\\", "").replace("\\\"", "");
    assert!(!unescaped.contains(['"', '\\']), "{name}");
    assert!(
        policy.starts_with(name),
        "both fields name it alike: {policy}"
    );
}

/// What a dry run would have refused is served, and tells that nothing was left.
#[test]
fn marked_answers_tell_their_limit() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf("IPLimitHeaders On\nIPLimitDryRun On\n<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>")
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    let marked = client.get("/hoge/small.txt");
    let expected = items(&[("MaxConnPerIP@/hoge", 1)], &[0]);
    assert_eq!((marked.status, told(&marked)), (200, expected));
    assert_eq!(marked.header("retry-after"), None);
}
