//! The options of the limiting directives and of `IPLimitDefaults`.
//!
//! One reader for all of them: it is told what the directive takes, and says of an option
//! that belongs to another one where it belongs.

use std::time::Duration;

use super::{Fault, digits, networks, once};
use crate::limit::network::Network;
use crate::limit::rate::{LONGEST, MOST};
use crate::limit::rating::Statuses;
use crate::limit::rule::{Count, Scope};
use crate::limit::units;

/// An option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Name {
    Scope,
    For,
    Count,
    Busy,
    Burst,
    Delay,
    Freeze,
    Extend,
    On,
    Shared,
}

/// What a directive takes.
pub(super) struct Takes {
    /// Its options.
    pub(super) names: &'static [Name],
    /// What `scope=` may say, and how it is written.
    pub(super) scopes: (&'static [Scope], &'static str),
    /// How that of `count=` is written.
    pub(super) counts: &'static str,
    /// All of it, as messages say it.
    pub(super) help: &'static str,
}

/// What was said.
#[derive(Default)]
pub(super) struct Options {
    pub(super) scope: Option<Scope>,
    pub(super) networks: Option<Vec<Network>>,
    pub(super) count: Option<Count>,
    /// 1..=100
    pub(super) busy: Option<u8>,
    /// 1..=[`MOST`]
    pub(super) burst: Option<u32>,
    /// 0..=[`MOST`]
    pub(super) delay: Option<u32>,
    /// 1 ms to [`LONGEST`]
    pub(super) freeze: Option<Duration>,
    pub(super) extend: Option<()>,
    /// Some of 200..=599, and slow
    pub(super) on: Option<Statuses>,
    pub(super) shared: Option<()>,
}

impl Name {
    const ALL: [Name; 10] = [
        Name::Scope,
        Name::For,
        Name::Count,
        Name::Busy,
        Name::Burst,
        Name::Delay,
        Name::Freeze,
        Name::Extend,
        Name::On,
        Name::Shared,
    ];

    /// How the option begins; without an equals sign it stands alone.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Name::Scope => "scope=",
            Name::For => "for=",
            Name::Count => "count=",
            Name::Busy => "busy=",
            Name::Burst => "burst=",
            Name::Delay => "delay=",
            Name::Freeze => "freeze=",
            Name::Extend => "extend",
            Name::On => "on=",
            Name::Shared => "shared",
        }
    }

    /// The directives that take it, where not all do.
    const fn owners(self) -> Option<&'static str> {
        match self {
            Name::Scope | Name::For => None,
            Name::Shared => Some("the limiting directives"),
            Name::Count => Some("MaxConnPerIP"),
            Name::Busy => Some("MaxConnPerIP and MaxConnPerKey"),
            Name::Burst | Name::Delay => Some("MaxRatePerIP and MaxRatePerKey"),
            Name::Freeze | Name::Extend => Some("MaxHitsPerIP and MaxHitsPerKey"),
            Name::On => Some("MaxRatePerIP, MaxRatePerKey, MaxHitsPerIP and MaxHitsPerKey"),
        }
    }

    /// The option that this word is, and its value.
    pub(super) fn of(word: &str) -> Option<(Name, &str)> {
        let value = |name: Name| match (name.label().strip_suffix('='), word.split_once('=')) {
            (Some(label), Some((said, value))) => said.eq_ignore_ascii_case(label).then_some(value),
            (None, None) => word.eq_ignore_ascii_case(name.label()).then_some(""),
            _ => None,
        };
        Name::ALL
            .into_iter()
            .find_map(|name| Some((name, value(name)?)))
    }
}

impl Name {
    /// The option of which this word is the name, without its equals sign.
    fn alone(word: &str) -> Option<Name> {
        let is_it = |name: &Name| {
            let label = name.label().strip_suffix('=');
            label.is_some_and(|label| label.eq_ignore_ascii_case(word))
        };
        Name::ALL.into_iter().find(is_it)
    }
}

impl Options {
    /// What these words say to a directive that takes so much.
    pub(super) fn read(words: &[String], takes: &Takes) -> Result<Options, Fault> {
        let mut said = Options::default();
        for word in words {
            let unknown = || match Name::alone(word) {
                Some(name) => Fault::Sentence(format!(
                    "\"{word}\" has no value; write it right behind, without blanks: {}VALUE",
                    name.label()
                )),
                None => Fault::Word(word.clone(), takes.help),
            };
            let (name, value) = Name::of(word).ok_or_else(unknown)?;
            if !takes.names.contains(&name) {
                return Err(name.owners().map_or_else(unknown, |owners| {
                    let (label, help) = (name.label(), takes.help);
                    Fault::Sentence(format!(
                        "\"{word}\" is of no use here: {label} belongs to {owners}; {help}"
                    ))
                }));
            }
            said.take(name, value, takes)?;
        }
        Ok(said)
    }

