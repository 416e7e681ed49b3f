//! The table of keys: the highest counts, who is frozen longest, and which keys are nearest
//! to the limits of the rules. A pass over all keys makes names only of the few that are told.

use std::collections::HashMap;

use super::busiest::Busiest;
use super::highest::Highest;
use super::names::{key, of_record};
use super::{Meta, Scene};
use crate::limit::rating;
use crate::report::holder::Holder;
use crate::report::snapshot::{BusyKey, CountRow, FrozenRow, MOST};
use crate::store::{self, KeyTally, RuleRecord, Seen};

/// What there is to tell of keys.
pub struct KeysRead {
    pub tally: KeyTally,
    pub counts: Vec<CountRow>,
    pub counts_left_out: u64,
    pub frozen: Vec<FrozenRow>,
    pub frozen_left_out: u64,
    /// By the rules that were asked for.
    pub busiest: Vec<Vec<BusyKey>>,
}

/// Goes through all keys. `rules` are those whose busiest keys are wanted, `records` all.
pub fn read(
    scene: &Scene<'_>,
    records: &[RuleRecord],
    rules: &[(&RuleRecord, Meta)],
    holders: &[Holder],
) -> KeysRead {
    let mut busiest = Busiest::new(scene, records, rules);
    let name_of = |seen: &Seen| Some(key(&seen.name()?, scene.prefix));
    let mut counts = Highest::new(MOST);
    let mut frozen = Highest::new(MOST);
    let tally = store::scan(scene.segment, scene.nanos, |seen| {
        let id = seen.count.0;
        let left = rating::frozen_for(seen.rate, scene.nanos);
        if let Some(left) = left {
            let millis = left.as_millis() as u64;
            frozen.offer(millis, || Some((name_of(&seen)?, id)));
        } else if seen.held > 0 {
            counts.offer(seen.held.into(), || Some((name_of(&seen)?, id)));
        }
        busiest.see(scene, &seen);
    });
    let names: HashMap<u64, &RuleRecord> =
        records.iter().map(|record| (record.id, record)).collect();
    let record = |id: u64| of_record(names.get(&id).copied());
    let (counts, counts_left_out) = counts.finish();
    let counts = counts.map(|(count, (key, id))| {
        let (rule, vhost) = record(id);
        CountRow {
            rule,
            vhost,
            key,
            count,
        }
    });
    let (frozen, frozen_left_out) = frozen.finish();
    let frozen = frozen.map(|(millis, (key, id))| {
        let (rule, vhost) = record(id);
        FrozenRow {
            rule,
            vhost,
            key,
            seconds_left: millis.div_ceil(1000),
        }
    });
    let busiest = busiest.finish(scene, rules, holders);
    KeysRead {
        tally,
        counts: counts.collect(),
        counts_left_out,
        frozen: frozen.collect(),
        frozen_left_out,
        busiest,
    }
}
