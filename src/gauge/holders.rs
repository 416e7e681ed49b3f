//! Who holds the workers, and for how long.

use std::collections::HashMap;

use super::{Scene, client};
use crate::limit::address::Address;
use crate::report::holder::Holder;

/// Who holds busy workers, the one that holds one longest first; nobody without a rule: then
/// requests are not looked at, and whoever sits there may be a proxy.
pub fn holders(scene: &Scene<'_>) -> Vec<Holder> {
    if !scene.has_rules {
        return Vec::new();
    }
    let (identity, desks) = (scene.segment.identity(), scene.segment.desks());
    let mut holders: HashMap<Address, Holder> = HashMap::new();
    let slots = (0..)
        .zip(scene.workers)
        .filter(|(_, worker)| worker.is_busy());
    for (slot, _) in slots {
        let Some(address) = identity.seated(slot) else {
            continue;
        };
        let work = desks.read(slot).unwrap_or_default();
        let age = match work.since {
            0 => 0,
            since => scene.micros.saturating_sub(since) / 1_000_000,
        };
        let rule = work.rule.and_then(|at| scene.segment.ledger().get(at));
        let (host, path) = work.request.unzip();
        let rate = work
            .taken
            .map(|(bytes, millis)| bytes.saturating_mul(1000) / millis.max(1));
        let one = Holder {
            client: client(address, scene.prefix),
            workers: 1,
            oldest_seconds: age,
            uri: path,
            rule: rule.map(|rule| rule.name),
            vhost: host.map(|host| String::from_utf8_lossy(&host).into_owned()),
            bytes_acknowledged: work.taken.map(|(bytes, _)| bytes),
            bytes_per_second: rate,
        };
        match holders.get_mut(&address) {
            None => {
                holders.insert(address, one);
            }
            Some(known) => {
                let workers = known.workers + 1;
                if one.oldest_seconds > known.oldest_seconds {
                    *known = one;
                }
                known.workers = workers;
            }
        }
    }
    let mut all: Vec<Holder> = holders.into_values().collect();
    all.sort_by(|one, other| {
        let order = |holder: &Holder| (holder.oldest_seconds, holder.workers);
        order(other)
            .cmp(&order(one))
            .then_with(|| one.client.cmp(&other.client))
    });
    all
}
