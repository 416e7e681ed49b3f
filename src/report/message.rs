//! What goes to the error log: the numbers of all messages, and the one line of a refusal.
//!
//! Filters such as fail2ban read the refusal line, so its form is fixed and no
//! part of it that a client, a customer or a regular expression chose can end
//! the line or the quoted uri.

use std::fmt::{self, Display, Write};

use crate::limit::address::Address;

/// The number of a message. A number is never used for anything else, even when
/// its message is gone; the manual lists all of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum Id {
    /// A request was refused ([`Refusal`]).
    Refused = 101,
    /// The configuration has no rule at all.
    NoRule = 201,
    /// A MIME pattern that lets more through than its author meant.
    SuspiciousPattern = 202,
    /// The same plain rule twice in one section: the last one counts.
    Duplicate = 203,
    /// A rule inside `<Limit>` holds for all methods.
    InsideLimit = 204,
    /// A rule in a section counts the whole server and does not say scope=.
    CountsWholeServer = 205,
    /// A number under 6 on `/`.
    LowOnRoot = 206,
    /// An ErrorDocument by full URL of the same host.
    ErrorDocumentUrl = 207,
    /// `CacheQuickHandler` above a rule of a section.
    CacheAboveRule = 208,
    /// A changed size takes effect at a full restart only.
    NeedsRestart = 301,
    /// This httpd's scoreboard is laid out otherwise than the one built for.
    SlotLayout = 302,
    /// A count was not the sum of its leases.
    AuditMismatch = 303,
    /// A fault of the module itself was caught.
    Fault = 304,
    /// Places of a dead child were given back.
    Reaped = 305,
    /// Shared memory could not be made.
    NoSharedMemory = 306,
    /// The status page was asked for while it is off.
    StatusPageOff = 307,
    /// Requests were admitted without being counted.
    Untracked = 308,
    /// A rule has no counters, because there is no room for more.
    NoRecord = 309,
    /// An MPM under which requests cannot be counted.
    UnknownMpm = 310,
}

impl Id {
    /// All messages, in the order of their numbers.
    pub const ALL: [Id; 19] = [
        Id::Refused,
        Id::NoRule,
        Id::SuspiciousPattern,
        Id::Duplicate,
        Id::InsideLimit,
        Id::CountsWholeServer,
        Id::LowOnRoot,
        Id::ErrorDocumentUrl,
        Id::CacheAboveRule,
        Id::NeedsRestart,
        Id::SlotLayout,
        Id::AuditMismatch,
        Id::Fault,
        Id::Reaped,
        Id::NoSharedMemory,
        Id::StatusPageOff,
        Id::Untracked,
        Id::NoRecord,
        Id::UnknownMpm,
    ];

    /// The number, 100..=999.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

impl Display for Id {
    /// `limitipconn(101)`, how each of our lines begins.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limitipconn({})", self.number())
    }
}

/// Bytes of a path that are shown.
const LONGEST_PATH: usize = 1024;

/// A refusal by a concurrency rule; its [`Display`] is the line of message 101.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    /// The client, in full and not cut to its key.
    pub client: Address,
    /// How many it would have had with this request.
    pub count: u32,
    /// How many it may have.
    pub limit: u32,
    /// The rule's name, `MaxConnPerIP@/hoge`.
    pub rule: &'a str,
    /// `name:port` of the server that was asked; empty when it has no name.
    pub vhost: &'a str,
    /// The path of the client's request, as httpd decoded it.
    pub uri: &'a [u8],
}

impl Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // httpd cuts lines at 8190 bytes; ours must keep its end.
        let shown = self.uri.len().min(LONGEST_PATH);
        let vhost = if self.vhost.is_empty() {
            "-"
        } else {
            self.vhost
        };
        write!(
            f,
            "{}: client {} refused: too many connections from this host: {}/{}, \
             rule {}, vhost {}, uri \"{}{}\"",
            Id::Refused,
            self.client,
            self.count,
            self.limit,
            Encoded(self.rule.as_bytes(), b"\""),
            Encoded(vhost.as_bytes(), b"\""),
            Encoded(&self.uri[..shown], b"\"\\%"),
            if shown < self.uri.len() { "..." } else { "" },
        )
    }
}

/// A path with its `%XX` decoded, once: so that it is shown as if httpd had done it.
pub fn decoded(path: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(path.len());
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        match (byte, digit(path.get(at + 1)), digit(path.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high << 4 | low) as u8);
                at += 3;
            }
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded
}

/// A name with every byte outside printable ASCII, and every quote, as `%XX`.
pub fn printable(name: &str) -> String {
    Encoded(name.as_bytes(), b"\"").to_string()
}

