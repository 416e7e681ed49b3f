//! IPLimitRedis and shared as they are written: what is refused, with file and line, what is
//! warned about, and that no password shows anywhere.

#![cfg(feature = "redis")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use support::{Httpd, Mpm, Redis, all_are_errors, verdict_of};

#[test]
fn bad_lines_are_refused_with_file_and_line() {
    let redis = "IPLimitRedis redis://127.0.0.1:6379\n";
    all_are_errors(&[
        (
            "MaxConnPerIP 3 count=requests shared",
            "MaxConnPerIP 3",
            &[
                "MaxConnPerIP@server",
                "\"shared\"",
                "IPLimitRedis redis://HOST:6379",
            ],
        ),
        (
            "<Location /hoge>\n MaxRatePerIP 3/s shared\n</Location>",
            "MaxRatePerIP 3",
            &["MaxRatePerIP@/hoge", "\"shared\""],
        ),
        ("IPLimitRedis", "IPLimitRedis", &["redis://"]),
        (
            "IPLimitRedis localhost:6379",
            "IPLimitRedis localhost",
            &["\"localhost:6379\"", "redis://[user:password@]host:port/db"],
        ),
        (
            &format!("{redis}IPLimitRedis redis://127.0.0.1:6380"),
            "IPLimitRedis redis://127.0.0.1:6380",
            &["is the second", "keep one"],
        ),
        (
            "IPLimitRedis redis://127.0.0.1 lease=1s",
            "IPLimitRedis",
            &["lease=\"1s\"", "3s to 1h"],
        ),
        (
            "IPLimitRedis redis://127.0.0.1 on-failure=maybe",
            "IPLimitRedis",
            &["on-failure=\"maybe\"", "local|open|closed"],
        ),
        (
            "IPLimitRedis redis://127.0.0.1 password-file=missing",
            "IPLimitRedis",
            &["password-file=\"missing\"", "cannot be read"],
        ),
        (
            "<VirtualHost *:${PORT}>\nIPLimitRedis redis://127.0.0.1\n</VirtualHost>",
            "IPLimitRedis redis",
            &["IPLimitRedis"],
        ),
        (
            &format!("{redis}MaxConnPerIP 3 count=connections shared"),
            "MaxConnPerIP 3",
            &["\"shared\"", "use count=requests"],
        ),
        (
            &format!("{redis}<Location /hoge>\n MaxConnPerIP 3 count=workers shared\n</Location>"),
            "MaxConnPerIP 3",
            &["\"shared\"", "use count=requests"],
        ),
        (
            &format!("{redis}IPLimitDefaults shared"),
            "IPLimitDefaults shared",
            &["\"shared\"", "belongs to the limiting directives"],
        ),
    ]);
}

#[test]
fn good_lines_are_good() {
    let said = Httpd::on(Mpm::Event)
        .conf(
            "IPLimitZone api key=%{HTTP:X-Api-Key}
             IPLimitRedis rediss://limits:pw@redis.invalid:7000/3 prefix=shop: timeout=5ms connect=20ms lease=10s on-failure=open
             MaxConnPerIP 30 count=requests shared
             MaxConnPerKey api 20 shared
             <Location /hoge>
                 MaxConnPerIP off shared
                 MaxRatePerIP 10/s burst=20 shared for=10.0.0.0/8
                 MaxHitsPerKey api 5/10min freeze=30min on=401 shared
             </Location>",
        )
        .configtest();
    assert_eq!((said.code, said.stderr.trim()), (0, "Syntax OK"));
}

#[test]
fn shared_rules_of_htaccess_are_refused() {
    let httpd = Httpd::on(Mpm::Event)
        .conf("IPLimitRedis redis://127.0.0.1:1\n<Directory ${DOCROOT}>\n AllowOverride Limit\n</Directory>")
        .file("hoge/.htaccess", "MaxConnPerIP 3 scope=location shared\n")
        .expect_log("leave shared out here")
        .start();
    assert_eq!(httpd.client("127.0.0.2").status("/hoge/small.txt"), 500);
    httpd.wait_for_log("shared rules ask another server");
}

/// httpd would take the name of the machine, which no other server has.
#[test]
fn shared_rule_of_a_nameless_server_is_warned_about() {
    let conf = "IPLimitRedis redis://127.0.0.1\nMaxConnPerIP 30 count=requests shared";
    let nameless = verdict_of(Httpd::on(Mpm::Event).nameless().conf(conf), &[]).said;
    assert_eq!(nameless.code, 0, "{nameless:?}");
    assert!(
        nameless
            .stderr
            .contains("limitipconn(211): MaxConnPerIP@server on line"),
        "{nameless:?}"
    );
    let named = verdict_of(Httpd::on(Mpm::Event).conf(conf), &[]).said;
    assert_eq!((named.code, named.stderr.trim()), (0, "Syntax OK"));
}

