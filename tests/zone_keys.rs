//! What the keys of zones are made of: addresses, networks, expressions of httpd's; and when
//! a key is empty. What is shown of one stands in zone_labels.

mod support;

use support::{Httpd, Mpm, Setup, on_every_mpm};

on_every_mpm!(
    networks_share_a_key,
    expressions_make_keys,
    user_is_the_key_once_he_is_known,
    user_is_a_part_of_the_key_beside_others,
    query_argument_is_a_part_of_the_key,
    random_keys_do_not_disturb_each_other,
);

/// /hoge with these zones and rules.
fn in_hoge(mpm: Mpm, zones: &str, rules: &str) -> Setup {
    Httpd::on(mpm).expect_refusals().conf(&format!(
        "{zones}
         <Location /hoge>
             {rules}
         </Location>"
    ))
}

/// By address, as mod_remoteip tells it, in all lengths.
fn networks_share_a_key(mpm: Mpm) {
    let httpd = in_hoge(
        mpm,
        "RemoteIPHeader X-Client
         RemoteIPInternalProxy 127.0.0.1
         IPLimitZone wide key=client/16,48
         IPLimitZone one key=client
         IPLimitZone everybody key=ALL",
        "MaxConnPerKey wide 2
         MaxConnPerKey one 1
         MaxConnPerKey everybody 4",
    )
    .load(&["remoteip"])
    .start();
    let from = |address: &str| httpd.client("127.0.0.1").header("X-Client", address);
    let status = |address: &str| from(address).status("/hoge/small.txt");
    let _v6 =
        ["2001:db8:1:1::1", "2001:db8:1:2::1"].map(|address| from(address).hold("/hoge/hold.cgi"));
    assert_eq!(status("2001:db8:1:1::2"), 503, "the same /64");
    assert_eq!(status("2001:db8:1:ff::1"), 503, "the same /48");
    assert_eq!(status("2001:db8:2::1"), 200, "another /48");
    let _v4 = ["198.51.100.1", "198.51.7.2"].map(|address| from(address).hold("/hoge/hold.cgi"));
    assert_eq!(status("198.51.200.3"), 503, "the same /16");
    assert_eq!(status("203.0.113.1"), 503, "the fifth of all");
    let gauge = httpd.gauge();
    for (zone, key, count) in [
        ("wide", "2001:db8:1::/48", 2),
        ("wide", "198.51.0.0/16", 2),
        ("one", "2001:db8:1:1::/64", 1),
        ("one", "2001:db8:1:2::/64", 1),
        ("one", "198.51.100.1", 1),
        ("everybody", "all", 4),
    ] {
        let rule = format!("MaxConnPerKey:{zone}@zone");
        assert_eq!(gauge.count_of(&rule, key), count, "{rule} {key}: {gauge:?}");
    }
    assert_eq!(gauge.refused("MaxConnPerKey:wide@/hoge"), 3, "{gauge:?}");
    let lines = httpd.wait_for_log("client 203.0.113.1 refused: ");
    assert!(
        lines[0].contains("5/4, rule MaxConnPerKey:everybody@/hoge"),
        "{lines:?}"
    );
}

