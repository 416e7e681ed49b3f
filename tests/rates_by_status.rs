//! `on=`: what is charged only when the answer has one of some statuses, and that the next
//! request knows of it.

mod support;

use support::{Client, Httpd, Mpm, Response, Setup, at_once, on_every_mpm};

on_every_mpm!(
    good_logins_never_trip_and_six_bad_ones_do,
    last_status_of_an_answer_is_what_counts,
    next_request_knows_of_the_charge,
    client_that_breaks_off_is_charged,
    rules_are_charged_each_for_its_own_statuses,
);

/// The user `joe` with the password `secret`.
const USERS: &str = "joe:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";
const GOOD: &str = "Basic am9lOnNlY3JldA==";
const BAD: &str = "Basic am9lOmd1ZXNz";

const LOGIN: &str = "AuthType Basic
             AuthName hoge
             AuthBasicProvider file
             AuthUserFile ${DOCROOT}/users
             Require valid-user";

fn with_users(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .load(&["auth_basic", "authn_file", "authz_user"])
        .expect_refusals()
        // Password mismatch.
        .expect_log("AH01617: ")
        .file("users", USERS)
}

/// C43: what counts are failures, and the bare first challenge may be left out.
fn good_logins_never_trip_and_six_bad_ones_do(mpm: Mpm) {
    let httpd = with_users(mpm)
        .conf(&format!(
            "<Location /hoge>
             {LOGIN}
             MaxHitsPerIP 5/600s on=401 freeze=600s
             IPLimitExempt \"expr=-z %{{HTTP:Authorization}}\"
             </Location>"
        ))
        .start();
    let client = httpd.client("127.0.0.2");
    let with = |value| client.clone().header("Authorization", value);
    let (good, bad) = (with(GOOD), with(BAD));
    for _ in 0..20 {
        assert_eq!(client.status("/hoge/small.txt"), 401, "the challenge");
        assert_eq!(good.status("/hoge/small.txt"), 200);
    }
    let statuses = [(); 7].map(|()| bad.status("/hoge/small.txt"));
    assert_eq!(statuses, [401, 401, 401, 401, 401, 401, 429]);
    assert_eq!(good.status("/hoge/small.txt"), 429);
    assert_eq!(client.status("/hoge/small.txt"), 401, "the challenge");
    assert_eq!(
        httpd
            .client("127.0.0.3")
            .header("Authorization", GOOD)
            .status("/hoge/small.txt"),
        200
    );
    let left = httpd.gauge().frozen("MaxHitsPerIP@/hoge", "127.0.0.2");
    assert!(
        left.is_some_and(|left| (500..=600).contains(&left)),
        "{left:?}"
    );
}

/// A place, what is said there, what of it is asked for and how, and the status of that.
type Ending = (&'static str, &'static str, &'static str, &'static str, u16);

const ENDINGS: &[Ending] = &[
    ("none", "", "none", "", 404),
    ("script", "", "status.cgi?403_Forbidden", "", 403),
    ("made", "", "status.cgi?201_Created", "", 201),
    ("empty", "", "status.cgi?204_No_Content", "", 204),
    ("denied", "Require all denied", "", "", 403),
    ("login", LOGIN, "", "", 401),
    ("bad", LOGIN, "", BAD_LINE, 401),
    ("page", "ErrorDocument 404 /hello.cgi", "none", "", 404),
    ("text", "ErrorDocument 404 \"no\"", "none", "", 404),
    ("lost", "ErrorDocument 404 /nowhere", "none", "", 404),
    // The error page itself is refused, the error stays.
    ("full", "ErrorDocument 404 /limited.html", "none", "", 404),
    (
        "away",
        "ErrorDocument 404 http://localhost/",
        "none",
        "",
        302,
    ),
    ("moved", "Redirect 307 /moved /hoge", "", "", 307),
    (
        "gone",
        "RewriteEngine On\n RewriteRule ^ - [G]",
        "x",
        "",
        410,
    ),
    ("bare", "", "small.txt", "If-None-Match: *\r\n", 304),
    ("part", "", "small.txt", "Range: bytes=0-0\r\n", 206),
    ("beyond", "", "small.txt", "Range: bytes=9-\r\n", 416),
    ("wrong", "", "wrong.cgi", "", 500),
    ("proxy", "ProxyPass http://127.0.0.1:1/", "", "", 503),
];
const BAD_LINE: &str = "Authorization: Basic am9lOmd1ZXNz\r\n";

