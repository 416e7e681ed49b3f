//! Lines as tables, lines that are made and read, and bytes of any kind.

use proptest::prelude::*;

use super::super::format::Format;
use super::*;

fn reader(format: &str) -> Reader {
    Reader::new(Format::parse(format).expect("a test's own format"))
}

const NOON: i64 = 1_796_040_000 * SECOND;

#[test]
fn what_a_line_tells() {
    for (format, line, client, time, duration, path) in [
        (
            "common",
            r#"192.0.2.1 - - [30/Nov/2026:12:00:00 +0000] "GET /a?b=c HTTP/1.1" 200 12"#,
            "192.0.2.1",
            NOON,
            None,
            "/a",
        ),
        (
            "combined %D",
            r#"2001:db8::1 - a b [30/Nov/2026:13:00:00 +0100] "GET /\"x\" y HTTP/1.1" 200 - "r\\" "u a" 1500"#,
            "2001:db8::1",
            NOON,
            Some(1500),
            "/\\\"x\\\"",
        ),
        // A user agent with raw quotes is not looked at.
        (
            "combined %D",
            r#"h [30 - - [30/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 - "" 7" "b" 99"#,
            "h",
            NOON,
            Some(99),
            "/",
        ),
        (
            "vhost_combined",
            r#"www.example.org:443 h - - [30/Nov/2026:12:00:00 +0000] "\x16\x03\x01" 400 484 "-" "-""#,
            "h",
            NOON,
            None,
            "",
        ),
        (
            "combined %D %{usec_frac}t",
            r#"h - - [30/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "x" 70 000123"#,
            "h",
            NOON + 123,
            Some(70),
            "/",
        ),
        (
            "%{msec}t %h %{ms}T %U",
            "1796040000250 h 30 /p q",
            "h",
            NOON + 250_000,
            Some(30_000),
            "/p q",
        ),
        (
            "%h %{sec}t %T",
            "h 1796040000 2",
            "h",
            NOON,
            Some(2_000_000),
            "",
        ),
        (
            "%h %{usec}t %D",
            "h 1796040000000007 -",
            "h",
            NOON + 7,
            None,
            "",
        ),
        (
            "%h %{begin:usec}t %{end:usec}t",
            "h 1796040000000007 1796040000000010",
            "h",
            NOON + 7,
            Some(3),
            "",
        ),
        (
            "%h %{end:sec}t %D",
            "h 1796040000 5",
            "h",
            NOON,
            Some(5),
            "",
        ),
        (
            "%h %{%F}t %{%T}t.%{msec_frac}t",
            "h 2026-11-30 12:00:00.250",
            "h",
            NOON + 250_000,
            None,
            "",
        ),
        (
            "%h %l %a %t",
            "proxy - 192.0.2.7 [30/Nov/2026:12:00:00 +0000]",
            "192.0.2.7",
            NOON,
            None,
            "",
        ),
        (
            "\"%{X-Forwarded-For}i\" %t",
            "\"1.2.3.4, 5.6.7.8\" [30/Nov/2026:12:00:00 +0000]",
            "5.6.7.8",
            NOON,
            None,
            "",
        ),
        // As proxies write it: lists with blanks, and ports.
        (
            "%{X-Forwarded-For}i %{sec}t",
            "1.2.3.4, unknown, 5.6.7.8:4431 1796040000",
            "5.6.7.8:4431",
            NOON,
            None,
            "",
        ),
        (
            "%{X-Forwarded-For}i %t",
            "1.2.3.4, [2001:db8::1]:99, [30/Nov/2026:12:00:00 +0000]",
            "[2001:db8::1]:99",
            NOON,
            None,
            "",
        ),
        (
            "%{X-Forwarded-For}i %{Via}i %h %l %t %D",
            "1.2.3.4, 5.6.7.8 a, b h - [30/Nov/2026:12:00:00 +0000] 7",
            "h",
            NOON,
            Some(7),
            "",
        ),
        // Login names are what anybody typed.
        (
            "common %D",
            r#"h - a [b [30/Nov [ [30/Nov/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 1 7"#,
            "h",
            NOON,
            Some(7),
            "/a",
        ),
        (
            "%h %t %m %U%q %H %D",
            "h [30/Nov/2026:12:00:00 +0000] GET /a?b=c HTTP/1.1 7",
            "h",
            NOON,
            Some(7),
            "/a",
        ),
        (
            "%h %t %U%q %D",
            "h [30/Nov/2026:12:00:00 +0000] /a 7",
            "h",
            NOON,
            Some(7),
            "/a",
        ),
        (
            "<%h>%T;%t",
            "<h>1;[30/Nov/2026:12:00:00 +0000]",
            "h",
            NOON,
            Some(1_000_000),
            "",
        ),
    ] {
        let told = reader(format).read(line.as_bytes());
        let told = told.unwrap_or_else(|fault| panic!("{line}: {fault:?}"));
        assert_eq!(told.client, client.as_bytes(), "{line}");
        assert_eq!((told.time, told.duration), (time, duration), "{line}");
        assert_eq!(told.path, path.as_bytes(), "{line}");
        assert_eq!(told.kind, Kind::Request, "{line}");
    }
}

