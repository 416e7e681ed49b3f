//! The last ten minutes as two small charts, drawn by hand: busy workers, and refusals for
//! each second.

use maud::{Markup, html};

use super::numbers::grouped;
use super::table::{nothing, section as part};
use crate::report::snapshot::{SampleRow, Snapshot};

/// The width of a chart, which is ten minutes wide.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 100.0;
const MILLISECONDS: f64 = 600_000.0;

/// What was refused between two samples.
struct Span {
    /// Where it begins and ends, in the units of the chart.
    from: f64,
    to: f64,
    /// A second.
    refused: f64,
    refused_dry_run: f64,
}

pub fn section(snapshot: &Snapshot) -> Markup {
    let samples = &snapshot.history;
    let body = if samples.len() < 2 {
        nothing("A sample is kept about every ten seconds; here they will be from the second on.")
    } else {
        html! {
            div class="charts" {
                (busy(snapshot))
                (refusals(snapshot))
            }
            div class="axis" aria-hidden="true" {
                span { "10 minutes ago" }
                span { "5" }
                span { "now" }
            }
        }
    };
    part("history", "The last ten minutes", body)
}

/// Where a moment lies.
fn x(snapshot: &Snapshot, unix_milliseconds: u64) -> f64 {
    let ago = snapshot.unix_milliseconds.saturating_sub(unix_milliseconds);
    (WIDTH - ago as f64 / MILLISECONDS * WIDTH).max(0.0)
}

fn busy(snapshot: &Snapshot) -> Markup {
    let (pool, samples) = (&snapshot.pool, &snapshot.history);
    let whole = pool.max_workers.max(1) as f64;
    let y = |busy: u64| HEIGHT - (busy as f64 / whole).min(1.0) * HEIGHT;
    let now = (WIDTH, y(pool.busy));
    let points = samples
        .iter()
        .map(|sample| (x(snapshot, sample.unix_milliseconds), y(sample.busy)));
    let points: Vec<String> = points
        .chain([now])
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let first = samples
        .first()
        .map_or(0.0, |sample| x(snapshot, sample.unix_milliseconds));
    let area = format!("{first:.1},{HEIGHT} {} {WIDTH},{HEIGHT}", points.join(" "));
    let highest = samples.iter().map(|sample| sample.busy).max().unwrap_or(0);
    let highest = highest.max(pool.busy);
    let lowest = samples.iter().map(|sample| sample.busy).min().unwrap_or(0);
    let lowest = lowest.min(pool.busy);
    let marks = snapshot.guards.iter().filter_map(|guard| guard.busy);
    html! {
        figure {
            figcaption {
                "Busy workers"
                span { "now " (pool.busy) ", at most " (highest) " of " (pool.max_workers) }
            }
            svg class="chart" role="img" aria-labelledby="busy-title busy-desc"
                viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" {
                title id="busy-title" { "Busy workers in the last ten minutes" }
                desc id="busy-desc" {
                    "Between " (lowest) " and " (highest) " of " (pool.max_workers)
                    " workers were busy; now " (pool.busy) " are."
                }
                line class="rule" x1="0" x2=(WIDTH) y1="50" y2="50" { }
                @for mark in marks {
                    line class="mark" x1="0" x2=(WIDTH) y1=(100 - u64::from(mark)) y2=(100 - u64::from(mark)) { }
                }
                polygon class="area" points=(area) { }
                polyline class="line" points=(points.join(" ")) { }
            }
        }
    }
}

fn refusals(snapshot: &Snapshot) -> Markup {
    let spans: Vec<Span> = snapshot
        .history
        .windows(2)
        .filter_map(|pair| span(snapshot, &pair[0], &pair[1]))
        .collect();
    let highest = spans
        .iter()
        .map(|span| span.refused + span.refused_dry_run)
        .fold(0.0, f64::max);
    // A chart whose highest bar is a hundredth of a refusal would only alarm.
    let top = highest.max(1.0);
    let all = |of: fn(&SampleRow) -> u64| {
        let (first, last) = (snapshot.history.first(), snapshot.history.last());
        last.map_or(0, of).saturating_sub(first.map_or(0, of))
    };
    let (refused, dry) = (all(|row| row.refused), all(|row| row.refused_dry_run));
    html! {
        figure {
            figcaption {
                "Refusals a second"
                span {
                    "at most " (rate(highest)) "/s; " (grouped(refused)) " in all"
                    @if dry > 0 { ", " (grouped(dry)) " more if it were no dry run" }
                }
            }
            svg class="chart" role="img" aria-labelledby="refused-title refused-desc"
                viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" {
                title id="refused-title" { "Refusals a second in the last ten minutes" }
                desc id="refused-desc" {
                    (refused) " requests were refused, at most " (rate(highest)) " a second; " (dry)
                    " more would have been, were it no dry run."
                }
                line class="rule" x1="0" x2=(WIDTH) y1="50" y2="50" { }
                @for Span { from, to, refused, refused_dry_run } in &spans {
                    (bar("bar", (*from, *to), 0.0, refused / top))
                    (bar("dry", (*from, *to), refused / top, refused_dry_run / top))
                }
            }
        }
    }
}

/// A bar of this height that stands on another, heights from 0 to 1.
fn bar(class: &str, (from, to): (f64, f64), below: f64, height: f64) -> Markup {
    html! {
        @if height > 0.0 {
            rect class=(class) x=(format!("{from:.1}")) width=(format!("{:.1}", (to - from - 0.6).max(0.6)))
                y=(format!("{:.1}", HEIGHT - (below + height) * HEIGHT))
                height=(format!("{:.1}", height * HEIGHT)) { }
        }
    }
}

fn span(snapshot: &Snapshot, before: &SampleRow, after: &SampleRow) -> Option<Span> {
    let millis = after
        .unix_milliseconds
        .checked_sub(before.unix_milliseconds)
        .filter(|millis| *millis > 0)?;
    let rate = |of: fn(&SampleRow) -> u64| {
        of(after).saturating_sub(of(before)) as f64 * 1000.0 / millis as f64
    };
    Some(Span {
        from: x(snapshot, before.unix_milliseconds),
        to: x(snapshot, after.unix_milliseconds),
        refused: rate(|row| row.refused),
        refused_dry_run: rate(|row| row.refused_dry_run),
    })
}

fn rate(number: f64) -> String {
    if number >= 10.0 {
        return grouped(number.round() as u64);
    }
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
