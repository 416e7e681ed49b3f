//! What the record of a rule says and counts, where deciding finds out.

use super::{Answer, Ask, Asking, What};
use crate::gauge::{self, Meta};
use crate::limit::rule::{Meaning, Scope};
use crate::module::rules::Placed;
use crate::store::{Fate, RecordIndex};

impl<'r> Asking<'r> {
    /// Counts for each rule that would be asked that an exemption spared the request of it,
    /// once.
    #[cold]
    pub fn spare_all(&self) {
        self.spare(|_| true);
    }

    /// The same for rates only.
    #[cold]
    pub fn spare_rates(&self) {
        self.spare(|ask| matches!(ask.what, What::Rate { .. }));
    }

    fn spare(&self, is_spared: impl Fn(&Ask<'r>) -> bool) {
        let Answer { request, trip, .. } = self.answer;
        // Nor would it be asked.
        let is_marked = trip.marked.get() && self.answer.settings.is_dry_run();
        if trip.refused.get() || is_marked || request.is_dummy() {
            return;
        }
        for ask in self.rules.iter().filter_map(|rule| self.ask(rule)) {
            if is_spared(&ask) && trip.is_spared_first(ask.rule.id.get()) {
                self.answer.running.count(ask.rule, Fate::Exempt);
            }
        }
    }

    /// Notes what the rule means here: the defaults of the sections around its own are
    /// known only now, and so is whether it is a dry run.
    #[inline]
    pub(super) fn redefine(&self, rule: &Placed<'r>, limit: u16, meaning: Meaning) {
        let word = Meta::first_of_places(limit, meaning, self.answer.settings.is_dry_run());
        let ledger = self.answer.running.runtime.segment.ledger();
        if let Some(index) = rule.record.get()
            && !ledger.begins_with(index, word)
        {
            let what = gauge::What::Places { limit, meaning };
            self.redefine_to(rule, index, what, meaning.scope);
        }
    }

    /// The same after a refusal.
    pub(super) fn redefine_as(&self, ask: Ask<'r>) {
        match ask.what {
            What::Places { limit, meaning } => self.redefine(ask.rule, limit, meaning),
            What::Rate { rating, .. } => {
                if let (Some(index), Some(what)) =
                    (ask.rule.record.get(), gauge::What::of_rate(rating))
                {
                    self.redefine_to(ask.rule, index, what, rating.scope);
                }
            }
        }
    }

    #[cold]
    fn redefine_to(&self, rule: &Placed<'r>, index: RecordIndex, what: gauge::What, scope: Scope) {
        let meta = Meta {
            what,
            family: rule.family(scope),
            dry_run: self.answer.settings.is_dry_run(),
        };
        let ledger = self.answer.running.runtime.segment.ledger();
        ledger.redefine(index, meta.pack());
    }
}
