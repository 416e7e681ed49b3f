//! Rules that count over several servers: asked of the shared counts after this server's own
//! have let the request pass, so that what is refused here goes nowhere.

use std::ffi::c_int;

use super::{Ask, Asking, What};
use crate::httpd::pool::List;
use crate::limit::fleet::OnFailure;
use crate::limit::key::Digest;
use crate::limit::rating::{Decision, Limit, Pass, Rating};
use crate::limit::rule::{Meaning, Scope};
use crate::module::charges::Charged;
use crate::module::fleet::{self, Missed};
use crate::module::found::Found;
use crate::module::rules::Placed;
use crate::store::fleet::{Answer, Order, Step};
use crate::sys::DECLINED;

/// A rule that the shared counts are still to be asked about, and what this server's own rate
/// said.
pub(super) type Open<'r> = (Ask<'r>, Option<Pass>);

impl<'r> Asking<'r> {
    /// Whether the rule is shared and shared rules limit nobody now: the shared counts are out of reach, and it was said
    /// that this opens.
    #[inline]
    pub(super) fn lets_go(&self, rule: &Placed<'_>) -> bool {
        rule.in_fleet && self.is_let_go()
    }

    fn is_let_go(&self) -> bool {
        let running = self.answer.running;
        let is_down = running.child.fleet.is_none_or(|fleet| !fleet.is_up());
        is_down && self.on_failure() == OnFailure::Open
    }

    /// A shared rule that limits nobody now counts here all the same.
    pub(super) fn count_only(&self, ask: Ask<'r>, meaning: Meaning) -> c_int {
        let _ = self.take_place(ask, meaning, None);
        DECLINED
    }

    fn on_failure(&self) -> OnFailure {
        let fleet = self.answer.running.runtime.fleet.as_ref();
        fleet.map_or(OnFailure::Local, |fleet| fleet.redis.on_failure)
    }

    /// Leaves a rule for the end: all others are to pass first.
    pub(super) fn leave_open(&self, ask: Ask<'r>, pass: Option<Pass>) -> c_int {
        let open = self.away.get().unwrap_or_else(|| {
            let pool = self.answer.request.pool();
            let open: &'r List<'r, Open<'r>, 2> = pool.alloc(List::new(pool));
            self.away.set(Some(open));
            open
        });
        open.push((ask, pass));
        DECLINED
    }

    /// Asks the shared counts about what was left, in the order in which it was.
    pub(super) fn ask_away(&self, open: &List<'r, Open<'r>, 2>) -> c_int {
        for (ask, pass) in open.iter() {
            if self.answer.trip.marked.get() && self.answer.settings.is_dry_run() {
                return DECLINED;
            }
            let status = match (ask.what, pass) {
                (What::Places { limit, meaning }, _) => self.ask_for_place(ask, limit, meaning),
                (What::Rate { limit, rating }, Some(pass)) => {
                    self.ask_rate(ask, limit, rating, pass)
                }
                (What::Rate { .. }, None) => DECLINED,
            };
            if status != DECLINED {
                return status;
            }
        }
        DECLINED
    }

    /// What the key of the request is called in the shared counts.
    pub(super) fn away_key(&self, ask: Ask<'r>) -> Option<Digest> {
        let trip = self.answer.trip;
        let digest = match ask.rule.directive.is_per_key() {
            true => ask
                .rule
                .zone
                .get()?
                .fleet_digest(self.answer.request, trip)?,
            false => fleet::FLEET.digest(trip.client.key),
        };
        let vhost = match ask.scope() {
            Scope::Vhost => self.fleet_vhost,
            Scope::Server | Scope::Location | Scope::Zone => crate::limit::key::CountId(0),
        };
        let count = ask.rule.fleet_count_of(ask.scope(), self.level, vhost);
        Some(digest.within(count))
    }

    fn ask_for_place(&self, ask: Ask<'r>, limit: u16, meaning: Meaning) -> c_int {
        // Counted always, refused under pressure only.
        let asked = self.answer.running.is_busy(meaning.busy).then_some(limit);
        let outlives_mark = self.outlives_mark(meaning);
        let trip = self.answer.trip;
        let taken = self.away_key(ask).map_or(Err(Missed::NoAnswer), |key| {
            trip.take_away(key, asked, outlives_mark)
        });
        let found = |stands| Found::places(ask.rule, ask.key.digest, stands, limit);
        match taken {
            Ok(Some(stands)) => self.pass_with(ask, meaning, || found(stands)),
            // It has its place already.
            Ok(None) => self.pass(ask, limit, meaning),
            Err(Missed::Full(stands)) => self.refuse(ask, found(stands)),
            Err(Missed::NoAnswer) => match self.on_failure() {
                OnFailure::Closed => self.refuse_unreachable(ask, u32::from(limit)),
                OnFailure::Local | OnFailure::Open => self.pass(ask, limit, meaning),
            },
        }
    }

    fn ask_rate(&self, ask: Ask<'r>, limit: &'r Limit, rating: &'r Rating, here: Pass) -> c_int {
        let trip = self.answer.trip;
        let is_later = !rating.on.is_empty();
        let Some(key) = self.away_key(ask) else {
            return self.pass_rate(ask, limit, here);
        };
        // Its one token was taken already.
        if trip.charges.has(key) {
            return self.pass_rate(ask, limit, here);
        }
        let step = match is_later {
            true => Step::Check,
            false => Step::Decide,
        };
        let order = Order::Rate {
            key,
            limit: *limit,
            step,
        };
        let Answer::Rated { word, now } = trip.ask_away(order) else {
            return match self.on_failure() {
                OnFailure::Closed => self.refuse_unreachable(ask, limit.most()),
                OnFailure::Local | OnFailure::Open => self.pass_rate(ask, limit, here),
            };
        };
        let decision = match is_later {
            true => limit.check(word, now),
            false => limit.decide(word, now),
        };
        match decision {
            Decision::Over(over) => self.refuse(ask, Found::over(ask.rule, &ask.key, limit, over)),
            Decision::Pass(pass) => {
                if !is_later {
                    let outlives_mark = !self.answer.settings.is_dry_run();
                    let charged = Charged {
                        state: pass.next,
                        at: now,
                        is_away: true,
                    };
                    trip.charges.note(key, *limit, charged, outlives_mark);
                }
                let wait = pass.wait.max(here.wait);
                self.pass_rate(ask, limit, Pass { wait, ..pass })
            }
        }
    }

    #[cold]
    fn refuse_unreachable(&self, ask: Ask<'r>, limit: u32) -> c_int {
        self.refuse(ask, Found::unreachable(ask.rule, ask.key.digest, limit))
    }
}
