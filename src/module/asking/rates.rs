//! Rates under decision: a token or a hit for each request, in one step with the look
//! whether there is one.

use super::{Answer, Ask, Asking};
use crate::limit::rating::{Decision, Limit, Pass, Statuses};
use crate::module::charges::Charged;
use crate::module::found::Found;
use crate::store::Fate;
use crate::sys::DECLINED;
use std::ffi::c_int;

impl<'r> Asking<'r> {
    /// Why the rate would refuse, by a look that charges nothing.
    pub(super) fn rate_in_sight(
        &self,
        ask: Ask<'r>,
        limit: &'r Limit,
        on: &Statuses,
    ) -> Option<Found<'r>> {
        let digest = ask.key.digest.within(ask.count);
        let Answer { running, trip, .. } = self.answer;
        if trip.charges.has(digest) {
            return None;
        }
        let word = running.child.holder.rate(digest, trip.started);
        let decide = match on.is_empty() {
            true => Limit::decide,
            false => Limit::check,
        };
        match decide(limit, word, running.nanos()) {
            Decision::Pass(_) => None,
            // Now in earnest, since it may freeze. If it has become better meanwhile the
            // request is charged, and is not charged again.
            Decision::Over(_) => self.charge(ask, limit, on).err(),
        }
    }

    /// Charges the request, or looks whether it may come where it is charged later.
    #[inline]
    pub(super) fn charge(
        &self,
        ask: Ask<'r>,
        limit: &'r Limit,
        on: &Statuses,
    ) -> Result<Pass, Found<'r>> {
        let Answer { running, trip, .. } = self.answer;
        let key = ask.key.within(ask.count);
        let holder = &running.child.holder;
        let now = running.nanos();
        let is_later = !on.is_empty();
        let said = if trip.charges.has(key.digest) {
            // Its one token was taken already.
            Some(Decision::Pass(Pass {
                wait: 0,
                ..limit.pass_without(holder.rate(key.digest, trip.started), now)
            }))
        } else if is_later {
            let said = limit.check(holder.rate(key.digest, trip.started), now);
            if let Decision::Over(over) = said
                && over.next.is_some()
            {
                holder.change_known_rate(key.digest, |word| match limit.check(word, now) {
                    Decision::Over(over) => over.next,
                    Decision::Pass(_) => None,
                });
            }
            Some(said)
        } else {
            holder.change_rate(&key, trip.started, |word| {
                let said = limit.decide(word, now);
                match said {
                    Decision::Pass(pass) => (Some(pass.next), said),
                    Decision::Over(over) => (over.next, said),
                }
            })
        };
        match said {
            Some(Decision::Over(over)) => Err(Found::over(ask.rule, &ask.key, limit, over)),
            Some(Decision::Pass(pass)) => {
                if is_later {
                    let away = match ask.rule.in_fleet {
                        true => self.away_key(ask),
                        false => None,
                    };
                    let key = (ask.key, away);
                    self.answer.await_status(key, ask.count, *limit, *on);
                } else if !trip.charges.has(key.digest) {
                    let outlives_mark = !self.answer.settings.is_dry_run();
                    let charged = Charged {
                        state: pass.next,
                        at: now,
                        is_away: false,
                    };
                    trip.charges
                        .note(key.digest, *limit, charged, outlives_mark);
                }
                Ok(pass)
            }
            // No room: admitted, and counted as such.
            None => Ok(limit.pass_without(0, now)),
        }
    }

    #[inline]
    pub(super) fn pass_rate(&self, ask: Ask<'r>, limit: &'r Limit, pass: Pass) -> c_int {
        self.answer
            .trip
            .describe(self.answer.request, Some(ask.rule));
        self.answer.trip.note(ask.rule.id.get(), true);
        self.answer.running.count(ask.rule, Fate::Passed);
        let found = || Found::pass(ask.rule, &ask.key, limit, pass);
        self.answer.passed(found);
        // A part of a page does not hold up the page.
        if pass.wait > 0 && !self.answer.request.is_sub() {
            self.has_to_wait(ask, limit, pass.wait, found());
        }
        DECLINED
    }

    #[cold]
    fn has_to_wait(&self, ask: Ask<'r>, limit: &'r Limit, wait: u64, found: Found<'r>) {
        let at_once = match limit {
            Limit::Bucket(bucket) => bucket.delay.unwrap_or(bucket.burst),
            Limit::Window(window) => window.rate.number,
        };
        let found = found.delayed(at_once);
        if self.answer.settings.is_dry_run() {
            self.answer.running.count(ask.rule, Fate::DelayedDryRun);
            self.answer.would_wait(found);
            return;
        }
        if self.turn.get().is_none_or(|(longest, ..)| longest < wait) {
            self.turn.set(Some((wait, ask.rule, found)));
        }
    }
}
