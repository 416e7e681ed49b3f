//! The directives that say how refusals are answered and told.

use super::{Fault, digits, some_words};
use crate::limit::arguments::words;
use crate::limit::settings::Severity;
use crate::limit::units;

/// `On` or `Off`.
pub fn on_or_off(arguments: &str) -> Result<bool, Fault> {
    match words(arguments)?.as_slice() {
        [word] if word.eq_ignore_ascii_case("on") => Ok(true),
        [word] if word.eq_ignore_ascii_case("off") => Ok(false),
        [] => Err(Fault::Empty("On or Off")),
        _ => Err(Fault::Other(arguments.to_owned(), "On or Off")),
    }
}

/// The argument of `IPLimitRetryAfter time`, in seconds, rounded up.
pub fn retry_after(arguments: &str) -> Result<u32, Fault> {
    let words = some_words(arguments, "a time, for example 5s")?;
    let [word] = words.as_slice() else {
        return Err(Fault::Other(
            arguments.to_owned(),
            "one time, for example 5s",
        ));
    };
    let time = units::time(word).map_err(Fault::Sentence)?;
    let up = u64::from(time.subsec_nanos() > 0);
    match u32::try_from(time.as_secs() + up) {
        Ok(seconds) if seconds > 0 => Ok(seconds),
        _ => Err(Fault::Other(word.clone(), "a time of 1s or more")),
    }
}

/// The arguments of `IPLimitErrorStatus concurrency-status [rate-status]`.
pub fn error_status(arguments: &str) -> Result<(u16, Option<u16>), Fault> {
    let words = some_words(arguments, "a status from 400 to 599, for example 503 429")?;
    let status = |word: &String| {
        digits(word)
            .filter(|status| (400..=599).contains(status))
            .ok_or_else(|| {
                Fault::Other(
                    word.clone(),
                    "a status from 400 to 599, for example 503 429",
                )
            })
    };
    match words.as_slice() {
        [one] => Ok((status(one)?, None)),
        [one, other] => Ok((status(one)?, Some(status(other)?))),
        _ => Err(Fault::Other(
            arguments.to_owned(),
            "one status for concurrency rules and perhaps one for rates, for example 503 429",
        )),
    }
}

/// The argument of `IPLimitLogLevel level`.
pub fn log_level(arguments: &str) -> Result<Severity, Fault> {
    const LEVELS: &str = "emerg, alert, crit, error, warn, notice, info, debug or trace1 to trace8";
    match some_words(arguments, "a level such as warn or info")?.as_slice() {
        [word] => Severity::parse(word).ok_or_else(|| Fault::Other(word.clone(), LEVELS)),
        _ => Err(Fault::Other(arguments.to_owned(), LEVELS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_settings_are_understood() {
        assert_eq!(on_or_off("ON"), Ok(true));
        assert_eq!(on_or_off("off"), Ok(false));
        for (arguments, seconds) in [("5", 5), ("1500ms", 2), ("2min", 120), ("1ms", 1)] {
            assert_eq!(retry_after(arguments), Ok(seconds), "{arguments}");
        }
        assert_eq!(error_status("429"), Ok((429, None)));
        assert_eq!(error_status("400 599"), Ok((400, Some(599))));
        assert_eq!(log_level("Info"), Ok(Severity(6)));
    }

    #[test]
    fn bad_settings_name_the_value_and_what_works() {
        let told = [
            ("maybe", on_or_off("maybe").map(|_| ()), "On or Off"),
            ("on off", on_or_off("on off").map(|_| ()), "On or Off"),
            ("needs", on_or_off("").map(|_| ()), "On or Off"),
            ("\"0\"", retry_after("0").map(|_| ()), "1s or more"),
            ("\"5q\"", retry_after("5q").map(|_| ()), "ms, s, min"),
            ("\"5 s\"", retry_after("5 s").map(|_| ()), "one time"),
            ("\"399\"", error_status("399").map(|_| ()), "400 to 599"),
            ("\"600\"", error_status("503 600").map(|_| ()), "400 to 599"),
            ("\"+503\"", error_status("+503").map(|_| ()), "400 to 599"),
            ("\"1 2 3\"", error_status("1 2 3").map(|_| ()), "503 429"),
            ("\"loud\"", log_level("loud").map(|_| ()), "warn"),
        ];
        for (value, result, helps) in told {
            let message = result.unwrap_err().to_string();
            assert!(
                message.contains(value) && message.contains(helps),
                "{value}: {message}"
            );
        }
    }
}
