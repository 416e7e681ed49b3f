//! What holds in a section: its own rules and settings, and those of the sections that
//! surely apply with it, merged as httpd merges them.

use std::ptr;

use super::super::rules::Placed;
use super::ADDING;
use super::places::{DEFAULTS, Kind, Line, Origin, Place, over};
use crate::httpd::command::Context;
use crate::limit::policy::{self, Ruling};
use crate::limit::rate;
use crate::limit::rating::{Limit, Rating};
use crate::limit::rule::{Concurrency, Defaults, Terms};
use crate::limit::section::Section;
use crate::report::dump::{self, Choice, Fate, Foreign, Rule, Spot};

/// Settings that never cross from outside sections into them.
const OF_THEIR_LEVEL: [&str; 2] = ["NoIPLimit", "OnlyIPLimit"];

/// What holds in a section, among those that apply on the same server.
pub fn of(
    this: &Place,
    applying: &[&Place],
    outside: &[(&Place, &Line, bool)],
    server_defaults: &(Defaults, Origin),
) -> dump::Section {
    // Those that surely apply too, in the order in which httpd merges.
    let mut chain: Vec<&Place> = applying
        .iter()
        .copied()
        .filter(|place| match (&place.section, &this.section) {
            (Some(outer), Some(inner)) => outer.is_around(inner),
            _ => false,
        })
        .collect();
    chain.sort_by_key(|place| place.section.as_ref().map(Section::order));

    let defaults = chain.iter().fold(server_defaults.clone(), |around, place| {
        over(around, place.defaults())
    });
    let mut in_effect: Vec<&Placed<'static>> = Vec::new();
    let mut replaced: Vec<&Placed<'static>> = Vec::new();
    for place in &chain {
        let own: Vec<&Placed<'static>> = place.rules().collect();
        if ptr::eq(*place, this) {
            let is_replaced = |rule: &&Placed<'static>| own.iter().any(|said| said.like(rule));
            replaced = in_effect.iter().copied().filter(is_replaced).collect();
        }
        in_effect = policy::in_effect(&in_effect, &own).collect();
    }
    let own: Vec<&Placed<'static>> = this.rules().collect();
    let is_own = |rule: &Placed<'static>| own.iter().any(|said| ptr::eq(*said, rule));
    let mut rules: Vec<(Rule, Fate)> = Vec::new();
    for rule in &own {
        let fate = if in_effect.iter().any(|other| ptr::eq(*other, *rule)) {
            let instead_of = replaced.iter().filter(|other| rule.like(other));
            Fate::Own(instead_of.map(|other| foreign_rule(other)).collect())
        } else {
            match in_effect.iter().find(|other| rule.like(other)) {
                Some(other) => Fate::Lost(foreign_rule(other)),
                None => Fate::Own(Vec::new()),
            }
        };
        rules.push((rule_row(rule, &defaults), fate));
    }
    let inherited = in_effect.iter().filter(|rule| !is_own(rule));
    rules.extend(inherited.map(|rule| (rule_row(rule, &defaults), Fate::Inherited)));

    let (inherits, overrides) = settings(this, &chain, outside);
    dump::Section {
        name: this.name.clone(),
        spot: this.spot.clone(),
        says: this
            .lines
            .iter()
            .map(|line| {
                let is_superseded = matches!(line.kind, Kind::Superseded);
                (line.written.clone(), is_superseded)
            })
            .collect(),
        rules,
        inherits,
        overrides,
    }
}

/// The settings of others that hold in a section, and those that its own replace.
/// Defaults that stand outside sections are told with the rules that take them.
fn settings(
    this: &Place,
    chain: &[&Place],
    outside: &[(&Place, &Line, bool)],
) -> (Vec<Foreign>, Vec<Foreign>) {
    let crosses = |line: &Line| {
        !matches!(line.context, Context::Main | Context::Server)
            && !OF_THEIR_LEVEL.contains(&line.written.name)
    };
    let further_out = outside
        .iter()
        .map(|(place, line, _)| (*place, *line))
        .filter(|(_, line)| crosses(line));
    let in_sections = chain
        .iter()
        .flat_map(|place| place.settings().map(|line| (*place, line)));
    let (mut inherits, mut overrides) = (Vec::new(), Vec::new());
    for (place, line) in further_out.chain(in_sections) {
        let name = line.written.name;
        if ptr::eq(place, this) || name == DEFAULTS && place.section.is_none() {
            continue;
        }
        let last = chain.iter().rfind(|place| place.says(name));
        let last = last.copied().unwrap_or(place);
        if ADDING.contains(&name) || ptr::eq(last, place) {
            inherits.push(place.foreign(line));
        } else if ptr::eq(last, this) {
            overrides.push(place.foreign(line));
        }
    }
    (inherits, overrides)
}

