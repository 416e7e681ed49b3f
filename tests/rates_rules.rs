//! Rates in sections, virtual hosts and .htaccess: which of them are in effect, and what is
//! one bucket.

mod support;

use support::{Client, Httpd, Mpm, Setup, on_every_mpm};

on_every_mpm!(
    two_periods_stand_side_by_side,
    section_replaces_what_is_like_it,
    networks_have_rates_of_their_own,
    htaccess_takes_rates_but_no_delay,
);

#[track_caller]
fn statuses<const N: usize>(client: &Client, path: &str) -> [u16; N] {
    [(); N].map(|()| client.status(path))
}

fn over(mpm: Mpm, places: &[&str]) -> Setup {
    let setup = Httpd::on(mpm).expect_refusals();
    places
        .iter()
        .fold(setup, |setup, place| setup.furnish(place))
}

/// The one of a day has the least room at first, then the other.
fn two_periods_stand_side_by_side(mpm: Mpm) {
    for name in ["MaxRatePerIP", "MaxHitsPerIP"] {
        let httpd = over(mpm, &[])
            .conf(&format!(
                "<Location /hoge>
                     {name} 4/h
                     {name} 6/d
                 </Location>
                 <Location /fuga>
                     {name} 6/h
                     {name} 4/d
                 </Location>"
            ))
            .start();
        let client = httpd.client("127.0.0.2");
        for place in ["hoge", "fuga"] {
            let path = format!("/{place}/small.txt");
            assert_eq!(
                statuses(&client, &path),
                [200, 200, 200, 200, 429],
                "{name} {place}"
            );
        }
        // Two rules of one name.
        let gauge = httpd.gauge();
        for place in ["hoge", "fuga"] {
            let rule = format!("{name}@/{place}");
            assert_eq!(
                (gauge.passed(&rule), gauge.refused(&rule)),
                (8, 1),
                "{gauge:?}"
            );
        }
    }
    for rules in [
        "MaxRatePerIP 4/h\nMaxRatePerIP 5/h",
        "MaxHitsPerIP 4/h\nMaxHitsPerIP 5/1h",
    ] {
        let section = format!("<Location /hoge>\n{rules}\n</Location>");
        let said = Httpd::on(mpm).conf(&section).configtest();
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.stderr.contains(&rules[..12]), "{}", said.stderr);
    }
}

/// Of its own period, and the bucket is the place's where the rule is written; the server's
/// rate stands above them all.
fn section_replaces_what_is_like_it(mpm: Mpm) {
    let httpd = over(mpm, &["a", "a/more", "a/day", "a/off", "a/hits", "a/same"])
        .conf(
            "MaxRatePerIP 40/d
             <Location /a>
                 MaxRatePerIP 3/h
                 MaxRatePerIP 7/d
             </Location>
             <Location /a/more>
                 MaxRatePerIP 5/h
             </Location>
             <Location /a/day>
                 MaxRatePerIP 2/d
             </Location>
             <Location /a/off>
                 MaxRatePerIP off
             </Location>
             <Location /a/hits>
                 MaxHitsPerIP 1/h
             </Location>
             <Location /a/same>
                 NoIPLimit video/*
             </Location>",
        )
        .start();
    let ask = |address: &str, place: &str| -> [u16; 9] {
        statuses(&httpd.client(address), &format!("/{place}/small.txt"))
    };
    let first = |number: usize| std::array::from_fn(|n| if n < number { 200 } else { 429 });
    for (n, (place, number)) in [
        ("a", 3),
        ("a/more", 5),
        ("a/day", 2),
        ("a/off", 9),
        ("a/hits", 1),
        ("a/same", 3),
    ]
    .into_iter()
    .enumerate()
    {
        let address = format!("127.0.1.{n}");
        assert_eq!(ask(&address, place), first(number), "{place}");
    }
    // Two places of one rule are one bucket.
    let client = httpd.client("127.0.0.2");
    assert_eq!(statuses(&client, "/a/same/small.txt"), [200, 200]);
    assert_eq!(statuses(&client, "/a/small.txt"), [200, 429]);
    // Three of forty are gone; no section lifts the server's.
    let forty = (0..40).map(|_| client.status("/a/off/small.txt"));
    assert_eq!(forty.filter(|status| *status == 200).count(), 37);
}

fn networks_have_rates_of_their_own(mpm: Mpm) {
    for name in ["MaxRatePerIP", "MaxHitsPerIP"] {
        let httpd = over(mpm, &[])
            .conf(&format!(
                "<Location /hoge>
                     {name} 2/h
                     {name} 5/h for=127.0.1.0/24
                     {name} off for=127.0.1.128/25
                 </Location>"
            ))
            .start();
        for (address, number) in [
            ("127.0.0.2", 2),
            ("127.0.0.3", 2),
            ("127.0.1.1", 5),
            ("127.0.1.2", 5),
            ("127.0.1.200", 8),
        ] {
            let asked: [u16; 8] = statuses(&httpd.client(address), "/hoge/small.txt");
            let expected = std::array::from_fn(|n| if n < number { 200 } else { 429 });
            assert_eq!(asked, expected, "{name} {address}");
        }
    }
}

fn htaccess_takes_rates_but_no_delay(mpm: Mpm) {
    let httpd = over(mpm, &["hoge/inner", "hits", "on", "wrong", "late"])
        .conf("<Directory ${DOCROOT}>\n AllowOverride Limit\n</Directory>")
        // The only rules are met at run time.
        .expect_log("limitipconn(201): ")
        .expect_log("wrong/.htaccess: ")
        .expect_log("late/.htaccess: ")
        .file("hoge/.htaccess", "MaxRatePerIP 2/h\n")
        .file("hoge/inner/.htaccess", "MaxRatePerIP off\n")
        .file("hits/.htaccess", "MaxHitsPerIP 1/h freeze=2h\n")
        .file("on/.htaccess", "MaxRatePerIP 1/h on=404\n")
        .file("wrong/.htaccess", "MaxRatePerIP 10\n")
        .file("late/.htaccess", "MaxRatePerIP 10/h delay=5\n")
        .start();
    let client = httpd.client("127.0.0.2");
    assert_eq!(statuses(&client, "/hoge/small.txt"), [200, 200, 429, 429]);
    assert_eq!(statuses(&client, "/hoge/inner/small.txt"), [200; 4]);
    assert_eq!(statuses(&client, "/hits/small.txt"), [200, 429, 429]);
    assert_eq!(statuses(&client, "/on/small.txt"), [200; 3]);
    assert_eq!(statuses(&client, "/on/none"), [404, 429]);
    for (place, says) in [("wrong", "\"10\""), ("late", "delay=")] {
        assert_eq!(client.status(&format!("/{place}/small.txt")), 500);
        let lines = httpd.wait_for_log(&format!("{place}/.htaccess"));
        assert!(
            lines[0].contains("MaxRatePerIP") && lines[0].contains(says),
            "{lines:?}"
        );
    }
    assert_eq!(client.status("/fuga/small.txt"), 200);
    // Over a graceful, and in other children.
    httpd.graceful();
    assert_eq!(client.status("/hoge/small.txt"), 429);
    assert_eq!(client.status("/hits/small.txt"), 429);
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
}
