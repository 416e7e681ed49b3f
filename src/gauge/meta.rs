//! What a record in shared memory says, in a few words: of a rule, of a guard against slow
//! clients, or only that some rules share a count.

use std::time::Duration;

use crate::limit::gcra::Bucket;
use crate::limit::rate;
use crate::limit::rating::{self, Rating};
use crate::limit::rule::{Count, Meaning, Scope, Terms};
use crate::limit::slow::{MaxTime, MinRate};
use crate::limit::window::Window;
use crate::store::META;

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// What it says.
    pub what: What,
    /// Counts of the same family are those that a rule of it compares with; 0 for none.
    pub family: u64,
    /// Whether the rule only marks what it would refuse.
    pub dry_run: bool,
}

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A rule: how many at once.
    Places {
        /// The rule's number.
        limit: u16,
        /// What it counts, and when it refuses.
        meaning: Meaning,
    },
    /// A rule: how many in which time.
    Rate(Rate),
    /// Whom to cut, or when to tell.
    Guard(Guard),
    /// A count that is no single rule's.
    Shared,
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
    /// Whether `on=` charges by what becomes of a request.
    pub is_late: bool,
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
        /// So many of a burst pass at once and the others wait; none: nobody waits.
        delay: Option<u32>,
    },
    /// A window.
    Window {
        /// How long the one beyond freezes its key.
        freeze: Option<Duration>,
    },
}

/// What is watched beside the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// `IPLimitMinRate`
    MinRate(MinRate),
    /// `IPLimitMaxTime`
    MaxTime(MaxTime),
    /// `IPLimitAlarm`, from so many percent on.
    Alarm(u8),
}

const SCOPES: [Scope; 4] = [Scope::Server, Scope::Vhost, Scope::Location, Scope::Zone];
const COUNTS: [Count; 3] = [Count::Workers, Count::Requests, Count::Connections];

/// The kinds of records, in the lowest bits of their first word; 0 is none.
const PLACES: u64 = 1;
const BUCKET: u64 = 2;
const WINDOW: u64 = 3;
const SHARED: u64 = 4;
const MIN_RATE: u64 = 5;
const MAX_TIME: u64 = 6;
const ALARM: u64 = 7;
const KIND: u64 = 0x3f;
const DRY_RUN: u64 = 0x40;
const LATE: u64 = 0x80;

impl Meta {
    /// The record of a count that rules of this family share.
    pub fn shared(family: u64) -> Meta {
        Meta {
            what: What::Shared,
            family,
            dry_run: false,
        }
    }

    /// The record of a guard.
    pub fn guard(guard: Guard) -> Meta {
        Meta {
            what: What::Guard(guard),
            family: 0,
            dry_run: false,
        }
    }

    /// Whether it is a rule's.
    pub fn is_rule(&self) -> bool {
        matches!(self.what, What::Places { .. } | What::Rate(_))
    }

    /// The first word of what a rule about places is packed to, which says all but the
    /// family: quick, since each request compares it.
    #[inline]
    pub fn first_of_places(limit: u16, meaning: Meaning, dry_run: bool) -> u64 {
        let dry = if dry_run { DRY_RUN } else { 0 };
        places(limit, meaning) | dry
    }

    /// A few words.
    #[inline]
    pub fn pack(self) -> [u64; META] {
        let [first, second, third] = self.what.pack();
        let dry = if self.dry_run { DRY_RUN } else { 0 };
        [first | dry, second, third, self.family]
    }

    /// What the words say; None for those that nobody wrote yet.
    pub fn unpack([first, second, third, family]: [u64; META]) -> Option<Meta> {
        Some(Meta {
            what: What::unpack(first, second, third)?,
            family,
            dry_run: first & DRY_RUN != 0,
        })
    }
}

impl What {
    /// What a rule of this meaning says.
    #[inline]
    pub fn of_places(terms: &Terms, meaning: Meaning) -> What {
        let limit = terms.concurrency().and_then(|terms| terms.limit);
        What::Places {
            limit: limit.unwrap_or(0),
            meaning,
        }
    }

    /// What a rate says; None for `off`.
    pub fn of_rate(rating: &Rating) -> Option<What> {
        let limit = rating.limit?;
        let rate = limit.rate();
        Some(What::Rate(Rate {
            number: rate.number,
            period: rate.period,
            scope: rating.scope,
            is_late: !rating.on.is_empty(),
            kind: match limit {
                rating::Limit::Bucket(bucket) => Kind::Bucket {
                    burst: bucket.burst,
                    delay: bucket.delay,
                },
                rating::Limit::Window(window) => Kind::Window {
                    freeze: window.freeze,
                },
            },
        }))
    }

