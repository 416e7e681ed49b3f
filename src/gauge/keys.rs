//! The table of keys: the highest counts, who is frozen longest, and which keys are nearest
//! to the limits of the rules. A pass over all keys makes names only of the few that are told.

use std::collections::HashMap;

use super::highest::Highest;
use super::names::key;
use super::{Meta, Scene, What};
use crate::limit::rating::{self, Limit};
use crate::limit::rule::{Count, Scope};
use crate::report::holder::Holder;
use crate::report::snapshot::{BUSIEST, BusyKey, CountRow, FrozenRow, MOST};
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

/// A rule, and which keys of it are the busiest.
struct Busiest {
    limit: Measure,
    keys: Highest<String>,
}

/// How the use of a limit is measured.
enum Measure {
    /// By its count.
    Held(u64),
    /// By the word of its rate.
    Rate(Limit),
}

/// Goes through all keys. `rules` are those whose busiest keys are wanted, `records` all.
pub fn read(
    scene: &Scene<'_>,
    records: &[RuleRecord],
    rules: &[(&RuleRecord, Meta)],
    holders: &[Holder],
) -> KeysRead {
    let mut busiest: Vec<Option<Busiest>> = rules.iter().map(|(_, meta)| of_rule(meta)).collect();
    let families = families(records, rules);
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
        if seen.held == 0 && seen.rate == 0 {
            return;
        }
        for at in families.get(&id).into_iter().flatten() {
            if let Some(Some(Busiest { limit, keys })) = busiest.get_mut(*at) {
                let used = limit.used(&seen, scene.nanos);
                if used > 0 {
                    keys.offer(used, || name_of(&seen));
                }
            }
        }
    });
    let names: HashMap<u64, &RuleRecord> =
        records.iter().map(|record| (record.id, record)).collect();
    let record = |id: u64| {
        let record = names.get(&id);
        let rule = record.map_or_else(|| String::from("?"), |record| record.name.clone());
        (rule, record.and_then(|record| record.vhost.clone()))
    };
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
    let busiest = busiest.into_iter().zip(rules);
    KeysRead {
        tally,
        counts: counts.collect(),
        counts_left_out,
        frozen: frozen.collect(),
        frozen_left_out,
        busiest: busiest
            .map(|(busiest, (_, meta))| match busiest {
                Some(busiest) => busiest.finish(),
                None => busiest_workers(meta, holders),
            })
            .collect(),
    }
}

/// How the keys of a rule are measured; None where its keys are not in the table.
fn of_rule(meta: &Meta) -> Option<Busiest> {
    let limit = match meta.what {
        What::Places { limit, meaning } if meaning.count != Count::Workers => {
            Measure::Held(limit.into())
        }
        What::Rate(rate) => Measure::Rate(rate.limit()?),
        _ => return None,
    };
    Some(Busiest {
        limit,
        keys: Highest::new(BUSIEST),
    })
}

/// Which rules compare with the count of each name: those of its family, but a rule of a
/// virtual host only with what is counted there.
fn families(records: &[RuleRecord], rules: &[(&RuleRecord, Meta)]) -> HashMap<u64, Vec<usize>> {
    let mut by_family: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, (_, meta)) in rules.iter().enumerate() {
        by_family.entry(meta.family).or_default().push(at);
    }
    let of_record = |record: &RuleRecord| {
        let family = Meta::unpack(record.meta)?.family;
        let here = by_family.get(&family)?.iter().copied().filter(|at| {
            let (rule, meta) = rules[*at];
            !meta.is_of_vhost() || rule.vhost.is_none() || rule.vhost == record.vhost
        });
        Some((record.id, here.collect()))
    };
    records.iter().filter_map(of_record).collect()
}

/// The clients that hold most workers: their rule counts those, not keys of the table.
fn busiest_workers(meta: &Meta, holders: &[Holder]) -> Vec<BusyKey> {
    let What::Places { limit, .. } = meta.what else {
        return Vec::new();
    };
    let mut clients = Highest::new(BUSIEST);
    for holder in holders {
        clients.offer(holder.workers.into(), || Some(holder.client.clone()));
    }
    rows(clients, limit.into())
}

fn rows(keys: Highest<String>, limit: u64) -> Vec<BusyKey> {
    let (keys, _) = keys.finish();
    keys.map(|(count, key)| BusyKey { key, count, limit })
        .collect()
}

impl Busiest {
    fn finish(self) -> Vec<BusyKey> {
        let limit = match self.limit {
            Measure::Held(limit) => limit,
            Measure::Rate(Limit::Bucket(bucket)) => bucket.burst.into(),
            Measure::Rate(Limit::Window(window)) => window.rate.number.into(),
        };
        rows(self.keys, limit)
    }
}

impl Measure {
    fn used(&self, seen: &Seen, now: u64) -> u64 {
        match self {
            Measure::Held(_) => seen.held.into(),
            Measure::Rate(limit) => limit.used(seen.rate, now).into(),
        }
    }
}

impl Meta {
    fn is_of_vhost(&self) -> bool {
        match self.what {
            What::Places { meaning, .. } => meaning.scope == Scope::Vhost,
            What::Rate(rate) => rate.scope == Scope::Vhost,
            What::Guard(_) | What::Shared => false,
        }
    }
}
