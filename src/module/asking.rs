//! Asking the rules of one level: all must pass, the narrowest first, each rule once
//! per client request. A refusal gives back what was taken; a dry run only marks.

mod ask;
mod away;
mod rates;
mod record;

use std::cell::Cell;
use std::ffi::c_int;

pub use ask::Look;

use self::ask::{Ask, NARROWEST_FIRST, What};
use super::answer::{self, Answer};
use super::config::{Level as Said, Site};
use super::found::Found;
use super::rules::Placed;
use super::running::Running;
use super::trip::Trip;
use super::zones::Key;
use crate::httpd::pool::List;
use crate::httpd::request::Request;
use crate::limit::concurrency::over;
use crate::limit::key::CountId;
use crate::limit::policy;
use crate::limit::rule::{Count, Defaults, Level, Meaning, Scope, Terms};
use crate::limit::settings::Within;
use crate::report::refusal::Verdict;
use crate::store::Fate;
use crate::sys::DECLINED;

/// A level's rules where the request is now.
pub struct Asking<'r> {
    answer: Answer<'r>,
    level: Level,
    look: Look,
    rules: &'r [&'r Placed<'r>],
    /// Whether none of the rules is for some clients only.
    is_for_all: bool,
    /// Whether an exemption spares the request from rates.
    no_rates: bool,
    defaults: Defaults,
    vhost: CountId,
    /// The rules of several servers that this one's own counts let pass.
    away: Cell<Option<&'r List<'r, away::Open<'r>, 2>>>,
    /// What those servers know the virtual host by.
    fleet_vhost: CountId,
    /// The longest time that a rule makes the request wait, which rule, and what it found.
    turn: Cell<Option<(u64, &'r Placed<'r>, Found<'r>)>>,
}

impl<'r> Asking<'r> {
    /// To ask the rules of `said`, as they are in effect on `site`.
    pub fn new(
        running: Running,
        request: Request<'r>,
        trip: &'r Trip<'r>,
        (level, look): (Level, Look),
        said: &'r Said<'r>,
        site: &'r Site<'r>,
    ) -> Self {
        let defaults = match level {
            Level::Server => said.defaults,
            Level::Directory => said.defaults.or(site.level.defaults),
        };
        let rules = if said.types.is_empty() || said.types.governs(request.content_type()) {
            said.rules
        } else {
            &[]
        };
        Asking {
            answer: Answer {
                running,
                request,
                trip,
                settings: Within {
                    place: &said.settings,
                    server: &site.level.settings,
                },
            },
            level,
            look,
            rules,
            is_for_all: rules.iter().all(|rule| rule.networks.is_empty()),
            no_rates: false,
            defaults,
            vhost: site.id.get(),
            away: Cell::new(None),
            fleet_vhost: site.fleet_id.get(),
            turn: Cell::new(None),
        }
    }

    /// Whether there are rates among the rules.
    pub fn has_rates(&self) -> bool {
        self.rules.iter().any(|rule| {
            rule.terms
                .rating()
                .is_some_and(|rating| rating.limit.is_some())
        })
    }

    /// The same without the rates.
    pub fn without_rates(self) -> Self {
        Asking {
            no_rates: true,
            ..self
        }
    }