    #[inline]
    fn pack(self) -> [u64; META - 1] {
        match self {
            What::Places { limit, meaning } => [places(limit, meaning), 0, 0],
            What::Rate(rate) => {
                let (kind, last) = match rate.kind {
                    Kind::Bucket { burst, delay } => {
                        let delay = delay.map_or(0, |delay| u64::from(delay) + 1);
                        (BUCKET, u64::from(burst) | delay << 32)
                    }
                    Kind::Window { freeze } => (WINDOW, freeze.map_or(0, millis)),
                };
                let late = if rate.is_late { LATE } else { 0 };
                let small = kind | late | (rate.scope as u64) << 8;
                [
                    small | u64::from(rate.number) << 32,
                    millis(rate.period),
                    last,
                ]
            }
            What::Guard(Guard::MinRate(min)) => [
                MIN_RATE | busy(min.busy),
                min.bytes,
                millis(min.after).min(u32::MAX.into()) << 32
                    | millis(min.window).min(u32::MAX.into()),
            ],
            What::Guard(Guard::MaxTime(max)) => [MAX_TIME | busy(max.busy), millis(max.time), 0],
            What::Guard(Guard::Alarm(percent)) => [ALARM | busy(Some(percent)), 0, 0],
            What::Shared => [SHARED, 0, 0],
        }
    }

    fn unpack(first: u64, second: u64, third: u64) -> Option<What> {
        let scope = || SCOPES.get((first >> 8 & 0xff) as usize).copied();
        let busy = Some((first >> 24) as u8).filter(|percent| *percent != 0);
        let number = (first >> 32) as u32;
        let time = Duration::from_millis;
        let kind = match first & KIND {
            PLACES => {
                return Some(What::Places {
                    limit: number as u16,
                    meaning: Meaning {
                        scope: scope()?,
                        count: *COUNTS.get((first >> 16 & 0xff) as usize)?,
                        busy,
                    },
                });
            }
            SHARED => return Some(What::Shared),
            MIN_RATE => {
                return Some(What::Guard(Guard::MinRate(MinRate {
                    bytes: second,
                    after: time(third >> 32),
                    window: time(third & u64::from(u32::MAX)),
                    busy,
                })));
            }
            MAX_TIME => {
                return Some(What::Guard(Guard::MaxTime(MaxTime {
                    time: time(second),
                    busy,
                })));
            }
            ALARM => return Some(What::Guard(Guard::Alarm(busy?))),
            BUCKET => Kind::Bucket {
                burst: third as u32,
                delay: ((third >> 32) as u32).checked_sub(1),
            },
            WINDOW => Kind::Window {
                freeze: (third != 0).then(|| time(third)),
            },
            _ => return None,
        };
        let period = time(second);
        // A rate that no directive can say: whoever reckons with it could divide by 0.
        let is_one = number <= rate::MOST && (time(1)..=rate::LONGEST).contains(&period);
        is_one.then_some(What::Rate(Rate {
            number,
            period,
            scope: scope()?,
            is_late: first & LATE != 0,
            kind,
        }))
    }
}

impl Guard {
    /// The directive that says it.
    pub fn directive(&self) -> &'static str {
        match self {
            Guard::MinRate(_) => "IPLimitMinRate",
            Guard::MaxTime(_) => "IPLimitMaxTime",
            Guard::Alarm(_) => "IPLimitAlarm",
        }
    }
}

impl Rate {
    /// The limit, for whoever wants to know how much of it a key has used.
    pub fn limit(&self) -> Option<rating::Limit> {
        let rate = rate::Rate {
            number: self.number,
            period: self.period,
        };
        Some(match self.kind {
            Kind::Bucket { burst, delay } => {
                rating::Limit::Bucket(Bucket::new(rate, burst, delay)?)
            }
            Kind::Window { freeze } => rating::Limit::Window(Window {
                rate,
                freeze,
                extend: false,
            }),
        })
    }
}

#[inline]
fn places(limit: u16, meaning: Meaning) -> u64 {
    PLACES
        | (meaning.scope as u64) << 8
        | (meaning.count as u64) << 16
        | busy(meaning.busy)
        | u64::from(limit) << 32
}

#[inline]
fn busy(percent: Option<u8>) -> u64 {
    u64::from(percent.unwrap_or(0)) << 24
}

/// Times of rules are short enough for this.
fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}

#[cfg(test)]
mod tests;
