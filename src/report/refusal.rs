//! The one line of a refusal, and the one that tells how many had none.
//!
//! Filters such as fail2ban read the refusal line, so its form is fixed and no
//! part of it that a client, a customer or a regular expression chose can end
//! the line or the quoted uri.

use std::fmt::{self, Display};

use super::message::Id;
use super::printable::Encoded;
use crate::limit::address::Address;

/// Bytes of a path that are shown.
const LONGEST_PATH: usize = 1024;

/// What became of a client that has too many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It was refused.
    Refused,
    /// It was let in, because rules only show here what they would do.
    RefusedDryRun,
    /// It was let in at once, though it would have had to wait for its turn.
    DelayedDryRun,
}

/// What there are too many of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Connections, or requests in flight, of an address.
    Host,
    /// Requests in flight of a key.
    Key,
    /// Requests in a time.
    Requests,
    /// There were too many requests, and for so many seconds still there is to be none.
    Frozen(u32),
    /// Nobody can tell how many there are on all servers, and then nobody is let in.
    Unreachable,
}

/// A refusal; its [`Display`] is the line of message 101.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    /// The client, in full and not cut to its key.
    pub client: Address,
    /// What became of it.
    pub verdict: Verdict,
    /// What there are too many of.
    pub cause: Cause,
    /// How many it would have had with this request or connection.
    pub count: u32,
    /// How many it may have.
    pub limit: u32,
    /// The rule's name, `MaxConnPerIP@/hoge`.
    pub rule: &'a str,
    /// What it asked for; none where a connection was refused.
    pub asked: Option<Asked<'a>>,
    /// Refusals before this one that had no line and that no other line told.
    pub left_out: u64,
}

/// What a client asked for; its [`Display`] is the part of a line that says it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// `name:port` of the server that was asked; empty when it has no name.
    pub vhost: &'a str,
    /// The path of the client's request, as httpd decoded it.
    pub uri: &'a [u8],
}

/// What a client asked for, between quotes and not too long.
pub(super) struct Uri<'a>(pub &'a [u8]);

/// The end of a line where others before it were left out.
pub(super) struct MoreLeftOut(pub u64);

/// So many refusals and cuts had no line and were told by none; its [`Display`] is the line of
/// message 102.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut(pub u64);

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Refused => "refused",
            Verdict::RefusedDryRun => "would be refused (dry run)",
            Verdict::DelayedDryRun => "would be delayed (dry run)",
        })
    }
}

impl Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: client {} {}: ",
            Id::Refused,
            self.client,
            self.verdict,
        )?;
        let (count, limit) = (self.count, self.limit);
        match self.cause {
            Cause::Host => write!(f, "too many connections from this host: {count}/{limit}")?,
            Cause::Key => write!(f, "too many connections for this key: {count}/{limit}")?,
            Cause::Requests => write!(f, "too many requests: {count}/{limit}")?,
            Cause::Frozen(seconds) => write!(f, "frozen for {seconds}s")?,
            Cause::Unreachable => f.write_str("the shared counts are out of reach")?,
        }
        write!(f, ", rule {}", Encoded::name(self.rule))?;
        if let Some(asked) = &self.asked {
            write!(f, ", {asked}")?;
        }
        MoreLeftOut(self.left_out).fmt(f)
    }
}

impl Display for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vhost = if self.vhost.is_empty() {
            "-"
        } else {
            self.vhost
        };
        write!(f, "vhost {}, uri {}", Encoded::name(vhost), Uri(self.uri))
    }
}

impl Display for Uri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // httpd cuts lines at 8190 bytes; ours must keep its end.
        let Uri(uri) = self;
        let shown = uri.len().min(LONGEST_PATH);
        write!(
            f,
            "\"{}{}\"",
            Encoded::path(&uri[..shown]),
            if shown < uri.len() { "..." } else { "" },
        )
    }
}

impl Display for MoreLeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            number => write!(f, "; {number} more were left out"),
        }
    }
}

