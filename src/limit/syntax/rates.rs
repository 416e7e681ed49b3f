//! The rules that limit how many requests come in a time: `MaxRatePerIP`, `MaxHitsPerIP`
//! and theirs about keys.

use super::Fault;
use super::options::{Name, Options, Takes};
use crate::limit::gcra::Bucket;
use crate::limit::rate::Rate;
use crate::limit::rating::{Limit, Rating};
use crate::limit::rule::{Directive, Scope, Terms};
use crate::limit::window::Window;

const OF_BUCKETS: &[Name] = &[
    Name::Burst,
    Name::Delay,
    Name::Scope,
    Name::For,
    Name::On,
    Name::Shared,
];
const OF_WINDOWS: &[Name] = &[
    Name::Freeze,
    Name::Extend,
    Name::Scope,
    Name::For,
    Name::On,
    Name::Shared,
];
const BY_ADDRESS: (&[Scope], &str) = (&[Scope::Location, Scope::Vhost], "location|vhost");
const BY_KEY: (&[Scope], &str) = (
    &[Scope::Location, Scope::Vhost, Scope::Zone],
    "location|vhost|zone",
);

/// What the directive takes after its rate.
fn takes(directive: Directive) -> Takes {
    let (names, help) = match (is_window(directive), directive.is_per_key()) {
        (false, false) => (
            OF_BUCKETS,
            "options are burst=N, delay=N, scope=location|vhost, for=ADDRESSES, on=STATUS|slow,... and shared",
        ),
        (false, true) => (
            OF_BUCKETS,
            "options are burst=N, delay=N, scope=location|vhost|zone, for=ADDRESSES, on=STATUS|slow,... and shared",
        ),
        (true, false) => (
            OF_WINDOWS,
            "options are freeze=TIME, extend, scope=location|vhost, for=ADDRESSES, on=STATUS|slow,... and shared",
        ),
        (true, true) => (
            OF_WINDOWS,
            "options are freeze=TIME, extend, scope=location|vhost|zone, for=ADDRESSES, on=STATUS|slow,... and shared",
        ),
    };
    Takes {
        names,
        scopes: match directive.is_per_key() {
            true => BY_KEY,
            false => BY_ADDRESS,
        },
        counts: "",
        help,
    }
}

fn is_window(directive: Directive) -> bool {
    matches!(
        directive,
        Directive::MaxHitsPerIp | Directive::MaxHitsPerKey
    )
}

/// What a rate and its options say, and for whom.
pub(super) fn terms(
    directive: Directive,
    first: &str,
    options: &[String],
) -> Result<(Terms, Options), Fault> {
    let is_off = first.eq_ignore_ascii_case("off");
    let rate = match is_off {
        true => None,
        false => Some(rate(first)?),
    };
    let said = Options::read(options, &takes(directive))?;
    let limit = match rate {
        None => {
            nothing_more(options)?;
            None
        }
        Some(rate) if is_window(directive) => Some(Limit::Window(window(rate, &said)?)),
        Some(rate) => Some(Limit::Bucket(bucket(rate, &said)?)),
    };
    let rating = Rating {
        limit,
        scope: said.scope.unwrap_or(Scope::Location),
        on: said.on.unwrap_or_default(),
    };
    Ok((Terms::Rate(rating), said))
}

fn rate(word: &str) -> Result<Rate, Fault> {
    let number = word.split('/').next().unwrap_or_default();
    if !number.is_empty() && number.bytes().all(|byte| byte == b'0') {
        return Err(Fault::Sentence(format!(
            "\"{word}\" would let nobody in; use \"off\" for no limit, or a rate such as 10/s"
        )));
    }
    Rate::parse(word).map_err(Fault::Sentence)
}

/// `off` has no bucket and no window that could be told more.
fn nothing_more(options: &[String]) -> Result<(), Fault> {
    let fits = |word: &str| matches!(Name::of(word), Some((Name::Scope | Name::For, _)));
    match options.iter().find(|word| !fits(word)) {
        Some(word) => Err(Fault::Sentence(format!(
            "\"{word}\" does not go with \"off\", which takes scope= and for= only; leave it out"
        ))),
        None => Ok(()),
    }
}

fn bucket(rate: Rate, said: &Options) -> Result<Bucket, Fault> {
    let burst = said.burst.unwrap_or(rate.number);
    if let Some(delay) = said.delay {
        if said.on.is_some() {
            return Err(Fault::Sentence(format!(
                "delay=\"{delay}\" does not go with on=, which charges a request only once it has its answer; \
                 use one of them"
            )));
        }
        if delay > burst {
            return Err(Fault::Sentence(format!(
                "delay=\"{delay}\" is more than may come at once; \
                 use delay=N with N from 0 to {burst}, or a higher burst="
            )));
        }
    }
    Bucket::new(rate, burst, said.delay).ok_or_else(|| {
        Fault::Sentence(format!(
            "burst=\"{burst}\" at {rate} takes more than a hundred years to fill; use a lower burst="
        ))
    })
}

fn window(rate: Rate, said: &Options) -> Result<Window, Fault> {
    if said.extend.is_some() && said.freeze.is_none() {
        return Err(Fault::Sentence(String::from(
            "\"extend\" begins a freeze anew and there is none; add freeze=TIME, for example freeze=10min extend",
        )));
    }
    Ok(Window {
        rate,
        freeze: said.freeze,
        extend: said.extend.is_some(),
    })
}

#[cfg(test)]
mod tests;
