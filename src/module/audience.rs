//! Whom rules are for where one of several like rules has `for=`: they share their counts, and
//! the status page is to show each client under its own. Rules of .htaccess files are not
//! known here, and taken to be for everybody.

use std::collections::{HashMap, HashSet};

use super::inventory::Inventory;
use super::rules::Placed;
use crate::gauge;
use crate::limit::address::Address;
use crate::limit::policy;

/// The rules that stand where some rule has `for=`.
pub fn narrow<'p>(inventory: &Inventory<'p>) -> Vec<&'p Placed<'p>> {
    let has_networks = |rule: &&Placed<'_>| !rule.networks.is_empty();
    let places = inventory.rules().filter(has_networks);
    let places: HashSet<u64> = places.map(|rule| rule.count.get().0).collect();
    inventory
        .rules()
        .filter(|rule| places.contains(&rule.count.get().0))
        .collect()
}

/// These rules, to be found again.
pub struct Audience<'p> {
    by_id: HashMap<u64, &'p Placed<'p>>,
    by_place: HashMap<u64, Vec<&'p Placed<'p>>>,
}

impl<'p> Audience<'p> {
    /// Of these rules.
    pub fn of(narrow: &[&'p Placed<'p>]) -> Audience<'p> {
        let mut by_place: HashMap<u64, Vec<&Placed<'_>>> = HashMap::new();
        for rule in narrow {
            by_place.entry(rule.count.get().0).or_default().push(rule);
        }
        Audience {
            by_id: narrow.iter().map(|rule| (rule.id.get().0, *rule)).collect(),
            by_place,
        }
    }
}

impl gauge::Audience for Audience<'_> {
    fn is_narrow(&self, rule: u64) -> bool {
        self.by_id.contains_key(&rule)
    }

    fn includes(&self, rule: u64, client: Address) -> bool {
        let Some(rule) = self.by_id.get(&rule) else {
            return true;
        };
        let beside = self.by_place.get(&rule.count.get().0);
        beside.is_none_or(|beside| policy::is_for(beside, *rule, client))
    }
}
