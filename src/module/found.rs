//! What a rule found when it was asked: what log, client and variables are told of.

use super::rules::Placed;
use super::zones::Key;
use crate::limit::key::{CountId, Digest};
use crate::limit::rate::Rate;
use crate::limit::rating::{Limit, Over, Pass, whole_seconds};
use crate::report::refusal::Cause;

/// What a rule found.
#[derive(Clone, Copy)]
pub struct Found<'r> {
    /// The rule's name, for people.
    pub rule: &'r str,
    /// Its own name in shared memory.
    pub id: CountId,
    /// Whom it counts, by which its lines in the log are thinned.
    pub key: Digest,
    /// What there are too many of, if there are.
    pub cause: Cause,
    /// How many there would be.
    pub stands: u32,
    /// How many there may be.
    pub limit: u32,
    /// How many more could come now.
    pub left: u32,
    /// What is told of a rate.
    pub rate: Option<Timed>,
}

/// What there is to tell of a rate.
#[derive(Clone, Copy)]
pub struct Timed {
    /// Its number and period.
    pub rate: Rate,
    /// When one that is refused may come again, or when all may, in whole seconds.
    pub seconds: u32,
}

impl<'r> Found<'r> {
    /// What a concurrency rule found.
    pub fn places(rule: &Placed<'r>, key: Digest, stands: u32, limit: u16) -> Found<'r> {
        let limit = u32::from(limit);
        Found {
            rule: rule.name,
            id: rule.id.get(),
            key,
            cause: match rule.directive.is_per_key() {
                true => Cause::Key,
                false => Cause::Host,
            },
            stands,
            limit,
            left: limit.saturating_sub(stands),
            rate: None,
        }
    }

    /// What a rule finds that refuses everybody while the counts of several servers are out of
    /// reach.
    pub fn unreachable(rule: &Placed<'r>, key: Digest, limit: u32) -> Found<'r> {
        Found {
            rule: rule.name,
            id: rule.id.get(),
            key,
            cause: Cause::Unreachable,
            stands: limit,
            limit,
            left: 0,
            rate: None,
        }
    }

    /// What a rate rule found that refuses.
    pub fn over(rule: &Placed<'r>, key: &Key<'_>, limit: &Limit, over: Over) -> Found<'r> {
        let seconds = whole_seconds(over.wait);
        Found {
            cause: match over.frozen {
                true => Cause::Frozen(seconds),
                false => Cause::Requests,
            },
            ..Found::timed(rule, key, limit, limit.most() + 1, 0, seconds)
        }
    }

    /// What a rate rule found that lets pass.
    pub fn pass(rule: &Placed<'r>, key: &Key<'_>, limit: &Limit, pass: Pass) -> Found<'r> {
        let stands = limit.most().saturating_sub(pass.left);
        let seconds = whole_seconds(pass.resets_in);
        Found::timed(rule, key, limit, stands, pass.left, seconds)
    }

    /// The same, where the request may come again only after so many nanoseconds.
    pub fn again_in(self, time: u64) -> Found<'r> {
        let rate = self.rate.map(|rate| Timed {
            seconds: whole_seconds(time),
            ..rate
        });
        Found {
            rate,
            left: 0,
            ..self
        }
    }

    /// What a rate rule found that makes wait: so many of a burst, of which `at_once` do not.
    pub fn delayed(self, at_once: u32) -> Found<'r> {
        Found {
            limit: at_once,
            ..self
        }
    }

    fn timed(
        rule: &Placed<'r>,
        key: &Key<'_>,
        limit: &Limit,
        stands: u32,
        left: u32,
        seconds: u32,
    ) -> Found<'r> {
        Found {
            rule: rule.name,
            id: rule.id.get(),
            key: key.digest,
            cause: Cause::Requests,
            stands,
            limit: limit.most(),
            left,
            rate: Some(Timed {
                rate: limit.rate(),
                seconds,
            }),
        }
    }
}
