//! The rules' own counters: what each has let through and refused since start.
//!
//! Records are found by the rule's id, never by a number that a reload could
//! shift. None is ever given up, so that old children go on writing to the rule
//! that they mean; when no record is free near its place a rule has none.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::{step, words};

/// Bytes of a name that are kept.
pub const NAME: usize = 160;
/// Bytes of a virtual host that are kept.
pub const VHOST: usize = 64;
/// Words in which a caller packs what a rule says.
pub const META: usize = 4;
/// How far from its place a record may lie: bounds what a lookup costs.
const REACH: u32 = 64;

/// One rule.
#[repr(C, align(64))]
pub struct Record {
    /// 0 while free.
    id: AtomicU64,
    meta: [AtomicU64; META],
    /// By [`Fate`].
    counters: [AtomicU64; FATES],
    generation: AtomicU32,
    /// 1 once the texts are whole.
    ready: AtomicU32,
    /// Of the name, and of the vhost plus 1 (0: none).
    lengths: [AtomicU32; 2],
    name: [AtomicU64; NAME / 8],
    vhost: [AtomicU64; VHOST / 8],
    /// What the keys are of the count with this id; 0 where no count has it.
    keys: AtomicU64,
    /// What the rule is of which that is the count, or the rules.
    of: [AtomicU64; META],
}

/// What became of a request that a rule was asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Let through, at once or after its turn had come.
    Passed,
    /// Refused.
    Refused,
    /// It would have been refused, were it not a dry run.
    RefusedDryRun,
    /// It had to wait for its turn.
    Delayed,
    /// It would have had to wait, were it not a dry run.
    DelayedDryRun,
    /// An exemption spared it.
    Exempt,
}

/// One more than the last.
const FATES: usize = Fate::Exempt as usize + 1;

/// The number of a record, good for as long as the segment lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct RecordIndex(pub u32);

/// A rule, as read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleRecord {
    /// The rule's id.
    pub id: u64,
    /// What the last caller packed.
    pub meta: [u64; META],
    /// Its name, cut at 160 bytes.
    pub name: String,
    /// Its virtual host, cut at 64 bytes.
    pub vhost: Option<String>,
    /// How many requests met each fate.
    counters: [u64; FATES],
    /// What the last [`Ledger::touch`] said.
    pub generation: u32,
    /// What [`Ledger::describe`] said of the keys; 0 where nobody did.
    pub keys: u64,
    /// What it said of the rule.
    pub of: [u64; META],
}

/// All records.
#[derive(Clone, Copy)]
pub struct Ledger {
    records: &'static [Record],
}

impl Ledger {
    pub(super) fn new(records: &'static [Record]) -> Self {
        Ledger { records }
    }

    /// The record of the rule with this id; made with this `meta` if there is none.
    /// None when there is no room. An id of 0 is taken as 1; the same id must
    /// always come with the same texts: those of the first caller stay.
    pub fn register(
        &self,
        id: u64,
        meta: [u64; META],
        name: &str,
        vhost: Option<&str>,
    ) -> Option<RecordIndex> {
        let id = id.max(1);
        let count = self.records.len() as u32;
        let home = ((u128::from(id) * u128::from(count)) >> 64) as u32;
        for i in 0..count.min(REACH) {
            let index = (home + i) % count;
            let record = &self.records[index as usize];
            let owner = match record.id.load(Acquire) {
                // A free record is claimed by its id alone: one process wins,
                // and the loser sees whose it is.
                0 => match record.id.compare_exchange(0, id, AcqRel, Acquire) {
                    Ok(_) => id,
                    Err(owner) => owner,
                },
                owner => owner,
            };
            if owner != id {
                continue;
            }
            step();
            // Acquire: pairs with the Release below.
            if record.ready.load(Acquire) == 0 {
                // Several may write here, and one may die: all write the same.
                record.write(name, vhost);
                // Release: pairs with the Acquire of `get`: the texts are whole.
                record.ready.store(1, Release);
            }
            if record.meta() == [0; META] {
                record.set_meta(meta);
            }
            return Some(RecordIndex(index));
        }
        None
    }

    /// Gives the record another `meta`, where the rule turns out to mean something else.
    #[inline]
    pub fn redefine(&self, index: RecordIndex, meta: [u64; META]) {
        if let Some(record) = self.records.get(index.0 as usize)
            && record.meta() != meta
        {
            record.set_meta(meta);
        }
    }

