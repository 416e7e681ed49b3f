//! The one line of a response that was cut.
//!
//! Filters read it as they read that of a refusal, so its form is fixed, and nothing that
//! a client chose can end the line or the quoted uri.

use std::fmt::{self, Display};

use super::message::Id;
use super::refusal::{Asked, MoreLeftOut};
use crate::limit::address::Address;
use crate::limit::slow::Taken;

/// A response that was cut; its [`Display`] is the line of message 501.
#[derive(Clone, Copy, Debug)]
pub struct Cut<'a> {
    /// The client, in full and not cut to its key.
    pub client: Address,
    /// Whether it only would have been cut, because rules only show here what they would do.
    pub dry_run: bool,
    /// Why.
    pub why: Why,
    /// What it asked for.
    pub asked: Asked<'a>,
    /// Cuts before this one that had no line and that no other line told.
    pub left_out: u64,
}

/// Why a response was cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Its client took it too slowly.
    TooSlow {
        /// What it took over the last window.
        taken: Taken,
        /// What it had to take, in bytes per second.
        minimum: u64,
    },
    /// It held its place for too long: so many seconds.
    Held(u64),
}

impl Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.dry_run {
            true => "would be cut (dry run)",
            false => "cut",
        };
        write!(
            f,
            "{}: client {} {verdict}: {}, {}{}",
            Id::Cut,
            self.client,
            self.why,
            self.asked,
            MoreLeftOut(self.left_out),
        )
    }
}

impl Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::TooSlow { taken, minimum } => write!(
                f,
                "too slow: {} bytes in {} s, {} B/s, minimum {minimum} B/s",
                taken.bytes,
                rounded(taken.time),
                taken.rate(),
            ),
            Why::Held(seconds) => write!(f, "held for {seconds} s"),
        }
    }
}

/// Nanoseconds in seconds, to the nearest.
fn rounded(nanoseconds: u64) -> u64 {
    nanoseconds.saturating_add(500_000_000) / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLOW: Why = Why::TooSlow {
        taken: Taken {
            bytes: 14_800,
            time: 31_400_000_000,
        },
        minimum: 1000,
    };

    fn of<'a>(why: Why, vhost: &'a str, uri: &'a [u8]) -> Cut<'a> {
        Cut {
            client: Address::from_v4([192, 0, 2, 1]),
            dry_run: false,
            why,
            asked: Asked { vhost, uri },
            left_out: 0,
        }
    }

    #[test]
    fn a_cut_is_the_line_that_the_manual_shows() {
        for (why, line) in [
            (
                SLOW,
                "limitipconn(501): client 192.0.2.1 cut: too slow: 14800 bytes in 31 s, 471 B/s, \
                 minimum 1000 B/s, vhost localhost:8080, uri \"/film.mp4\"",
            ),
            (
                Why::Held(600),
                "limitipconn(501): client 192.0.2.1 cut: held for 600 s, vhost localhost:8080, \
                 uri \"/film.mp4\"",
            ),
        ] {
            assert_eq!(of(why, "localhost:8080", b"/film.mp4").to_string(), line);
        }
    }

    #[test]
    fn a_dry_run_says_what_would_have_been() {
        let line = Cut {
            dry_run: true,
            ..of(Why::Held(600), "v", b"/")
        };
        assert_eq!(
            line.to_string(),
            "limitipconn(501): client 192.0.2.1 would be cut (dry run): held for 600 s, \
             vhost v, uri \"/\""
        );
    }

    #[test]
    fn what_was_left_out_is_told_at_the_very_end() {
        let line = Cut {
            left_out: 17,
            ..of(SLOW, "v", b"/")
        };
        assert!(
            line.to_string()
                .ends_with(", vhost v, uri \"/\"; 17 more were left out")
        );
    }

    #[test]
    fn seconds_are_the_nearest() {
        for (nanoseconds, seconds) in [
            (0, 0),
            (1_499_999_999, 1),
            (1_500_000_000, 2),
            (u64::MAX, u64::MAX / 1_000_000_000),
        ] {
            assert_eq!(rounded(nanoseconds), seconds, "{nanoseconds}");
        }
    }

    #[test]
    fn a_line_feed_and_a_quote_in_the_uri_stay_within_it() {
        let line = of(SLOW, "", b"/a\"\nlimitipconn(501)").to_string();
        assert!(
            line.ends_with(", vhost -, uri \"/a%22%0Alimitipconn(501)\""),
            "{line}"
        );
    }

    proptest! {
        #[test]
        fn no_text_leaves_its_place(
            vhost in any::<String>(), uri in prop::collection::vec(any::<u8>(), 0..3000),
            bytes: u64, time: u64, minimum: u64, dry_run: bool,
        ) {
            let why = Why::TooSlow { taken: Taken { bytes, time }, minimum };
            for why in [why, Why::Held(time)] {
                let line = Cut { dry_run, ..of(why, &vhost, &uri) }.to_string();
                prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", line);
                let quotes = line.bytes().filter(|byte| *byte == b'"').count();
                prop_assert!(quotes == 2 && line.ends_with('"'), "{}", line);
            }
        }
    }
}
