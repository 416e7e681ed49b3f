//! `limitipconn show`: the rules and their numbers, or all that is known of one key.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::Args;
use mod_limitipconn::gauge;
use mod_limitipconn::limit::rate::Rate;
use mod_limitipconn::report::key::KeyRow;
use mod_limitipconn::report::snapshot::{RuleRow, Snapshot};
use serde_json::json;

use crate::server::Which;
use crate::text::{many, print, print_json, shown, table, time};
use crate::{Answer, Outcome};

/// Shows the rules and their numbers, or what is known of one key
#[derive(Args)]
pub struct Arguments {
    /// An address, a network as it is shown, or a zone's key as text or as zone:text, in secret
    /// zones too
    key: Option<OsString>,

    #[command(flatten)]
    which: Which,

    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Shows it.
pub fn run(arguments: Arguments) -> Answer {
    let mut server = arguments.which.find()?;
    let Some(key) = arguments.key else {
        let snapshot = server.look(gauge::snapshot)?;
        match arguments.json {
            true => print_json(&snapshot)?,
            false => print(&overview(&snapshot, server.process.0).join("\n"))?,
        }
        return Ok(Outcome::Done);
    };
    let rows = server.by_hand(key.as_bytes()).rows();
    // The key itself is not repeated: it may be a secret one.
    if arguments.json {
        print_json(&json!({ "rows": rows }))?;
    } else if rows.is_empty() {
        crate::complain("nothing is known of this key: nothing in flight, no rate charged");
    } else {
        print(&keys(&rows).join("\n"))?;
    }
    Ok(match rows.is_empty() {
        true => Outcome::Failed,
        false => Outcome::Done,
    })
}

/// A table of what is known of a key.
pub fn keys(rows: &[KeyRow]) -> Vec<String> {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let vhost = row.vhost.as_deref().unwrap_or("-");
            let zone = row
                .zone
                .as_deref()
                .map_or_else(String::new, |zone| format!("{zone}:"));
            vec![
                shown(&row.rule),
                shown(vhost),
                shown(&(zone + &row.key)),
                state(row),
            ]
        })
        .collect();
    table(&["RULE", "VHOST", "KEY", "STATE"], &cells)
}

/// What a row says in words.
fn state(row: &KeyRow) -> String {
    let of = row
        .limit
        .map_or_else(String::new, |limit| format!(" of {limit}"));
    if let Some(seconds) = row.frozen_seconds_left {
        return format!("frozen for {}", time(seconds * 1000));
    }
    if let Some(millis) = row.full_in_milliseconds {
        let left = row
            .requests_left
            .map_or_else(String::new, |left| format!("{left} left, "));
        return format!("{left}full again in {}", time(millis));
    }
    if let (Some(hits), Some(millis)) = (row.hits, row.window_ends_in_milliseconds) {
        return format!("{hits}{of} hits, the window ends in {}", time(millis));
    }
    match row.in_flight {
        Some(count) => format!("{count}{of} in flight"),
        None => String::from("as at the beginning"),
    }
}

/// How many a rule lets in: `3`, `10/s`.
pub fn number(rule: &RuleRow) -> String {
    let burst = rule
        .burst
        .map_or_else(String::new, |burst| format!(" burst={burst}"));
    match rule.period_milliseconds {
        Some(millis) => {
            let rate = Rate {
                number: u32::try_from(rule.limit).unwrap_or(u32::MAX),
                period: Duration::from_millis(millis),
            };
            format!("{rate}{burst}")
        }
        None => rule.limit.to_string(),
    }
}

/// Rules, table and counters.
pub fn overview(snapshot: &Snapshot, pid: u32) -> Vec<String> {
    let mut rules: Vec<&RuleRow> = snapshot.rules.iter().collect();
    rules.sort_by(|one, other| (&one.rule, &one.vhost).cmp(&(&other.rule, &other.vhost)));
    let cells: Vec<Vec<String>> = rules
        .iter()
        .map(|rule| {
            let freeze = rule.freeze_milliseconds;
            let mut cells = vec![
                shown(&rule.rule),
                shown(rule.vhost.as_deref().unwrap_or("-")),
                number(rule),
                rule.count.clone(),
                rule.scope.clone(),
                rule.busy
                    .map_or_else(|| String::from("-"), |busy| format!("{busy}%")),
                freeze.map_or_else(|| String::from("-"), time),
            ];
            let numbers = [
                rule.passed,
                rule.refused,
                rule.refused_dry_run,
                rule.delayed.saturating_add(rule.delayed_dry_run),
            ];
            cells.extend(numbers.map(|number| number.to_string()));
            cells
        })
        .collect();
    let headings = [
        "RULE", "VHOST", ">NUMBER", "COUNTS", "SCOPE", ">BUSY", ">FREEZE", ">PASSED", ">REFUSED",
        ">DRY-RUN", ">DELAYED",
    ];
    let mut lines = vec![format!(
        "mod_limitipconn {} in {}, process {pid}",
        snapshot.version,
        shown(&snapshot.httpd)
    )];
    lines.push(String::new());
    lines.extend(match cells.is_empty() {
        true => vec![String::from("no rule is in effect")],
        false => table(&headings, &cells),
    });
    let (keys, leases) = (&snapshot.keys, &snapshot.leases);
    lines.push(String::new());
    lines.push(format!(
        "table: {} of {} keys in use; {} hold places, {} are known to a rate, {} frozen; {} evicted",
        keys.used, keys.capacity, keys.held, keys.rated, keys.frozen, snapshot.evictions
    ));
    lines.push(format!(
        "places: {} of {} held, given back for dead children: {}",
        leases.held,
        leases.capacity,
        [snapshot.reaped.held, snapshot.reaped.releasing]
            .into_iter()
            .fold(snapshot.reaped.pending, u64::saturating_add)
    ));
    lines.push(format!(
        "since start: {} exempt, {} not counted for want of room, {} cut as too slow, {} cut as too long, \
         {} left out of the log",
        snapshot.exempt,
        snapshot.untracked,
        snapshot.cut_too_slow,
        snapshot.cut_too_long,
        many(snapshot.log_lines_left_out, "line")
    ));
    lines.push(format!(
        "checks: audits {}, mismatches {}, faults {}",
        snapshot.audits, snapshot.audit_mismatches, snapshot.faults
    ));
    lines
}