const STATUS: &str = "#!/bin/sh
printf 'Status: %s\\nContent-Type: text/plain\\n\\n' \"$(echo \"$QUERY_STRING\" | tr _ ' ')\"
[ \"$QUERY_STRING\" = 204_No_Content ] || echo body
";

/// Of scripts, error pages, redirects, and whatever filters have made of it.
fn last_status_of_an_answer_is_what_counts(mpm: Mpm) {
    let mut setup = with_users(mpm).load(&["rewrite", "proxy", "proxy_http"]);
    for (place, lines, _, _, status) in ENDINGS {
        setup = setup
            .furnish(place)
            .script(&format!("{place}/status.cgi"), STATUS)
            .script(&format!("{place}/wrong.cgi"), "#!/bin/sh\necho wrong\n")
            .conf(&format!(
                "<Location /{place}>
                     MaxRatePerIP 1/h on={status}
                     {lines}
                 </Location>
                 <Location /{place}/never>
                     MaxRatePerIP 1/h on=299
                 </Location>"
            ));
    }
    // Denied; what a wrong script says; nobody at the backend.
    let lines = ["AH01630: ", "AH02429: ", "AH00957: ", "AH01114: "];
    let httpd = lines
        .iter()
        .fold(setup, |setup, line| setup.expect_log(line))
        .expect_log("wrong.cgi")
        .file("limited.html", "not found\n")
        .conf("<Location /limited.html>\n MaxRatePerIP 1/h\n</Location>")
        .start();
    for (place, _, path, more, status) in ENDINGS {
        // On one connection and on two, by two clients.
        for (address, keeps) in [("127.0.0.2", true), ("127.0.0.3", false)] {
            let client = httpd.client(address);
            client.status("/limited.html");
            let mut connection = client.connect();
            let mut ask = || {
                if !keeps {
                    connection = client.connect();
                }
                let text = connection.request("GET", &format!("/{place}/{path}"), more);
                connection.send(text);
                connection.response().status
            };
            let first = ask();
            // An error page may end the connection.
            if keeps && first >= 400 {
                connection = client.connect();
                let text = connection.request("GET", &format!("/{place}/{path}"), more);
                connection.send(text);
                assert_eq!(
                    (first, connection.response().status),
                    (*status, 429),
                    "{place}"
                );
            } else {
                assert_eq!((first, ask()), (*status, 429), "{place}");
            }
        }
    }
}

/// One address each for as many clients as are wanted.
fn clients(httpd: &Httpd, number: usize) -> Vec<Client> {
    (2..number + 2)
        .map(|n| httpd.client(&format!("127.0.1.{n}")))
        .collect()
}

/// However soon it comes: by one client after the other, and by many side by side.
fn next_request_knows_of_the_charge(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "<Location /hoge>
                 MaxRatePerIP 3/h on=404
             </Location>",
        )
        .script("hoge/status.cgi", STATUS)
        .start();
    let paths = ["/hoge/none", "/hoge/status.cgi?404_Not_Found"];
    let four = |ask: &mut dyn FnMut(&str) -> Response, path: &str| {
        assert_eq!(ask("/hoge/small.txt").status, 200);
        let statuses = [(); 4].map(|()| ask(path).status);
        assert_eq!(statuses, [404, 404, 404, 429], "{path}");
        assert_eq!(ask("/hoge/small.txt").status, 429);
    };
    let all = clients(&httpd, 48);
    let asks = |n: usize, client: &Client| {
        let path = paths[n % 2];
        if n % 4 < 2 {
            // Kept.
            let mut connection = client.connect();
            four(&mut |path| connection.get(path), path);
        } else {
            // Each of its own, and the next is there before the server has closed it.
            four(&mut |path| client.connect().get(path), path);
        }
    };
    for (n, client) in all.iter().enumerate().take(16) {
        asks(n, client);
    }
    at_once(8, |thread| {
        for (n, client) in all.iter().enumerate().skip(16) {
            if n % 8 == thread {
                asks(n / 8, client);
            }
        }
    });
}

