//! The directives about slow clients and about the pool of workers: `IPLimitMinRate`,
//! `IPLimitMaxTime`, `IPLimitAlarm` and `IPLimitHeartbeat`.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::options::busy;
use super::{Fault, digits, once, some_words};
use crate::limit::slow::{MaxTime, MinRate};
use crate::limit::units;

/// `IPLimitAlarm`: when the parent tells who holds the workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alarm {
    /// From so many percent of the workers on, 1..=100.
    pub busy: u8,
    /// Not again before this time has passed, 1 s to 1 day.
    pub every: Duration,
}

const SECOND: Duration = Duration::from_secs(1);
const HALF_A_MINUTE: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl Default for Alarm {
    fn default() -> Self {
        Alarm {
            busy: 90,
            every: Duration::from_secs(60),
        }
    }
}

/// The options of these directives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    After,
    Window,
    Every,
    Busy,
}

#[derive(Default)]
struct Options {
    after: Option<Duration>,
    window: Option<Duration>,
    every: Option<Duration>,
    busy: Option<u8>,
}

impl Name {
    const fn label(self) -> &'static str {
        match self {
            Name::After => "after=",
            Name::Window => "window=",
            Name::Every => "every=",
            Name::Busy => "busy=",
        }
    }
}

impl Options {
    /// What these words say to a directive that takes these options.
    fn read(words: &[String], takes: &[Name], help: &'static str) -> Result<Options, Fault> {
        let mut said = Options::default();
        for word in words {
            let (name, value) = word
                .split_once('=')
                .and_then(|(label, value)| {
                    let is_it = |name: &&Name| {
                        let name = name.label().trim_end_matches('=');
                        label.eq_ignore_ascii_case(name)
                    };
                    Some((*takes.iter().find(is_it)?, value))
                })
                .ok_or_else(|| Fault::Word(word.clone(), help))?;
            said.take(name, value)?;
        }
        Ok(said)
    }

    fn take(&mut self, name: Name, value: &str) -> Result<(), Fault> {
        let label = name.label();
        let time = |range: RangeInclusive<Duration>, works| {
            units::time(value)
                .ok()
                .filter(|time| range.contains(time))
                .ok_or_else(|| Fault::Value(label, value.to_owned(), works))
        };
        match name {
            Name::After => {
                const WORKS: &str =
                    "TIME from 0 to 1d, in ms, s, min, h or d, for example after=30s";
                once(&mut self.after, time(Duration::ZERO..=DAY, WORKS)?, label)
            }
            Name::Window => {
                const WORKS: &str =
                    "TIME from 1s to 1h, in ms, s, min, h or d, for example window=30s";
                once(&mut self.window, time(SECOND..=HOUR, WORKS)?, label)
            }
            Name::Every => {
                const WORKS: &str =
                    "TIME from 1s to 1d, in ms, s, min, h or d, for example every=60s";
                once(&mut self.every, time(SECOND..=DAY, WORKS)?, label)
            }
            Name::Busy => once(&mut self.busy, busy(value)?, label),
        }
    }
}

/// The arguments of `IPLimitMinRate bytes-per-second|off [after=time] [window=time]
/// [busy=N%]`; none is `off`.
pub fn min_rate(arguments: &str) -> Result<Option<MinRate>, Fault> {
    const TAKES: &[Name] = &[Name::After, Name::Window, Name::Busy];
    const HELP: &str = "options are after=TIME, window=TIME and busy=N%";
    let words = some_words(
        arguments,
        "bytes per second, for example 1000, or \"off\" for no minimum",
    )?;
    let Some((first, options)) = unless_off(&words)? else {
        return Ok(None);
    };
    let bytes = digits::<u32>(first).ok_or_else(|| {
        Fault::Sentence(format!(
            "\"{first}\" is no number of bytes per second from 1 to {}; \
             use for example 1000, or \"off\" for no minimum",
            u32::MAX
        ))
    })?;
    if bytes == 0 {
        return Err(Fault::Sentence(format!(
            "\"{first}\" would cut nobody; use \"off\" for no minimum, \
             or bytes per second from 1 to {}",
            u32::MAX
        )));
    }
    let said = Options::read(options, TAKES, HELP)?;
    Ok(Some(MinRate {
        bytes: bytes.into(),
        after: said.after.unwrap_or(HALF_A_MINUTE),
        window: said.window.unwrap_or(HALF_A_MINUTE),
        busy: said.busy,
    }))
}

/// The arguments of `IPLimitMaxTime time|off [busy=N%]`; none is `off`.
pub fn max_time(arguments: &str) -> Result<Option<MaxTime>, Fault> {
    const WANTED: &str = "a time from 1s to 30d, for example 10min, or \"off\" for no limit";
    let words = some_words(arguments, WANTED)?;
    let Some((first, options)) = unless_off(&words)? else {
        return Ok(None);
    };
    let time = time(first, WANTED)?;
    let busy = Options::read(options, &[Name::Busy], "the only option is busy=N%")?.busy;
    Ok(Some(MaxTime { time, busy }))
}

