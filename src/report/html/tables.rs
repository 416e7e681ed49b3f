//! Who holds workers, who has most in flight, and who is frozen.

use maud::{Markup, html};

use super::numbers::{age, bytes, number, shown};
use super::table::{Kind, Row, more, name, nothing, section as part, table, vhost};
use crate::report::holder::Holder;
use crate::report::printable::encoded;
use crate::report::snapshot::Snapshot;

/// Rows that are shown; the JSON has more.
const MOST: usize = 100;

pub fn holders(snapshot: &Snapshot) -> Markup {
    let holders = &snapshot.holders;
    let columns = [
        ("Client", Kind::Text),
        ("Workers", Kind::Number),
        ("Held for", Kind::Number),
        ("Rule", Kind::Text),
        ("Request", Kind::Wide),
        ("Delivered", Kind::Number),
        ("Rate", Kind::Number),
    ];
    let all = holders.len() as u64 + snapshot.holders_left_out;
    let body = if holders.is_empty() {
        nothing(
            "Nobody holds a worker, or there is no rule and nothing is watched: then nobody is known.",
        )
    } else {
        html! {
            (table(
                "holder-table",
                "Clients that hold busy workers, the one that has held one longest first.",
                &columns,
                holders.iter().take(MOST).enumerate().map(|(at, holder)| holder_row(at, holder)).collect(),
            ))
            (more(holders.len().min(MOST), all))
        }
    };
    part("holders", "Who holds the workers", body)
}

fn holder_row(at: usize, holder: &Holder) -> Row {
    let place = |name: &str| format!("/holders/{at}/{name}");
    let unknown = || html! { span class="zero" { "-" } };
    let oldest = holder.oldest_seconds;
    Row {
        key: holder.client.clone(),
        cells: vec![
            html! { span class="key" { (holder.client) } },
            number(holder.workers.into(), &place("workers")),
            shown(oldest, &age(oldest), &place("oldest_seconds")),
            html! {
                @match &holder.rule {
                    Some(rule) => (name(rule)),
                    None => span class="zero" { "none" },
                }
            },
            html! {
                @match &holder.uri {
                    Some(uri) => code { (encoded(uri)) },
                    None => (unknown()),
                }
                (vhost(holder.vhost.as_deref()))
            },
            match holder.bytes_acknowledged {
                Some(number) => shown(number, &bytes(number), &place("bytes_acknowledged")),
                None => unknown(),
            },
            match holder.bytes_per_second {
                Some(rate) => shown(
                    rate,
                    &format!("{}/s", bytes(rate)),
                    &place("bytes_per_second"),
                ),
                None => unknown(),
            },
        ],
    }
}

pub fn flight(snapshot: &Snapshot) -> Markup {
    let counts = &snapshot.counts;
    let all = counts.len() as u64 + snapshot.counts_left_out;
    let row = |(at, row): (usize, &crate::report::snapshot::CountRow)| Row {
        key: key_of(&row.key, &row.rule, &row.vhost),
        cells: vec![
            html! { span class="key" { (row.key) } },
            number(row.count, &format!("/counts/{at}/count")),
            html! { (name(&row.rule)) (vhost(row.vhost.as_deref())) },
        ],
    };
    let columns = [
        ("Key", Kind::Text),
        ("In flight", Kind::Number),
        ("Counted by", Kind::Wide),
    ];
    let body = if counts.is_empty() {
        nothing("Nothing that a rule counts is in flight.")
    } else {
        html! {
            (table(
                "count-table",
                "Requests in flight and open connections of each key, the highest first.",
                &columns,
                counts.iter().enumerate().take(MOST).map(row).collect(),
            ))
            (more(counts.len().min(MOST), all))
        }
    };
    part("flight", "In flight", body)
}

pub fn frozen(snapshot: &Snapshot) -> Markup {
    let frozen = &snapshot.frozen;
    let all = frozen.len() as u64 + snapshot.frozen_left_out;
    let row = |(at, row): (usize, &crate::report::snapshot::FrozenRow)| Row {
        key: key_of(&row.key, &row.rule, &row.vhost),
        cells: vec![
            html! { span class="key" { (row.key) } },
            shown(
                row.seconds_left,
                &age(row.seconds_left),
                &format!("/frozen/{at}/seconds_left"),
            ),
            html! { (name(&row.rule)) (vhost(row.vhost.as_deref())) },
        ],
    };
    let columns = [
        ("Key", Kind::Text),
        ("Time left", Kind::Number),
        ("Frozen by", Kind::Wide),
    ];
    let body = if frozen.is_empty() {
        nothing("Nobody is frozen.")
    } else {
        html! {
            (table(
                "frozen-table",
                "Keys that are refused whatever they ask for, the longest first.",
                &columns,
                frozen.iter().enumerate().take(MOST).map(row).collect(),
            ))
            (more(frozen.len().min(MOST), all))
        }
    };
    part("frozen", "Frozen", body)
}

fn key_of(key: &str, rule: &str, vhost: &Option<String>) -> String {
    format!("{key}|{rule}|{}", vhost.as_deref().unwrap_or(""))
}
