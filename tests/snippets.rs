//! The ways in which people write it, one file each under tests/snippets: every one loads,
//! and limits as its comment says.
//!
//! The files are as written; a test replaces ports, and paths outside its own directory.

#![cfg(feature = "httpd")]

mod support;

use std::fs;
use std::path::Path;

use support::{Client, DEADLINE, Held, Httpd, Mpm, Setup, on_every_mpm, wait_until};

on_every_mpm!(
    s1_counts_the_whole_server_and_lets_images_through,
    s2_limits_some_types_only,
    s3_has_a_cap_and_a_tighter_number_for_user_directories,
    s4_answers_with_a_text_over_two_lines,
    s5_has_a_number_and_a_list_for_the_inner_location,
    s6_lets_the_customers_htaccess_win_over_the_hosters_directory,
    s7_limits_by_a_wrapper_inside_a_section,
    s8_adds_lists_up_and_takes_the_limit_away_below,
    s9_limits_in_every_kind_of_section,
    s10_has_a_log_for_refusals_and_a_busy_page_that_is_never_limited,
    s12_limits_in_front_of_an_application,
);

const S1: &str = include_str!("snippets/S1.conf");
const S2: &str = include_str!("snippets/S2.conf");
const S3: &str = include_str!("snippets/S3.conf");
const S4: &str = include_str!("snippets/S4.conf");
const S5: &str = include_str!("snippets/S5.conf");
const S6: &str = include_str!("snippets/S6.conf");
const S7: &str = include_str!("snippets/S7.conf");
const S8: &str = include_str!("snippets/S8.conf");
const S9: &str = include_str!("snippets/S9.conf");
const S10: &str = include_str!("snippets/S10.conf");
const S12: &str = include_str!("snippets/S12.conf");

#[test]
fn every_snippet_passes_configtest_as_written() {
    for snippet in [S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S12] {
        let setup = Httpd::on(Mpm::Event)
            .load(&["proxy", "proxy_http"])
            .conf(snippet);
        fs::create_dir(setup.dir().join("logs")).unwrap();
        let test = setup.configtest();
        assert_eq!(test.code, 0, "{snippet}\n{}", test.stderr);
        assert!(
            test.stderr.contains("Syntax OK"),
            "{snippet}\n{}",
            test.stderr
        );
    }
}

/// What we hand out loads as it is, and says nothing: with mod_remoteip and without.
#[test]
fn every_example_passes_configtest_as_installed() {
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf");
    let examples = fs::read_dir(conf.join("examples")).unwrap();
    let mut texts: Vec<String> = examples
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!texts.is_empty(), "no examples in {}", conf.display());
    let commented = fs::read_to_string(conf.join("limitipconn.conf")).unwrap();
    texts.push(uncommented(&commented));
    texts.push(commented);
    for text in texts {
        for modules in [&[][..], &["remoteip"]] {
            let test = Httpd::on(Mpm::Event)
                .load(modules)
                .conf("Define APACHE_LOG_DIR ${TMP}")
                .conf(&text)
                .configtest();
            assert_eq!(
                (test.code, test.stderr.trim()),
                (0, "Syntax OK"),
                "{modules:?}\n{text}"
            );
        }
    }
}

/// The file with its examples in effect: those lines have no blank after the mark, or
/// the four of an indented line.
fn uncommented(text: &str) -> String {
    let of_line = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') || rest.starts_with("    ") => rest.to_owned(),
        _ => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().map(of_line).collect();
    lines.join("\n") + "\n"
}

fn s1_counts_the_whole_server_and_lets_images_through(mpm: Mpm) {
    let httpd = server(mpm)
        .conf(S1)
        .furnish("download")
        .file("download/a.png", "")
        .start();
    let client = httpd.client("127.0.0.2");
    let elsewhere = hold(&client, "/fuga/hold.cgi", 3);
    assert_eq!(client.status("/download/small.txt"), 503);
    assert_eq!(client.status("/download/a.png"), 200);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    assert_eq!(httpd.client("127.0.0.3").status("/download/small.txt"), 200);
    let lines = httpd.wait_for_log("limitipconn(101): client 127.0.0.2 refused");
    assert!(
        lines[0].contains(": 4/3, rule MaxConnPerIP@/download, "),
        "{lines:?}"
    );
    drop(elsewhere);
    wait_until(DEADLINE, || is(200, client.status("/download/small.txt")));
    end(httpd, ());
}

fn s2_limits_some_types_only(mpm: Mpm) {
    let httpd = server(mpm)
        .conf(S2)
        .file("podcast/a.mp4", "")
        .file("podcast/a.mp3", "")
        .file("podcast/a.ogg", "")
        .file("podcast/a.html", "")
        .start();
    let client = httpd.client("127.0.0.2");
    let one = client.hold("/fuga/hold.cgi");
    assert_eq!(client.status("/podcast/a.mp4"), 503);
    assert_eq!(client.status("/podcast/a.mp3"), 503);
    assert_eq!(client.status("/podcast/a.ogg"), 200);
    assert_eq!(client.status("/podcast/a.html"), 200);
    end(httpd, one);
}

