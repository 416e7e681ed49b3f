//! Keys that are frozen by hand: in which windows, and why not.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::by_hand::{ByHand, zone_of};
use super::written::{Keys, Written};
use super::{Kind, Made, Meta, Rate, What};
use crate::limit::hand;
use crate::limit::key::CountId;
use crate::store::{Keyed, NoRoom, RuleRecord, Spot};

/// How long a change waits for an insert lock: those who have it have it for microseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// A count in which a key is frozen now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frozen {
    /// The name of the rule, or of the count that rules share.
    pub rule: String,
    /// Its virtual host, if it has one.
    pub vhost: Option<String>,
}

/// Why a key is frozen nowhere, or not everywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotFrozen {
    /// No rule has this name.
    NoSuchRule,
    /// It has, but is none that freezes.
    NoWindow,
    /// No rule that freezes has such keys.
    NoSuchKeys,
    /// Several zones could have it. It must not become known as a key of another than its own,
    /// which may be secret.
    WhichZone(Vec<String>),
    /// There was no room in the table; it is frozen in so many of so many counts.
    NoRoom(usize, usize),
}

impl ByHand<'_> {
    /// Freezes it for this time in all windows that have such keys, or in those of one rule
    /// only. `seconds` is of the clock by which keys grow stale.
    pub fn freeze(
        &self,
        time: Duration,
        rule: Option<&str>,
        seconds: u32,
    ) -> Result<Vec<Frozen>, NotFrozen> {
        let wanted = self.windows(rule)?;
        let spots = self.spots();
        let there: HashMap<u64, &Spot> = spots.iter().map(|spot| (spot.count.0, spot)).collect();
        let (prefix, secret) = (self.about.prefix, self.segment.secret());
        let is_text = matches!(self.written, Written::Text(_));
        let word = hand::frozen(time, self.nanos);
        let zones: BTreeSet<String> = wanted
            .iter()
            .filter(|(_, keys)| keys.made == Made::Text)
            .filter_map(|(record, _)| zone_of(&record.name).map(str::to_lowercase))
            .collect();
        if is_text && self.zone.is_none() && zones.len() > 1 {
            return Err(NotFrozen::WhichZone(zones.into_iter().collect()));
        }
        let (mut frozen, mut full) = (Vec::new(), 0);
        for (record, keys) in wanted {
            let count = CountId(record.id);
            let spot = there.get(&count.0);
            // An address is a text too, but where nobody says so it is the client that is meant.
            let is_meant = is_text || rule.is_some() || self.zone.is_some();
            let is_text_of_other = keys.made == Made::Text && !is_meant;
            let made = self
                .written
                .key_of(self.text, keys, prefix, secret)
                .filter(|_| !is_text_of_other);
            let done = match (spot, made) {
                (Some(spot), _) if self.segment.change_rate(spot, |_| Some(word)) => Ok(()),
                (_, Some((digest, name))) => {
                    let keyed = Keyed {
                        digest: digest.within(count),
                        count,
                        name,
                    };
                    let when = (seconds, self.nanos);
                    self.segment.set_rate(&keyed, word, when, PATIENCE)
                }
                (Some(_), None) | (None, None) => continue,
            };
            match done {
                Ok(()) => frozen.push(Frozen {
                    rule: record.name.clone(),
                    vhost: record.vhost.clone(),
                }),
                Err(NoRoom) => full += 1,
            }
        }
        match (frozen.len(), full) {
            (0, 0) => Err(NotFrozen::NoSuchKeys),
            (_, 0) => Ok(frozen),
            (done, full) => Err(NotFrozen::NoRoom(done, done + full)),
        }
    }

    /// The counts of windows of this generation, or of one rule of it.
    fn windows(&self, rule: Option<&str>) -> Result<Vec<(&RuleRecord, Keys)>, NotFrozen> {
        let is_current = |record: &&RuleRecord| record.generation == self.about.generation;
        let named: Vec<&RuleRecord> = match rule {
            None => Vec::new(),
            Some(name) => {
                let records = self.records.values().filter(is_current);
                records.filter(|record| record.name == name).collect()
            }
        };
        if rule.is_some() && named.is_empty() {
            return Err(NotFrozen::NoSuchRule);
        }
        let of_rule = |record: &RuleRecord, family: u64| {
            let is_its = |rule: &&RuleRecord| counts_in(rule, record, family);
            rule.is_none() || named.iter().any(is_its)
        };
        let mut windows: Vec<(&RuleRecord, Keys)> = self
            .records
            .values()
            .filter(is_current)
            .filter(|record| self.is_of_zone(Some(record)))
            .filter_map(|record| {
                let (keys, of) = (Keys::unpack(record.keys)?, Meta::unpack(record.of)?);
                let What::Rate(Rate { kind, .. }) = of.what else {
                    return None;
                };
                let is_window = matches!(kind, Kind::Window { .. });
                (is_window && of_rule(record, of.family)).then_some((record, keys))
            })
            .collect();
        windows.sort_by(|(one, _), (other, _)| {
            (&one.name, &one.vhost, one.id).cmp(&(&other.name, &other.vhost, other.id))
        });
        match windows.is_empty() {
            true => Err(NotFrozen::NoWindow),
            false => Ok(windows),
        }
    }
}

/// Whether this rule counts in the window of that record, which is of this family.
fn counts_in(rule: &RuleRecord, record: &RuleRecord, family: u64) -> bool {
    Meta::unpack(rule.meta).is_some_and(|own| {
        let is_everywhere = rule.vhost.is_none() || !own.is_of_vhost();
        own.family == family && (is_everywhere || rule.vhost == record.vhost)
    })
}
