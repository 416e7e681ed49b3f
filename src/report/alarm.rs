//! What the parent tells of the pool of workers: that nearly all are busy and who holds
//! them, and that all is well.
//!
//! Nothing that a client chose can end a line or the quoted uri, and no line is so long
//! that httpd would cut it.

use std::fmt::{self, Display};

use super::fleet::Reach;
use super::holder::Holder;
use super::message::Id;
use super::printable::Encoded;
use super::refusal::Uri;

/// Holders that are told.
const MOST_HOLDERS: usize = 10;
/// Bytes of the text of a key, of a rule and of a vhost that are shown.
const LONGEST_NAME: usize = 512;

/// Nearly all workers are busy; its [`Display`] is the line of message 502, and one line
/// of message 503 for each holder follows it.
#[derive(Clone, Copy, Debug)]
pub struct Alarm<'a> {
    /// Workers that are busy.
    pub busy: u32,
    /// Workers that there can be: MaxRequestWorkers.
    pub workers: u32,
    /// From how many percent on there is an alarm.
    pub percent: u8,
    /// Who holds them, the longest first; none where nobody knows.
    pub holders: &'a [Holder],
}

/// The module is there and does its work; its [`Display`] is the line of message 504.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// Rules of the configuration.
    pub rules: u32,
    /// Workers that are busy.
    pub busy: u32,
    /// Workers that there can be: MaxRequestWorkers.
    pub workers: u32,
    /// Keys of the table that are in use.
    pub keys: u64,
    /// Keys that the table has room for.
    pub table: u64,
    /// How it is with the counts that servers share, where some rule is shared.
    pub shared: Option<Reach>,
}

/// The module started; its [`Display`] is the line of message 505.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Started {
    /// Rules of the configuration.
    pub rules: u32,
    /// Keys that the table has room for.
    pub table: u64,
}

/// Somebody asks whether lines arrive; its [`Display`] is the line of message 508, which holds
/// the number that is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Check(pub u64);

/// A holder and its place in the list, from 1; its [`Display`] is the line of message 503.
struct Place<'a>(usize, &'a Holder);

/// So many workers of all are busy.
struct Busy(u32, u32);

/// So many of something.
struct Number(u32, &'static str);

/// A name, not too long.
struct Name<'a>(&'a str);

impl Alarm<'_> {
    /// All lines, in order: at most eleven.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let holders = self.holders.iter().take(MOST_HOLDERS).enumerate();
        std::iter::once(self.to_string())
            .chain(holders.map(|(at, holder)| Place(at + 1, holder).to_string()))
    }
}

impl Display for Alarm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}, at least {}%",
            Id::Alarm,
            Busy(self.busy, self.workers),
            self.percent
        )?;
        match self.holders {
            [] => Ok(()),
            _ => f.write_str("; who holds them longest:"),
        }
    }
}

impl Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place(place, holder) = self;
        write!(
            f,
            "{}: {place}. {} holds {}, the oldest for {} s",
            Id::AlarmHolder,
            Name(&holder.client),
            Number(holder.workers, "worker"),
            holder.oldest_seconds,
        )?;
        if let Some(rule) = &holder.rule {
            write!(f, ", rule {}", Name(rule))?;
        }
        if let Some(vhost) = &holder.vhost {
            write!(f, ", vhost {}", Name(vhost))?;
        }
        if let Some(uri) = &holder.uri {
            write!(f, ", uri {}", Uri(uri))?;
        }
        if let Some(bytes) = holder.bytes_acknowledged {
            write!(f, ", took {bytes} bytes")?;
        }
        if let Some(rate) = holder.bytes_per_second {
            write!(f, ", {rate} B/s")?;
        }
        Ok(())
    }
}

impl Display for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}, {}, {} of {} keys {} in use",
            Id::Heartbeat,
            Number(self.rules, "rule"),
            Busy(self.busy, self.workers),
            self.keys,
            self.table,
            are(self.keys),
        )?;
        match self.shared {
            Some(reach) => write!(f, ", {reach}"),
            None => Ok(()),
        }
    }
}

impl Display for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: mod_limitipconn {}: {}, a table of {} keys",
            Id::Started,
            env!("CARGO_PKG_VERSION"),
            Number(self.rules, "rule"),
            self.table,
        )
    }
}

/// What so many of something do.
fn are(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

impl Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Busy(busy, all) = *self;
        let verb = if all == 1 { "is" } else { are(busy.into()) };
        write!(f, "{busy} of {} {verb} busy", Number(all, "worker"))
    }
}

