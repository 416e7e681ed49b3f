//! All there is to see, at one moment.

use std::time::Duration;

use super::keys;
use super::worker::pool;
use super::{Guard, Kind, Meta, Scene, What, holders};
use crate::report::fleet::Reach;
use crate::report::snapshot::{
    GuardRow, Keys, Leases, MOST, Pool, Reaped, RuleRow, SampleRow, Shared, Snapshot,
};
use crate::store::fleet::Health;
use crate::store::{self, Fate, RuleRecord, Sample};

/// What there is to see now.
pub fn snapshot(scene: &Scene<'_>) -> Snapshot {
    let reading = store::read(scene.segment, scene.nanos);
    let pool = pool(scene.workers, scene.max_workers);
    let mut holders = holders(scene);
    let current = reading
        .rules
        .iter()
        .filter(|rule| rule.generation == scene.generation)
        .filter_map(|record| Some((record, Meta::unpack(record.meta)?)));
    let (mut rules, guards): (Vec<_>, Vec<_>) = current.partition(|(_, meta)| meta.is_rule());
    rules.sort_by_key(|(record, meta)| (&record.vhost, &record.name, meta.pack()));
    let keys = keys::read(scene, &reading.rules, &rules, &holders);
    let holders_left_out = holders.len().saturating_sub(MOST) as u64;
    holders.truncate(MOST);
    let mut guards: Vec<GuardRow> = guards
        .iter()
        .filter_map(|(record, meta)| guard_row(record, meta, &pool))
        .collect();
    guards.sort_by(|one, other| (&one.vhost, &one.guard).cmp(&(&other.vhost, &other.guard)));
    let rules = rules
        .iter()
        .zip(keys.busiest)
        .filter_map(|((record, meta), busiest)| {
            Some(RuleRow {
                busiest,
                ..row_of(record, meta, &pool)?
            })
        });
    Snapshot {
        version: env!("CARGO_PKG_VERSION").into(),
        httpd: scene.httpd.into(),
        unix_milliseconds: scene.micros / 1000,
        guards,
        holders,
        holders_left_out,
        rules: rules.collect(),
        counts: keys.counts,
        counts_left_out: keys.counts_left_out,
        frozen: keys.frozen,
        frozen_left_out: keys.frozen_left_out,
        leases: Leases {
            capacity: reading.leases.capacity,
            pending: reading.leases.pending,
            held: reading.leases.held,
            releasing: reading.leases.releasing,
            released: reading.leases.released,
        },
        keys: Keys {
            capacity: keys.tally.capacity,
            used: keys.tally.used,
            held: keys.tally.held,
            rated: keys.tally.rated,
            frozen: keys.tally.frozen,
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
        history: history(scene),
        pool,
        shared: reading.fleet.map(shared),
    }
}

fn shared(health: Health) -> Shared {
    Shared {
        degraded: health.down_for.is_some(),
        degraded_seconds: health.down_for.map_or(0, |time| time.as_secs()),
        failure: health.failure.map(|failure| failure.word().into()),
        on_failure: health.on_failure.word().into(),
        asked: health.asked,
        missed: health.missed,
        outages: health.outages,
        uncounted: health.uncounted,
    }
}

/// The same in a few words for the log.
pub fn reach(health: Health) -> Reach {
    match health.down_for {
        None => Reach::Within,
        Some(time) => Reach::Degraded {
            seconds: time.as_secs(),
            failure: health.failure,
            consequence: health.on_failure.consequence(),
        },
    }
}

/// The samples of the last ten minutes.
fn history(scene: &Scene<'_>) -> Vec<SampleRow> {
    const TEN_MINUTES: u64 = 600_000_000;
    let since = scene.micros.saturating_sub(TEN_MINUTES);
    // The clock may have been set back since one was made.
    let is_shown = |sample: &Sample| (since..=scene.micros).contains(&sample.micros);
    let samples = scene.segment.history().read().into_iter();
    let row = |sample: Sample| SampleRow {
        unix_milliseconds: sample.micros / 1000,
        busy: sample.busy,
        passed: sample.passed,
        refused: sample.refused,
        refused_dry_run: sample.refused_dry_run,
        cut: sample.cut,
    };
    samples.filter(is_shown).map(row).collect()
}

/// What a rule's record says; None for what is no rule's.
fn row_of(record: &RuleRecord, meta: &Meta, pool: &Pool) -> Option<RuleRow> {
    let of_all = RuleRow {
        rule: record.name.clone(),
        vhost: record.vhost.clone(),
        dry_run: meta.dry_run,
        passed: record.count(Fate::Passed),
        refused: record.count(Fate::Refused),
        refused_dry_run: record.count(Fate::RefusedDryRun),
        delayed: record.count(Fate::Delayed),
        delayed_dry_run: record.count(Fate::DelayedDryRun),
        exempt: record.count(Fate::Exempt),
        ..RuleRow::default()
    };
    match meta.what {
        What::Places { limit, meaning } => Some(RuleRow {
            limit: limit.into(),
            scope: meaning.scope.word().into(),
            count: meaning.count.word().into(),
            busy: meaning.busy,
            busy_reached: meaning.busy.map(|percent| pool.reaches(percent)),
            ..of_all
        }),
        What::Rate(rate) => {
            let (count, burst, delay, freeze) = match rate.kind {
                Kind::Bucket { burst, delay } => ("rate", Some(burst), delay, None),
                Kind::Window { freeze } => ("hits", None, None, freeze),
            };
            Some(RuleRow {
                limit: rate.number.into(),
                scope: rate.scope.word().into(),
                count: count.into(),
                period_milliseconds: Some(millis(rate.period)),
                burst,
                delay,
                charged_by_status: rate.is_late,
                freeze_milliseconds: freeze.map(millis),
                ..of_all
            })
        }
        What::Guard(_) | What::Shared => None,
    }
}

fn guard_row(record: &RuleRecord, meta: &Meta, pool: &Pool) -> Option<GuardRow> {
    let What::Guard(guard) = meta.what else {
        return None;
    };
    let busy = match guard {
        Guard::MinRate(min) => min.busy,
        Guard::MaxTime(max) => max.busy,
        Guard::Alarm(percent) => Some(percent),
    };
    let of_all = GuardRow {
        guard: record.name.clone(),
        vhost: record.vhost.clone(),
        busy,
        busy_reached: busy.map(|percent| pool.reaches(percent)),
        ..GuardRow::default()
    };
    Some(match guard {
        Guard::MinRate(min) => GuardRow {
            bytes_per_second: Some(min.bytes),
            after_milliseconds: Some(millis(min.after)),
            window_milliseconds: Some(millis(min.window)),
            ..of_all
        },
        Guard::MaxTime(max) => GuardRow {
            longest_milliseconds: Some(millis(max.time)),
            ..of_all
        },
        Guard::Alarm(_) => of_all,
    })
}

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}