    /// What is to be asked of a rule, if it has not been asked yet.
    #[inline]
    fn ask(&self, rule: &'r Placed<'r>) -> Option<Ask<'r>> {
        let trip = self.answer.trip;
        if !self.is_for_all && !policy::is_for(self.rules, rule, trip.client.address) {
            return None;
        }
        if trip.answer(rule.id.get()) == Some(true) {
            return None;
        }
        let what = match &rule.terms {
            Terms::Concurrency(terms) => What::Places {
                limit: terms.limit?,
                meaning: rule.meaning(terms, &self.defaults),
            },
            Terms::Rate(_) if self.no_rates || self.lets_go(rule) => return None,
            Terms::Rate(rating) => What::Rate {
                limit: rating.limit.as_ref()?,
                rating,
            },
        };
        let key = if rule.directive.is_per_key() {
            self.key_of(rule)?
        } else {
            Key::of_client(trip)
        };
        let mut ask = Ask {
            rule,
            key,
            count: CountId(0),
            what,
        };
        ask.count = rule.count_of(ask.scope(), self.level, self.vhost);
        Some(ask)
    }

    /// The key of the request in the rule's zone. One that is empty may have a value later.
    #[inline(never)]
    fn key_of(&self, rule: &Placed<'r>) -> Option<Key<'r>> {
        let Answer {
            running,
            request,
            trip,
            ..
        } = self.answer;
        if self.look == Look::Arrival {
            return None;
        }
        let zone = rule.zone.get()?;
        // A key of several parts is not empty for want of one of them.
        let key = match zone.is_late && self.look == Look::Walk {
            true => None,
            false => zone.key(running, request, trip),
        };
        if key.is_none() && self.look == Look::Walk {
            trip.postponed.set(true);
        }
        key
    }

    /// Asks what is open. All must pass: looks at all of them first, then takes the
    /// places and charges the rates, the narrowest first; a refusal gives back what was
    /// taken. Then the request waits for its turn, if it has to.
    #[inline]
    pub fn ask_all(&self) -> c_int {
        let trip = self.answer.trip;
        // The answer to our own refusal is neither counted nor refused.
        if trip.refused.get() || self.answer.request.is_dummy() {
            return DECLINED;
        }
        // Enforced, it would have ended there.
        if trip.marked.get() && self.answer.settings.is_dry_run() {
            return DECLINED;
        }
        // Asked and told once: further subrequests to a place that refused one.
        let refused = |rule: &&&Placed<'_>| trip.answer(rule.id.get()) == Some(false);
        if self.answer.request.is_sub()
            && let Some(rule) = self.rules.iter().find(refused)
        {
            let settings = self.answer.settings.merged();
            return answer::status_of(rule.directive.is_rate(), &settings).into();
        }
        let status = match self.rules {
            [rule] => self.ask(rule).map_or(DECLINED, |ask| self.decide(ask)),
            _ => self.ask_each(),
        };
        let status = match self.away.get() {
            Some(open) if status == DECLINED => self.ask_away(open),
            _ => status,
        };
        match self.turn.get() {
            Some((wait, rule, found)) if status == DECLINED => self.wait(wait, rule, found),
            _ => status,
        }
    }

    /// The request waits for its turn, or is refused where that comes too late.
    #[cold]
    fn wait(&self, wait: u64, rule: &'r Placed<'r>, found: Found<'r>) -> c_int {
        match wait.checked_sub(self.answer.patience()) {
            None | Some(0) => {
                self.answer.running.count(rule, Fate::Delayed);
                self.answer.wait(wait, found)
            }
            Some(too_long) => {
                self.answer.running.count(rule, Fate::Refused);
                self.answer.refuse(found.again_in(too_long))
            }
        }
    }

    fn ask_each(&self) -> c_int {
        let open = List::<Ask<'r>, 4>::new(self.answer.request.pool());
        for ask in self.rules.iter().filter_map(|rule| self.ask(rule)) {
            open.push(ask);
            if let Some(found) = self.refusal_in_sight(ask) {
                return self.refuse(ask, found);
            }
        }
        for scope in NARROWEST_FIRST {
            for ask in open.iter().filter(|ask| ask.scope() == scope) {
                let status = match ask.what {
                    // Looked at above.
                    What::Places { limit, meaning } if meaning.count != Count::Requests => {
                        self.pass(ask, limit, meaning)
                    }
                    _ => self.decide(ask),
                };
                if status != DECLINED {
                    return status;
                }
                if self.answer.trip.marked.get() && self.answer.settings.is_dry_run() {
                    return DECLINED;
                }
            }
        }
        DECLINED
    }

    /// Why the rule would refuse, by a look that takes nothing.
    fn refusal_in_sight(&self, ask: Ask<'r>) -> Option<Found<'r>> {
        match ask.what {
            What::Places { limit, meaning } => {
                let stands = self.stands(ask, limit, meaning);
                let is_over = over(stands, limit)
                    && self.answer.running.is_busy(meaning.busy)
                    && !self.lets_go(ask.rule)
                    && !self.has_room_now(ask, limit, meaning);
                is_over.then(|| Found::places(ask.rule, ask.key.digest, stands, limit))
            }
            What::Rate { limit, rating } => self.rate_in_sight(ask, limit, &rating.on),
        }
    }

    /// A second look, as for a single rule: see [`Trip::take_place`].
    fn has_room_now(&self, ask: Ask<'r>, limit: u16, meaning: Meaning) -> bool {
        std::thread::yield_now();
        meaning.count == Count::Requests && !over(self.stands(ask, limit, meaning), limit)
    }

    /// The count that would stand if the request were admitted.
    #[inline]
    fn stands(&self, ask: Ask<'r>, limit: u16, meaning: Meaning) -> u32 {
        match meaning.count {
            Count::Workers => self.answer.trip.busy_workers(limit),
            Count::Requests => self.answer.trip.count_with_this(&ask.key, ask.count),
            // Asked when the connection came.
            Count::Connections => 0,
        }
    }

    #[inline]
    fn decide(&self, ask: Ask<'r>) -> c_int {
        match ask.what {
            What::Places { limit, meaning } => self.decide_places(ask, limit, meaning),
            What::Rate { limit, rating } => match self.charge(ask, limit, &rating.on) {
                Ok(pass) if ask.rule.in_fleet => self.leave_open(ask, Some(pass)),
                Ok(pass) => self.pass_rate(ask, limit, pass),
                Err(found) => self.refuse(ask, found),
            },
        }
    }

    #[inline]
    fn decide_places(&self, ask: Ask<'r>, limit: u16, meaning: Meaning) -> c_int {
        if self.lets_go(ask.rule) {
            return self.count_only(ask, meaning);
        }
        let refused = match meaning.count {
            Count::Workers => {
                Some(self.answer.trip.busy_workers(limit)).filter(|stands| over(*stands, limit))
            }
            Count::Requests => self.take_place(ask, meaning, Some(limit)).err(),
            Count::Connections => None,
        };
        match refused {
            Some(stands) if self.answer.running.is_busy(meaning.busy) => {
                let found = Found::places(ask.rule, ask.key.digest, stands, limit);
                self.refuse(ask, found)
            }
            // Counted always, refused under pressure only.
            Some(_) if meaning.count == Count::Requests => {
                let _ = self.take_place(ask, meaning, None);
                self.passed_here(ask, limit, meaning)
            }
            _ => self.passed_here(ask, limit, meaning),
        }
    }

    /// This server's own counts let it pass.
    #[inline]
    fn passed_here(&self, ask: Ask<'r>, limit: u16, meaning: Meaning) -> c_int {
        match ask.rule.in_fleet {
            false => self.pass(ask, limit, meaning),
            true => self.leave_open(ask, None),
        }
    }

    /// Whether a place of this meaning stays when a dry run marks the request.
    fn outlives_mark(&self, meaning: Meaning) -> bool {
        let is_wide = meaning.scope != Scope::Location;
        !self.answer.settings.is_dry_run() || (is_wide && self.answer.running.runtime.enforces)
    }

    #[inline]
    fn take_place(&self, ask: Ask<'r>, meaning: Meaning, limit: Option<u16>) -> Result<(), u32> {
        let outlives_mark = self.outlives_mark(meaning);
        self.answer
            .trip
            .take_place(&ask.key, ask.count, limit, outlives_mark)
    }

    #[inline]
    fn pass(&self, ask: Ask<'r>, limit: u16, meaning: Meaning) -> c_int {
        self.pass_with(ask, meaning, || {
            let stands = self.stands(ask, limit, meaning);
            Found::places(ask.rule, ask.key.digest, stands, limit)
        })
    }

    #[inline]
    fn pass_with(
        &self,
        ask: Ask<'r>,
        meaning: Meaning,
        found: impl FnOnce() -> Found<'r>,
    ) -> c_int {
        let Answer { request, trip, .. } = self.answer;
        trip.describe(request, Some(ask.rule));
        trip.note(ask.rule.id.get(), true);
        self.answer.running.count(ask.rule, Fate::Passed);
        if let What::Places { limit, .. } = ask.what {
            self.redefine(ask.rule, limit, meaning);
        }
        self.answer.passed(found);
        DECLINED
    }

    fn refuse(&self, ask: Ask<'r>, found: Found<'r>) -> c_int {
        let verdict = answer::verdict(&self.answer.settings.merged());
        let Answer { request, trip, .. } = self.answer;
        trip.describe(request, Some(ask.rule));
        // A dry run goes on, and asks each rule once all the same.
        trip.note(ask.rule.id.get(), verdict == Verdict::RefusedDryRun);
        self.answer.running.count_refusal(ask.rule, verdict);
        self.redefine_as(ask);
        self.answer.refuse(found)
    }
}