impl Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: limitipconn check asks whether this line arrives: {:016x}",
            Id::Check,
            self.0
        )
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Number(number, what) = self;
        let plural = if *number == 1 { "" } else { "s" };
        write!(f, "{number} {what}{plural}")
    }
}

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Name(name) = self;
        if name.is_empty() {
            return f.write_str("-");
        }
        let shown = &name[..name.floor_char_boundary(LONGEST_NAME)];
        let cut = if shown.len() < name.len() { "..." } else { "" };
        write!(f, "{}{cut}", Encoded::name(shown))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holder(client: &str, workers: u32, oldest_seconds: u64) -> Holder {
        Holder {
            client: client.into(),
            workers,
            oldest_seconds,
            ..Holder::default()
        }
    }

    fn known() -> Holder {
        Holder {
            uri: Some(b"/film.mp4".into()),
            rule: Some("MaxConnPerIP@/hoge".into()),
            vhost: Some("localhost:8080".into()),
            bytes_acknowledged: Some(1234),
            bytes_per_second: Some(20),
            ..holder("192.0.2.1", 12, 812)
        }
    }

    fn lines(holders: &[Holder]) -> Vec<String> {
        let alarm = Alarm {
            busy: 25,
            workers: 25,
            percent: 90,
            holders,
        };
        alarm.lines().collect()
    }

    #[test]
    fn an_alarm_tells_who_holds_the_workers() {
        assert_eq!(
            lines(&[known(), holder("2001:db8::", 1, 0)]),
            [
                "limitipconn(502): 25 of 25 workers are busy, at least 90%; who holds them longest:",
                "limitipconn(503): 1. 192.0.2.1 holds 12 workers, the oldest for 812 s, \
                 rule MaxConnPerIP@/hoge, vhost localhost:8080, uri \"/film.mp4\", \
                 took 1234 bytes, 20 B/s",
                "limitipconn(503): 2. 2001:db8:: holds 1 worker, the oldest for 0 s",
            ]
        );
    }

    #[test]
    fn numbers_agree_with_their_words() {
        for (busy, all, said) in [
            (1, 1, "1 of 1 worker is busy"),
            (1, 4, "1 of 4 workers is busy"),
            (0, 1, "0 of 1 worker is busy"),
            (2, 4, "2 of 4 workers are busy"),
            (0, 4, "0 of 4 workers are busy"),
        ] {
            assert_eq!(Busy(busy, all).to_string(), said);
        }
    }

    #[test]
    fn without_holders_there_are_the_numbers_only() {
        assert_eq!(
            lines(&[]),
            ["limitipconn(502): 25 of 25 workers are busy, at least 90%"]
        );
    }

    #[test]
    fn at_most_ten_are_told() {
        let lines = lines(&vec![known(); 30]);
        assert_eq!(lines.len(), 11);
        assert!(lines[10].starts_with("limitipconn(503): 10. 192.0.2.1 holds"));
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        type Forget = fn(&mut Holder);
        let cases: [(Forget, &str); 5] = [
            (|holder| holder.rule = None, "rule"),
            (|holder| holder.vhost = None, "vhost"),
            (|holder| holder.uri = None, "uri"),
            (|holder| holder.bytes_acknowledged = None, "bytes"),
            (|holder| holder.bytes_per_second = None, "B/s"),
        ];
        for (forget, part) in cases {
            assert!(lines(&[known()])[1].contains(part));
            let mut holder = known();
            forget(&mut holder);
            let line = &lines(&[holder])[1];
            assert!(!line.contains(part), "{line}");
            assert_eq!(line.matches(", ").count(), 5, "{line}");
        }
    }

    #[test]
    fn the_signs_of_life_are_the_lines_that_the_manual_shows() {
        let heartbeat = Heartbeat {
            rules: 12,
            busy: 3,
            workers: 256,
            keys: 17,
            table: 65_536,
            shared: None,
        };
        let said =
            "limitipconn(504): 12 rules, 3 of 256 workers are busy, 17 of 65536 keys are in use";
        assert_eq!(heartbeat.to_string(), said);
        let with_shared = Heartbeat {
            shared: Some(Reach::Within),
            ..heartbeat
        };
        assert_eq!(
            with_shared.to_string(),
            format!("{said}, shared counts are within reach")
        );
        for (rules, said) in [(12, "12 rules"), (1, "1 rule"), (0, "0 rules")] {
            let table = 65_536;
            assert_eq!(
                Started { rules, table }.to_string(),
                format!(
                    "limitipconn(505): mod_limitipconn {}: {said}, a table of 65536 keys",
                    env!("CARGO_PKG_VERSION")
                )
            );
        }
        assert_eq!(
            Check(0xab).to_string(),
            "limitipconn(508): limitipconn check asks whether this line arrives: 00000000000000ab"
        );
    }

    #[test]
    fn nothing_makes_a_line_too_long_for_httpd() {
        let long = Holder {
            client: "\u{1}".repeat(9000),
            uri: Some(vec![1; 9000]),
            rule: Some("é".repeat(9000)),
            vhost: Some("é".repeat(9000)),
            ..known()
        };
        let line = &lines(&[long])[1];
        assert!(line.len() < 8000, "{}", line.len());
        assert!(line.ends_with("...\", took 1234 bytes, 20 B/s"), "{line}");
    }

    #[test]
    fn a_key_cannot_end_its_line() {
        let line = &lines(&[holder("a\nlimitipconn(503): \"", 2, 3)])[1];
        assert_eq!(
            line,
            "limitipconn(503): 1. a%0Alimitipconn(503): %22 holds 2 workers, the oldest for 3 s"
        );
        assert!(lines(&[holder("", 2, 3)])[1].contains(" 1. - holds 2"));
    }

    proptest! {
        #[test]
        fn no_text_leaves_its_place(
            client: String, rule: Option<String>, vhost: Option<String>,
            uri in prop::option::of(prop::collection::vec(any::<u8>(), 0..2000)), workers: u32,
        ) {
            let quotes = if uri.is_some() { 2 } else { 0 };
            let holder = Holder { client, workers, uri, rule, vhost, ..known() };
            for line in &lines(&[holder])[1..] {
                prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", line);
                prop_assert_eq!(line.matches('"').count(), quotes, "{}", line);
                prop_assert!(line.ends_with(", took 1234 bytes, 20 B/s"), "{}", line);
            }
        }
    }
}