/// The arguments of `IPLimitAlarm off|[busy=N%] [every=time]`; none is `off`.
pub fn alarm(arguments: &str) -> Result<Option<Alarm>, Fault> {
    const TAKES: &[Name] = &[Name::Busy, Name::Every];
    const HELP: &str = "use \"off\", or busy=N% and every=TIME, for example busy=90% every=60s";
    let words = some_words(
        arguments,
        "\"off\", or busy=N% and every=TIME, for example busy=90% every=60s",
    )?;
    if unless_off(&words)?.is_none() {
        return Ok(None);
    }
    let said = Options::read(&words, TAKES, HELP)?;
    let default = Alarm::default();
    Ok(Some(Alarm {
        busy: said.busy.unwrap_or(default.busy),
        every: said.every.unwrap_or(default.every),
    }))
}

/// The argument of `IPLimitHeartbeat time|off`; none is `off`.
pub fn heartbeat(arguments: &str) -> Result<Option<Duration>, Fault> {
    const WANTED: &str = "a time from 1s to 30d, for example 1h, or \"off\" for none";
    let words = some_words(arguments, WANTED)?;
    match unless_off(&words)? {
        None => Ok(None),
        Some((word, [])) => time(word, WANTED).map(Some),
        Some(_) => Err(Fault::Other(
            arguments.to_owned(),
            "one time from 1s to 30d, for example 1h, or \"off\" for none",
        )),
    }
}

/// The first word and the others; none where all there is is `off`.
fn unless_off(words: &[String]) -> Result<Option<(&String, &[String])>, Fault> {
    match words {
        [first, more @ ..] if first.eq_ignore_ascii_case("off") => match more {
            [] => Ok(None),
            [word, ..] => Err(Fault::Sentence(format!(
                "\"{word}\" does not go with \"off\", which stands alone; leave it out"
            ))),
        },
        [first, more @ ..] => Ok(Some((first, more))),
        [] => Ok(None),
    }
}

