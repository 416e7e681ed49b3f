//! Metrics of each rule and guard. Rules of one name on one host, such as two rates with
//! different periods, are one series.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};

use super::{Escaped, Family, head};
use crate::report::snapshot::{RuleRow, Snapshot};

/// What a series is of: a rule's name and its virtual host, empty for the main server.
type Place<'s> = (&'s str, &'s str);

/// A counter of each rule.
type Row = (Family, fn(&RuleRow) -> u64);

const COUNTERS: [Row; 6] = [
    (
        (
            "limitipconn_rule_passed",
            "Requests that the rule let through.",
        ),
        |row| row.passed,
    ),
    (
        (
            "limitipconn_rule_refused",
            "Requests that the rule refused.",
        ),
        |row| row.refused,
    ),
    (
        (
            "limitipconn_rule_refused_dry_run",
            "Requests that it would have refused, were it no dry run.",
        ),
        |row| row.refused_dry_run,
    ),
    (
        (
            "limitipconn_rule_delayed",
            "Requests that waited for their turn.",
        ),
        |row| row.delayed,
    ),
    (
        (
            "limitipconn_rule_delayed_dry_run",
            "Requests that would have waited, were it no dry run.",
        ),
        |row| row.delayed_dry_run,
    ),
    (
        (
            "limitipconn_rule_exempt",
            "Requests that an exemption spared of the rule.",
        ),
        |row| row.exempt,
    ),
];
const LIMIT: Family = (
    "limitipconn_rule_limit",
    "The rule's number; the lowest of rules of one name.",
);
const NEAREST: Family = (
    "limitipconn_rule_nearest_ratio",
    "How much of the limit the key has that is nearest to it.",
);
const RULE_ACTS: Family = (
    "limitipconn_rule_acts",
    "1 while the rule refuses what is over its number; 0 while fewer workers are busy than its busy= says.",
);
const GUARD_ACTS: Family = (
    "limitipconn_guard_acts",
    "1 while IPLimitMinRate, IPLimitMaxTime or IPLimitAlarm acts; 0 while fewer workers are busy than its busy= says.",
);

pub fn write(snapshot: &Snapshot, to: &mut String) -> fmt::Result {
    let mut rules: BTreeMap<Place<'_>, Vec<&RuleRow>> = BTreeMap::new();
    for row in &snapshot.rules {
        rules
            .entry(place(&row.rule, &row.vhost))
            .or_default()
            .push(row);
    }
    for (family, of) in COUNTERS {
        let sums = rules
            .iter()
            .map(|(place, rows)| (*place, rows.iter().map(|row| of(row)).sum::<u64>()));
        write_family(to, ("counter", "_total"), family, sums)?;
    }
    let lowest = |rows: &[&RuleRow]| rows.iter().map(|row| row.limit).min().unwrap_or(0);
    let limits = rules.iter().map(|(place, rows)| (*place, lowest(rows)));
    write_family(to, ("gauge", ""), LIMIT, limits)?;
    let highest = |rows: &[&RuleRow]| {
        let nearest = rows.iter().filter_map(|row| row.busiest.first());
        let ratios = nearest.map(|key| key.count as f64 / key.limit.max(1) as f64);
        ratios.fold(0.0, f64::max)
    };
    let ratios = rules.iter().map(|(place, rows)| (*place, highest(rows)));
    write_family(to, ("gauge", ""), NEAREST, ratios)?;
    let marked = snapshot.rules.iter();
    let marked = marked.map(|row| (place(&row.rule, &row.vhost), row.busy_reached));
    write_family(to, ("gauge", ""), RULE_ACTS, acts(marked))?;
    let guards = snapshot.guards.iter();
    let guards = guards.map(|row| (place(&row.guard, &row.vhost), row.busy_reached));
    write_family(to, ("gauge", ""), GUARD_ACTS, acts(guards))
}

/// Which act; of several of one name some do if one does.
fn acts<'s>(
    rows: impl Iterator<Item = (Place<'s>, Option<bool>)>,
) -> impl Iterator<Item = (Place<'s>, u8)> {
    let mut acts: BTreeMap<Place<'s>, bool> = BTreeMap::new();
    for (place, reached) in rows {
        *acts.entry(place).or_default() |= reached.unwrap_or(true);
    }
    acts.into_iter().map(|(place, acts)| (place, acts.into()))
}

/// A family with its series, none where there are none.
fn write_family<'s>(
    to: &mut String,
    (kind, suffix): (&str, &str),
    family: Family,
    series: impl Iterator<Item = (Place<'s>, impl Display)>,
) -> fmt::Result {
    let mut series = series.peekable();
    if series.peek().is_none() {
        return Ok(());
    }
    head(to, kind, family)?;
    for ((rule, vhost), value) in series {
        let (name, rule, vhost) = (family.0, Escaped(rule), Escaped(vhost));
        writeln!(
            to,
            "{name}{suffix}{{rule=\"{rule}\",vhost=\"{vhost}\"}} {value}"
        )?;
    }
    Ok(())
}

fn place<'s>(rule: &'s str, vhost: &'s Option<String>) -> Place<'s> {
    (rule, vhost.as_deref().unwrap_or(""))
}