#[test]
fn what_is_wrong_with_a_line() {
    for (format, line, fault) in [
        ("common", "", Fault::Shape),
        ("common", "192.0.2.1 - - ", Fault::Shape),
        (
            "common",
            r#"192.0.2.1 - - [30/Nov/2026:12:00:00 +0000"#,
            Fault::Shape,
        ),
        (
            "common",
            r#"h - - [30/Foo/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1"#,
            Fault::Time,
        ),
        (
            "common",
            r#"h - - [short] "GET / HTTP/1.1" 200 1"#,
            Fault::Time,
        ),
        (
            "common",
            r#"- - - [30/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1"#,
            Fault::Client,
        ),
        (
            "common",
            r#" - - [30/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1"#,
            Fault::Client,
        ),
        (
            "%h %t %D",
            "h [30/Nov/2026:12:00:00 +0000] -5",
            Fault::Duration,
        ),
        (
            "%h %t %D",
            "h [30/Nov/2026:12:00:00 +0000] x",
            Fault::Duration,
        ),
        (
            "%h %t %D",
            "h [30/Nov/2026:12:00:00 +0000] 99999999999999999999999",
            Fault::Duration,
        ),
        (
            "%h %t %D",
            "h [30/Nov/2026:12:00:00 +0000] 31622400000001",
            Fault::Duration,
        ),
        (
            "%h %t %T",
            "h [30/Nov/2026:12:00:00 +0000] 18446744073709551615",
            Fault::Duration,
        ),
        (
            "%h %t %D",
            "h [30/Nov/2026:12:00:00 +0000] ",
            Fault::Duration,
        ),
        (
            "combined %D",
            r#"h - - [30/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-" -5"#,
            Fault::Duration,
        ),
        (
            "combined %D",
            r#"h - - [30/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-" 5x"#,
            Fault::Shape,
        ),
        (
            "%h %{begin:sec}t %{end:sec}t",
            "h 1796040000 1796039999",
            Fault::Duration,
        ),
        ("%h %{sec}t", "h 99999999999999999999", Fault::Time),
        ("%h %{sec}t", "h 999999999999", Fault::Time),
        ("%h %{sec}t", "h -5", Fault::Time),
    ] {
        assert_eq!(
            reader(format).read(line.as_bytes()),
            Err(fault),
            "{format}: {line}"
        );
    }
}

#[test]
fn what_is_no_request_is_told_apart() {
    for (client, request, kind) in [
        ("192.0.2.1", "-", Kind::Silent),
        ("::1", "OPTIONS * HTTP/1.0", Kind::Dummy),
        ("127.0.0.1", "OPTIONS * HTTP/1.0", Kind::Dummy),
        ("192.0.2.1", "OPTIONS * HTTP/1.0", Kind::Request),
        ("127.0.0.1", "OPTIONS / HTTP/1.0", Kind::Request),
        ("127.0.0.1", "GET * HTTP/1.0", Kind::Request),
    ] {
        let line = format!(r#"{client} - - [30/Nov/2026:12:00:00 +0000] "{request}" 408 -"#);
        let kind_of = reader("common").read(line.as_bytes()).map(|told| told.kind);
        assert_eq!(kind_of, Ok(kind), "{line}");
    }
}

const FORMATS: [&str; 8] = [
    "common",
    "combined %D",
    "vhost_combined %D %{usec_frac}t",
    "%{X-Forwarded-For}i %t %U",
    "%D %h %{%a %d %b %Y %T %Z}t",
    "%h %{begin:msec}t %{end:usec}t \"%r\"",
    "%t%T %h",
    "%h %{sec}t %{x}i %D%{usec_frac}t",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_bytes_are_read_without_a_panic(line in prop::collection::vec(any::<u8>(), 0..300)) {
        for format in FORMATS {
            let _ = reader(format).read(&line);
        }
    }

    /// Lines that were damaged in a place come further than noise does.
    #[test]
    fn damaged_lines_are_read_without_a_panic(
        at in 0usize..140, length in 0usize..12, by in prop::collection::vec(any::<u8>(), 0..12),
    ) {
        let line = br#"www:80 192.0.2.1 - - [30/Nov/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "agent" 70 000123"#;
        let mut line = line.to_vec();
        let at = at.min(line.len());
        line.splice(at..(at + length).min(line.len()), by);
        for format in FORMATS {
            let _ = reader(format).read(&line);
            let format = Format::parse(format).unwrap();
            let _ = Reader::whole(format.clone()).read(&line);
            let _ = Reader::beginning(format).read(&line);
        }
        let _ = reader(FORMATS[2]).read(&line);
    }

    /// As httpd escapes them: whatever is in a field, it does not move the others.
    #[test]
    fn what_httpd_writes_is_read_back(
        user in "[a-z ]{1,12}", path in prop::collection::vec(any::<u8>(), 0..30),
        agent in prop::collection::vec(any::<u8>(), 0..30),
        seconds in 0i64..4_000_000_000, duration in 0u64..=LONGEST, micros in 0i64..SECOND,
    ) {
        let time = clock::written(seconds * SECOND);
        let escaped = |bytes: &[u8]| -> String {
            bytes.iter().map(|byte| match byte {
                b'"' => "\\\"".to_owned(),
                b'\\' => "\\\\".to_owned(),
                b' ' => "%20".to_owned(),
                b'?' => "%3f".to_owned(),
                b'!'..=b'~' => char::from(*byte).to_string(),
                other => format!("\\x{other:02x}"),
            }).collect()
        };
        let (path, agent) = (format!("/{}", escaped(&path)), escaped(&agent));
        let line = format!("192.0.2.1 - {user} [{time}] \"GET {path}?q HTTP/1.1\" 200 - \"-\" \"{agent}\" {duration} {micros:06}");
        let format = "%h %l %u [%{%F %T}t] \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\" %D %{usec_frac}t";
        for mut reader in [reader(format), Reader::whole(Format::parse(format).unwrap())] {
            let told = reader.read(line.as_bytes());
            prop_assert!(told.is_ok(), "{}: {:?}", line, told);
            let told = told.unwrap();
            prop_assert_eq!(told.time, seconds * SECOND + micros);
            prop_assert_eq!(told.duration, Some(duration));
            prop_assert_eq!(told.path, path.as_bytes());
        }
    }
}
