//! The table of keys, and the counters of the module as a whole.

use maud::{Markup, html};

use super::numbers::{meter, number};
use super::table::section as part;
use crate::report::snapshot::{Shared, Snapshot};

/// What people read, the place in the JSON, and the number.
type Fact = (&'static str, &'static str, u64);

pub fn section(snapshot: &Snapshot) -> Markup {
    let (keys, leases, reaped) = (&snapshot.keys, &snapshot.leases, &snapshot.reaped);
    let table = [
        ("Keys in use", "/keys/used", keys.used),
        ("Room for", "/keys/capacity", keys.capacity),
        ("In flight", "/keys/held", keys.held),
        ("Known to a rate", "/keys/rated", keys.rated),
        ("Frozen", "/keys/frozen", keys.frozen),
        ("Evictions", "/evictions", snapshot.evictions),
        ("Admitted untracked", "/untracked", snapshot.untracked),
    ];
    let counters = [
        ("Cut: too slow", "/cut_too_slow", snapshot.cut_too_slow),
        ("Cut: held too long", "/cut_too_long", snapshot.cut_too_long),
        ("Not watched", "/unwatched", snapshot.unwatched),
        ("Cuts put off", "/cuts_put_off", snapshot.cuts_put_off),
        ("Exempt requests", "/exempt", snapshot.exempt),
        (
            "Log lines left out",
            "/log_lines_left_out",
            snapshot.log_lines_left_out,
        ),
    ];
    let inner = [
        ("Places held", "/leases/held", leases.held),
        ("Places there are", "/leases/capacity", leases.capacity),
        ("Places being taken", "/leases/pending", leases.pending),
        (
            "Places being given back",
            "/leases/releasing",
            leases.releasing,
        ),
        ("Places given back", "/leases/released", leases.released),
        ("Audits", "/audits", snapshot.audits),
        (
            "Audit mismatches",
            "/audit_mismatches",
            snapshot.audit_mismatches,
        ),
        ("Faults caught", "/faults", snapshot.faults),
        ("Reaped: pending", "/reaped/pending", reaped.pending),
        ("Reaped: held", "/reaped/held", reaped.held),
        ("Reaped: releasing", "/reaped/releasing", reaped.releasing),
        ("Reaped: released", "/reaped/released", reaped.released),
    ];
    part(
        "totals",
        "Table and counters",
        html! {
            p class="soft" { "The table of keys now; evictions and what follows count from the start." }
            (meter("fill", keys.used, keys.capacity))
            (facts(&table))
            (facts(&counters))
            @if let Some(shared) = &snapshot.shared {
                p class="soft" { (reach(shared)) }
                (facts(&[
                    ("Degraded for seconds", "/shared/degraded_seconds", shared.degraded_seconds),
                    ("Asked", "/shared/asked", shared.asked),
                    ("Without an answer", "/shared/missed", shared.missed),
                    ("Outages", "/shared/outages", shared.outages),
                    ("Without room", "/shared/uncounted", shared.uncounted),
                ]))
            }
            details {
                summary { "The module's own bookkeeping" }
                (facts(&inner))
            }
        },
    )
}

/// How it is with the counts of several servers.
fn reach(shared: &Shared) -> String {
    let why = shared.failure.as_deref().unwrap_or("unknown");
    match shared.degraded {
        false => String::from("The counts that servers share are within reach."),
        true => format!(
            "The counts that servers share are degraded for {} s ({why}); on-failure={}.",
            shared.degraded_seconds, shared.on_failure
        ),
    }
}

fn facts(facts: &[Fact]) -> Markup {
    html! {
        dl class="facts" {
            @for (name, at, value) in facts {
                div { dt { (name) } dd { (number(*value, at)) } }
            }
        }
    }
}
