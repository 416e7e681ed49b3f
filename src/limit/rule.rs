//! Rules as they are written, and what they mean once their defaults are known.
//!
//! A rule is one limiting directive in the place where it stands. What it does not
//! say itself stays `None` until the place's defaults decide.

use std::fmt;

use super::arguments::{ArgumentError, words};

/// The directives that make rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Directive {
    /// `MaxConnPerIP`
    MaxConnPerIp,
}

/// How far a rule looks when it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Everything the client has in flight on this server.
    Server,
    /// The same on this virtual host.
    Vhost,
    /// Only the requests that this very rule governs.
    Location,
}

/// What a rule counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// Busy workers in the scoreboard.
    Workers,
    /// Requests in flight, exactly.
    Requests,
}

/// Whether a rule stands outside or inside a section. A count is never shared by levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Outside sections: a hard cap that no section lifts.
    Server,
    /// In a section or .htaccess.
    Directory,
}

/// What a concurrency rule says itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Over this many means refused; `None` is `off` (or 0).
    pub limit: Option<u16>,
    /// `scope=`
    pub scope: Option<Scope>,
    /// `count=`
    pub count: Option<Count>,
}

/// `IPLimitDefaults`: what rules take when they do not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Defaults {
    /// `scope=`
    pub scope: Option<Scope>,
    /// `count=`
    pub count: Option<Count>,
}

/// What a rule means where it is in effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meaning {
    /// How far it looks.
    pub scope: Scope,
    /// What it counts.
    pub count: Count,
}

impl Terms {
    /// Whether this is the bare `MaxConnPerIP N` of mod_limitipconn 0.24.
    pub fn is_plain(&self) -> bool {
        self.scope.is_none() && self.count.is_none()
    }

    /// What the rule means under these defaults.
    ///
    /// A default that does not fit what the rule says itself is ignored, and a
    /// default count that does not fit the scope found so far likewise.
    pub fn meaning(&self, defaults: &Defaults) -> Meaning {
        let fits = |scope: &Scope| self.count != Some(Count::Workers) || *scope == Scope::Server;
        let scope = self
            .scope
            .or(defaults.scope.filter(fits))
            .unwrap_or(Scope::Server);
        let count = match (self.count.or(defaults.count), scope) {
            (None | Some(Count::Workers), Scope::Server) => Count::Workers,
            _ => Count::Requests,
        };
        Meaning { scope, count }
    }
}

impl Defaults {
    /// These defaults, and where they are silent those of the place around.
    pub fn or(self, around: Defaults) -> Defaults {
        Defaults {
            scope: self.scope.or(around.scope),
            count: self.count.or(around.count),
        }
    }
}

impl Directive {
    /// The name as the manual writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Directive::MaxConnPerIp => "MaxConnPerIP",
        }
    }
}

impl Scope {
    /// The word after `scope=`.
    pub const fn word(self) -> &'static str {
        match self {
            Scope::Server => "server",
            Scope::Vhost => "vhost",
            Scope::Location => "location",
        }
    }

    fn parse(word: &str) -> Option<Scope> {
        [Scope::Server, Scope::Vhost, Scope::Location]
            .into_iter()
            .find(|scope| word.eq_ignore_ascii_case(scope.word()))
    }
}

impl Count {
    /// The word after `count=`.
    pub const fn word(self) -> &'static str {
        match self {
            Count::Workers => "workers",
            Count::Requests => "requests",
        }
    }

    fn parse(word: &str) -> Option<Count> {
        [Count::Workers, Count::Requests]
            .into_iter()
            .find(|count| word.eq_ignore_ascii_case(count.word()))
    }
}

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
    /// `off` with something beside it.
    OffAnd(String),
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
            Fault::OffAnd(word) => write!(
                f,
                "\"off\" stands alone, \"{word}\" is not understood beside it"
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

    #[test]
    fn meaning_follows_the_rule_then_the_defaults_then_the_drop_in() {
        use Count::{Requests, Workers};
        use Scope::{Location, Server, Vhost};
        // scope= and count= of the rule, of the defaults, and the meaning
        for (scope, count, default_scope, default_count, meant_scope, meant_count) in [
            (None, None, None, None, Server, Workers),
            (Some(Server), None, None, None, Server, Workers),
            (Some(Vhost), None, None, None, Vhost, Requests),
            (Some(Location), None, None, None, Location, Requests),
            (None, Some(Requests), None, None, Server, Requests),
            (None, None, Some(Location), None, Location, Requests),
            (None, None, None, Some(Requests), Server, Requests),
            (None, Some(Workers), Some(Location), None, Server, Workers),
            (
                Some(Location),
                None,
                None,
                Some(Workers),
                Location,
                Requests,
            ),
            (
                None,
                None,
                Some(Location),
                Some(Workers),
                Location,
                Requests,
            ),
            (
                Some(Server),
                None,
                Some(Location),
                Some(Requests),
                Server,
                Requests,
            ),
            (
                Some(Server),
                Some(Workers),
                Some(Location),
                Some(Requests),
                Server,
                Workers,
            ),
        ] {
            let terms = Terms {
                limit: Some(1),
                scope,
                count,
            };
            let defaults = Defaults {
                scope: default_scope,
                count: default_count,
            };
            let expected = Meaning {
                scope: meant_scope,
                count: meant_count,
            };
            assert_eq!(terms.meaning(&defaults), expected, "{terms:?} {defaults:?}");
        }
    }
}
