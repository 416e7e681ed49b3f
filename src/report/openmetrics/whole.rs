//! Metrics of the module as a whole: the pool, the table, the leases, counters.

use std::fmt::{self, Write};

use super::{Escaped, Family, head};
use crate::report::snapshot::{Shared, Snapshot};

/// A metric without labels.
type Row = (Family, fn(&Snapshot) -> u64);

const BUILD: Family = ("limitipconn_build", "Versions of the module and of httpd.");
const WORKERS: Family = (
    "limitipconn_workers",
    "Workers of the whole server by what they do.",
);

const GAUGES: [Row; 11] = [
    (("limitipconn_workers_max", "MaxRequestWorkers."), |all| {
        all.pool.max_workers
    }),
    (
        (
            "limitipconn_workers_busy",
            "Workers that serve a connection.",
        ),
        |all| all.pool.busy,
    ),
    (
        ("limitipconn_holders", "Clients that hold a busy worker."),
        |all| all.holders.len() as u64 + all.holders_left_out,
    ),
    (
        (
            "limitipconn_holder_oldest_seconds",
            "How long a client has held a worker at most.",
        ),
        |all| {
            all.holders
                .first()
                .map_or(0, |holder| holder.oldest_seconds)
        },
    ),
    (
        (
            "limitipconn_keys_capacity",
            "Keys that the table has room for.",
        ),
        |all| all.keys.capacity,
    ),
    (("limitipconn_keys_used", "Keys in the table."), |all| {
        all.keys.used
    }),
    (
        ("limitipconn_keys_held", "Keys with something in flight."),
        |all| all.keys.held,
    ),
    (
        ("limitipconn_keys_rated", "Keys that are known to a rate."),
        |all| all.keys.rated,
    ),
    (
        ("limitipconn_keys_frozen", "Keys that are frozen."),
        |all| all.keys.frozen,
    ),
    (
        ("limitipconn_leases_capacity", "Places that can be held."),
        |all| all.leases.capacity,
    ),
    (
        ("limitipconn_leases_held", "Places that are held."),
        |all| all.leases.held,
    ),
];

const COUNTERS: [Row; 12] = [
    (
        (
            "limitipconn_evictions",
            "Idle keys that made room for others.",
        ),
        |all| all.evictions,
    ),
    (
        (
            "limitipconn_untracked",
            "Requests and connections admitted without being counted.",
        ),
        |all| all.untracked,
    ),
    (
        (
            "limitipconn_exempt_requests",
            "Requests that an exemption spared.",
        ),
        |all| all.exempt,
    ),
    (
        (
            "limitipconn_log_lines_left_out",
            "Refusals and cuts without a log line of their own.",
        ),
        |all| all.log_lines_left_out,
    ),
    (
        (
            "limitipconn_cut_too_slow",
            "Responses cut because their clients were too slow.",
        ),
        |all| all.cut_too_slow,
    ),
    (
        (
            "limitipconn_cut_too_long",
            "Responses cut because they lasted too long.",
        ),
        |all| all.cut_too_long,
    ),
    (
        (
            "limitipconn_unwatched",
            "Responses that nobody watched for a slow client, for want of room.",
        ),
        |all| all.unwatched,
    ),
    (
        (
            "limitipconn_cuts_put_off",
            "Looks at which a cut waited for a file descriptor.",
        ),
        |all| all.cuts_put_off,
    ),
    (
        (
            "limitipconn_audits",
            "Times that the counts were compared with the leases.",
        ),
        |all| all.audits,
    ),
    (
        (
            "limitipconn_audit_mismatches",
            "Counts that were not the sum of their leases.",
        ),
        |all| all.audit_mismatches,
    ),
    (
        (
            "limitipconn_faults",
            "Faults of the module that were caught.",
        ),
        |all| all.faults,
    ),
    (
        (
            "limitipconn_leases_reaped",
            "Places of dead children that were given back.",
        ),
        |all| {
            let reaped = &all.reaped;
            reaped.pending + reaped.held + reaped.releasing + reaped.released
        },
    ),
];

pub fn write(snapshot: &Snapshot, to: &mut String) -> fmt::Result {
    head(to, "info", BUILD)?;
    writeln!(
        to,
        "{}_info{{version=\"{}\",httpd=\"{}\"}} 1",
        BUILD.0,
        Escaped(&snapshot.version),
        Escaped(&snapshot.httpd)
    )?;
    head(to, "gauge", WORKERS)?;
    for (state, workers) in snapshot.pool.states() {
        writeln!(to, "{}{{state=\"{state}\"}} {workers}", WORKERS.0)?;
    }
    for (family, of) in GAUGES {
        head(to, "gauge", family)?;
        writeln!(to, "{} {}", family.0, of(snapshot))?;
    }
    for (family, of) in COUNTERS {
        head(to, "counter", family)?;
        writeln!(to, "{}_total {}", family.0, of(snapshot))?;
    }
    match &snapshot.shared {
        Some(shared) => write_shared(shared, to),
        None => Ok(()),
    }
}

fn write_shared(shared: &Shared, to: &mut String) -> fmt::Result {
    const DEGRADED: Family = (
        "limitipconn_shared_degraded",
        "Whether the counts of several servers are out of reach.",
    );
    head(to, "gauge", DEGRADED)?;
    writeln!(to, "{} {}", DEGRADED.0, u8::from(shared.degraded))?;
    let counters = [
        (
            "limitipconn_shared_asked",
            "Questions about counts of several servers.",
            shared.asked,
        ),
        (
            "limitipconn_shared_missed",
            "Questions of requests that went on without an answer.",
            shared.missed,
        ),
        (
            "limitipconn_shared_outages",
            "How often those counts went out of reach.",
            shared.outages,
        ),
    ];
    for (name, help, value) in counters {
        head(to, "counter", (name, help))?;
        writeln!(to, "{name}_total {value}")?;
    }
    Ok(())
}
