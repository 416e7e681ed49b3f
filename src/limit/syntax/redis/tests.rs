//! What `IPLimitRedis` understands, and what it says of the rest, without any password.

use super::*;
use proptest::prelude::*;

fn tcp(host: &str, port: u16, tls: bool) -> Endpoint {
    Endpoint::Tcp {
        host: host.to_owned(),
        port,
        tls,
    }
}

#[test]
fn good_urls_are_understood() {
    for (url, endpoint, user, password, database) in [
        (
            "redis://r.example",
            tcp("r.example", 6379, false),
            None,
            None,
            0,
        ),
        (
            "redis://r.example:7000/",
            tcp("r.example", 7000, false),
            None,
            None,
            0,
        ),
        (
            "redis://192.0.2.1:7000/3",
            tcp("192.0.2.1", 7000, false),
            None,
            None,
            3,
        ),
        (
            "rediss://r.example/15",
            tcp("r.example", 6379, true),
            None,
            None,
            15,
        ),
        (
            "Valkey://v.example",
            tcp("v.example", 6379, false),
            None,
            None,
            0,
        ),
        (
            "redis://[2001:db8::1]:7000",
            tcp("2001:db8::1", 7000, false),
            None,
            None,
            0,
        ),
        ("redis://[::1]", tcp("::1", 6379, false), None, None, 0),
        (
            "redis://web:pw@r:1/2",
            tcp("r", 1, false),
            Some("web"),
            Some("pw"),
            2,
        ),
        ("redis://:pw@r", tcp("r", 6379, false), None, Some("pw"), 0),
        ("redis://web@r", tcp("r", 6379, false), Some("web"), None, 0),
        (
            "redis://:p%40%2Fw:@@r",
            tcp("r", 6379, false),
            None,
            Some("p@/w:@"),
            0,
        ),
        (
            "unix:///run/redis.sock",
            Endpoint::Unix("/run/redis.sock".into()),
            None,
            None,
            0,
        ),
        (
            "unix:///run/r?db=4",
            Endpoint::Unix("/run/r".into()),
            None,
            None,
            4,
        ),
    ] {
        let said = redis(url).unwrap();
        assert_eq!(said.endpoint, endpoint, "{url}");
        assert_eq!(said.user.as_deref(), user, "{url}");
        assert_eq!(
            said.password.as_ref().map(Password::expose),
            password,
            "{url}"
        );
        assert_eq!(said.database, database, "{url}");
    }
}

#[test]
fn options_have_defaults() {
    let said = redis("redis://r").unwrap();
    assert_eq!(said.prefix, "limitipconn:");
    assert_eq!(said.on_failure, OnFailure::Local);
    assert_eq!(said.patience.timeout, Duration::from_millis(20));
    assert_eq!(said.patience.connect, Duration::from_millis(50));
    assert_eq!(said.patience.lease, Duration::from_secs(30));
    let said = redis(
        "redis://r prefix=shop: timeout=5ms CONNECT=1s lease=10s On-Failure=Closed \"password-file=/a b\"",
    )
    .unwrap();
    assert_eq!(said.prefix, "shop:");
    assert_eq!(said.on_failure, OnFailure::Closed);
    assert_eq!(said.password_file.as_deref(), Some("/a b"));
    assert_eq!(said.patience.timeout, Duration::from_millis(5));
    assert_eq!(said.patience.connect, Duration::from_secs(1));
    assert_eq!(said.patience.lease, Duration::from_secs(10));
}

