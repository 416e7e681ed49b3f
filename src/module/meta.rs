//! What the record of a rule in shared memory says about it, in one word.

use crate::limit::rule::{Count, Meaning, Scope, Terms};

/// What a record's number holds: what the rule says, small enough for one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// The rule's number.
    pub limit: u16,
    /// What it counts, and when it refuses.
    pub meaning: Meaning,
}

const SCOPES: [Scope; 3] = [Scope::Server, Scope::Vhost, Scope::Location];
const COUNTS: [Count; 3] = [Count::Workers, Count::Requests, Count::Connections];

impl Meta {
    /// The record of a count that is no single rule's.
    pub const WIDE: u64 = u64::MAX;

    /// The record of a rule.
    pub fn of_rule(terms: &Terms, meaning: Meaning) -> Meta {
        Meta {
            limit: terms.limit.unwrap_or(0),
            meaning,
        }
    }

    /// One word.
    #[inline]
    pub fn pack(self) -> u64 {
        u64::from(self.limit)
            | (self.meaning.scope as u64) << 16
            | (self.meaning.count as u64) << 24
            | u64::from(self.meaning.busy.unwrap_or(0)) << 32
    }

    /// What the word says; None for [`Meta::WIDE`].
    pub fn unpack(word: u64) -> Option<Meta> {
        let scope = *SCOPES.get((word >> 16 & 0xff) as usize)?;
        let count = *COUNTS.get((word >> 24 & 0xff) as usize)?;
        Some(Meta {
            limit: word as u16,
            meaning: Meaning {
                scope,
                count,
                busy: Some((word >> 32) as u8).filter(|percent| *percent != 0),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_what_the_rule_says() {
        for scope in SCOPES {
            for count in COUNTS {
                for limit in [0, 1, u16::MAX] {
                    for busy in [None, Some(1), Some(100)] {
                        let meta = Meta {
                            limit,
                            meaning: Meaning { scope, count, busy },
                        };
                        assert_eq!(Meta::unpack(meta.pack()), Some(meta));
                    }
                }
            }
        }
        assert_eq!(Meta::unpack(Meta::WIDE), None);
    }
}
