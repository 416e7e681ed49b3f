//! The workers now: how many are busy with what, and what acts under pressure.

use std::time::Duration;

use maud::{Markup, html};

use super::numbers::{number, permille};
use super::table::{name, section as part, vhost};
use crate::limit::rate::written;
use crate::report::snapshot::{GuardRow, Pool, Snapshot};

/// States in which a worker is busy come first in [`Pool::states`].
const BUSY_STATES: usize = 7;

pub fn section(snapshot: &Snapshot) -> Markup {
    let pool = &snapshot.pool;
    part(
        "pool",
        "Workers",
        html! {
            p class="big" {
                (number(pool.busy, "/pool/busy")) " of " (number(pool.max_workers, "/pool/max_workers"))
            }
            p { "are busy, " (number(pool.idle, "/pool/idle")) " wait for work" }
            (bar(pool, &snapshot.guards))
            dl class="states" {
                @for (at, (state, workers)) in pool.states().into_iter().enumerate() {
                    @if state != "idle" {
                        div class=[(workers == 0).then_some("none")] {
                            span class={ "dot" @if at < BUSY_STATES { " s-" (state) } } aria-hidden="true" { }
                            dt { (words(state)) }
                            dd { (number(workers, &format!("/pool/{state}"))) }
                        }
                    }
                }
            }
            @if !snapshot.guards.is_empty() {
                h3 class="unseen" { "What acts under pressure" }
                ul class="guards" {
                    @for guard in &snapshot.guards { (line(guard)) }
                }
            }
        },
    )
}

fn words(state: &str) -> &str {
    match state {
        "keepalive" => "in keep-alive",
        "dns" => "looking up names",
        "gracefully_finishing" => "finishing",
        "idle_cleanup" => "going away",
        other => other,
    }
}

/// The busy workers by state, and the marks from which on something acts.
fn bar(pool: &Pool, guards: &[GuardRow]) -> Markup {
    let mut end = 0;
    let mut parts = Vec::new();
    for (state, workers) in pool.states().into_iter().take(BUSY_STATES) {
        let start = permille(end, pool.max_workers);
        end += workers;
        let width = permille(end, pool.max_workers) - start;
        if width > 0 {
            parts.push((state, start, width));
        }
    }
    let marks = guards.iter().filter_map(|guard| guard.busy);
    html! {
        svg class="pool" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
            @for (state, start, width) in parts {
                rect class={ "s-" (state) } x=(start) width=(width) height="10" { }
            }
            @for mark in marks {
                line class="mark" x1=(u64::from(mark) * 10) x2=(u64::from(mark) * 10) y1="0" y2="10" { }
            }
        }
    }
}

fn line(guard: &GuardRow) -> Markup {
    html! {
        li data-key={ (guard.guard) "|" (guard.vhost.as_deref().unwrap_or("")) } {
            span { (name(&guard.guard)) (vhost(guard.vhost.as_deref())) }
            span class="soft" { (terms(guard)) }
            (pressure(guard.busy, guard.busy_reached))
        }
    }
}

/// What a guard says.
fn terms(guard: &GuardRow) -> String {
    let time = |millis: u64| written(Duration::from_millis(millis));
    match (guard.bytes_per_second, guard.longest_milliseconds) {
        (Some(bytes), _) => format!(
            "cuts responses that are slower than {bytes} B/s over {}, from an age of {} on",
            time(guard.window_milliseconds.unwrap_or(0)),
            time(guard.after_milliseconds.unwrap_or(0))
        ),
        (None, Some(longest)) => format!("cuts responses that last longer than {}", time(longest)),
        (None, None) => String::from("writes to the error log who holds the workers"),
    }
}

/// From which mark on something acts, and whether that is reached.
pub fn pressure(busy: Option<u8>, reached: Option<bool>) -> Markup {
    html! {
        @match (busy, reached) {
            (Some(percent), Some(true)) => b class="alarm" { "acts now: " (percent) "% busy or more" },
            (Some(percent), _) => b class="good" { "starts at " (percent) "% busy" },
            (None, _) => b { "acts always" },
        }
    }
}