    fn take(&mut self, name: Name, value: &str, takes: &Takes) -> Result<(), Fault> {
        let label = name.label();
        let wrong = |works| Fault::Value(label, value.to_owned(), works);
        match name {
            Name::Scope => {
                let (scopes, works) = takes.scopes;
                let scope = Scope::parse(value, scopes).ok_or_else(|| wrong(works))?;
                once(&mut self.scope, scope, label)
            }
            Name::For => once(&mut self.networks, networks(label, value)?, label),
            Name::Count => {
                let count = Count::parse(value).ok_or_else(|| wrong(takes.counts))?;
                once(&mut self.count, count, label)
            }
            Name::Busy => once(&mut self.busy, busy(value)?, label),
            Name::Burst => {
                let burst = digits(value)
                    .filter(|burst| (1..=MOST).contains(burst))
                    .ok_or_else(|| wrong("N with N from 1 to 1000000, for example burst=20"))?;
                once(&mut self.burst, burst, label)
            }
            Name::Delay => {
                let delay = digits(value)
                    .filter(|delay| *delay <= MOST)
                    .ok_or_else(|| {
                        wrong("N with N from 0 to that of burst=, for example delay=5")
                    })?;
                once(&mut self.delay, delay, label)
            }
            Name::Freeze => {
                let freeze = units::time(value)
                    .ok()
                    .filter(|freeze| (Duration::from_millis(1)..=LONGEST).contains(freeze))
                    .ok_or_else(|| {
                        wrong("TIME from 1ms to 366d, in ms, s, min, h or d, for example freeze=10min")
                    })?;
                once(&mut self.freeze, freeze, label)
            }
            Name::Extend => once(&mut self.extend, (), label),
            Name::On => once(&mut self.on, statuses(value)?, label),
            Name::Shared => once(&mut self.shared, (), label),
        }
    }
}

/// The percentage of `busy=`, 1..=100.
pub(super) fn busy(value: &str) -> Result<u8, Fault> {
    value
        .strip_suffix('%')
        .and_then(digits)
        .filter(|percent| (1..=100).contains(percent))
        .ok_or_else(|| {
            Fault::Value(
                Name::Busy.label(),
                value.to_owned(),
                "N% with N from 1 to 100, for example busy=80%",
            )
        })
}

/// The statuses of `on=`, and `slow`, with commas between them.
fn statuses(value: &str) -> Result<Statuses, Fault> {
    let mut statuses = Statuses::default();
    for word in value.split(',').map(str::trim) {
        if word.eq_ignore_ascii_case("slow") {
            statuses.add_slow();
            continue;
        }
        let status = digits(word).filter(|status| word.len() == 3 && (200..=599).contains(status));
        if !status.is_some_and(|status| statuses.add(status)) {
            let wrong = if word.is_empty() { value } else { word };
            return Err(Fault::Value(
                Name::On.label(),
                wrong.to_owned(),
                "STATUS,... with statuses from 200 to 599 and \"slow\", for example on=401,403",
            ));
        }
    }
    Ok(statuses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_known_by_its_name_in_any_case() {
        for (word, known) in [
            ("scope=", Some((Name::Scope, ""))),
            ("ON=401", Some((Name::On, "401"))),
            ("for=a=b", Some((Name::For, "a=b"))),
            ("Extend", Some((Name::Extend, ""))),
            ("extend=", None),
            ("scope", None),
            ("=", None),
            ("", None),
            ("Shared", Some((Name::Shared, ""))),
            ("shared=on", None),
        ] {
            assert_eq!(Name::of(word), known, "{word}");
        }
    }

    #[test]
    fn statuses_are_read_with_commas_between_them() {
        for (value, expected) in [
            ("401", Ok(vec![401])),
            ("403,401,403", Ok(vec![401, 403])),
            ("200, 599", Ok(vec![200, 599])),
            ("", Err("\"\"")),
            ("401,", Err("\"401,\"")),
            ("4xx", Err("\"4xx\"")),
            ("401,199", Err("\"199\"")),
            ("600", Err("\"600\"")),
            ("0401", Err("\"0401\"")),
            ("+40", Err("\"+40\"")),
            ("401 403", Err("\"401 403\"")),
            ("slower", Err("\"slower\"")),
            ("slow,", Err("\"slow,\"")),
        ] {
            match (statuses(value), expected) {
                (Ok(said), Ok(expected)) => assert!(said.iter().eq(expected), "{value}"),
                (Err(fault), Err(quoted)) => {
                    let message = fault.to_string();
                    assert!(message.contains(quoted), "{value}: {message}");
                    assert!(message.contains("on=401,403"), "{value}: {message}");
                }
                (said, _) => panic!("{value}: {said:?}"),
            }
        }
    }

    #[test]
    fn slow_stands_alone_or_among_statuses() {
        for (value, expected) in [
            ("slow", vec![]),
            ("SLOW", vec![]),
            ("401, slow", vec![401]),
            ("slow,slow,403", vec![403]),
        ] {
            let said = statuses(value).unwrap();
            assert!(said.contains_slow() && !said.is_empty(), "{value}");
            assert!(said.iter().eq(expected), "{value}");
        }
        assert!(!statuses("401").unwrap().contains_slow());
    }
}
