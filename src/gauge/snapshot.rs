//! All there is to see, at one moment.

use std::collections::HashMap;
use std::time::Duration;

use super::names::key;
use super::worker::pool;
use super::{Kind, Meta, Scene, holders};
use crate::report::snapshot::{CountRow, FrozenRow, Keys, Leases, Reaped, RuleRow, Snapshot};
use crate::store::{self, Fate, RuleRecord};

/// What there is to see now.
pub fn snapshot(scene: &Scene<'_>) -> Snapshot {
    let reading = store::read(scene.segment, scene.nanos);
    let names: HashMap<u64, &RuleRecord> =
        reading.rules.iter().map(|rule| (rule.id, rule)).collect();
    let counts = reading.counts.iter().map(|count| {
        let record = names.get(&count.count.0);
        CountRow {
            rule: record.map_or_else(|| String::from("?"), |record| record.name.clone()),
            vhost: record.and_then(|record| record.vhost.clone()),
            key: key(&count.name, scene.prefix),
            count: count.value.into(),
        }
    });
    let frozen = reading.frozen.iter().map(|frozen| {
        let record = names.get(&frozen.count.0);
        FrozenRow {
            rule: record.map_or_else(|| String::from("?"), |record| record.name.clone()),
            vhost: record.and_then(|record| record.vhost.clone()),
            key: key(&frozen.name, scene.prefix),
            seconds_left: frozen.left.as_millis().div_ceil(1000) as u64,
        }
    });
    let current = reading
        .rules
        .iter()
        .filter(|rule| rule.generation == scene.generation);
    let rules = current.filter_map(row_of);
    Snapshot {
        version: env!("CARGO_PKG_VERSION").into(),
        httpd: scene.httpd.into(),
        pool: pool(scene.workers, scene.max_workers),
        holders: holders(scene),
        rules: rules.collect(),
        counts: counts.collect(),
        frozen: frozen.collect(),
        leases: Leases {
            capacity: reading.leases.capacity,
            pending: reading.leases.pending,
            held: reading.leases.held,
            releasing: reading.leases.releasing,
            released: reading.leases.released,
        },
        keys: Keys {
            capacity: reading.keys.capacity,
            used: reading.keys.used,
            held: reading.keys.held,
            rated: reading.keys.rated,
            frozen: reading.frozen.len() as u64,
        },
        evictions: reading.evictions,
        untracked: reading.untracked,
        exempt: reading.exempt,
        log_lines_left_out: reading.left_out,
        audits: reading.audits,
        audit_mismatches: reading.audit_mismatches,
        cut_too_slow: reading.cut_too_slow,
        cut_too_long: reading.cut_too_long,
        unwatched: reading.unwatched,
        cuts_put_off: reading.cuts_put_off,
        faults: reading.faults,
        reaped: Reaped {
            pending: reading.reaped.pending,
            held: reading.reaped.held,
            releasing: reading.reaped.releasing,
            released: reading.reaped.released,
        },
    }
}

/// What a rule's record says; None for a count that is no single rule's.
fn row_of(record: &RuleRecord) -> Option<RuleRow> {
    let of_all = RuleRow {
        rule: record.name.clone(),
        vhost: record.vhost.clone(),
        passed: record.count(Fate::Passed),
        refused: record.count(Fate::Refused),
        refused_dry_run: record.count(Fate::RefusedDryRun),
        delayed: record.count(Fate::Delayed),
        delayed_dry_run: record.count(Fate::DelayedDryRun),
        ..RuleRow::default()
    };
    let millis = |time: Duration| time.as_millis() as u64;
    Some(match Meta::unpack(record.meta)? {
        Meta::Places { limit, meaning } => RuleRow {
            limit: limit.into(),
            scope: meaning.scope.word().into(),
            count: meaning.count.word().into(),
            busy: meaning.busy,
            ..of_all
        },
        Meta::Rate(rate) => {
            let (count, burst, freeze) = match rate.kind {
                Kind::Bucket { burst } => ("rate", Some(burst), None),
                Kind::Window { freeze } => ("hits", None, freeze),
            };
            RuleRow {
                limit: rate.number.into(),
                scope: rate.scope.word().into(),
                count: count.into(),
                period_milliseconds: Some(millis(rate.period)),
                burst,
                freeze_milliseconds: freeze.map(millis),
                ..of_all
            }
        }
    })
}