fn s3_has_a_cap_and_a_tighter_number_for_user_directories(mpm: Mpm) {
    let setup = server(mpm)
        .conf(&S3.replace("\"/home", "\"${TMP}/home"))
        .conf(
            "Alias /~bob ${TMP}/home/bob/public_html
         <Directory ${TMP}/home>
             Require all granted
         </Directory>",
        );
    outside(&setup, "home/bob/public_html", &["a.zip", "a.html"]);
    let httpd = setup.start();
    let client = httpd.client("127.0.0.2");
    let two = hold(&client, "/fuga/hold.cgi", 2);
    assert_eq!(client.status("/~bob/a.zip"), 503);
    assert_eq!(client.status("/~bob/a.html"), 200);
    let many = httpd.client("127.0.0.3");
    let all = hold(&many, "/fuga/hold.cgi", 25);
    assert_eq!(many.status("/fuga/small.txt"), 503);
    let lines = httpd.wait_for_log("limitipconn(101): client 127.0.0.3 refused");
    assert!(
        lines[0].contains(": 26/25, rule MaxConnPerIP@server, "),
        "{lines:?}"
    );
    end(httpd, (two, all));
}

fn s4_answers_with_a_text_over_two_lines(mpm: Mpm) {
    let httpd = server(mpm)
        .conf(S4)
        .furnish("iso")
        .file("iso/a.iso", "")
        .start();
    let client = httpd.client("127.0.0.2");
    let one = client.hold("/fuga/hold.cgi");
    let refused = client.get("/iso/a.iso");
    assert_eq!(refused.status, 503);
    let text = refused.text();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "Too many parallel transfers from your address. Wait for one of them to end, then retry."
    );
    assert_eq!(client.status("/iso/small.txt"), 200);
    end(httpd, one);
}

fn s5_has_a_number_and_a_list_for_the_inner_location(mpm: Mpm) {
    let httpd = server(mpm)
        .expect_log("limitipconn(206): ")
        .conf(&S5.replace("*:80", "*:${PORT}"))
        .furnish("clips")
        .file("clips/a.mp4", "")
        .file("a.png", "")
        .start();
    let client = httpd.client("127.0.0.2");
    let two = hold(&client, "/fuga/hold.cgi", 2);
    assert_eq!(client.status("/clips/a.mp4"), 503);
    assert_eq!(client.status("/clips/small.txt"), 200);
    let other = httpd.client("127.0.0.3");
    let five = hold(&other, "/fuga/hold.cgi", 5);
    assert_eq!(other.status("/small.txt"), 503);
    assert_eq!(other.status("/a.png"), 200);
    end(httpd, (two, five));
}

fn s6_lets_the_customers_htaccess_win_over_the_hosters_directory(mpm: Mpm) {
    let httpd = server(mpm)
        .conf(
            "AddType application/x-httpd-php .php
             <Directory ${DOCROOT}/customer>
                 AllowOverride Limit
                 MaxConnPerIP 2
             </Directory>",
        )
        .conf(room_for_many(mpm))
        .file("customer/.htaccess", S6)
        .file("customer/a.php", "")
        .file("customer/a.html", "")
        .start();
    let client = httpd.client("127.0.0.2");
    let many = hold(&client, "/fuga/hold.cgi", 79);
    assert_eq!(client.status("/customer/a.php"), 200);
    let last = client.hold("/fuga/hold.cgi");
    assert_eq!(client.status("/customer/a.php"), 503);
    assert_eq!(client.status("/customer/a.html"), 200);
    end(httpd, (many, last));
}

fn s7_limits_by_a_wrapper_inside_a_section(mpm: Mpm) {
    let httpd = server(mpm).conf(S7).furnish("dav").start();
    let client = httpd.client("127.0.0.2");
    let five = hold(&client, "/dav/hold.cgi", 5);
    assert_eq!(client.status("/dav/small.txt"), 503);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    end(httpd, five);
}

fn s8_adds_lists_up_and_takes_the_limit_away_below(mpm: Mpm) {
    let httpd = server(mpm)
        .conf("AddType application/javascript .js")
        .conf(S8)
        .furnish("health")
        .file("a.png", "")
        .file("a.css", "")
        .file("a.js", "")
        .start();
    let client = httpd.client("127.0.0.2");
    let ten = hold(&client, "/fuga/hold.cgi", 10);
    assert_eq!(client.status("/small.txt"), 503);
    for let_through in ["/a.png", "/a.css", "/a.js", "/health/small.txt"] {
        assert_eq!(client.status(let_through), 200, "{let_through}");
    }
    end(httpd, ten);
}

