//! The section of the module in mod_status' page: HTML for people, and lines of
//! `Key: value` for the programs that ask for `?auto`.
//!
//! Those programs split a line at its first colon, take what follows for a number, and
//! pass over a line where it is none.

use std::cmp::Reverse;
use std::fmt::{self, Display, Write};
use std::time::Duration;

use super::printable::printable;
use super::snapshot::{CountRow, RuleRow, Snapshot};
use crate::limit::rate::Rate;

/// How many of those who hold most are shown.
const HOLDERS: usize = 10;

/// One number of the whole: what people read, what programs read, and the number.
type Total = (&'static str, &'static str, u64);

fn totals(snapshot: &Snapshot) -> Vec<Total> {
    let rules = &snapshot.rules;
    let mut totals = vec![
        ("Rules", "IPLimitRules", rules.len() as u64),
        (
            "Passed",
            "IPLimitPassed",
            rules.iter().map(|rule| rule.passed).sum(),
        ),
        (
            "Refused",
            "IPLimitRefused",
            rules.iter().map(|rule| rule.refused).sum(),
        ),
        (
            "Refused if it were no dry run",
            "IPLimitRefusedDryRun",
            rules.iter().map(|rule| rule.refused_dry_run).sum(),
        ),
        (
            "Delayed",
            "IPLimitDelayed",
            rules.iter().map(|rule| rule.delayed).sum(),
        ),
        ("Exempt", "IPLimitExempt", snapshot.exempt),
        ("Keys used", "IPLimitKeysUsed", snapshot.keys.used),
        (
            "Keys there is room for",
            "IPLimitKeysCapacity",
            snapshot.keys.capacity,
        ),
        ("Keys frozen", "IPLimitKeysFrozen", snapshot.keys.frozen),
        ("Places held", "IPLimitPlacesHeld", snapshot.leases.held),
        ("Evictions", "IPLimitEvictions", snapshot.evictions),
        ("Untracked", "IPLimitUntracked", snapshot.untracked),
        ("Cut, too slow", "IPLimitCutTooSlow", snapshot.cut_too_slow),
        ("Cut, too long", "IPLimitCutTooLong", snapshot.cut_too_long),
        ("Not watched", "IPLimitUnwatched", snapshot.unwatched),
        ("Cuts put off", "IPLimitCutsPutOff", snapshot.cuts_put_off),
        ("Faults", "IPLimitFaults", snapshot.faults),
    ];
    if let Some(shared) = &snapshot.shared {
        totals.extend([
            (
                "Shared counts degraded",
                "IPLimitSharedDegraded",
                shared.degraded.into(),
            ),
            (
                "Shared counts degraded for seconds",
                "IPLimitSharedDegradedSeconds",
                shared.degraded_seconds,
            ),
            ("Shared counts asked", "IPLimitSharedAsked", shared.asked),
            (
                "Shared counts not heard",
                "IPLimitSharedMissed",
                shared.missed,
            ),
        ]);
    }
    totals
}

/// The counts that are highest, the highest first; of equal ones by key, then by rule.
pub fn top(snapshot: &Snapshot, most: usize) -> Vec<&CountRow> {
    let mut counts: Vec<&CountRow> = snapshot.counts.iter().collect();
    counts.sort_by_key(|row| (Reverse(row.count), &row.key, &row.rule, &row.vhost));
    counts.truncate(most);
    counts
}

/// The lines for `?auto`.
pub fn auto(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    for (_, name, number) in totals(snapshot) {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{name}: {number}");
    }
    for (at, row) in (1..).zip(top(snapshot, HOLDERS)) {
        let (vhost, rule) = (printable(vhost(&row.vhost)), printable(&row.rule));
        let _ = writeln!(
            text,
            "IPLimitTop{at}: {} {} {vhost} {rule}",
            row.count,
            printable(&row.key).replace(' ', "%20")
        );
    }
    text
}

/// The section as HTML; without tables for browsers that have none.
pub fn html(snapshot: &Snapshot, with_tables: bool) -> String {
    let mut text = String::from("<hr />\n\n<h2>Limits per client</h2>\n\n<dl>\n");
    for (name, _, number) in totals(snapshot) {
        let _ = writeln!(text, "<dt>{name}: {number}</dt>");
    }
    text.push_str("</dl>\n");
    let mut rules: Vec<_> = snapshot.rules.iter().collect();
    rules.sort_by_key(|row| (&row.vhost, &row.rule));
    let rules = rules.into_iter().map(|row| {
        [
            row.rule.clone(),
            vhost(&row.vhost).to_owned(),
            limit(row),
            row.scope.clone(),
            row.count.clone(),
            row.passed.to_string(),
            row.refused.to_string(),
            row.refused_dry_run.to_string(),
            row.exempt.to_string(),
        ]
    });
    let head = [
        "Rule",
        "Virtual host",
        "Limit",
        "Scope",
        "Counts",
        "Passed",
        "Refused",
        "Refused (dry run)",
        "Exempt",
    ];
    write_rows(&mut text, "Rules", head, rules, with_tables);
    let holders = top(snapshot, HOLDERS).into_iter().map(|row| {
        [
            row.rule.clone(),
            vhost(&row.vhost).to_owned(),
            row.key.clone(),
            row.count.to_string(),
        ]
    });
    let head = ["Rule", "Virtual host", "Client", "Requests"];
    write_rows(
        &mut text,
        "Clients with most requests in flight",
        head,
        holders,
        with_tables,
    );
    text
}

/// A rule's number, and the period that it is for.
fn limit(row: &RuleRow) -> String {
    match row.period_milliseconds {
        None => row.limit.to_string(),
        Some(millis) => Rate {
            number: row.limit as u32,
            period: Duration::from_millis(millis),
        }
        .to_string(),
    }
}

fn write_rows<const N: usize>(
    text: &mut String,
    title: &str,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    as_table: bool,
) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = write!(text, "\n<h3>{title}</h3>\n");
    if !as_table {
        text.push_str("<p>\n");
        for row in rows {
            let cells = head.iter().zip(&row);
            let cells: Vec<String> = cells
                .map(|(name, cell)| format!("{name}: {}", Escaped(cell)))
                .collect();
            let _ = writeln!(text, "{}<br />", cells.join(", "));
        }
        text.push_str("</p>\n");
        return;
    }
    text.push_str("<table border=\"0\">\n<tr>");
    for name in head {
        let _ = write!(text, "<th>{name}</th>");
    }
    text.push_str("</tr>\n");
    for row in rows {
        text.push_str("<tr>");
        for cell in &row {
            let _ = write!(text, "<td>{}</td>", Escaped(cell));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n");
}

fn vhost(vhost: &Option<String>) -> &str {
    vhost.as_deref().unwrap_or("-")
}

/// Text that stays text in HTML.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
