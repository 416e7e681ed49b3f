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
    vec![
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
    ]
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
mod tests {
    use super::super::snapshot::{Keys, Leases, RuleRow};
    use super::*;

    fn count(rule: &str, vhost: Option<&str>, key: &str, count: u64) -> CountRow {
        CountRow {
            rule: rule.into(),
            vhost: vhost.map(str::to_owned),
            key: key.into(),
            count,
        }
    }

    fn busy() -> Snapshot {
        let rule = |rule: &str, vhost: Option<&str>, passed, refused| RuleRow {
            rule: rule.into(),
            vhost: vhost.map(str::to_owned),
            limit: 3,
            scope: "location".into(),
            count: "requests".into(),
            passed,
            refused,
            ..RuleRow::default()
        };
        Snapshot {
            rules: vec![
                rule("MaxConnPerIP@/hoge", Some("site.example:80"), 12, 1),
                rule("MaxConnPerIP@If:<script> & 'x'", None, 30, 4),
            ],
            counts: vec![
                count(
                    "MaxConnPerIP@/hoge",
                    Some("site.example:80"),
                    "127.0.0.3",
                    2,
                ),
                count("MaxConnPerIP@If:<script> & 'x'", None, "127.0.0.2", 3),
            ],
            leases: Leases {
                held: 5,
                ..Leases::default()
            },
            keys: Keys {
                capacity: 65536,
                used: 7,
                held: 2,
                rated: 3,
                frozen: 1,
            },
            evictions: 6,
            untracked: 8,
            cut_too_slow: 10,
            cut_too_long: 11,
            unwatched: 12,
            cuts_put_off: 13,
            faults: 9,
            ..Snapshot::default()
        }
    }

    #[test]
    fn programs_get_numbers() {
        let expected = "\
IPLimitRules: 2
IPLimitPassed: 42
IPLimitRefused: 5
IPLimitRefusedDryRun: 0
IPLimitExempt: 0
IPLimitKeysUsed: 7
IPLimitKeysCapacity: 65536
IPLimitKeysFrozen: 1
IPLimitPlacesHeld: 5
IPLimitEvictions: 6
IPLimitUntracked: 8
IPLimitCutTooSlow: 10
IPLimitCutTooLong: 11
IPLimitUnwatched: 12
IPLimitCutsPutOff: 13
IPLimitFaults: 9
IPLimitTop1: 3 127.0.0.2 - MaxConnPerIP@If:<script> & 'x'
IPLimitTop2: 2 127.0.0.3 site.example:80 MaxConnPerIP@/hoge
";
        assert_eq!(auto(&busy()), expected);
    }

    #[test]
    fn people_get_tables() {
        let expected = "\
<hr />

<h2>Limits per client</h2>

<dl>
<dt>Rules: 2</dt>
<dt>Passed: 42</dt>
<dt>Refused: 5</dt>
<dt>Refused if it were no dry run: 0</dt>
<dt>Exempt: 0</dt>
<dt>Keys used: 7</dt>
<dt>Keys there is room for: 65536</dt>
<dt>Keys frozen: 1</dt>
<dt>Places held: 5</dt>
<dt>Evictions: 6</dt>
<dt>Untracked: 8</dt>
<dt>Cut, too slow: 10</dt>
<dt>Cut, too long: 11</dt>
<dt>Not watched: 12</dt>
<dt>Cuts put off: 13</dt>
<dt>Faults: 9</dt>
</dl>

<h3>Rules</h3>
<table border=\"0\">
<tr><th>Rule</th><th>Virtual host</th><th>Limit</th><th>Scope</th><th>Counts</th><th>Passed</th><th>Refused</th></tr>
<tr><td>MaxConnPerIP@If:&lt;script&gt; &amp; &#39;x&#39;</td><td>-</td><td>3</td><td>location</td><td>requests</td><td>30</td><td>4</td></tr>
<tr><td>MaxConnPerIP@/hoge</td><td>site.example:80</td><td>3</td><td>location</td><td>requests</td><td>12</td><td>1</td></tr>
</table>

<h3>Clients with most requests in flight</h3>
<table border=\"0\">
<tr><th>Rule</th><th>Virtual host</th><th>Client</th><th>Requests</th></tr>
<tr><td>MaxConnPerIP@If:&lt;script&gt; &amp; &#39;x&#39;</td><td>-</td><td>127.0.0.2</td><td>3</td></tr>
<tr><td>MaxConnPerIP@/hoge</td><td>site.example:80</td><td>127.0.0.3</td><td>2</td></tr>
</table>
";
        assert_eq!(html(&busy(), true), expected);
    }

    #[test]
    fn without_tables_there_are_lines() {
        let text = html(&busy(), false);
        assert!(!text.contains("<t"), "{text}");
        assert!(
            text.contains(
                "Rule: MaxConnPerIP@/hoge, Virtual host: site.example:80, Limit: 3, Scope: location, \
                 Counts: requests, Passed: 12, Refused: 1<br />\n"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "Rule: MaxConnPerIP@/hoge, Virtual host: site.example:80, Client: 127.0.0.3, Requests: 2<br />\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn empty_tables_are_left_out() {
        let text = html(&Snapshot::default(), true);
        assert!(text.ends_with("<dt>Faults: 0</dt>\n</dl>\n"), "{text}");
        assert!(!auto(&Snapshot::default()).contains("Top"));
    }

    #[test]
    fn the_highest_come_first_and_equal_ones_in_a_fixed_order() {
        let mut snapshot = Snapshot {
            counts: vec![
                count("b", None, "k2", 5),
                count("a", Some("v"), "k2", 5),
                count("a", None, "k2", 5),
                count("z", None, "k1", 5),
                count("a", None, "k3", 6),
                count("a", None, "k0", 1),
            ],
            ..Snapshot::default()
        };
        let order = |snapshot: &Snapshot| -> Vec<String> {
            let rows = top(snapshot, 5);
            rows.iter()
                .map(|row| format!("{}{}{}", row.key, row.rule, vhost(&row.vhost)))
                .collect()
        };
        let expected = ["k3a-", "k1z-", "k2a-", "k2av", "k2b-"];
        assert_eq!(order(&snapshot), expected);
        snapshot.counts.reverse();
        assert_eq!(order(&snapshot), expected);
    }
}
