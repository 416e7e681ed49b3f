//! `NoIPLimit` and `OnlyIPLimit`: what is let through by its type.

mod support;

use support::{Client, Httpd, Mpm, Setup, on_every_mpm};

on_every_mpm!(types_are_matched_as_the_table_says);

const FILES: [&str; 7] = [
    "a.mp4", "a.webm", "a.ogg", "a.mp3", "a.png", "a.PNG", "a.css",
];

fn with_files(mpm: Mpm, lines: &str) -> Setup {
    let mut setup = Httpd::on(mpm).expect_refusals().conf(&format!(
        "AddType video/mp4 .mp4\nAddType video/webm .webm\nAddType audio/ogg .ogg\nAddType audio/mpeg .mp3
         AddType image/png .png\nAddType text/css .css
         <Location /hoge>\n MaxConnPerIP 1 scope=location\n {lines}\n</Location>"
    ));
    for name in FILES {
        setup = setup.file(&format!("hoge/{name}"), "x");
    }
    setup.file("hoge/unknown", "x")
}

/// Of these, what is refused while the one place of /hoge is taken.
fn limited(client: &Client) -> Vec<&'static str> {
    let asked = FILES.into_iter().chain(["hello.cgi", "unknown"]);
    asked
        .filter(|name| client.status(&format!("/hoge/{name}")) == 503)
        .collect()
}

/// C08: exact types, prefixes and wildcards, in any case. A script has no type yet when the rule
/// looks: it is not let through by `image/*`, and not limited by `OnlyIPLimit`.
fn types_are_matched_as_the_table_says(mpm: Mpm) {
    let everything: &[&str] = &[
        "a.mp4",
        "a.webm",
        "a.ogg",
        "a.mp3",
        "a.png",
        "a.PNG",
        "a.css",
        "hello.cgi",
        "unknown",
    ];
    let table: &[(&str, &[&str])] = &[
        ("", everything),
        (
            "OnlyIPLimit audio/mpeg video",
            &["a.mp4", "a.webm", "a.mp3"],
        ),
        (
            "OnlyIPLimit VIDEO AUDIO/MPEG",
            &["a.mp4", "a.webm", "a.mp3"],
        ),
        ("OnlyIPLimit image/*", &["a.png", "a.PNG"]),
        (
            "OnlyIPLimit image/p?g video/*4",
            &["a.mp4", "a.png", "a.PNG"],
        ),
        (
            "OnlyIPLimit video\nOnlyIPLimit text/css",
            &["a.mp4", "a.webm", "a.css"],
        ),
        (
            "NoIPLimit image/*",
            &[
                "a.mp4",
                "a.webm",
                "a.ogg",
                "a.mp3",
                "a.css",
                "hello.cgi",
                "unknown",
            ],
        ),
        (
            "NoIPLimit Image/PNG video",
            &["a.ogg", "a.mp3", "a.css", "hello.cgi", "unknown"],
        ),
        (
            "NoIPLimit video\nNoIPLimit audio image\nNoIPLimit text/css",
            &["hello.cgi", "unknown"],
        ),
        (
            "OnlyIPLimit video audio\nNoIPLimit audio/ogg",
            &["a.mp4", "a.webm", "a.mp3"],
        ),
        ("OnlyIPLimit video\nNoIPLimit video/webm", &["a.mp4"]),
    ];
    for (lines, expected) in table {
        // The hold itself must be governed, or nothing is held: a big video is, under every list
        // but those that let it through.
        let holder = if lines.is_empty() || lines.starts_with("NoIPLimit") {
            "hold.cgi"
        } else {
            ""
        };
        let httpd = with_files(mpm, lines)
            .big_file("hoge/held.mp4", 20 << 20)
            .big_file("hoge/held.png", 20 << 20)
            .start();
        let client = httpd.client("127.0.0.2");
        let _held = match holder {
            "" if expected.contains(&"a.mp4") => client.read_slowly("/hoge/held.mp4"),
            "" => client.read_slowly("/hoge/held.png"),
            script => client.hold(&format!("/hoge/{script}")),
        };
        assert_eq!(limited(&client), *expected, "{lines}");
    }
}

/// A lone `*` also lets through what has no type.
#[test]
fn star_lets_everything_through() {
    let httpd = with_files(Mpm::Event, "NoIPLimit *")
        .expect_log("limitipconn(202): ")
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    assert_eq!(limited(&client), [""; 0]);
}

/// What is let through is in no scope=location count, but in those of virtual host and server.
#[test]
fn what_is_let_through_counts_in_wider_scopes_only() {
    let httpd = with_files(Mpm::Event, "NoIPLimit video")
        .conf("<Location /fuga>\n MaxConnPerIP 3 scope=vhost\n</Location>")
        .big_file("hoge/held.mp4", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    let _videos = [(); 3].map(|()| client.read_slowly("/hoge/held.mp4"));
    assert_eq!(
        client.status("/hoge/hello.cgi"),
        200,
        "no video is in the count of /hoge"
    );
    httpd.wait_for(|gauge| gauge.held() == 3);
    assert_eq!(
        client.status("/fuga/small.txt"),
        503,
        "but all are in that of the virtual host"
    );
}

/// A section that says a list replaces the inherited one; `off` empties it.
#[test]
fn list_of_a_section_replaces_the_inherited() {
    let httpd = with_files(Mpm::Event, "NoIPLimit video image")
        .furnish("hoge/sub")
        .furnish("hoge/off")
        .file("hoge/sub/a.png", "x")
        .file("hoge/sub/a.css", "x")
        .file("hoge/off/a.png", "x")
        .conf("<Location /hoge/sub>\n NoIPLimit text/css\n</Location>\n<Location /hoge/off>\n NoIPLimit off\n</Location>")
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    let statuses = [
        "/hoge/a.png",
        "/hoge/sub/a.png",
        "/hoge/sub/a.css",
        "/hoge/off/a.png",
    ]
    .map(|path| client.status(path));
    assert_eq!(statuses, [200, 503, 200, 503]);
}

/// The lists of the server level filter the server level only, and never the directory level.
#[test]
fn lists_do_not_cross_levels() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .file("hoge/a.png", "x")
        .file("fuga/a.png", "x")
        .conf(
            "MaxConnPerIP 2 count=requests
             NoIPLimit image/*
             <Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = (client.hold("/hoge/hold.cgi"), client.hold("/fuga/hold.cgi"));
    let statuses =
        ["/hoge/a.png", "/fuga/a.png", "/fuga/small.txt"].map(|path| client.status(path));
    assert_eq!(statuses, [503, 200, 503]);
}
