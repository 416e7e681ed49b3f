//! All keys of a segment by name, beside all else that there is to see.

use std::ops::Deref;
use std::time::Duration;

use super::super::{self as store, *};
use crate::limit::key::CountId;
use crate::limit::rating;

/// One key that is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyCount {
    /// In which count.
    pub count: CountId,
    /// By whom.
    pub name: KeyName,
    /// How often, at least 1.
    pub value: u32,
}

/// One key that is frozen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frozen {
    /// In which count.
    pub count: CountId,
    /// Who.
    pub name: KeyName,
    /// For how long still.
    pub left: Duration,
}

/// All there is to see.
pub struct Whole {
    /// Every key with a count above 0.
    pub counts: Vec<KeyCount>,
    /// Every key that is frozen.
    pub frozen: Vec<Frozen>,
    /// The keys.
    pub keys: KeyTally,
    others: Reading,
}

impl Deref for Whole {
    type Target = Reading;

    fn deref(&self) -> &Reading {
        &self.others
    }
}

/// Reads everything. `now` as for [`store::read`].
pub fn read(segment: &Segment, now: u64) -> Whole {
    let (mut counts, mut frozen) = (Vec::new(), Vec::new());
    let tally = scan(segment, now, |seen| {
        let (count, value) = (seen.count, seen.held);
        let left = rating::frozen_for(seen.rate, now);
        if left.is_none() && value == 0 {
            return;
        }
        let Some(name) = seen.name() else {
            return;
        };
        match left {
            Some(left) => frozen.push(Frozen { count, name, left }),
            None => counts.push(KeyCount { count, name, value }),
        }
    });
    Whole {
        counts,
        frozen,
        keys: tally,
        others: store::read(segment, now),
    }
}