impl Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftOut(number) = self;
        write!(
            f,
            "{}: {number} refusals and cuts were left out of the log",
            Id::LeftOut
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of<'a>(rule: &'a str, vhost: &'a str, uri: &'a [u8]) -> Refusal<'a> {
        Refusal {
            client: Address::from_v4([127, 0, 0, 2]),
            verdict: Verdict::Refused,
            cause: Cause::Host,
            count: 4,
            limit: 3,
            rule,
            asked: Some(Asked { vhost, uri }),
            left_out: 0,
        }
    }

    fn refusal(rule: &str, vhost: &str, uri: &[u8]) -> String {
        of(rule, vhost, uri).to_string()
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
    fn a_dry_run_says_what_would_have_been() {
        let line = Refusal {
            verdict: Verdict::RefusedDryRun,
            ..of("MaxConnPerIP@/hoge", "localhost:8080", b"/hoge/x")
        };
        assert_eq!(
            line.to_string(),
            "limitipconn(101): client 127.0.0.2 would be refused (dry run): \
             too many connections from this host: 4/3, \
             rule MaxConnPerIP@/hoge, vhost localhost:8080, uri \"/hoge/x\""
        );
    }

    #[test]
    fn the_line_says_what_there_are_too_many_of() {
        let line = |cause| {
            let refusal = Refusal {
                cause,
                ..of("r", "v", b"/")
            };
            refusal.to_string()
        };
        for (cause, said) in [
            (
                Cause::Key,
                "refused: too many connections for this key: 4/3, rule r,",
            ),
            (Cause::Requests, "refused: too many requests: 4/3, rule r,"),
            (Cause::Frozen(7), "refused: frozen for 7s, rule r,"),
        ] {
            assert!(line(cause).contains(said), "{}", line(cause));
        }
    }

    #[test]
    fn the_line_of_a_connection_ends_after_the_rule() {
        let line = Refusal {
            asked: None,
            ..of("MaxConnPerIP@server", "", b"")
        };
        assert_eq!(
            line.to_string(),
            "limitipconn(101): client 127.0.0.2 refused: too many connections from this host: 4/3, \
             rule MaxConnPerIP@server"
        );
    }

    #[test]
    fn what_was_left_out_is_told_at_the_very_end() {
        let line = Refusal {
            left_out: 17,
            ..of("r", "v", b"/")
        };
        assert!(
            line.to_string()
                .ends_with(", vhost v, uri \"/\"; 17 more were left out")
        );
        let connection = Refusal {
            asked: None,
            ..line
        };
        assert!(
            connection
                .to_string()
                .ends_with(", rule r; 17 more were left out")
        );
        assert_eq!(
            LeftOut(17).to_string(),
            "limitipconn(102): 17 refusals and cuts were left out of the log"
        );
    }

    #[test]
    fn a_long_path_is_cut_and_the_quotes_still_end_there() {
        let line = refusal("r", "v", &[b'x'; 3000]);
        assert!(line.ends_with("xxx...\""), "{line}");
        assert!(refusal("r", "v", &[1; 8000]).len() < 4000);
    }

    #[test]
    fn a_long_ipv6_client_is_written_in_full() {
        let client = Address::from_v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5]);
        let line = Refusal {
            client,
            ..of("r", "v", b"/")
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

    proptest! {
        #[test]
        fn no_text_leaves_its_place(
            rule in any::<String>(),
            vhost in any::<String>(),
            uri in prop::collection::vec(any::<u8>(), 0..64),
            dry_run in any::<bool>(),
            left_out in prop_oneof![Just(0), any::<u64>()],
        ) {
            let verdict = if dry_run { Verdict::RefusedDryRun } else { Verdict::Refused };
            let refusal = Refusal { verdict, left_out, ..of(&rule, &vhost, &uri) };
            let end = match left_out {
                0 => String::new(),
                _ => format!("; {left_out} more were left out"),
            };
            let line = refusal.to_string();
            prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", line);
            // The only quotes are the two around the uri, so it is what lies between them.
            let parts: Vec<&str> = line.split('"').collect();
            prop_assert_eq!(parts.len(), 3);
            prop_assert_eq!(decoded(parts[1]), uri.as_slice());
            prop_assert_eq!(parts[2], &end);
            prop_assert!(!parts[1].contains('\\'));
            // Without what was asked there is no quote at all.
            let line = Refusal { asked: None, ..refusal }.to_string();
            prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", line);
            prop_assert!(!line.contains('"') && line.ends_with(&end), "{}", line);
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
