//! The limiting directives: what one line of any of the six says.

use super::concurrency;
use super::options::Name;
use super::rates;
use super::zones::{self, Reserved};
use super::{Fault, digits, some_words};
use crate::limit::network::Network;
use crate::limit::rate::Rate;
use crate::limit::rule::{Directive, Terms};

/// What one line of a limiting directive says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// The number or rate, and its options.
    pub terms: Terms,
    /// `for=`; empty for everybody.
    pub networks: Vec<Network>,
    /// The zone as written; Some for the directives about keys, and only for them.
    pub zone: Option<String>,
    /// `shared`: whether it counts over all servers with the same `IPLimitRedis`.
    pub shared: bool,
}

/// The arguments of a limiting directive: `[zone] number|number/time|off [options]`.
pub fn rule(directive: Directive, arguments: &str) -> Result<Said, Fault> {
    let words = some_words(arguments, wanted(directive))?;
    let (zone, words) = match directive.is_per_key() {
        true => (Some(zone_of(directive, &words[0])?), &words[1..]),
        false => (None, words.as_slice()),
    };
    let Some((first, options)) = words.split_first() else {
        return Err(Fault::Sentence(format!(
            "\"{arguments}\" says no {} after the zone; use for example {} {arguments} {}",
            measure(directive),
            directive.name(),
            example(directive)
        )));
    };
    if first.contains('=') {
        let (measure, example) = (measure(directive), example(directive));
        let how = if first.contains(char::is_whitespace) {
            "leave out the quotes around all of it"
        } else if first.contains(',') && !first.to_ascii_lowercase().starts_with("for=") {
            "put blanks between the words, not commas"
        } else {
            "then the options"
        };
        let is_option = Name::of(first).is_some() && !first.contains([' ', '\t', ',']);
        let option = if is_option { first } else { "scope=location" };
        return Err(Fault::Sentence(format!(
            "\"{first}\" stands where the {measure} belongs; write the {measure} first, {how}, \
             for example {example} {option}"
        )));
    }
    let (terms, said) = match directive.is_rate() {
        true => rates::terms(directive, first, options)?,
        false => concurrency::terms(directive, first, options)?,
    };
    Ok(Said {
        terms,
        networks: said.networks.unwrap_or_default(),
        zone,
        shared: said.shared.is_some() && terms.is_on(),
    })
}

/// The first word of a rule about keys.
fn zone_of(directive: Directive, word: &str) -> Result<String, Fault> {
    let is_measure = digits::<u64>(word).is_some()
        || Rate::parse(word).is_ok()
        || word.eq_ignore_ascii_case("off")
        || word.contains('=');
    if is_measure {
        return Err(Fault::Sentence(format!(
            "\"{word}\" stands where the zone belongs; write the zone's name first, for example {} api {}",
            directive.name(),
            example(directive)
        )));
    }
    match Reserved::of(word) {
        Some(reserved) => Err(Fault::Sentence(format!(
            "\"{word}\" is no zone; declare one with IPLimitZone NAME key={} and write that NAME here",
            reserved.key()
        ))),
        None => zones::name(word).map(str::to_owned),
    }
}

fn wanted(directive: Directive) -> &'static str {
    match (directive.is_per_key(), directive.is_rate()) {
        (false, false) => "a number from 0 to 65535, or \"off\"",
        (false, true) => "a rate such as 10/s or 600/5min, or \"off\"",
        (true, false) => "a zone and a number from 0 to 65535, or \"off\", for example api 3",
        (true, true) => {
            "a zone and a rate such as 10/s or 600/5min, or \"off\", for example api 10/s"
        }
    }
}

/// What the directive is about.
fn measure(directive: Directive) -> &'static str {
    match directive.is_rate() {
        true => "rate",
        false => "number",
    }
}

fn example(directive: Directive) -> &'static str {
    match directive.is_rate() {
        true => "10/s",
        false => "3",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::syntax::{defaults, zone};
    use proptest::prelude::*;

    const ALL: [Directive; 6] = [
        Directive::MaxConnPerIp,
        Directive::MaxConnPerKey,
        Directive::MaxRatePerIp,
        Directive::MaxRatePerKey,
        Directive::MaxHitsPerIp,
        Directive::MaxHitsPerKey,
    ];

    #[test]
    fn rules_about_keys_name_their_zone_first_and_no_others_do() {
        for directive in ALL {
            let example = example(directive);
            let said = |arguments: &str| rule(directive, arguments);
            if directive.is_per_key() {
                let zone = said(&format!("Api_v2.x-y {example} FOR=\"10.1 ::1\"")).unwrap();
                assert_eq!(zone.zone.as_deref(), Some("Api_v2.x-y"));
                assert_eq!(zone.networks.len(), 2);
            } else {
                assert_eq!(said(example).unwrap().zone, None);
                assert!(said(&format!("api {example}")).is_err());
            }
        }
    }

    #[test]
    fn a_zone_that_is_none_is_named_with_what_works() {
        for directive in ALL.into_iter().filter(|directive| directive.is_per_key()) {
            let first = format!(
                "for example {} api {}",
                directive.name(),
                example(directive)
            );
            for (arguments, value, helps) in [
                ("", "needs", "a zone and a"),
                ("3", "\"3\"", first.as_str()),
                ("70000", "\"70000\"", &first),
                ("10/s api", "\"10/s\"", &first),
                ("OFF", "\"OFF\"", &first),
                ("scope=zone api 3", "\"scope=zone\"", &first),
                ("api", "\"api\"", "after the zone"),
                ("api for=10.1", "\"for=10.1\"", "first, then the options"),
                ("all 3", "\"all\"", "IPLimitZone NAME key=all"),
                ("Server 3", "\"Server\"", "IPLimitZone NAME key=all"),
                ("client 3", "\"client\"", "IPLimitZone NAME key=client"),
                ("1api 3", "\"1api\"", "letter"),
                ("a/b 3", "\"a/b\"", "letter"),
                ("\"\" 3", "\"\"", "letter"),
                ("-1", "\"-1\"", "letter"),
                ("# api 3", "\"#\"", "letter"),
            ] {
                let message = rule(directive, arguments).unwrap_err().to_string();
                assert!(
                    message.contains(value) && message.contains(helps),
                    "{arguments}: {message}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(
            text in "\\PC{0,60}",
            words in prop::collection::vec(
                "api|all|off|[0-9]{1,8}|[0-9]{1,7}/[0-9]{0,9}(ms|s|min|h|d|q)?|secret|extend|\
                 (scope|count|for|busy|burst|delay|freeze|on|key)=\
                 (zone|location|requests|10\\.1|[0-9]{0,8}(%|ms|d)?|401,403|client/[0-9]{1,3},[0-9]{1,3}|\\PC{0,9})",
                0..6,
            ),
        ) {
            for arguments in [text, words.join(" "), format!("api {}", words.join(" "))] {
                let faults = ALL.map(|directive| rule(directive, &arguments).err());
                let others = [zone(&arguments).err(), defaults(&arguments).err()];
                for fault in faults.into_iter().chain(others).flatten() {
                    prop_assert!(!fault.to_string().is_empty());
                }
            }
        }
    }
}