    /// Whether the record's `meta` begins with this word; true for a record that is not
    /// there.
    #[inline]
    pub fn begins_with(&self, index: RecordIndex, word: u64) -> bool {
        let record = self.records.get(index.0 as usize);
        record.is_none_or(|record| record.meta[0].load(Relaxed) == word)
    }

    /// Says what the count is about that has the same id: what its keys are, in a word of the
    /// caller's, and which rule or rules it is of, in the words of a `meta`.
    pub fn describe(&self, index: RecordIndex, keys: u64, of: [u64; META]) {
        if let Some(record) = self.records.get(index.0 as usize) {
            for (word, value) in record.of.iter().zip(of) {
                word.store(value, Relaxed);
            }
            record.keys.store(keys, Relaxed);
        }
    }

    /// Whether somebody has said so.
    pub fn is_described(&self, index: RecordIndex) -> bool {
        let record = self.records.get(index.0 as usize);
        // Acquire: pairs with the Release of `register`.
        record
            .is_some_and(|record| record.ready.load(Acquire) != 0 && record.keys.load(Relaxed) != 0)
    }

    /// Counts a request that the rule was asked about.
    #[inline]
    pub fn count(&self, index: RecordIndex, fate: Fate) {
        if let Some(record) = self.records.get(index.0 as usize) {
            record.counters[fate as usize].fetch_add(1, Relaxed);
        }
    }

    /// Notes in which generation of the configuration the rule was last seen.
    pub fn touch(&self, index: RecordIndex, generation: u32) {
        if let Some(record) = self.records.get(index.0 as usize) {
            // An old child must not take the rule from the new generation.
            record.generation.fetch_max(generation, Relaxed);
        }
    }

    /// One record; none if it is free or not finished.
    pub fn get(&self, index: RecordIndex) -> Option<RuleRecord> {
        let record = self.records.get(index.0 as usize)?;
        // Acquire: pairs with the Release of `register`.
        if record.ready.load(Acquire) == 0 {
            return None;
        }
        let [name, vhost] = [0, 1].map(|i: usize| record.lengths[i].load(Relaxed));
        Some(RuleRecord {
            id: record.id.load(Relaxed),
            meta: record.meta(),
            name: read_text(&record.name, name),
            vhost: vhost
                .checked_sub(1)
                .map(|length| read_text(&record.vhost, length)),
            counters: record
                .counters
                .each_ref()
                .map(|number| number.load(Relaxed)),
            generation: record.generation.load(Relaxed),
            keys: record.keys.load(Relaxed),
            of: record.of.each_ref().map(|word| word.load(Relaxed)),
        })
    }

    /// All records that have a rule.
    pub fn iter(&self) -> impl Iterator<Item = RuleRecord> {
        let ledger = *self;
        (0..self.records.len() as u32).filter_map(move |index| ledger.get(RecordIndex(index)))
    }

    /// How many requests met this fate, of all rules together.
    pub fn sum(&self, fate: Fate) -> u64 {
        // Acquire: as in `get`.
        let ready = |record: &&Record| record.ready.load(Acquire) != 0;
        let met = |record: &Record| record.counters[fate as usize].load(Relaxed);
        let all = self.records.iter().filter(ready).map(met);
        all.fold(0, u64::saturating_add)
    }
}

impl RuleRecord {
    /// How many requests met this fate.
    pub fn count(&self, fate: Fate) -> u64 {
        self.counters[fate as usize]
    }
}

impl Record {
    fn meta(&self) -> [u64; META] {
        self.meta.each_ref().map(|word| word.load(Relaxed))
    }

    /// Word by word: a reader may see a mixture of two meanings for a moment.
    fn set_meta(&self, meta: [u64; META]) {
        for (word, value) in self.meta.iter().zip(meta) {
            word.store(value, Relaxed);
        }
    }

    fn write(&self, name: &str, vhost: Option<&str>) {
        let length = write_text(&self.name, name);
        step();
        self.lengths[0].store(length, Relaxed);
        let length = vhost.map_or(0, |vhost| write_text(&self.vhost, vhost) + 1);
        step();
        self.lengths[1].store(length, Relaxed);
    }
}

/// Writes as much of the text as fits, whole characters only; its length.
fn write_text(array: &[AtomicU64], text: &str) -> u32 {
    let kept = &text[..text.floor_char_boundary(array.len() * 8)];
    words::write(array, kept.as_bytes()) as u32
}

fn read_text(array: &[AtomicU64], length: u32) -> String {
    String::from_utf8_lossy(&words::read(array, length as usize)).into_owned()
}
