//! Asking the rules of one level: all must pass, the narrowest first, each rule once
//! per client request. A refusal gives back what was taken; a dry run only marks.

use std::ffi::c_int;

use super::answer::{self, Answer, Found};
use super::config::{Level as Said, Site};
use super::meta::Meta;
use super::rules::Placed;
use super::running::Running;
use super::trip::Trip;
use crate::httpd::pool::List;
use crate::httpd::request::Request;
use crate::limit::concurrency::{count_of, over};
use crate::limit::key::CountId;
use crate::limit::policy;
use crate::limit::rule::{Count, Defaults, Level, Meaning, Scope};
use crate::limit::settings::Within;
use crate::report::refusal::Verdict;
use crate::store::Ledger;
use crate::sys::DECLINED;

/// The narrowest scope is asked first: what it refuses never shows in the wider ones.
const NARROWEST_FIRST: [Scope; 3] = [Scope::Location, Scope::Vhost, Scope::Server];

/// A rule under decision.
#[derive(Clone, Copy)]
struct Ask<'r> {
    rule: &'r Placed<'r>,
    limit: u16,
    meaning: Meaning,
    count: CountId,
}

/// A level's rules where the request is now.
pub struct Asking<'r> {
    answer: Answer<'r>,
    level: Level,
    rules: &'r [&'r Placed<'r>],
    /// Whether none of the rules is for some clients only.
    is_for_all: bool,
    defaults: Defaults,
    vhost: CountId,
}

impl<'r> Asking<'r> {
    /// To ask the rules of `said`, as they are in effect on `site`.
    pub fn new(
        running: Running,
        request: Request<'r>,
        trip: &'r Trip<'r>,
        level: Level,
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
            rules,
            is_for_all: rules.iter().all(|rule| rule.networks.is_empty()),
            defaults,
            vhost: site.id.get(),
        }
    }

    /// What is to be asked of a rule, if it has not been asked yet.
    #[inline]
    fn ask(&self, rule: &'r Placed<'r>) -> Option<Ask<'r>> {
        if !self.is_for_all && !policy::is_for(self.rules, rule, self.answer.trip.client.address) {
            return None;
        }
        let limit = rule.terms.limit?;
        if self.answer.trip.answer(rule.id.get()) == Some(true) {
            return None;
        }
        let meaning = rule.terms.meaning(&self.defaults);
        let count = count_of(meaning.scope, self.level, rule.count.get(), self.vhost);
        Some(Ask {
            rule,
            limit,
            meaning,
            count,
        })
    }

    /// Asks what is open. All must pass: looks at all of them first, then takes the
    /// places, the narrowest first; a refusal gives back what was taken.
    #[inline]
    pub fn ask_all(&self) -> c_int {
        // The answer to our own refusal is neither counted nor refused.
        if self.answer.trip.refused.get() || self.answer.request.is_dummy() {
            return DECLINED;
        }
        // Enforced, it would have ended there.
        if self.answer.trip.marked.get() && self.answer.settings.is_dry_run() {
            return DECLINED;
        }
        // Asked and told once: further subrequests to a place that refused one.
        let refused = |rule: &&Placed<'_>| self.answer.trip.answer(rule.id.get()) == Some(false);
        if self.answer.request.is_sub() && self.rules.iter().any(refused) {
            return self.answer.settings.merged().concurrency_status().into();
        }
        if let [rule] = self.rules {
            return self.ask(rule).map_or(DECLINED, |ask| self.decide(ask));
        }
        let open = List::<Ask<'r>, 4>::new(self.answer.request.pool());
        for ask in self.rules.iter().filter_map(|rule| self.ask(rule)) {
            open.push(ask);
            let stands = self.stands(ask);
            if over(stands, ask.limit)
                && self.answer.running.is_busy(ask.meaning.busy)
                && !self.has_room_now(ask)
            {
                return self.refuse(ask, stands);
            }
        }
        for scope in NARROWEST_FIRST {
            for ask in open.iter().filter(|ask| ask.meaning.scope == scope) {
                let status = match ask.meaning.count {
                    // Looked at above.
                    Count::Workers | Count::Connections => self.pass(ask),
                    Count::Requests => self.decide(ask),
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

    /// A second look, as for a single rule: see [`Trip::take_place`].
    fn has_room_now(&self, ask: Ask<'r>) -> bool {
        std::thread::yield_now();
        ask.meaning.count == Count::Requests && !over(self.stands(ask), ask.limit)
    }

    /// The count that would stand if the request were admitted.
    #[inline]
    fn stands(&self, ask: Ask<'r>) -> u32 {
        match ask.meaning.count {
            Count::Workers => self.answer.trip.busy_workers(ask.limit),
            Count::Requests => self.answer.trip.count_with_this(ask.count),
            // Asked when the connection came.
            Count::Connections => 0,
        }
    }

    #[inline]
    fn decide(&self, ask: Ask<'r>) -> c_int {
        let refused = match ask.meaning.count {
            Count::Workers => Some(self.answer.trip.busy_workers(ask.limit))
                .filter(|stands| over(*stands, ask.limit)),
            Count::Requests => self.take_place(ask, Some(ask.limit)).err(),
            Count::Connections => None,
        };
        match refused {
            Some(stands) if self.answer.running.is_busy(ask.meaning.busy) => {
                self.refuse(ask, stands)
            }
            // Counted always, refused under pressure only.
            Some(_) if ask.meaning.count == Count::Requests => {
                let _ = self.take_place(ask, None);
                self.pass(ask)
            }
            _ => self.pass(ask),
        }
    }

    #[inline]
    fn take_place(&self, ask: Ask<'r>, limit: Option<u16>) -> Result<(), u32> {
        let is_wide = ask.meaning.scope != Scope::Location;
        let outlives_mark =
            !self.answer.settings.is_dry_run() || (is_wide && self.answer.running.runtime.enforces);
        self.answer.trip.take_place(ask.count, limit, outlives_mark)
    }

    #[inline]
    fn pass(&self, ask: Ask<'r>) -> c_int {
        self.answer.trip.note(ask.rule.id.get(), true);
        self.answer.running.record(ask.rule, Ledger::passed);
        self.redefine(ask);
        self.answer.passed(|| self.stands(ask), ask.rule, ask.limit);
        DECLINED
    }

    fn refuse(&self, ask: Ask<'r>, stands: u32) -> c_int {
        let verdict = answer::verdict(&self.answer.settings.merged());
        // A dry run goes on, and asks each rule once all the same.
        self.answer
            .trip
            .note(ask.rule.id.get(), verdict == Verdict::RefusedDryRun);
        self.answer.running.record_refusal(ask.rule, verdict);
        self.redefine(ask);
        self.answer.refuse(Found::by(ask.rule, stands, ask.limit))
    }

    /// Notes what the rule means here: the defaults of the sections around its own are
    /// known only now.
    #[inline]
    fn redefine(&self, ask: Ask<'r>) {
        if let Some(index) = ask.rule.record.get() {
            let meta = Meta::of_rule(&ask.rule.terms, ask.meaning).pack();
            self.answer
                .running
                .runtime
                .segment
                .ledger()
                .redefine(index, meta);
        }
    }
}