/// The number as it is shown.
fn number(rule: &Placed<'static>) -> String {
    let number = match &rule.terms {
        Terms::Concurrency(terms) => terms.limit.map(|limit| limit.to_string()),
        Terms::Rate(rating) => rating.limit.map(|limit| limit.rate().to_string()),
    };
    number.unwrap_or_else(|| String::from("off"))
}

fn foreign_rule(rule: &Placed<'static>) -> Foreign {
    Foreign {
        what: format!("{}: {}", rule.name, number(rule)),
        spot: spot_of_rule(rule),
    }
}

fn spot_of_rule(rule: &Placed<'static>) -> Spot {
    Spot {
        file: rule.file.to_owned(),
        line: rule.line,
    }
}

/// A rule and what it means under these defaults.
pub fn rule_row(rule: &Placed<'static>, defaults: &(Defaults, Origin)) -> Rule {
    let mut choices = match &rule.terms {
        _ if !rule.terms.is_on() => Vec::new(),
        Terms::Concurrency(terms) => choices(rule, terms, defaults),
        Terms::Rate(rating) => choices_of_rate(rating),
    };
    choices.extend(rule.in_fleet.then(|| Choice {
        text: String::from("shared"),
        from: None,
    }));
    Rule {
        name: rule.name.to_owned(),
        number: number(rule),
        choices,
        spot: spot_of_rule(rule),
    }
}

/// How a rate is kept.
fn choices_of_rate(rating: &Rating) -> Vec<Choice> {
    let mut said = vec![format!("scope={}", rating.scope.word())];
    match rating.limit {
        Some(Limit::Bucket(bucket)) => {
            said.push(format!("burst={}", bucket.burst));
            said.extend(bucket.delay.map(|delay| format!("delay={delay}")));
        }
        Some(Limit::Window(window)) => {
            let freeze = window.freeze.map(rate::written);
            said.extend(freeze.map(|time| format!("freeze={time}")));
            said.extend(window.extend.then(|| String::from("extend")));
        }
        None => {}
    }
    if !rating.on.is_empty() {
        let slow = rating.on.contains_slow().then(|| String::from("slow"));
        let statuses = rating.on.iter().map(|status| status.to_string());
        let statuses: Vec<String> = statuses.chain(slow).collect();
        said.push(format!("on={}", statuses.join(",")));
    }
    said.into_iter()
        .map(|text| Choice { text, from: None })
        .collect()
}

/// What a concurrency rule means under these defaults, and who says so.
fn choices(
    rule: &Placed<'static>,
    terms: &Concurrency,
    (defaults, origin): &(Defaults, Origin),
) -> Vec<Choice> {
    let meaning = rule.meaning(terms, defaults);
    // Defaults of scope and count speak to rules about addresses only.
    let speaks = !rule.directive.is_per_key();
    // A default that does not fit is passed over, and then says nothing here.
    let scope = Choice {
        text: format!("scope={}", meaning.scope.word()),
        from: match terms.scope {
            None if speaks && defaults.scope == Some(meaning.scope) => origin.scope.clone(),
            _ => None,
        },
    };
    let count = Choice {
        text: format!("count={}", meaning.count.word()),
        from: match terms.count {
            None if speaks && defaults.count == Some(meaning.count) => origin.count.clone(),
            _ => None,
        },
    };
    let busy = meaning.busy.map(|percent| Choice {
        text: format!("busy={percent}%"),
        from: match terms.busy {
            None => origin.busy.clone(),
            Some(_) => None,
        },
    });
    [scope, count].into_iter().chain(busy).collect()
}
