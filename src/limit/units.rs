//! Times as they are written: a number and a unit.
//!
//! What is wrong with a word is said as the part of a sentence that follows the
//! directive's name.

use std::time::Duration;

/// The units, as they are named in messages, and their milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("min", 60 * 1000),
    ("h", 60 * 60 * 1000),
    ("d", 24 * 60 * 60 * 1000),
];

/// The time that is written so: digits and `ms`, `s`, `min`, `h` or `d`, in any case.
///
/// A bare number is seconds. The longest time is 4294967295 seconds (`u32::MAX`).
/// The error says what is wrong and what works.
pub fn time(word: &str) -> Result<Duration, String> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = word.split_at(digits);
    if number.is_empty() || !unit.chars().all(char::is_alphabetic) {
        return Err(format!(
            "\"{word}\" is no time; use a number with ms, s, min, h or d (for example 10s)"
        ));
    }
    let unit = if unit.is_empty() { "s" } else { unit };
    let Some((_, factor)) = UNITS
        .iter()
        .find(|(name, _)| unit.eq_ignore_ascii_case(name))
    else {
        return Err(format!(
            "\"{word}\" has unknown unit \"{unit}\"{}; use ms, s, min, h or d (for example 10s)",
            meant_by(unit)
        ));
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*factor))
        .map(Duration::from_millis)
        .filter(|time| *time <= Duration::from_secs(u32::MAX.into()))
        .ok_or_else(|| format!("\"{word}\" is too long; the longest time is {}s", u32::MAX))
}

/// The unit that somebody meant who wrote another one: ` (min?)`, or nothing.
pub fn meant_by(unit: &str) -> &'static str {
    let is_one_of = |names: &[&str]| names.iter().any(|name| unit.eq_ignore_ascii_case(name));
    if is_one_of(&["m", "mins", "minute", "minutes"]) {
        " (min?)"
    } else if is_one_of(&["sec", "secs", "second", "seconds"]) {
        " (s?)"
    } else if is_one_of(&["hr", "hrs", "hour", "hours"]) {
        " (h?)"
    } else if is_one_of(&["day", "days"]) {
        " (d?)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_times_are_understood() {
        for (word, milliseconds) in [
            ("0", 0),
            ("10", 10_000),
            ("10s", 10_000),
            ("10S", 10_000),
            ("007s", 7_000),
            ("250ms", 250),
            ("250Ms", 250),
            ("5min", 300_000),
            ("5MIN", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("4294967295", 4_294_967_295_000),
            ("4294967295000ms", 4_294_967_295_000),
            ("49710d", 4_294_944_000_000),
        ] {
            assert_eq!(
                time(word),
                Ok(Duration::from_millis(milliseconds)),
                "{word}"
            );
        }
    }

    #[test]
    fn bad_times_are_named_with_what_works() {
        for (word, message) in [
            (
                "10q",
                r#""10q" has unknown unit "q"; use ms, s, min, h or d (for example 10s)"#,
            ),
            (
                "x",
                r#""x" is no time; use a number with ms, s, min, h or d (for example 10s)"#,
            ),
            (
                "4294967296",
                r#""4294967296" is too long; the longest time is 4294967295s"#,
            ),
        ] {
            assert_eq!(time(word), Err(message.to_owned()));
        }
        for (word, expected) in [
            ("", "no time"),
            ("s", "no time"),
            ("-1", "no time"),
            ("+1s", "no time"),
            ("1.5s", "no time"),
            ("1,5s", "no time"),
            ("10 s", "no time"),
            (" 10", "no time"),
            ("10s ", "no time"),
            ("1h30min", "no time"),
            ("0x10", "no time"),
            ("１０s", "no time"),
            ("10m", "unit \"m\" (min?)"),
            ("10sec", "unit \"sec\""),
            ("10µs", "unit \"µs\""),
            ("10ſ", "unit \"ſ\""),
            ("4294967295001ms", "too long"),
            ("49711d", "too long"),
            ("18446744073709551615d", "too long"),
            ("99999999999999999999999", "too long"),
        ] {
            let message = time(word).unwrap_err();
            assert!(message.contains(expected), "{word}: {message}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn numbers_and_units_multiply(number: u64, small in 0u32..64, unit in 0usize..6, upper: [bool; 3]) {
            let number = number >> small;
            let (name, micros) = [
                ("", 1_000_000u128), ("ms", 1_000), ("s", 1_000_000),
                ("min", 60_000_000), ("h", 3_600_000_000), ("d", 86_400_000_000),
            ][unit];
            let written: String = name.chars().zip(upper)
                .map(|(c, upper)| if upper { c.to_ascii_uppercase() } else { c })
                .collect();
            let expected = u128::from(number) * micros;
            let read = time(&format!("{number}{written}"));
            if expected <= 4_294_967_295_000_000 {
                prop_assert_eq!(read.map(|time| time.as_micros()), Ok(expected));
            } else {
                prop_assert!(read.unwrap_err().contains("too long"));
            }
        }

        #[test]
        fn nothing_panics_and_every_error_quotes_its_word(word in "\\PC{0,20}|[0-9]{0,24}[a-zA-Z]{0,4}") {
            if let Err(message) = time(&word) {
                let quoted = format!("\"{word}\" ");
                prop_assert!(message.starts_with(&quoted), "{}", message);
            }
        }
    }
}