/// What it has caused counts, whether it waits for the answer or not.
fn client_that_breaks_off_is_charged(mpm: Mpm) {
    let late = "#!/bin/sh
        gate=GATES/$QUERY_STRING
        if [ -p \"$gate\" ]; then { read -r line < \"$gate\"; } 2>/dev/null; fi
        printf 'Status: 403\\nContent-Type: text/plain\\n\\nno\\n'
        ";
    let setup = Httpd::on(mpm)
        .expect_refusals()
        // What httpd says when it cannot write.
        .expect_log("AH00574: ")
        .conf("<Location /hoge>\n MaxHitsPerIP 1/h on=403 freeze=1h\n MaxConnPerIP 10 scope=location\n</Location>");
    let gates = setup.dir().join("gates").display().to_string();
    let httpd = setup
        .script("hoge/late.cgi", &late.replace("GATES", &gates))
        .start();
    let client = httpd.client("127.0.0.2");
    for n in 0..2 {
        let gate = httpd.gate(&format!("late{n}"));
        let mut connection = client.connect();
        let text = connection.request("GET", &format!("/hoge/late.cgi?late{n}"), "");
        connection.send(text);
        httpd.wait_for(|gauge| gauge.total() == 1);
        assert_eq!(client.status("/hoge/small.txt"), 200);
        connection.reset();
        drop(gate);
        httpd.wait_for(|gauge| gauge.total() == 0);
    }
    httpd.wait_for(|gauge| gauge.frozen("MaxHitsPerIP@/hoge", "127.0.0.2").is_some());
    assert_eq!(client.status("/hoge/small.txt"), 429);
}

/// A window for one, a bucket for another, and one more outside the section.
fn rules_are_charged_each_for_its_own_statuses(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_log("AH01630: ")
        .conf(
            "MaxHitsPerIP 5/h on=403,404,410
             <Location /hoge>
                 MaxHitsPerIP 1/h on=404
                 MaxRatePerIP 2/h on=403
                 MaxRatePerIP 100/min
             </Location>
             <Location /hoge/denied>
                 Require all denied
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let ask = |path: &str| client.status(path);
    assert_eq!(ask("/hoge/small.txt"), 200);
    assert_eq!((ask("/hoge/none"), ask("/hoge/denied")), (404, 403));
    assert_eq!(ask("/hoge/small.txt"), 200);
    assert_eq!((ask("/hoge/none"), ask("/hoge/none")), (404, 429));
    assert_eq!(
        ask("/hoge/small.txt"),
        429,
        "two more than one are too many"
    );
    // Three of the five are gone; the refusals are no answers of the place.
    assert_eq!([(); 4].map(|()| ask("/fuga/none")), [404, 404, 404, 429]);
    assert_eq!(ask("/small.txt"), 429);
    let other = httpd.client("127.0.0.3");
    let denied = [(); 3].map(|()| other.status("/hoge/denied"));
    assert_eq!(denied, [403, 403, 429]);
    let gauge = httpd.gauge();
    for (rule, refused) in [
        ("MaxHitsPerIP@/hoge", 2),
        ("MaxRatePerIP@/hoge", 1),
        ("MaxHitsPerIP@server", 2),
    ] {
        assert_eq!(gauge.refused(rule), refused, "{rule}: {gauge:?}");
    }
}

/// Our own refusals are no answers of the place: who is refused at one rule is not charged at
/// another, whatever its statuses.
#[test]
fn refusals_of_ours_are_not_charged() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "MaxHitsPerIP 1/h on=429,503 freeze=1h
             <Location /hoge>
                 MaxRatePerIP 1/h
                 MaxConnPerIP 1 scope=location
             </Location>
             <Location /fuga>
                 MaxConnPerIP 1 scope=location
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/fuga/hold.cgi");
    for path in ["/fuga/small.txt", "/fuga/small.txt", "/fuga/small.txt"] {
        assert_eq!(client.status(path), 503);
    }
    let statuses = [(); 4].map(|()| client.status("/hoge/small.txt"));
    assert_eq!(statuses, [200, 429, 429, 429]);
    assert_eq!(httpd.gauge().rows("frozen").count(), 0);
}