/// Each with its own request that has the key, and one that has another.
fn expressions_make_keys(mpm: Mpm) {
    let cases = [
        ("key=%{HTTP:X-Api-Key}", "", "k"),
        ("key=%{http_host}", "", "www.example"),
        (
            "\"key=%{HTTP_HOST} %{HTTP:X-Api-Key}\"",
            "",
            "www.example k",
        ),
        ("key=\"%{REQUEST_METHOD}-%{HTTP:X-Api-Key}\"", "", "GET-k"),
        ("key=%{IPLIMIT_CLIENT}:%{HTTP:X-Api-Key}", "", "127.0.0.2:k"),
        (
            "key=%{reqenv:who}",
            "SetEnvIf X-Api-Key ^k$ who=partner\nSetEnvIf X-Api-Key ^other$ who=else",
            "partner",
        ),
        ("\"key=%{tolower:%{HTTP:X-Api-Key}}\"", "", "k"),
    ];
    for (key, more, shown) in cases {
        let zone = format!("IPLimitZone z {key}\n{more}");
        let httpd = in_hoge(mpm, &zone, "MaxConnPerKey z 1")
            .load(&["setenvif"])
            .start();
        let from = |host: &str, key: &str| {
            let client = httpd.client("127.0.0.2");
            client.header("Host", host).header("X-Api-Key", key)
        };
        let _held = from("www.example", "k").hold("/hoge/hold.cgi");
        let gauge = httpd.gauge();
        assert_eq!(
            gauge.count_of("MaxConnPerKey:z@zone", shown),
            1,
            "{key}: {gauge:?}"
        );
        let again = from("www.example", "k").status("/hoge/small.txt");
        assert_eq!(again, 503, "{key}");
        let other = from("other.example", "other").status("/hoge/small.txt");
        assert_eq!(other, 200, "{key}");
        assert_eq!(gauge.number("faults"), 0, "{gauge:?}");
    }
    // Without a header there is no key, and no rule.
    let httpd = in_hoge(
        mpm,
        "IPLimitZone z key=%{HTTP:X-Api-Key}",
        "MaxConnPerKey z 1",
    )
    .start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 3].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(httpd.gauge().total(), 0);
    let empty = client.header("X-Api-Key", "");
    assert_eq!(empty.status("/hoge/small.txt"), 200);
}

/// Outside sections and within: after the walk there is no user yet, at the end of fixups there is.
fn user_is_the_key_once_he_is_known(mpm: Mpm) {
    let area = "AuthType Basic
                AuthName area
                AuthUserFile ${TMP}/passwords
                Require valid-user";
    let rules = "MaxConnPerKey user 1\nMaxRatePerKey user 5/h scope=zone";
    for (outside, inside) in [("", rules), (rules, "")] {
        let httpd = Httpd::on(mpm)
            .load(&["auth_basic", "authn_file", "authz_user"])
            .expect_refusals()
            .expect_log("AH01617")
            // The passwords are "secret".
            .file(
                "../passwords",
                "anna:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nbert:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n",
            )
            .conf(&format!(
                "IPLimitZone user key=%{{REMOTE_USER}}
                 {outside}
                 <Location /hoge>
                     {area}
                     {inside}
                 </Location>"
            ))
            .start();
        let stranger = httpd.client("127.0.0.2");
        let user = |basic: &str| {
            stranger
                .clone()
                .header("Authorization", &format!("Basic {basic}"))
        };
        let (anna, bert) = (user("YW5uYTpzZWNyZXQ="), user("YmVydDpzZWNyZXQ="));
        let held = anna.hold("/hoge/hold.cgi");
        let gauge = httpd.gauge();
        assert_eq!(
            gauge.count_of("MaxConnPerKey:user@zone", "anna"),
            1,
            "{gauge:?}"
        );
        assert_eq!(anna.status("/hoge/small.txt"), 503);
        assert_eq!(bert.status("/hoge/small.txt"), 200);
        // Who is nobody is limited nowhere, and who has no password is no key's.
        for _ in 0..8 {
            assert_eq!(stranger.status("/small.txt"), 200);
            assert_eq!(stranger.status("/hoge/small.txt"), 401);
            assert_eq!(user("YW5uYTp3cm9uZw==").status("/hoge/small.txt"), 401);
        }
        held.finish();
        for _ in 0..4 {
            httpd.wait_for(|gauge| gauge.total() == 0);
            assert_eq!(anna.status("/hoge/small.txt"), 200);
        }
        httpd.wait_for(|gauge| gauge.total() == 0);
        assert_eq!(anna.status("/hoge/small.txt"), 429, "the sixth of five");
        assert_eq!(bert.status("/hoge/small.txt"), 200);
    }
}

