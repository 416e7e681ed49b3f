//! Which keys are nearest to the limits of the rules. Rules that compare with the same counts
//! in the same way share what is found, so that a pass over a large table stays a pass.

use std::collections::HashMap;
use std::net::IpAddr;

use super::highest::Highest;
use super::names::key;
use super::{Kind, Meta, Scene, What};
use crate::limit::address::Address;
use crate::limit::rating::Limit;
use crate::limit::rule::{Count, Scope};
use crate::report::holder::Holder;
use crate::report::snapshot::{BUSIEST, BusyKey};
use crate::store::{KeyName, RuleRecord, Seen};

/// A pass over all keys for whichever are the busiest.
pub struct Busiest<'r> {
    groups: Vec<Group<'r>>,
    /// The groups that compare with each count.
    compared: HashMap<u64, Vec<usize>>,
}

impl<'r> Busiest<'r> {
    /// Of these rules; `records` are all that there are.
    pub fn new(
        scene: &Scene<'_>,
        records: &[RuleRecord],
        rules: &'r [(&RuleRecord, Meta)],
    ) -> Busiest<'r> {
        let groups = groups(scene, rules);
        let compared = compared(records, &groups);
        Busiest { groups, compared }
    }

    /// Looks at a key of the table.
    pub fn see(&mut self, scene: &Scene<'_>, seen: &Seen) {
        if seen.held == 0 && seen.rate == 0 {
            return;
        }
        for at in self.compared.get(&seen.count.0).into_iter().flatten() {
            if let Some(Group { alike, keys, .. }) = self.groups.get_mut(*at) {
                let used = alike.measure.used(seen, scene.nanos);
                if used > 0 {
                    keys.offer(used, || alike.name(scene, seen));
                }
            }
        }
    }

    /// What was found, by rule.
    pub fn finish(
        self,
        scene: &Scene<'_>,
        rules: &[(&RuleRecord, Meta)],
        holders: &[Holder],
    ) -> Vec<Vec<BusyKey>> {
        let workers =
            |(rule, meta): &(&RuleRecord, Meta)| busiest_workers(scene, rule, meta, holders);
        let mut all: Vec<Vec<BusyKey>> = rules.iter().map(workers).collect();
        for group in self.groups {
            let keys: Vec<(u64, String)> = group.keys.finish().0.collect();
            for at in group.rules {
                all[at] = rows(&keys, rules[at].1.most());
            }
        }
        all
    }
}

/// Rules that compare with the same counts in the same way, and which keys of these are the
/// busiest.
struct Group<'r> {
    alike: Alike<'r>,
    rules: Vec<usize>,
    keys: Highest<String>,
}

/// What rules of one group have in common.
#[derive(PartialEq)]
struct Alike<'r> {
    measure: Measure,
    family: u64,
    /// The only virtual host whose counts matter; none for all.
    vhost: Option<&'r str>,
    /// A rule that is not for every client.
    narrow: Option<u64>,
}

/// How the use of a limit is measured.
#[derive(PartialEq)]
enum Measure {
    /// By its count.
    Held,
    /// By the word of its rate.
    Rate(Limit),
}

/// The rules whose keys are in the table, by what they compare with.
fn groups<'r>(scene: &Scene<'_>, rules: &'r [(&RuleRecord, Meta)]) -> Vec<Group<'r>> {
    let mut groups: Vec<Group<'r>> = Vec::new();
    let mut known: HashMap<(u64, Option<&str>), Vec<usize>> = HashMap::new();
    for (at, (rule, meta)) in rules.iter().enumerate() {
        let measure = match meta.what {
            What::Places { meaning, .. } if meaning.count != Count::Workers => Some(Measure::Held),
            What::Rate(rate) => rate.limit().map(Measure::Rate),
            _ => None,
        };
        let Some(measure) = measure else {
            continue;
        };
        let alike = Alike {
            measure,
            family: meta.family,
            vhost: rule.vhost.as_deref().filter(|_| meta.is_of_vhost()),
            narrow: scene.audience.is_narrow(rule.id).then_some(rule.id),
        };
        let here = known.entry((alike.family, alike.vhost)).or_default();
        match here.iter().find(|group| groups[**group].alike == alike) {
            Some(group) => groups[*group].rules.push(at),
            None => {
                here.push(groups.len());
                groups.push(Group {
                    alike,
                    rules: vec![at],
                    keys: Highest::new(BUSIEST),
                });
            }
        }
    }
    groups
}

