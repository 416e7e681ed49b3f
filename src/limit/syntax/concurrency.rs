//! The rules that limit how many at once: `MaxConnPerIP` and `MaxConnPerKey`, and what they
//! take from `IPLimitDefaults`.

use super::options::{Name, Options, Takes};
use super::{Fault, digits, some_words};
use crate::limit::rate::Rate;
use crate::limit::rule::{Concurrency, Count, Defaults, Directive, Scope, Terms};

const SCOPES: (&[Scope], &str) = (
    &[Scope::Server, Scope::Vhost, Scope::Location],
    "server|vhost|location",
);

const BY_ADDRESS: Takes = Takes {
    names: &[
        Name::Scope,
        Name::Count,
        Name::Busy,
        Name::For,
        Name::Shared,
    ],
    scopes: SCOPES,
    counts: "workers|requests|connections",
    help: "options are scope=server|vhost|location, count=workers|requests|connections, \
           busy=N%, for=ADDRESSES and shared",
};

const BY_KEY: Takes = Takes {
    names: &[
        Name::Scope,
        Name::Count,
        Name::Busy,
        Name::For,
        Name::Shared,
    ],
    scopes: (
        &[Scope::Zone, Scope::Vhost, Scope::Location],
        "zone|vhost|location",
    ),
    counts: "requests",
    help: "options are scope=zone|vhost|location, busy=N%, for=ADDRESSES and shared",
};

const DEFAULTS: Takes = Takes {
    names: &[Name::Scope, Name::Count, Name::Busy],
    scopes: SCOPES,
    counts: "workers|requests",
    help: "options are scope=server|vhost|location, count=workers|requests and busy=N%",
};

/// What a number and its options say, and for whom.
pub(super) fn terms(
    directive: Directive,
    first: &str,
    options: &[String],
) -> Result<(Terms, Options), Fault> {
    let limit = limit(first)?;
    let said = match directive.is_per_key() {
        true => of_keys(options)?,
        false => of_addresses(options)?,
    };
    let terms = Concurrency {
        limit,
        scope: said.scope,
        count: said.count,
        busy: said.busy,
    };
    Ok((Terms::Concurrency(terms), said))
}

fn of_addresses(options: &[String]) -> Result<Options, Fault> {
    let said = Options::read(options, &BY_ADDRESS)?;
    if said.count == Some(Count::Connections)
        && let Some(scope) = said.scope.filter(|scope| *scope != Scope::Server)
    {
        return Err(Fault::ConnectionsOf(scope));
    }
    let said = check_workers(said)?;
    match (said.shared, said.count) {
        (None, _) | (_, Some(Count::Requests)) => Ok(said),
        // Nobody sees another server's workers, so it says what it can mean.
        (Some(()), None) => Ok(Options {
            count: Some(Count::Requests),
            ..said
        }),
        (Some(()), Some(count)) => Err(Fault::Sentence(format!(
            "\"shared\" does not go with count=\"{}\", which only this server can see; use count=requests",
            count.word()
        ))),
    }
}

/// A count of keys is one of requests, whether it says so or not.
fn of_keys(options: &[String]) -> Result<Options, Fault> {
    let said = Options::read(options, &BY_KEY)?;
    match said.count {
        Some(count) if count != Count::Requests => Err(Fault::Sentence(format!(
            "count=\"{}\" does not go with a key, of which always the requests are counted; \
             use count=requests, or leave count= out",
            count.word()
        ))),
        _ => Ok(Options {
            count: None,
            ..said
        }),
    }
}