/// The host alone would be a key before the user is known, and everybody's.
fn user_is_a_part_of_the_key_beside_others(mpm: Mpm) {
    for (outside, inside) in [("", "MaxConnPerKey both 1"), ("MaxConnPerKey both 1", "")] {
        let httpd = Httpd::on(mpm)
            .load(&["auth_basic", "authn_file", "authz_user", "setenvif"])
            .expect_refusals()
            // The passwords are "secret".
            .file(
                "../passwords",
                "anna:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nbert:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n",
            )
            .conf(&format!(
                "IPLimitZone both key=\"%{{REMOTE_USER}} %{{HTTP_HOST}}%{{reqenv:mark}}\"
                 IPLimitExempt 127.0.0.99
                 {outside}
                 <Location /hoge>
                     AuthType Basic
                     AuthName area
                     AuthUserFile ${{TMP}}/passwords
                     Require valid-user
                     SetEnv mark /hoge
                     {inside}
                 </Location>"
            ))
            .start();
        let user = |basic: &str, host: &str| {
            let client = httpd.client("127.0.0.2").header("Host", host);
            client.header("Authorization", &format!("Basic {basic}"))
        };
        let (anna, bert) = ("YW5uYTpzZWNyZXQ=", "YmVydDpzZWNyZXQ=");
        let _held = [
            user(anna, "one").hold("/hoge/hold.cgi"),
            user(bert, "one").hold("/hoge/hold.cgi"),
        ];
        let gauge = httpd.gauge();
        for key in ["anna one/hoge", "bert one/hoge"] {
            let count = gauge.count_of("MaxConnPerKey:both@zone", key);
            assert_eq!(count, 1, "{outside}{inside}: {key}: {gauge:?}");
        }
        assert_eq!(user(anna, "one").status("/hoge/small.txt"), 503);
        assert_eq!(user(anna, "two").status("/hoge/small.txt"), 200);
    }
}

/// nginx 5: the same argument is refused, another one passes; for rates likewise.
fn query_argument_is_a_part_of_the_key(mpm: Mpm) {
    let httpd = in_hoge(
        mpm,
        "IPLimitZone arg \"key=%{IPLIMIT_CLIENT} %{QUERY_STRING}\"",
        "MaxConnPerKey arg 1",
    )
    .conf("<Location /fuga>\n MaxRatePerKey arg 2/h\n</Location>")
    .start();
    let client = httpd.client("127.0.0.2");
    let gate = httpd.gate("a");
    let mut held = client.connect();
    held.send(held.request("GET", "/hoge/hold.cgi?a", ""));
    assert_eq!(held.head().status, 200);
    assert_eq!(client.status("/hoge/small.txt?a"), 503);
    assert_eq!(client.status("/hoge/small.txt?b"), 200);
    assert_eq!(
        client.status("/hoge/small.txt"),
        200,
        "the key is the address then"
    );
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt?a"), 200);
    drop(gate);
    let statuses =
        ["a", "a", "a", "b", "b", "b"].map(|arg| client.status(&format!("/fuga/small.txt?{arg}")));
    assert_eq!(statuses, [200, 200, 429, 200, 200, 429]);
    assert_eq!(httpd.client("127.0.0.3").status("/fuga/small.txt?a"), 200);
}

/// One place each; after them all is as before.
fn random_keys_do_not_disturb_each_other(mpm: Mpm) {
    let httpd = in_hoge(
        mpm,
        "IPLimitZone api key=%{HTTP:X-Api-Key}
         MaxRatePerKey api 2/h scope=zone
         IPLimitExempt 127.0.0.99",
        "MaxConnPerKey api 1",
    )
    .start();
    // Keys that differ in a few bits only, and keys of all lengths.
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let keys: Vec<String> = (0..100)
        .map(|n| match n % 2 {
            0 => format!("{:x}", n / 2),
            _ => format!("{:016x}", next()).repeat(n),
        })
        .collect();
    let with = |key: &str| httpd.client("127.0.0.2").header("X-Api-Key", key);
    let held: Vec<_> = keys[..40]
        .iter()
        .map(|key| with(key).hold("/hoge/hold.cgi"))
        .collect();
    for key in &keys[..40] {
        assert_eq!(with(key).status("/hoge/small.txt"), 503, "{key}");
    }
    for key in &keys[40..] {
        assert_eq!(with(key).status("/fuga/small.txt"), 200, "{key}");
    }
    held.into_iter().for_each(|held| drop(held.finish()));
    httpd.wait_for(|gauge| gauge.total() == 0);
    // One token was left of each.
    for key in &keys {
        let statuses = [(); 2].map(|()| with(key).status("/fuga/small.txt"));
        assert_eq!(statuses, [200, 429], "{key}");
    }
    let gauge = httpd.gauge();
    let numbers = ["untracked", "evictions", "audit_mismatches"].map(|name| gauge.number(name));
    assert_eq!((numbers, gauge.total()), ([0; 3], 0), "{gauge:?}");
}
