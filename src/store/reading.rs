//! The segment as plain data: what the gauge, the status page and the command show.
//!
//! Each row is of one moment; rows are read one after the other, so sums agree
//! only while nothing moves.

use std::sync::atomic::Ordering::Relaxed;

use super::cell::{Cell, Entry};
use super::fleet::Health;
use super::header::Counter;
use super::label::{KeyName, Label};
use super::lease::{Kind, Word};
use super::ledger::RuleRecord;
use super::reap::Reaped;
use super::segment::Segment;
use crate::limit::key::CountId;
use crate::limit::rating;

/// The leases by state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeaseTally {
    /// How many there are, used or not.
    pub capacity: u64,
    /// About to be counted.
    pub pending: u64,
    /// Counted.
    pub held: u64,
    /// About to be given back.
    pub releasing: u64,
    /// Given back, not yet free again.
    pub released: u64,
}

/// The cells by use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct KeyTally {
    /// How many there are, used or not.
    pub capacity: u64,
    /// Those that have a key.
    pub used: u64,
    /// Those with a count above 0.
    pub held: u64,
    /// Those that have the state of a rate which is not back at its beginning.
    pub rated: u64,
    /// Those that are frozen.
    pub frozen: u64,
}

/// All there is to see but the keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// How it is with the counts that servers share, where some rule is shared.
    pub fleet: Option<Health>,
    /// The leases.
    pub leases: LeaseTally,
    /// The rules, in the order of their records.
    pub rules: Vec<RuleRecord>,
    /// Requests admitted without being counted.
    pub untracked: u64,
    /// Keys that made room for others.
    pub evictions: u64,
    /// Requests that an exemption spared.
    pub exempt: u64,
    /// Refusals that got no line in the log, told or not yet.
    pub left_out: u64,
    /// Audits, whatever they found.
    pub audits: u64,
    /// Counts that an audit found wrong.
    pub audit_mismatches: u64,
    /// Responses that were cut because their clients took them too slowly.
    pub cut_too_slow: u64,
    /// Responses that were cut because they lasted too long.
    pub cut_too_long: u64,
    /// Responses that nobody watched, for want of room.
    pub unwatched: u64,
    /// Looks at which a cut had to wait for a descriptor.
    pub cuts_put_off: u64,
    /// Faults that were caught.
    pub faults: u64,
    /// Leases of dead children, by what they were found doing.
    pub reaped: Reaped,
}

/// Reads everything but the keys: what a table of millions must not make slow. `now` is of the
/// clock that [`Holder::new`](super::Holder::new) has.
pub fn read(segment: &Segment, now: u64) -> Reading {
    Reading {
        fleet: segment.breaker().health(now),
        leases: read_leases(segment),
        rules: segment.ledger().iter().collect(),
        untracked: segment.read(Counter::Untracked),
        evictions: segment.read(Counter::Evictions),
        exempt: segment.read(Counter::Exempt),
        left_out: segment.read(Counter::LeftOut),
        audits: segment.read(Counter::Audits),
        audit_mismatches: segment.read(Counter::AuditMismatches),
        cut_too_slow: segment.read(Counter::CutTooSlow),
        cut_too_long: segment.read(Counter::CutTooLong),
        unwatched: segment.read(Counter::Unwatched),
        cuts_put_off: segment.read(Counter::CutsPutOff),
        faults: segment.read(Counter::Faults),
        reaped: Reaped {
            pending: segment.read(Counter::ReapedPending),
            held: segment.read(Counter::ReapedHeld),
            releasing: segment.read(Counter::ReapedReleasing),
            released: segment.read(Counter::ReapedReleased),
        },
    }
}

/// One key of the table, without its name.
pub struct Seen {
    /// In which count.
    pub count: CountId,
    /// How often it is held.
    pub held: u32,
    /// What is known of its rate.
    pub rate: u64,
    tag: u64,
    cell: &'static Cell,
    label: &'static Label,
}

impl Seen {
    /// What it is called; none if the cell has become another key's meanwhile. Most are
    /// never asked: names are what costs.
    pub fn name(&self) -> Option<KeyName> {
        let entry = self.cell.read(self.label)?;
        (entry.tag == self.tag).then_some(entry.beside)
    }
}

/// Goes through all keys, and counts them. `now` as for [`read`].
pub fn scan(segment: &Segment, now: u64, mut see: impl FnMut(Seen)) -> KeyTally {
    let cells = segment.table.cells;
    let mut tally = KeyTally {
        capacity: cells.len() as u64,
        ..KeyTally::default()
    };
    for (cell, label) in cells.iter().zip(segment.table.labels) {
        // Most cells have no key: one load tells.
        if cell.state.load(Relaxed) == 0 {
            continue;
        }
        let Some(Entry {
            state,
            tag,
            count,
            rate,
            ..
        }) = cell.read_with(|| ())
        else {
            continue;
        };
        let is_frozen = rating::frozen_for(rate, now).is_some();
        tally.used += 1;
        tally.rated += u64::from(!rating::is_spent(rate, now));
        tally.frozen += u64::from(is_frozen);
        tally.held += u64::from(!is_frozen && state.count() > 0);
        see(Seen {
            count,
            held: state.count(),
            rate,
            tag,
            cell,
            label,
        });
    }
    tally
}

fn read_leases(segment: &Segment) -> LeaseTally {
    let words = segment.table.words;
    let mut tally = LeaseTally {
        capacity: words.len() as u64,
        ..LeaseTally::default()
    };
    for word in words {
        match Word(word.load(Relaxed)).kind() {
            Kind::Free => {}
            Kind::Pending => tally.pending += 1,
            Kind::Held => tally.held += 1,
            Kind::Releasing => tally.releasing += 1,
            Kind::Released => tally.released += 1,
        }
    }
    tally
}
