//! The rules: what each says, what it decided, and which keys are nearest to its limit.

use std::time::Duration;

use maud::{Markup, html};

use super::numbers::{meter, number};
use super::pool::pressure;
use super::table::{Kind, Row, more, name, nothing, section as part, table, vhost};
use crate::limit::rate::{Rate, written};
use crate::report::snapshot::{BusyKey, RuleRow, Snapshot};

/// Rules that are shown; the JSON has all.
const MOST: usize = 500;

const COLUMNS: [(&str, Kind); 9] = [
    ("Rule", Kind::Text),
    ("Limit", Kind::Wide),
    ("Passed", Kind::Number),
    ("Refused", Kind::Number),
    ("Would refuse", Kind::Number),
    ("Delayed", Kind::Number),
    ("Would delay", Kind::Number),
    ("Exempt", Kind::Number),
    ("Nearest to the limit", Kind::Wide),
];

pub fn section(snapshot: &Snapshot) -> Markup {
    let rules = &snapshot.rules;
    let body = if rules.is_empty() {
        nothing("There is no rule; those of .htaccess files show once they were met.")
    } else {
        let rows = rules.iter().take(MOST).enumerate();
        let rows = rows.map(|(at, rule)| row(at, rule));
        html! {
            (table(
                "rule-table",
                "What each rule decided since the start, and the keys that have most of what it allows now.",
                &COLUMNS,
                rows.collect(),
            ))
            (more(rules.len().min(MOST), rules.len() as u64))
        }
    };
    part("rules", "Rules", body)
}

fn row(at: usize, rule: &RuleRow) -> Row {
    let field = |name: &str, value| number(value, &format!("/rules/{at}/{name}"));
    let period = rule.period_milliseconds.unwrap_or(0);
    Row {
        key: format!(
            "{}|{}|{}|{period}",
            rule.rule,
            rule.count,
            rule.vhost.as_deref().unwrap_or("")
        ),
        cells: vec![
            html! {
                (name(&rule.rule))
                (vhost(rule.vhost.as_deref()))
                @if rule.dry_run { " " span class="tag" { "dry run" } }
            },
            html! {
                (limit(rule))
                span class="under" { "scope=" (rule.scope) }
                @if rule.busy.is_some() { span class="under" { (pressure(rule.busy, rule.busy_reached)) } }
            },
            field("passed", rule.passed),
            field("refused", rule.refused),
            field("refused_dry_run", rule.refused_dry_run),
            field("delayed", rule.delayed),
            field("delayed_dry_run", rule.delayed_dry_run),
            field("exempt", rule.exempt),
            busiest(at, rule),
        ],
    }
}

/// A rule's number, in words.
fn limit(rule: &RuleRow) -> String {
    let plural = |word: &str| match rule.limit {
        1 => word.trim_end_matches('s').to_owned(),
        _ => word.to_owned(),
    };
    let Some(millis) = rule.period_milliseconds else {
        return match rule.limit {
            0 => String::from("none"),
            limit => format!("{limit} {} at a time", plural(&rule.count)),
        };
    };
    let rate = Rate {
        number: rule.limit as u32,
        period: Duration::from_millis(millis),
    };
    let mut text = format!("{rate}");
    if let Some(burst) = rule.burst {
        text += &format!(", burst {burst}");
    }
    if let Some(delay) = rule.delay {
        text += &format!(", of which {delay} do not wait");
    }
    if let Some(freeze) = rule.freeze_milliseconds {
        text += &format!(
            ", then frozen for {}",
            written(Duration::from_millis(freeze))
        );
    }
    if rule.charged_by_status {
        text += ", charged by status";
    }
    text
}

fn busiest(at: usize, rule: &RuleRow) -> Markup {
    html! {
        @if rule.busiest.is_empty() {
            span class="soft" { "nobody" }
        } @else {
            ul class="busiest" {
                @for (key_at, BusyKey { key, count, limit }) in rule.busiest.iter().enumerate() {
                    li data-key=(key) {
                        span class="key" { (key) }
                        (meter("meter", *count, *limit))
                        span class="amount" {
                            (number(*count, &format!("/rules/{at}/busiest/{key_at}/count"))) " of " (limit)
                        }
                    }
                }
            }
        }
    }
}
