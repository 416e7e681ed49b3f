//! What the record of a rule says and counts, where deciding finds out.

use super::{Ask, Asking, What};
use crate::gauge::{self, Meta};
use crate::limit::rule::{Meaning, Scope};
use crate::module::rules::Placed;
use crate::store::Fate;

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
        if self.answer.request.is_dummy() {
            return;
        }
        let trip = self.answer.trip;
        for ask in self.rules.iter().filter_map(|rule| self.ask(rule)) {
            if is_spared(&ask) && trip.is_spared_first(ask.rule.id.get()) {
                self.answer.running.count(ask.rule, Fate::Exempt);
            }
        }
    }

    /// Notes what the rule means here: the defaults of the sections around its own are
    /// known only now, and so is whether it is a dry run.
    #[inline]
    pub(super) fn redefine(&self, rule: &Placed<'r>, meaning: Meaning) {
        let what = gauge::What::of_places(&rule.terms, meaning);
        self.redefine_to(rule, what, meaning.scope);
    }

    /// The same after a refusal.
    pub(super) fn redefine_as(&self, ask: Ask<'r>) {
        match ask.what {
            What::Places { meaning, .. } => self.redefine(ask.rule, meaning),
            What::Rate { rating, .. } => {
                if let Some(what) = gauge::What::of_rate(rating) {
                    self.redefine_to(ask.rule, what, rating.scope);
                }
            }
        }
    }

    #[inline]
    fn redefine_to(&self, rule: &Placed<'r>, what: gauge::What, scope: Scope) {
        let Some(index) = rule.record.get() else {
            return;
        };
        let meta = Meta {
            what,
            family: 0,
            dry_run: self.answer.settings.is_dry_run(),
        };
        let ledger = self.answer.running.runtime.segment.ledger();
        // The last word is the family, which is another only if the scope is.
        if !ledger.begins_with(index, meta.pack()) {
            let family = rule.family(scope);
            ledger.redefine(index, Meta { family, ..meta }.pack());
        }
    }
}