#[test]
fn bad_arguments_name_the_value_and_what_works() {
    for (arguments, value, helps) in [
        ("", "needs", "redis://"),
        ("localhost", "\"localhost\"", "redis://"),
        ("http://r", "\"http://r\"", "unknown scheme"),
        ("redis://", "\"redis://\"", "host and port"),
        ("redis://r:0", "\"redis://r:0\"", "host and port"),
        ("redis://r:70000", "\"redis://***\"", "host and port"),
        ("redis://[::1", "\"redis://", "host and port"),
        ("redis://r/x", "\"redis://r/x\"", "database"),
        (
            "redis://r/0?x=1",
            "\"redis://r/0?***\"",
            "after the database",
        ),
        ("unix://run/r", "\"unix://run/r\"", "slash"),
        ("unix:///r?x=1", "\"unix:///r?***\"", "?db="),
        ("redis://r timeout=0", "timeout=\"0\"", "timeout=20ms"),
        ("redis://r timeout=6s", "timeout=\"6s\"", "1ms to 5s"),
        ("redis://r connect=x", "connect=\"x\"", "connect=50ms"),
        ("redis://r lease=1s", "lease=\"1s\"", "3s to 1h"),
        ("redis://r prefix=", "prefix=\"\"", "prefix=shop:"),
        ("redis://r prefix={x}", "prefix=\"{x}\"", "braces"),
        (
            "redis://r on-failure=no",
            "on-failure=\"no\"",
            "local|open|closed",
        ),
        ("redis://r password-file=", "password-file=\"\"", "PATH"),
        ("redis://r lease=5s lease=5s", "lease=", "twice"),
        ("redis://r colour=red", "\"colour=red\"", "on-failure="),
        ("redis://r redis://s", "\"redis://s\"", "options are"),
        (
            "redis://:pw@r password-file=x",
            "password-file=",
            "keep one",
        ),
        (
            "redis://:p%4@r",
            "\"redis://***@r\"",
            "escape in its password",
        ),
    ] {
        let message = redis(arguments).unwrap_err().to_string();
        assert!(
            message.contains(value) && message.contains(helps),
            "{arguments}: {message}"
        );
        assert!(!message.contains("pw"), "{arguments}: {message}");
    }
}

#[test]
fn what_is_shown_has_no_password() {
    for (arguments, shown) in [
        (
            "redis://web:pw@r:1/2 lease=5s",
            "redis://***@r:1/2 lease=5s",
        ),
        ("redis://:p@w@r", "redis://***@r"),
        ("redis://:pw", "redis://***"),
        ("redis://r:1 lease=5s", "redis://r:1 lease=5s"),
        ("\"redis://:pw\" x", "\"redis://***\" x"),
        ("redis://[::1]", "redis://[::1]"),
        ("unix:///r", "unix:///r"),
        ("nonsense", "nonsense"),
        ("redis:/:pw@r", "***@r"),
        ("unix:///r?db=3 lease=5s", "unix:///r?db=3 lease=5s"),
        ("unix:///r?pass=pw lease=5s", "unix:///r?*** lease=5s"),
        ("redis://r/1?password=pw", "redis://r/1?***"),
    ] {
        assert_eq!(without_password(arguments), shown, "{arguments}");
    }
}

#[test]
fn faults_do_not_quote_what_may_be_a_password() {
    for arguments in [
        "redis://r password=pw",
        "redis://r PASS=pw",
        "redis:/:pw@r",
        "redis://r/1?password=pw",
        "unix:///r?pass=pw",
    ] {
        let message = redis(arguments).unwrap_err().to_string();
        assert!(!message.contains("pw"), "{arguments}: {message}");
    }
}

proptest! {
    #[test]
    fn no_password_is_ever_shown(
        user in "[a-z]{0,5}", host in "[a-z]{1,5}", rest in "(:[0-9a-z]{0,6})?(/[0-9a-z]{0,3})?( [a-z=]{0,9})?",
    ) {
        let url = format!("redis://{user}:s3CRET@{host}{rest}");
        prop_assert!(!without_password(&url).contains("s3CRET"));
        match redis(&url) {
            Ok(said) => {
                let shown = format!("{said:?}");
                prop_assert!(!shown.contains("s3CRET"));
            }
            Err(fault) => prop_assert!(!fault.to_string().contains("s3CRET")),
        }
    }

    #[test]
    fn nothing_panics(arguments in "(redis|rediss|unix)://\\PC{0,20}|\\PC{0,20}") {
        let _ = redis(&arguments);
        let _ = without_password(&arguments);
    }
}
