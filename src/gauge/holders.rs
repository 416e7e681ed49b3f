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
    // With the age of the oldest in microseconds: of two in one second one is older.
    let mut holders: HashMap<Address, (u64, Holder)> = HashMap::new();
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
            since => scene.micros.saturating_sub(since),
        };
        let rule = work.rule.and_then(|at| scene.segment.ledger().get(at));
        let (host, path) = work.request.unzip();
        let rate = work
            .taken
            .map(|(bytes, millis)| bytes.saturating_mul(1000) / millis.max(1));
        let one = Holder {
            client: client(address, scene.prefix),
            workers: 1,
            oldest_seconds: age / 1_000_000,
            uri: path,
            rule: rule.map(|rule| rule.name),
            vhost: host.map(|host| String::from_utf8_lossy(&host).into_owned()),
            bytes_acknowledged: work.taken.map(|(bytes, _)| bytes),
            bytes_per_second: rate,
        };
        match holders.get_mut(&address) {
            None => {
                holders.insert(address, (age, one));
            }
            Some((oldest, known)) => {
                let workers = known.workers + 1;
                if age > *oldest {
                    (*oldest, *known) = (age, one);
                }
                known.workers = workers;
            }
        }
    }
    let mut all: Vec<Holder> = holders.into_values().map(|(_, holder)| holder).collect();
    all.sort_by(|one, other| {
        let order = |holder: &Holder| (holder.oldest_seconds, holder.workers);
        order(other)
            .cmp(&order(one))
            .then_with(|| one.client.cmp(&other.client))
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gauge::{Everybody, Worker};
    use crate::limit::address::Prefix;
    use crate::store::{Segment, Size};

    #[test]
    fn the_oldest_is_told_whatever_its_slot_also_within_a_second() {
        const NOW: u64 = 1_000_000_000;
        let size = Size {
            keys: 8,
            leases: 64,
            slots: 8,
            rules: 8,
        };
        let segment = Segment::create(size).unwrap();
        let client = |last| Address::from_v4([127, 0, 0, last]);
        let work = [
            (0, client(2), NOW - 2_100_000, "/younger"),
            (1, client(2), NOW - 2_900_000, "/oldest"),
            (2, client(2), NOW - 2_500_000, "/between"),
            (3, client(3), NOW - 2_950_000, "/other"),
        ];
        for (slot, who, since, path) in work {
            let owner = 7 << 32 | u64::from(slot);
            segment.identity().seat(slot, owner, who, 1);
            segment.desks().take(slot, owner, since);
            let uri = path.as_bytes();
            segment.desks().describe((slot, owner), None, b"host", uri);
        }
        let told = holders(&Scene {
            segment: &segment,
            workers: &[Worker::Writing; 8],
            max_workers: 8,
            generation: 1,
            prefix: Prefix::default(),
            has_rules: true,
            audience: &Everybody,
            httpd: "",
            nanos: 0,
            micros: NOW,
        });
        let told: Vec<_> = told
            .iter()
            .map(|holder| {
                let uri = holder.uri.as_deref().unwrap_or_default();
                let text = String::from_utf8_lossy(uri).into_owned();
                (
                    holder.client.as_str(),
                    holder.workers,
                    holder.oldest_seconds,
                    text,
                )
            })
            .collect();
        let expected = [
            ("127.0.0.2", 3, 2, "/oldest"),
            ("127.0.0.3", 1, 2, "/other"),
        ];
        assert_eq!(
            told,
            expected.map(|(who, n, age, uri)| (who, n, age, uri.to_owned()))
        );
    }
}