/// A time from 1 s to 30 d.
fn time(word: &str, wanted: &'static str) -> Result<Duration, Fault> {
    let time = units::time(word).map_err(Fault::Sentence)?;
    match (SECOND..=MONTH).contains(&time) {
        true => Ok(time),
        false => Err(Fault::Other(word.to_owned(), wanted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_minimum_rates_are_understood() {
        for (arguments, bytes, after, window, busy) in [
            ("1000", 1000, 30_000, 30_000, None),
            ("1 after=0", 1, 0, 30_000, None),
            (
                "4294967295 AFTER=1d",
                4_294_967_295,
                86_400_000,
                30_000,
                None,
            ),
            ("10 window=1h busy=80%", 10, 30_000, 3_600_000, Some(80)),
            (
                "10 Busy=100% Window=1000ms after=5",
                10,
                5000,
                1000,
                Some(100),
            ),
            ("10 \"after=2min\"", 10, 120_000, 30_000, None),
        ] {
            let expected = MinRate {
                bytes,
                after: Duration::from_millis(after),
                window: Duration::from_millis(window),
                busy,
            };
            assert_eq!(min_rate(arguments), Ok(Some(expected)), "{arguments}");
        }
        assert_eq!(min_rate("OFF"), Ok(None));
    }

    #[test]
    fn good_times_and_alarms_are_understood() {
        for (arguments, seconds, busy) in [
            ("10min", 600, None),
            ("1", 1, None),
            ("30d BUSY=1%", 2_592_000, Some(1)),
        ] {
            let time = Duration::from_secs(seconds);
            assert_eq!(max_time(arguments), Ok(Some(MaxTime { time, busy })));
        }
        for (arguments, busy, seconds) in [
            ("busy=80%", 80, 60),
            ("every=10s", 90, 10),
            ("Every=1d busy=100%", 100, 86_400),
        ] {
            let every = Duration::from_secs(seconds);
            assert_eq!(alarm(arguments), Ok(Some(Alarm { busy, every })));
        }
        for (arguments, seconds) in [("1s", 1), ("1h", 3600), ("30d", 2_592_000)] {
            let time = Duration::from_secs(seconds);
            assert_eq!(heartbeat(arguments), Ok(Some(time)));
        }
        assert_eq!(max_time("off"), Ok(None));
        assert_eq!(alarm("Off"), Ok(None));
        assert_eq!(heartbeat("off"), Ok(None));
    }

    /// What each directive says of its arguments.
    fn said(directive: &str, arguments: &str) -> Result<(), Fault> {
        match directive {
            "IPLimitMinRate" => min_rate(arguments).map(|_| ()),
            "IPLimitMaxTime" => max_time(arguments).map(|_| ()),
            "IPLimitAlarm" => alarm(arguments).map(|_| ()),
            "IPLimitHeartbeat" => heartbeat(arguments).map(|_| ()),
            _ => unreachable!(),
        }
    }

    const ALL: [&str; 4] = [
        "IPLimitMinRate",
        "IPLimitMaxTime",
        "IPLimitAlarm",
        "IPLimitHeartbeat",
    ];

    #[test]
    fn bad_arguments_name_the_value_and_what_works() {
        const MIN: &str = "IPLimitMinRate";
        const MAX: &str = "IPLimitMaxTime";
        const ALARM: &str = "IPLimitAlarm";
        const BEAT: &str = "IPLimitHeartbeat";
        for (directive, arguments, value, helps) in [
            (MIN, "", "needs", "\"off\" for no minimum"),
            (MIN, "0", "\"0\"", "\"off\" for no minimum"),
            (MIN, "00 busy=80%", "\"00\"", "\"off\" for no minimum"),
            (MIN, "4294967296", "\"4294967296\"", "1 to 4294967295"),
            (MIN, "10k", "\"10k\"", "for example 1000"),
            (MIN, "-1", "\"-1\"", "for example 1000"),
            (MIN, "+1", "\"+1\"", "for example 1000"),
            (MIN, "10/s", "\"10/s\"", "for example 1000"),
            (MIN, "after=10s", "\"after=10s\"", "for example 1000"),
            (MIN, "off busy=80%", "\"busy=80%\"", "leave it out"),
            (MIN, "10 off", "\"off\"", "after=TIME, window=TIME"),
            (
                MIN,
                "10 every=1s",
                "\"every=1s\"",
                "after=TIME, window=TIME",
            ),
            (MIN, "10 # slow", "\"#\"", "line of its own"),
            (MIN, "10 after=1 after=1", "after=", "twice"),
            (MIN, "10 after=86401", "after=\"86401\"", "0 to 1d"),
            (MIN, "10 after=", "after=\"\"", "0 to 1d"),
            (MIN, "10 window=999ms", "window=\"999ms\"", "1s to 1h"),
            (MIN, "10 window=3601", "window=\"3601\"", "1s to 1h"),
            (MIN, "10 window=5q", "window=\"5q\"", "ms, s, min, h or d"),
            (MIN, "10 busy=80", "busy=\"80\"", "busy=80%"),
            (MIN, "10 busy=0%", "busy=\"0%\"", "1 to 100"),
            (MAX, "", "needs", "10min"),
            (MAX, "0", "\"0\"", "\"off\" for no limit"),
            (MAX, "999ms", "\"999ms\"", "1s to 30d"),
            (MAX, "31d", "\"31d\"", "1s to 30d"),
            (MAX, "10q", "unknown unit \"q\"", "ms, s, min"),
            (MAX, "10 s", "\"s\"", "busy=N%"),
            (MAX, "10 after=1s", "\"after=1s\"", "busy=N%"),
            (MAX, "off 10s", "\"10s\"", "leave it out"),
            (ALARM, "", "needs", "busy=90% every=60s"),
            (ALARM, "90%", "\"90%\"", "busy=90% every=60s"),
            (ALARM, "on", "\"on\"", "busy=90% every=60s"),
            (ALARM, "busy=101%", "busy=\"101%\"", "1 to 100"),
            (ALARM, "every=0", "every=\"0\"", "1s to 1d"),
            (ALARM, "every=1s every=1s", "every=", "twice"),
            (ALARM, "off every=1s", "\"every=1s\"", "leave it out"),
            (BEAT, "", "needs", "1h"),
            (BEAT, "0", "\"0\"", "\"off\" for none"),
            (BEAT, "1h 2h", "\"1h 2h\"", "one time"),
            (BEAT, "ten", "\"ten\"", "ms, s, min"),
        ] {
            let message = said(directive, arguments).unwrap_err().to_string();
            assert!(
                message.contains(value) && message.contains(helps),
                "{directive} {arguments}: {message}"
            );
        }
    }

    proptest! {
        #[test]
        fn nothing_panics_and_every_error_is_one_line(
            arguments in "\\PC{0,20}|(off|[0-9]{0,11}|)( (after|window|busy|every)=[0-9]{0,6}(s|h|%)?){0,3}",
        ) {
            for directive in ALL {
                if let Err(fault) = said(directive, &arguments) {
                    prop_assert!(!fault.to_string().contains('\n'));
                }
            }
        }

        #[test]
        fn every_number_in_range_is_taken(bytes in 1u32.., busy in 1u8..=100, window in 1u64..=3600) {
            let said = min_rate(&format!("{bytes} window={window} busy={busy}%")).unwrap().unwrap();
            prop_assert_eq!(said.bytes, u64::from(bytes));
            prop_assert_eq!(said.window, Duration::from_secs(window));
            prop_assert_eq!(said.busy, Some(busy));
        }
    }
}