/// Which groups compare with the count of each name: those of its family, but one of a
/// virtual host only with what is counted there.
fn compared(records: &[RuleRecord], groups: &[Group<'_>]) -> HashMap<u64, Vec<usize>> {
    let mut known: HashMap<(u64, Option<&str>), Vec<usize>> = HashMap::new();
    for (at, Group { alike, .. }) in groups.iter().enumerate() {
        known
            .entry((alike.family, alike.vhost))
            .or_default()
            .push(at);
    }
    let of_record = |record: &RuleRecord| {
        let family = Meta::unpack(record.meta)?.family;
        let hosts = [None, record.vhost.as_deref()];
        let hosts = &hosts[..1 + usize::from(record.vhost.is_some())];
        let here = hosts.iter().filter_map(|host| known.get(&(family, *host)));
        Some((record.id, here.flatten().copied().collect()))
    };
    records.iter().filter_map(of_record).collect()
}

/// The clients that hold most workers, of a rule that counts those and not keys of the table.
fn busiest_workers(
    scene: &Scene<'_>,
    rule: &RuleRecord,
    meta: &Meta,
    holders: &[Holder],
) -> Vec<BusyKey> {
    match meta.what {
        What::Places { meaning, .. } if meaning.count == Count::Workers => {}
        _ => return Vec::new(),
    }
    let mut clients = Highest::new(BUSIEST);
    for holder in holders {
        clients.offer(holder.workers.into(), || {
            let is_governed = address(&holder.client)
                .is_none_or(|client| scene.audience.includes(rule.id, client));
            is_governed.then(|| holder.client.clone())
        });
    }
    let clients: Vec<(u64, String)> = clients.finish().0.collect();
    rows(&clients, meta.most())
}

/// Of what [`super::client`] makes.
fn address(client: &str) -> Option<Address> {
    let (address, _) = client.split_once('/').unwrap_or((client, ""));
    address.parse().ok().map(IpAddr::into)
}

fn rows(keys: &[(u64, String)], limit: u64) -> Vec<BusyKey> {
    let row = |(count, key): &(u64, String)| BusyKey {
        key: key.clone(),
        count: *count,
        limit,
    };
    keys.iter().map(row).collect()
}

impl Alike<'_> {
    /// What a key is called; None for one that the rule is not for, too.
    fn name(&self, scene: &Scene<'_>, seen: &Seen) -> Option<String> {
        let name = seen.name()?;
        if let (Some(rule), KeyName::Client(client)) = (self.narrow, &name)
            && !scene.audience.includes(rule, *client)
        {
            return None;
        }
        Some(key(&name, scene.prefix))
    }
}

impl Measure {
    fn used(&self, seen: &Seen, now: u64) -> u64 {
        match self {
            Measure::Held => seen.held.into(),
            Measure::Rate(limit) => limit.used(seen.rate, now).into(),
        }
    }
}

impl Meta {
    /// How much a key may have.
    fn most(&self) -> u64 {
        match self.what {
            What::Places { limit, .. } => limit.into(),
            What::Rate(rate) => match rate.kind {
                Kind::Bucket { burst, .. } => burst.into(),
                Kind::Window { .. } => rate.number.into(),
            },
            What::Guard(_) | What::Shared => 0,
        }
    }

    /// Whether what it counts is of a virtual host: each has its own.
    pub(super) fn is_of_vhost(&self) -> bool {
        match self.what {
            What::Places { meaning, .. } => meaning.scope == Scope::Vhost,
            What::Rate(rate) => rate.scope == Scope::Vhost,
            What::Guard(_) | What::Shared => false,
        }
    }
}
