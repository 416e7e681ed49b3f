//! Which rules a request was asked, and what became of it there.

use super::Trip;
use crate::limit::key::CountId;

/// What became of a request at a rule.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It was let through.
    Passed,
    /// It was refused.
    Refused,
    /// It was not asked, but for an exemption it would have been.
    Spared,
}

impl Trip<'_> {
    /// What became of a rule that was asked before; None when it was not.
    pub fn answer(&self, rule: CountId) -> Option<bool> {
        self.became(rule).map(|became| became == Became::Passed)
    }

    #[inline]
    fn became(&self, rule: CountId) -> Option<Became> {
        let is_it =
            |(asked, became): &(CountId, Became)| *asked == rule && *became != Became::Spared;
        self.asked.iter().find(is_it).map(|(_, became)| became)
    }

    /// Whether any rule was asked.
    pub fn was_asked(&self) -> bool {
        self.asked
            .iter()
            .any(|(_, became)| became != Became::Spared)
    }

    /// Notes that an exemption spared it of a rule; true the first time.
    pub fn is_spared_first(&self, rule: CountId) -> bool {
        let spared = (rule, Became::Spared);
        let is_first = !self.asked.iter().any(|asked| asked == spared);
        if is_first {
            self.asked.push(spared);
        }
        is_first
    }

    /// Notes what became of a rule.
    pub fn note(&self, rule: CountId, passed: bool) {
        let became = if passed {
            Became::Passed
        } else {
            Became::Refused
        };
        self.asked.push((rule, became));
    }
}