/// Buckets that are one count in both places or in none.
#[test]
fn rules_of_one_bucket_are_all_shared_or_none() {
    all_are_errors(&[(
        "IPLimitRedis redis://127.0.0.1
         IPLimitZone api key=%{HTTP:X-Api-Key}
         <Location /hoge>\n MaxRatePerKey api 3/s scope=zone shared\n</Location>
         <Location /fuga>\n MaxRatePerKey api 3/s scope=zone\n</Location>",
        "api 3/s scope=zone",
        &["must give the same", "and shared"],
    )]);
}

#[test]
fn file_of_the_password_must_be_private() {
    for (mode, text, says) in [
        (0o644, "s3cret\n", "may be read by others"),
        (0o660, "s3cret\n", "written by its group"),
        (0o600, "\nsecond\n", "empty first line"),
    ] {
        let setup = Httpd::on(Mpm::Event)
            .conf("IPLimitRedis redis://127.0.0.1 password-file=redis.password");
        let file = setup.dir().join("redis.password");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        verdict_of(setup, &[])
            .is_error("IPLimitRedis", &["password-file=\"redis.password\"", says]);
    }
}

/// In the URL, by httpd's own variable, or in a file; and it is right, since the count is there.
#[test]
fn passwords_work_and_are_shown_nowhere() {
    const SECRET: &str = "hunter2-hunter2";
    let redis = Redis::with(&["--requirepass", SECRET]);
    let port = redis.port();
    let (url, plain) = (
        format!("redis://:{SECRET}@127.0.0.1:{port}"),
        format!("redis://127.0.0.1:{port}"),
    );
    for line in [
        format!("IPLimitRedis {url}"),
        format!("IPLimitRedis redis://default:${{SECRET}}@127.0.0.1:{port}"),
        format!("IPLimitRedis {plain} password-file=redis.password"),
    ] {
        let setup = || {
            let setup = Httpd::on(Mpm::Event)
                .env("SECRET", SECRET)
                .load(&["status", "info"])
                .expect_log("limitipconn(601): ")
                .expect_log("limitipconn(602): ")
                .conf(&format!("{line} timeout=5s connect=5s"))
                .conf(
                    "<Location /hoge>\n MaxRatePerIP 5/h shared\n</Location>
                     <Location /server-status>\n SetHandler server-status\n</Location>
                     <Location /server-info>\n SetHandler server-info\n</Location>",
                );
            let file = setup.dir().join("redis.password");
            fs::write(&file, SECRET).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            setup
        };
        for arguments in [
            &["-D", "DUMP_IPLIMIT"][..],
            &["-D", "DUMP_CONFIG"],
            &["-S"],
            &["-M"],
        ] {
            let said = setup().configtest_with(arguments);
            assert_eq!(said.code, 0, "{said:?}");
            assert!(
                !format!("{said:?}").contains(SECRET),
                "{arguments:?}: {said:?}"
            );
        }
        let httpd = setup().start();
        let client = httpd.client("127.0.0.2");
        assert_eq!(client.status("/hoge/small.txt"), 200);
        assert_eq!(httpd.gauge()["shared"]["degraded"], false, "{line}");
        let rates = match redis_keys(&redis, SECRET) {
            keys if keys.iter().any(|key| key.starts_with("limitipconn:r{")) => keys,
            keys => panic!("{line}: no rate in {keys:?}"),
        };
        assert!(!rates.concat().contains("127.0.0.2"), "keys are digests");
        redis_ask(&redis, SECRET, &["CONFIG", "SET", "requirepass", "other"]);
        redis_ask(
            &redis,
            "other",
            &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
        );
        assert_eq!(client.status("/hoge/small.txt"), 200);
        httpd.wait_for(|gauge| gauge["shared"]["failure"] == "password");
        redis_ask(&redis, "other", &["CONFIG", "SET", "requirepass", SECRET]);
        for page in [
            "/limit-status?format=json",
            "/server-status",
            "/server-status?auto",
            "/server-info",
            "/server-info?config",
        ] {
            let answer = client.get(page);
            assert_eq!(answer.status, 200, "{page}");
            assert!(!answer.text().contains(SECRET), "{page}: {}", answer.text());
        }
        assert!(!httpd.error_log().contains(SECRET), "{}", httpd.error_log());
        redis_ask(&redis, SECRET, &["FLUSHALL"]);
    }
}

/// The test's own questions, with the password.
fn redis_ask(redis: &Redis, password: &str, words: &[&str]) -> support::Value {
    let answers = redis.ask_all(&[&["AUTH", password], words]);
    answers.into_iter().next_back().unwrap()
}

fn redis_keys(redis: &Redis, password: &str) -> Vec<String> {
    match redis_ask(redis, password, &["KEYS", "*"]) {
        support::Value::List(keys) => keys
            .into_iter()
            .map(|key| format!("{key:?}").trim_start_matches("Text(\"").to_owned())
            .collect(),
        other => panic!("{other:?}"),
    }
}