fn s9_limits_in_every_kind_of_section(mpm: Mpm) {
    let setup = server(mpm)
        .conf(&S9.replace("/srv/www", "${TMP}/srv/www"))
        .conf(
            "Alias /shop ${TMP}/srv/www/shop
             <Directory ${TMP}/srv>
                 Require all granted
             </Directory>",
        )
        .conf(room_for_many(mpm))
        .file("get/a.iso", "")
        .file("get/a.html", "")
        .file("a.mkv", "");
    outside(&setup, "srv/www/shop", &["a.html", "a.mp4"]);
    let httpd = setup.start();
    let client = httpd.client("127.0.0.2");
    let two = hold(&client, "/fuga/hold.cgi", 2);
    for limited in ["/get/a.iso", "/a.mkv", "/shop/a.mp4"] {
        assert_eq!(client.status(limited), 503, "{limited}");
    }
    for free in ["/get/a.html", "/shop/a.html"] {
        assert_eq!(client.status(free), 200, "{free}");
    }
    let bot = client.header("User-Agent", "SomeBot/1.0");
    assert_eq!(bot.status("/get/a.html"), 503);
    let many = httpd.client("127.0.0.3");
    let more = hold(&many, "/fuga/hold.cgi", 149);
    assert_eq!(many.status("/shop/a.html"), 200);
    let most = many.hold("/fuga/hold.cgi");
    assert_eq!(many.status("/shop/a.html"), 503);
    end(httpd, (two, more, most));
}

fn s10_has_a_log_for_refusals_and_a_busy_page_that_is_never_limited(mpm: Mpm) {
    let setup = server(mpm)
        .conf(
            "<Location />
                 MaxConnPerIP 1 scope=server
             </Location>",
        )
        .expect_log("limitipconn(206): ")
        .conf(S10)
        .file("busy.html", "busy\n");
    fs::create_dir(setup.dir().join("logs")).unwrap();
    let httpd = setup.start();
    let client = httpd.client("127.0.0.2");
    let one = client.hold("/fuga/hold.cgi");
    let refused = client.get("/hoge/small.txt");
    assert_eq!((refused.status, refused.text().as_str()), (503, "busy\n"));
    assert_eq!(client.status("/busy.html"), 200);
    one.finish();
    let log = |name| fs::read_to_string(httpd.dir().join("logs").join(name)).unwrap_or_default();
    let access = wait_until(DEADLINE, || {
        Some(log("access"))
            .filter(|text| text.contains("/busy.html") && text.contains("hold.cgi"))
            .ok_or("not all is logged")
    });
    assert!(!access.contains(" 503 "), "{access}");
    let ours = access.lines().filter(|line| line.starts_with("127.0.0.2 "));
    assert!(
        ours.into_iter()
            .all(|line| line.ends_with(" 200 limited=-")),
        "{access}"
    );
    let refusals = log("refused");
    assert_eq!(refusals.lines().count(), 1, "{refusals}");
    assert!(
        refusals.ends_with(" \"GET /hoge/small.txt HTTP/1.1\" 503 limited=1\n"),
        "{refusals}"
    );
    end(httpd, ());
}

fn s12_limits_in_front_of_an_application(mpm: Mpm) {
    let httpd = server(mpm)
        .load(&["proxy", "proxy_http"])
        .conf("Listen 127.0.0.1:${PORT2}\n<VirtualHost *:${PORT2}>\nKeepAlive Off\n</VirtualHost>")
        .conf("<VirtualHost *:${PORT}>")
        .conf(&S12.replace("18100", "${PORT2}"))
        .conf("</VirtualHost>")
        .furnish("api")
        .start();
    let client = httpd.client("127.0.0.2");
    let ten = hold(&client, "/api/hold.cgi", 10);
    assert_eq!(client.status("/api/small.txt"), 503);
    assert_eq!(client.status("/fuga/small.txt"), 200);
    assert_eq!(httpd.client("127.0.0.3").status("/api/small.txt"), 200);
    for held in ten {
        assert!(held.finish().text().ends_with("ended\n"));
    }
    end(httpd, ());
}

/// A server on which a plain rule in a section may refuse, and is warned about.
fn server(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .expect_refusals()
        .expect_log("limitipconn(205): ")
}

fn hold(client: &Client, path: &str, number: usize) -> Vec<Held> {
    (0..number).map(|_| client.hold(path)).collect()
}

fn is(expected: u16, status: u16) -> Result<(), u16> {
    if status == expected {
        Ok(())
    } else {
        Err(status)
    }
}

/// Lets everything end before the server stops: event, told to stop, closes its workers'
/// connections, and may meet one that is just going.
fn end<T>(httpd: Httpd, held: T) {
    drop(held);
    httpd.wait_for_quiet();
}

/// Empty files in a directory beside the document root.
fn outside(setup: &Setup, directory: &str, files: &[&str]) {
    let place = setup.dir().join(directory);
    fs::create_dir_all(&place).unwrap();
    for file in files {
        fs::write(place.join(file), "").unwrap();
    }
}

/// Workers for the snippets with large numbers.
fn room_for_many(mpm: Mpm) -> &'static str {
    match mpm {
        Mpm::Prefork => {
            "ServerLimit 192\nMaxRequestWorkers 192\nStartServers 170\nMinSpareServers 8\nMaxSpareServers 192"
        }
        Mpm::Worker | Mpm::Event => {
            "ThreadsPerChild 48\nMaxRequestWorkers 192\nStartServers 4\nMinSpareThreads 8\nMaxSpareThreads 192"
        }
    }
}
