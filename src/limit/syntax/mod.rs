//! How directives are written: what their arguments mean, and what can be wrong
//! with them.

mod clients;
mod concurrency;
mod options;
mod rates;
mod redis;
mod rules;
mod settings;
mod slow;
mod zones;

use std::fmt;

pub use clients::{ClientHeader, Exempt, Who, address, client_header, exempt, local_ip, prefix};
pub use concurrency::defaults;
pub use redis::{Endpoint, Redis, redis, without_password};
pub use rules::{Said, rule};
pub use settings::{error_status, log_level, on_or_off, retry_after};
pub use slow::{Alarm, alarm, heartbeat, max_time, min_rate};
pub use zones::{KeySource, Zone, is_complete_late, zone};

use super::arguments::{ArgumentError, words};
use super::network::{self, Network};
use super::rule::Scope;

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
    /// A word that is no option, or a second number; and what works.
    Word(String, &'static str),
    /// An option with an unknown value.
    Value(&'static str, String, &'static str),
    /// The same option twice.
    Twice(&'static str),
    /// Counts the whole server with a narrower scope.
    WorkersOf(Scope),
    /// Counts connections with a scope that only a request has.
    ConnectionsOf(Scope),
    /// The whole of the arguments is not what the directive takes.
    Other(String, &'static str),
    /// A sentence that is already whole.
    Sentence(String),
}

/// What an address list may be made of.
const ADDRESSES: &str = "addresses and networks such as 192.0.2.1, 10.1.0.0/16, 10.1 or 2001:db8::/32, with commas between them";

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Arguments(error) => error.fmt(f),
            Fault::Empty(wanted) => write!(f, "needs {wanted}"),
            Fault::Number(word) => write!(
                f,
                "\"{word}\" is no number from 0 to 65535 and not \"off\"; for example 3"
            ),
            Fault::Word(word, _) | Fault::Other(word, _)
                if word.starts_with('#') || word.contains(" #") =>
            {
                write!(
                    f,
                    "\"{word}\" is not understood; a comment needs a line of its own"
                )
            }
            Fault::Word(word, works) => write!(f, "\"{word}\" is not understood; {works}"),
            Fault::Value(option, value, wanted) => {
                write!(
                    f,
                    "{option}\"{value}\" is not understood; use {option}{wanted}"
                )
            }
            Fault::Twice(option) => write!(f, "{option} is given twice; say it once"),
            Fault::WorkersOf(scope) => write!(
                f,
                "count=workers counts the whole server and does not go with \"scope={}\"; use count=requests",
                scope.word()
            ),
            Fault::ConnectionsOf(scope) => write!(
                f,
                "count=connections counts before any request is read and does not go with \"scope={}\"; \
                 leave scope= out, or use count=requests",
                scope.word()
            ),
            Fault::Other(arguments, works) => {
                write!(f, "\"{arguments}\" is not understood; use {works}")
            }
            Fault::Sentence(sentence) => f.write_str(sentence),
        }
    }
}

impl From<ArgumentError> for Fault {
    fn from(error: ArgumentError) -> Self {
        Fault::Arguments(error)
    }
}

/// The words of a directive that needs at least one.
fn some_words(arguments: &str, wanted: &'static str) -> Result<Vec<String>, Fault> {
    match words(arguments)? {
        words if words.is_empty() => Err(Fault::Empty(wanted)),
        words => Ok(words),
    }
}

/// A number in plain digits: parse() alone would take a leading plus sign.
fn digits<N: std::str::FromStr>(word: &str) -> Option<N> {
    word.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| word.parse().ok())?
}

/// Keeps an option's value; the same option a second time is a fault.
fn once<T>(said: &mut Option<T>, value: T, option: &'static str) -> Result<(), Fault> {
    match said.replace(value) {
        Some(_) => Err(Fault::Twice(option)),
        None => Ok(()),
    }
}

/// The value of an option that is a list of networks.
fn networks(option: &'static str, value: &str) -> Result<Vec<Network>, Fault> {
    network::list(value).map_err(|word| Fault::Value(option, word, ADDRESSES))
}
