//! So many in so long, as rates are written: `10/s`, `600/5min`.

use std::fmt;
use std::time::Duration;

use super::units;

/// So many in so long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// How many, 1..=1000000.
    pub number: u32,
    /// In which time, 1 ms to 366 days.
    pub period: Duration,
}

/// The most that a rate can say.
pub const MOST: u32 = 1_000_000;
/// The longest period, and the longest freeze.
pub const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

impl Rate {
    /// `number/time`, where a bare unit after the slash means one of it. The error says
    /// what is wrong and what works, as the part of a sentence that follows the
    /// directive's name.
    pub fn parse(word: &str) -> Result<Rate, String> {
        let Some((number, time)) = word.split_once('/') else {
            return Err(format!(
                "\"{word}\" is no rate; use a number, a slash and a time (for example 10/s or 600/5min), or \"off\""
            ));
        };
        let is_digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number
            .parse()
            .ok()
            .filter(|number| is_digits && (1..=MOST).contains(number))
            .ok_or_else(|| {
                if word.contains('.') {
                    return format!(
                        "\"{word}\" has no whole number before the slash; use a longer time (for example 1/2s or 30/min for half a request a second)"
                    );
                }
                format!(
                    "\"{word}\" has no number from 1 to {MOST} before the slash; use for example 10/s, or \"off\""
                )
            })?;
        let period = period(word, time)?;
        let rate = Rate { number, period };
        if u128::from(number) * 1_000_000_000 > u128::from(MOST) * period.as_nanos() {
            return Err(format!("\"{word}\" is more than {MOST} in a second"));
        }
        Ok(rate)
    }

    /// The time between two requests at this rate, in nanoseconds: the emission interval
    /// of GCRA. Rounded up, so that never more than the rate is admitted.
    pub fn interval(self) -> u64 {
        nanoseconds(self.period).div_ceil(u64::from(self.number).max(1))
    }
}

fn period(word: &str, time: &str) -> Result<Duration, String> {
    if time.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "\"{word}\" has no unit after the slash; use ms, s, min, h or d (for example {word}s or 10/s)"
        ));
    }
    // A bare unit is one of it.
    let whole = match time.bytes().next() {
        Some(b'0'..=b'9') => time.to_owned(),
        _ => format!("1{time}"),
    };
    let out_of_range = || format!("\"{word}\" has a time that is not from 1ms to 366d");
    let period = units::time(&whole).map_err(|why| {
        if why.contains("too long") {
            return out_of_range();
        }
        let unit = time.trim_start_matches(|c: char| c.is_ascii_digit());
        format!(
            "\"{word}\" has unknown unit \"{unit}\"{}; use ms, s, min, h or d (for example 10/s or 600/5min)",
            units::meant_by(unit)
        )
    })?;
    match (Duration::from_millis(1)..=LONGEST).contains(&period) {
        true => Ok(period),
        false => Err(out_of_range()),
    }
}

/// A time in nanoseconds; times of rules are short enough for 64 bits.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A time as it is written: the largest unit that says it whole.
pub fn written(time: Duration) -> String {
    let millis = time.as_millis();
    let units = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("min", 60_000),
        ("s", 1000),
    ];
    let whole = units
        .iter()
        .find(|(_, size)| millis != 0 && millis.is_multiple_of(*size));
    match whole {
        Some((unit, size)) => format!("{}{unit}", millis / size),
        None => format!("{millis}ms"),
    }
}

impl fmt::Display for Rate {
    /// `10/s`, `600/5min`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = written(self.period);
        let unit = time.trim_start_matches(|c: char| c.is_ascii_digit());
        // 10/s rather than 10/1s.
        let time = if time.strip_suffix(unit) == Some("1") {
            unit
        } else {
            &time
        };
        write!(f, "{}/{time}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read_and_written_alike() {
        for (word, number, millis, shown) in [
            ("10/s", 10, 1000, "10/s"),
            ("10/1s", 10, 1000, "10/s"),
            ("600/5min", 600, 300_000, "600/5min"),
            ("600/300s", 600, 300_000, "600/5min"),
            ("1/MIN", 1, 60_000, "1/min"),
            ("1/h", 1, 3_600_000, "1/h"),
            ("1000000/s", 1_000_000, 1000, "1000000/s"),
            ("3/250ms", 3, 250, "3/250ms"),
            ("5/366d", 5, 31_622_400_000, "5/366d"),
        ] {
            let period = Duration::from_millis(millis);
            let rate = Rate::parse(word);
            assert_eq!(rate, Ok(Rate { number, period }), "{word}");
            assert_eq!(rate.unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_rate_is_quoted_with_what_works() {
        for (word, helps) in [
            ("10", "for example 10/s"),
            ("", "for example 10/s"),
            ("10/q", "unknown unit \"q\"; use ms, s, min, h or d"),
            ("10/5q", "unknown unit \"q\""),
            ("10/5", "no unit after the slash; use ms, s"),
            ("10/", "no unit after the slash"),
            ("x/s", "from 1 to 1000000"),
            ("0/s", "from 1 to 1000000"),
            ("-1/s", "from 1 to 1000000"),
            ("+1/s", "from 1 to 1000000"),
            ("1.5/s", "1/2s or 30/min"),
            ("10/m", "unknown unit \"m\" (min?); use ms"),
            ("1000001/s", "from 1 to 1000000"),
            ("1001/ms", "more than 1000000 in a second"),
            ("10/0s", "from 1ms to 366d"),
            ("10/367d", "from 1ms to 366d"),
            ("10/50000d", "from 1ms to 366d"),
            ("10/s/s", "unknown unit"),
        ] {
            let message = Rate::parse(word).unwrap_err();
            assert!(
                message.starts_with(&format!("\"{word}\" ")) && message.contains(helps),
                "{word}: {message}"
            );
        }
    }

    #[test]
    fn the_interval_of_slow_rates_is_exact() {
        for (word, interval) in [
            ("1/min", 60_000_000_000),
            ("2/s", 500_000_000),
            ("1000/s", 1_000_000),
            ("3/s", 333_333_334),
        ] {
            assert_eq!(Rate::parse(word).unwrap().interval(), interval, "{word}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_read(number in 1u32..=1000, millis in 1u64..31_622_400_000) {
            let rate = Rate { number, period: Duration::from_millis(millis) };
            prop_assert_eq!(Rate::parse(&rate.to_string()), Ok(rate));
        }

        #[test]
        fn nothing_panics(word in "\\PC{0,20}|[0-9]{0,9}/[0-9]{0,9}[a-z]{0,4}") {
            let _ = Rate::parse(&word);
        }
    }
}
