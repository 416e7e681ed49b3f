//! How rules are written: the arguments of the directives, and what can be wrong
//! with them.

use std::fmt;

use super::arguments::{ArgumentError, words};
use super::rule::{Count, Defaults, Scope, Terms};

/// What is wrong with a directive's arguments. Displayed with the directive's name
/// in front, it is the sentence that `apachectl -t` prints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The words cannot be split.
    Arguments(ArgumentError),
    /// Nothing stands after the directive.
    Empty(&'static str),
    /// The number is none, or out of range.
    Number(String),
    /// A word that is no option, or a second number.
    Word(String),
    /// An option with an unknown value.
    Value(&'static str, String, &'static str),
    /// The same option twice.
    Twice(&'static str),
    /// `count=workers` with a narrower scope.
    WorkersOf(Scope),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Arguments(error) => error.fmt(f),
            Fault::Empty(wanted) => write!(f, "needs {wanted}"),
            Fault::Number(word) => write!(
                f,
                "\"{word}\" is no number from 0 to 65535 and not \"off\"; for example 3"
            ),
            Fault::Word(word) if word.starts_with('#') => {
                write!(
                    f,
                    "\"{word}\" is not understood; a comment needs a line of its own"
                )
            }
            Fault::Word(word) => write!(
                f,
                "\"{word}\" is not understood; options are scope=server|vhost|location and count=workers|requests"
            ),
            Fault::Value(option, value, wanted) => {
                write!(f, "{option}\"{value}\" is unknown; use {option}{wanted}")
            }
            Fault::Twice(option) => write!(f, "{option} is given twice; say it once"),
            Fault::WorkersOf(scope) => write!(
                f,
                "count=workers counts the whole server and does not go with \"scope={}\"; use count=requests",
                scope.word()
            ),
        }
    }
}

impl From<ArgumentError> for Fault {
    fn from(error: ArgumentError) -> Self {
        Fault::Arguments(error)
    }
}

/// The arguments of `MaxConnPerIP number|off [scope=] [count=]`.
pub fn max_conn(arguments: &str) -> Result<Terms, Fault> {
    let words = words(arguments)?;
    let Some((first, options)) = words.split_first() else {
        return Err(Fault::Empty("a number from 0 to 65535, or \"off\""));
    };
    let Defaults { scope, count } = scope_and_count(options)?;
    Ok(Terms {
        limit: limit(first)?,
        scope,
        count,
    })
}

/// The arguments of `IPLimitDefaults scope=|count= ...`.
pub fn defaults(arguments: &str) -> Result<Defaults, Fault> {
    let words = words(arguments)?;
    if words.is_empty() {
        return Err(Fault::Empty(
            "scope=server|vhost|location or count=workers|requests",
        ));
    }
    scope_and_count(&words)
}

fn limit(word: &str) -> Result<Option<u16>, Fault> {
    if word.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    // parse() would take a leading plus sign.
    if !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Number(word.to_owned()));
    }
    match word.parse() {
        Ok(0) => Ok(None),
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(Fault::Number(word.to_owned())),
    }
}

fn scope_and_count(options: &[String]) -> Result<Defaults, Fault> {
    let mut found = Defaults::default();
    for option in options {
        let (name, value) = option
            .split_once('=')
            .ok_or_else(|| Fault::Word(option.clone()))?;
        if name.eq_ignore_ascii_case("scope") {
            let scope = Scope::parse(value)
                .ok_or_else(|| Fault::Value("scope=", value.to_owned(), "server|vhost|location"))?;
            if found.scope.replace(scope).is_some() {
                return Err(Fault::Twice("scope="));
            }
        } else if name.eq_ignore_ascii_case("count") {
            let count = Count::parse(value)
                .ok_or_else(|| Fault::Value("count=", value.to_owned(), "workers|requests"))?;
            if found.count.replace(count).is_some() {
                return Err(Fault::Twice("count="));
            }
        } else {
            return Err(Fault::Word(option.clone()));
        }
    }
    match (found.count, found.scope) {
        (Some(Count::Workers), Some(scope)) if scope != Scope::Server => {
            Err(Fault::WorkersOf(scope))
        }
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(limit: u16, scope: Option<Scope>, count: Option<Count>) -> Terms {
        Terms {
            limit: Some(limit),
            scope,
            count,
        }
    }

    #[test]
    fn good_arguments_are_understood() {
        for (arguments, expected) in [
            ("3", terms(3, None, None)),
            ("65535", terms(65535, None, None)),
            ("3 scope=location", terms(3, Some(Scope::Location), None)),
            (
                "3 SCOPE=VHost COUNT=Requests",
                terms(3, Some(Scope::Vhost), Some(Count::Requests)),
            ),
            (
                "3 count=workers scope=server",
                terms(3, Some(Scope::Server), Some(Count::Workers)),
            ),
            (
                "\"3\" scope=\"server\"",
                terms(3, Some(Scope::Server), None),
            ),
            (
                "0",
                Terms {
                    limit: None,
                    scope: None,
                    count: None,
                },
            ),
            (
                "Off",
                Terms {
                    limit: None,
                    scope: None,
                    count: None,
                },
            ),
        ] {
            assert_eq!(max_conn(arguments), Ok(expected), "{arguments}");
        }
    }

    #[test]
    fn bad_arguments_name_the_value_and_what_works() {
        for (arguments, value, helps) in [
            ("", "needs", "0 to 65535"),
            ("ten", "\"ten\"", "0 to 65535"),
            ("5x", "\"5x\"", "0 to 65535"),
            ("-1", "\"-1\"", "0 to 65535"),
            ("+1", "\"+1\"", "0 to 65535"),
            ("70000", "\"70000\"", "0 to 65535"),
            ("", "needs", "number"),
            ("3 4", "\"4\"", "scope="),
            ("10 # ten", "\"#\"", "line of its own"),
            ("3 scope=", "scope=\"\"", "location"),
            ("3 scope=url", "scope=\"url\"", "server|vhost|location"),
            ("3 count=threads", "count=\"threads\"", "workers|requests"),
            ("3 scope=vhost scope=vhost", "scope=", "twice"),
            ("3 colour=red", "\"colour=red\"", "count="),
            (
                "3 count=workers scope=location",
                "\"scope=location\"",
                "count=requests",
            ),
            (
                "3 scope=vhost count=workers",
                "\"scope=vhost\"",
                "count=requests",
            ),
            ("\"3", "never closed", "quote"),
        ] {
            let message = max_conn(arguments).unwrap_err().to_string();
            assert!(
                message.contains(value) && message.contains(helps),
                "{arguments}: {message}"
            );
        }
        assert!(defaults("").unwrap_err().to_string().contains("scope="));
        assert!(
            defaults("location")
                .unwrap_err()
                .to_string()
                .contains("\"location\"")
        );
    }
}
