//! The limiting directives and `IPLimitDefaults`.

use super::{Fault, digits, networks, once, some_words};
use crate::limit::network::Network;
use crate::limit::rule::{Count, Defaults, Scope, Terms};

/// What one line of `MaxConnPerIP` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MaxConn {
    /// The number and its options.
    pub terms: Terms,
    /// `for=`; empty for everybody.
    pub networks: Vec<Network>,
}

const OPTIONS: &str = "options are scope=server|vhost|location, count=workers|requests|connections, \
                       busy=N% and for=ADDRESSES";
const DEFAULTS: &str =
    "options are scope=server|vhost|location, count=workers|requests and busy=N%";

/// The arguments of `MaxConnPerIP number|off [scope=] [count=] [for=] [busy=]`.
pub fn max_conn(arguments: &str) -> Result<MaxConn, Fault> {
    let words = some_words(arguments, "a number from 0 to 65535, or \"off\"")?;
    let (first, options) = words.split_first().expect("some words");
    if first.contains('=') {
        return Err(Fault::Sentence(format!(
            "\"{first}\" stands where the number belongs; write the number first, then the options, for example 3 {first}"
        )));
    }
    let limit = limit(first)?;
    let said = options_of(options, OPTIONS)?;
    if said.count == Some(Count::Connections)
        && let Some(scope) = said.scope.filter(|scope| *scope != Scope::Server)
    {
        return Err(Fault::ConnectionsOf(scope));
    }
    Ok(MaxConn {
        terms: Terms {
            limit,
            scope: said.scope,
            count: said.count,
            busy: said.busy,
        },
        networks: said.networks.unwrap_or_default(),
    })
}

/// The arguments of `IPLimitDefaults scope=|count=|busy= ...`.
pub fn defaults(arguments: &str) -> Result<Defaults, Fault> {
    let words = some_words(
        arguments,
        "scope=server|vhost|location, count=workers|requests or busy=N%",
    )?;
    let said = options_of(&words, DEFAULTS)?;
    if said.networks.is_some() {
        let is_for = |word: &&String| word.to_ascii_lowercase().starts_with("for=");
        let word = words.iter().find(is_for).cloned().unwrap_or_default();
        return Err(Fault::Word(word, DEFAULTS));
    }
    if said.count == Some(Count::Connections) {
        return Err(Fault::Sentence(String::from(
            "count=\"connections\" is no default; say it in the rule itself, or use count=workers|requests",
        )));
    }
    Ok(Defaults {
        scope: said.scope,
        count: said.count,
        busy: said.busy,
    })
}

fn limit(word: &str) -> Result<Option<u16>, Fault> {
    if word.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    match digits(word) {
        Some(0) => Ok(None),
        Some(number) => Ok(Some(number)),
        None => Err(Fault::Number(word.to_owned())),
    }
}

#[derive(Default)]
struct Options {
    scope: Option<Scope>,
    count: Option<Count>,
    busy: Option<u8>,
    networks: Option<Vec<Network>>,
}

fn options_of(words: &[String], known: &'static str) -> Result<Options, Fault> {
    let mut said = Options::default();
    for word in words {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| Fault::Word(word.clone(), known))?;
        let wrong = |option, works| Fault::Value(option, value.to_owned(), works);
        match name.to_ascii_lowercase().as_str() {
            "scope" => {
                let scope =
                    Scope::parse(value).ok_or_else(|| wrong("scope=", "server|vhost|location"))?;
                once(&mut said.scope, scope, "scope=")?;
            }
            "count" => {
                let count = Count::parse(value)
                    .ok_or_else(|| wrong("count=", "workers|requests|connections"))?;
                once(&mut said.count, count, "count=")?;
            }
            "busy" => {
                let percent = value
                    .strip_suffix('%')
                    .and_then(digits)
                    .filter(|percent| (1..=100).contains(percent))
                    .ok_or_else(|| {
                        wrong("busy=", "N% with N from 1 to 100, for example busy=80%")
                    })?;
                once(&mut said.busy, percent, "busy=")?;
            }
            "for" => once(&mut said.networks, networks("for=", value)?, "for=")?,
            _ => return Err(Fault::Word(word.clone(), known)),
        }
    }
    match (said.count, said.scope) {
        (Some(Count::Workers), Some(scope)) if scope != Scope::Server => {
            Err(Fault::WorkersOf(scope))
        }
        _ => Ok(said),
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
            busy: None,
        }
    }

    const OFF: Terms = Terms {
        limit: None,
        scope: None,
        count: None,
        busy: None,
    };

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
                "3 count=connections",
                terms(3, None, Some(Count::Connections)),
            ),
            (
                "3 busy=80%",
                Terms {
                    busy: Some(80),
                    ..terms(3, None, None)
                },
            ),
            ("0", OFF),
            ("Off", OFF),
        ] {
            let expected = MaxConn {
                terms: expected,
                networks: vec![],
            };
            assert_eq!(max_conn(arguments), Ok(expected), "{arguments}");
        }
    }

    #[test]
    fn networks_are_read_as_require_ip_reads_them() {
        for arguments in [
            "3 for=10.1.0.0/16,::1",
            "3 \"for=10.1 ::1\"",
            "3 FOR=\"10.1.0.0/255.255.0.0, ::1\"",
        ] {
            let networks = max_conn(arguments).unwrap().networks;
            let shown: Vec<String> = networks.iter().map(ToString::to_string).collect();
            assert_eq!(shown, ["10.1.0.0/16", "::1"], "{arguments}");
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
            ("scope=location 3", "\"scope=location\"", "number first"),
            ("3 busy=80", "busy=\"80\"", "busy=N%"),
            ("3 busy=0%", "busy=\"0%\"", "1 to 100"),
            ("3 busy=101%", "busy=\"101%\"", "1 to 100"),
            ("3 busy=1% busy=1%", "busy=", "twice"),
            ("3 for=", "for=\"\"", "10.1.0.0/16"),
            ("3 for=10.1,host", "for=\"host\"", "10.1.0.0/16"),
            ("3 for=10.1 11.1", "\"11.1\"", "for="),
            (
                "3 count=connections scope=vhost",
                "\"scope=vhost\"",
                "count=requests",
            ),
        ] {
            let message = max_conn(arguments).unwrap_err().to_string();
            assert!(
                message.contains(value) && message.contains(helps),
                "{arguments}: {message}"
            );
        }
        for (arguments, helps) in [
            ("count=connections", "in the rule itself"),
            ("for=10.1 busy=80%", "\"for=10.1\""),
            ("", "scope="),
        ] {
            let message = defaults(arguments).unwrap_err().to_string();
            assert!(message.contains(helps), "{arguments}: {message}");
        }
        assert!(
            defaults("location")
                .unwrap_err()
                .to_string()
                .contains("\"location\"")
        );
    }
}
