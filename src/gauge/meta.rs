//! What the record of a rule in shared memory says about it, in a few words.

use std::time::Duration;

use crate::limit::rating::{Limit, Rating};
use crate::limit::rule::{Count, Meaning, Scope, Terms};
use crate::store::META;

/// What a record holds: what the rule says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meta {
    /// How many at once.
    Places {
        /// The rule's number.
        limit: u16,
        /// What it counts, and when it refuses.
        meaning: Meaning,
    },
    /// How many in which time.
    Rate(Rate),
}

/// What a rate rule says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// So many.
    pub number: u32,
    /// In so long.
    pub period: Duration,
    /// location, vhost or zone
    pub scope: Scope,
    /// Bucket or window.
    pub kind: Kind,
}

/// How a rate is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A bucket of this size.
    Bucket {
        /// How many come at once from full.
        burst: u32,
    },
    /// A window.
    Window {
        /// How long the one beyond freezes its key.
        freeze: Option<Duration>,
    },
}

const SCOPES: [Scope; 4] = [Scope::Server, Scope::Vhost, Scope::Location, Scope::Zone];
const COUNTS: [Count; 3] = [Count::Workers, Count::Requests, Count::Connections];

/// The kinds of records, in the lowest bits of their first word; 0 is none.
const PLACES: u64 = 1;
const BUCKET: u64 = 2;
const WINDOW: u64 = 3;
const WIDE: u64 = 4;

impl Meta {
    /// The record of a count that is no single rule's.
    pub const WIDE: [u64; META] = [WIDE, 0, 0];

    /// The record of a rule of this meaning.
    pub fn of_places(terms: &Terms, meaning: Meaning) -> Meta {
        let limit = terms.concurrency().and_then(|terms| terms.limit);
        Meta::Places {
            limit: limit.unwrap_or(0),
            meaning,
        }
    }

    /// The record of a rate; None for `off`.
    pub fn of_rate(rating: &Rating) -> Option<Meta> {
        let limit = rating.limit?;
        let rate = limit.rate();
        Some(Meta::Rate(Rate {
            number: rate.number,
            period: rate.period,
            scope: rating.scope,
            kind: match limit {
                Limit::Bucket(bucket) => Kind::Bucket {
                    burst: bucket.burst,
                },
                Limit::Window(window) => Kind::Window {
                    freeze: window.freeze,
                },
            },
        }))
    }

    /// A few words.
    #[inline]
    pub fn pack(self) -> [u64; META] {
        match self {
            Meta::Places { limit, meaning } => {
                let small = PLACES
                    | (meaning.scope as u64) << 8
                    | (meaning.count as u64) << 16
                    | u64::from(meaning.busy.unwrap_or(0)) << 24;
                [small | u64::from(limit) << 32, 0, 0]
            }
            Meta::Rate(rate) => {
                let (kind, last) = match rate.kind {
                    Kind::Bucket { burst } => (BUCKET, u64::from(burst)),
                    Kind::Window { freeze } => (WINDOW, freeze.map_or(0, millis)),
                };
                let small = kind | (rate.scope as u64) << 8;
                [
                    small | u64::from(rate.number) << 32,
                    millis(rate.period),
                    last,
                ]
            }
        }
    }

    /// What the words say; None for [`Meta::WIDE`].
    pub fn unpack([first, second, third]: [u64; META]) -> Option<Meta> {
        let scope = *SCOPES.get((first >> 8 & 0xff) as usize)?;
        let number = (first >> 32) as u32;
        let kind = match first & 0xff {
            PLACES => {
                return Some(Meta::Places {
                    limit: number as u16,
                    meaning: Meaning {
                        scope,
                        count: *COUNTS.get((first >> 16 & 0xff) as usize)?,
                        busy: Some((first >> 24) as u8).filter(|percent| *percent != 0),
                    },
                });
            }
            BUCKET => Kind::Bucket {
                burst: third as u32,
            },
            WINDOW => Kind::Window {
                freeze: (third != 0).then(|| Duration::from_millis(third)),
            },
            _ => return None,
        };
        Some(Meta::Rate(Rate {
            number,
            period: Duration::from_millis(second),
            scope,
            kind,
        }))
    }
}

/// Times of rules are short enough for this.
fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
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
                        let meaning = Meaning { scope, count, busy };
                        let meta = Meta::Places { limit, meaning };
                        assert_eq!(Meta::unpack(meta.pack()), Some(meta));
                    }
                }
            }
            let freezes = [None, Some(Duration::from_secs(31_622_400))];
            let windows = freezes.map(|freeze| Kind::Window { freeze });
            for kind in windows
                .into_iter()
                .chain([Kind::Bucket { burst: 1_000_000 }])
            {
                let meta = Meta::Rate(Rate {
                    number: 1_000_000,
                    period: Duration::from_millis(1),
                    scope,
                    kind,
                });
                assert_eq!(Meta::unpack(meta.pack()), Some(meta));
            }
        }
        assert_eq!(Meta::unpack(Meta::WIDE), None);
        assert_eq!(Meta::unpack([0; META]), None);
    }
}