/// The arguments of `IPLimitDefaults scope=|count=|busy= ...`.
pub fn defaults(arguments: &str) -> Result<Defaults, Fault> {
    let words = some_words(
        arguments,
        "scope=server|vhost|location, count=workers|requests or busy=N%",
    )?;
    let said = check_workers(Options::read(&words, &DEFAULTS)?)?;
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

fn check_workers(said: Options) -> Result<Options, Fault> {
    match (said.count, said.scope) {
        (Some(Count::Workers), Some(scope)) if scope != Scope::Server => {
            Err(Fault::WorkersOf(scope))
        }
        _ => Ok(said),
    }
}

fn limit(word: &str) -> Result<Option<u16>, Fault> {
    if word.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    if Rate::parse(word).is_ok() {
        return Err(Fault::Sentence(format!(
            "\"{word}\" is a rate and belongs to MaxRatePerIP and MaxRatePerKey; \
             use a number from 0 to 65535, or \"off\""
        )));
    }
    match digits(word) {
        Some(0) => Ok(None),
        Some(number) => Ok(Some(number)),
        None => Err(Fault::Number(word.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::syntax::{Said, rule};

    fn max_conn(arguments: &str) -> Result<Said, Fault> {
        rule(Directive::MaxConnPerIp, arguments)
    }

    fn terms(limit: u16, scope: Option<Scope>, count: Option<Count>) -> Concurrency {
        Concurrency {
            limit: Some(limit),
            scope,
            count,
            busy: None,
        }
    }

    const OFF: Concurrency = Concurrency {
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
                Concurrency {
                    busy: Some(80),
                    ..terms(3, None, None)
                },
            ),
            ("0", OFF),
            ("Off", OFF),
        ] {
            let expected = Said {
                terms: Terms::Concurrency(expected),
                networks: vec![],
                zone: None,
                shared: false,
            };
            assert_eq!(max_conn(arguments), Ok(expected), "{arguments}");
        }
    }

    #[test]
    fn shared_rules_count_requests() {
        for (arguments, scope) in [
            ("3 shared", None),
            ("3 SHARED count=requests", None),
            ("3 scope=location shared", Some(Scope::Location)),
        ] {
            let said = max_conn(arguments).unwrap();
            assert!(said.shared, "{arguments}");
            let expected = terms(3, scope, Some(Count::Requests));
            assert_eq!(said.terms, Terms::Concurrency(expected), "{arguments}");
        }
        for arguments in ["off shared", "0 shared", "3"] {
            assert!(!max_conn(arguments).unwrap().shared, "{arguments}");
        }
        let of_keys = rule(Directive::MaxConnPerKey, "api 3 shared").unwrap();
        assert!(of_keys.shared);
        let message = defaults("shared").unwrap_err().to_string();
        assert!(
            message.contains("belongs to the limiting directives"),
            "{message}"
        );
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
            ("3 scope=zone", "scope=\"zone\"", "server|vhost|location"),
            ("10/s", "\"10/s\"", "belongs to MaxRatePerIP"),
            ("3 burst=5", "\"burst=5\"", "burst= belongs to MaxRatePerIP"),
            ("3 freeze=1h", "\"freeze=1h\"", "belongs to MaxHitsPerIP"),
            ("3 extend", "\"extend\"", "belongs to MaxHitsPerIP"),
            ("3 on=401", "\"on=401\"", "belongs to MaxRatePerIP"),
            ("3 shared shared", "shared", "twice"),
            ("3 shared=on", "\"shared=on\"", "and shared"),
            (
                "3 shared count=workers",
                "count=\"workers\"",
                "use count=requests",
            ),
            (
                "3 count=connections shared",
                "count=\"connections\"",
                "use count=requests",
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
            ("scope=zone", "use scope=server|vhost|location"),
            ("count=threads", "use count=workers|requests"),
            ("count=workers scope=vhost", "\"scope=vhost\""),
            ("burst=3", "burst= belongs to MaxRatePerIP"),
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

    #[test]
    fn keys_count_requests_whether_they_say_so_or_not() {
        for (arguments, expected) in [
            ("api 3", terms(3, None, None)),
            ("api 3 count=Requests", terms(3, None, None)),
            ("api 3 scope=zone", terms(3, Some(Scope::Zone), None)),
            (
                "api 3 scope=location",
                terms(3, Some(Scope::Location), None),
            ),
            ("api off", OFF),
            ("api 0", OFF),
        ] {
            let said = rule(Directive::MaxConnPerKey, arguments).unwrap();
            assert_eq!(said.terms, Terms::Concurrency(expected), "{arguments}");
            assert_eq!(said.zone.as_deref(), Some("api"));
        }
        for (arguments, value, helps) in [
            (
                "api 3 count=workers",
                "count=\"workers\"",
                "use count=requests",
            ),
            (
                "api 3 count=connections",
                "\"connections\"",
                "leave count= out",
            ),
            ("api 3 count=x", "count=\"x\"", "use count=requests"),
            (
                "api 3 scope=server",
                "scope=\"server\"",
                "zone|vhost|location",
            ),
            ("api 70000", "\"70000\"", "0 to 65535"),
            ("api 10/s", "\"10/s\"", "MaxRatePerKey"),
            ("api 3 delay=1", "\"delay=1\"", "belongs to MaxRatePerIP"),
            ("api 3 busy=1", "busy=\"1\"", "busy=80%"),
            ("api busy=1%", "\"busy=1%\"", "3 busy=1%"),
        ] {
            let message = rule(Directive::MaxConnPerKey, arguments)
                .unwrap_err()
                .to_string();
            assert!(
                message.contains(value) && message.contains(helps),
                "{arguments}: {message}"
            );
        }
    }
}