/// Text (first) with every byte outside printable ASCII as `%XX`, and those of
/// the second list too.
struct Encoded<'a>(&'a [u8], &'a [u8]);

impl Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Encoded(text, also) = self;
        for &byte in *text {
            if matches!(byte, b' '..=b'~') && !also.contains(&byte) {
                f.write_char(byte.into())?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal<'a>(rule: &'a str, vhost: &'a str, uri: &'a [u8]) -> String {
        let client = Address::from_v4([127, 0, 0, 2]);
        Refusal {
            client,
            count: 4,
            limit: 3,
            rule,
            vhost,
            uri,
        }
        .to_string()
    }

    #[test]
    fn a_refusal_is_the_line_that_the_manual_shows() {
        assert_eq!(
            refusal("MaxConnPerIP@/hoge", "localhost:8080", b"/hoge/x"),
            "limitipconn(101): client 127.0.0.2 refused: too many connections from this host: 4/3, \
             rule MaxConnPerIP@/hoge, vhost localhost:8080, uri \"/hoge/x\""
        );
    }

    #[test]
    fn a_long_path_is_cut_and_the_quotes_still_end_there() {
        let line = refusal("r", "v", &[b'x'; 3000]);
        assert!(line.ends_with("xxx...\""), "{line}");
        assert!(refusal("r", "v", &[1; 8000]).len() < 4000);
    }

    #[test]
    fn a_path_is_decoded_once() {
        for (path, expected) in [
            ("/a%20b%2541", "/a b%41"),
            ("/%", "/%"),
            ("/%4", "/%4"),
            ("/%zz%7E", "/%zz~"),
        ] {
            assert_eq!(super::decoded(path.as_bytes()), expected.as_bytes());
        }
    }

    #[test]
    fn a_long_ipv6_client_is_written_in_full() {
        let client = Address::from_v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5]);
        let line = Refusal {
            client,
            count: 1,
            limit: 0,
            rule: "r",
            vhost: "v",
            uri: b"/",
        }
        .to_string();
        assert!(
            line.contains("client 2001:db8:0:1:2:3:4:5 refused"),
            "{line}"
        );
    }

    #[test]
    fn a_server_without_a_name_is_a_dash() {
        assert!(refusal("r", "", b"/").contains(", vhost -, uri"));
    }

    #[test]
    fn a_line_feed_in_the_uri_stays_on_the_line() {
        let line = refusal("r", "v", b"/a\nlimitipconn(101): client 192.0.2.1 refused");
        assert!(
            line.ends_with("uri \"/a%0Alimitipconn(101): client 192.0.2.1 refused\""),
            "{line}"
        );
    }

    #[test]
    fn the_uri_can_be_decoded_again() {
        let line = refusal("r", "v", "/100%/\"\\/\u{fc}\u{7f}".as_bytes());
        assert!(line.ends_with("uri \"/100%25/%22%5C/%C3%BC%7F\""), "{line}");
    }

    #[test]
    fn a_regular_expression_keeps_its_backslashes_and_percent_signs() {
        let line = refusal(r"MaxConnPerIP@LocationMatch:^/\d+%", "v", b"/1");
        assert!(
            line.contains(r"rule MaxConnPerIP@LocationMatch:^/\d+%, vhost"),
            "{line}"
        );
    }

    #[test]
    fn numbers_are_given_once() {
        assert!(
            Id::ALL
                .windows(2)
                .all(|pair| pair[0].number() < pair[1].number())
        );
        assert_eq!(Id::Refused.to_string(), "limitipconn(101)");
        assert_eq!(Id::NoSharedMemory.number(), 306);
    }

    proptest! {
        #[test]
        fn no_text_leaves_its_place(
            rule in any::<String>(),
            vhost in any::<String>(),
            uri in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let line = refusal(&rule, &vhost, &uri);
            prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", line);
            // The only quotes are the two around the uri, so it is what lies between them.
            let parts: Vec<&str> = line.split('"').collect();
            prop_assert_eq!(parts.len(), 3);
            prop_assert_eq!(decoded(parts[1]), uri);
            prop_assert_eq!(parts[2], "");
            prop_assert!(!parts[1].contains('\\'));
        }
    }

    fn decoded(text: &str) -> Vec<u8> {
        let mut bytes = text.bytes();
        let mut out = Vec::new();
        while let Some(byte) = bytes.next() {
            out.push(if byte == b'%' {
                let hex = [bytes.next().unwrap(), bytes.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap()
            } else {
                byte
            });
        }
        out
    }
}
