//! The handler `limitipconn-status`: the gauge.

use std::collections::HashMap;
use std::ffi::{CStr, c_int};

use super::MODULE;
use super::meta::Meta;
use super::running::Running;
use crate::httpd::log::{self, LogLevel};
use crate::httpd::request::Request;
use crate::httpd::state;
use crate::limit::address::{Address, Prefix};
use crate::report::json;
use crate::report::message::Id;
use crate::report::snapshot::{CountRow, Keys, Leases, Pool, Reaped, RuleRow, Snapshot};
use crate::store::{self, RuleRecord};
use crate::sys;

/// The name in `SetHandler`.
pub const HANDLER: &CStr = c"limitipconn-status";

/// Serves the gauge.
pub fn serve(running: Running, request: Request<'_>) -> c_int {
    let shown = request
        .server()
        .config(MODULE)
        .and_then(|site| site.status_page);
    if shown != Some(true) {
        let text = format!(
            "{}: limitipconn-status is not shown, since IPLimitStatusPage is Off; set it On in the main server",
            Id::StatusPageOff
        );
        log::request(MODULE, LogLevel::WARNING, request, &text);
        return sys::HTTP_NOT_FOUND;
    }
    let format = request
        .query()
        .unwrap_or("")
        .split('&')
        .find_map(|pair| pair.strip_prefix("format="));
    if !matches!(format, None | Some("json")) {
        return sys::HTTP_BAD_REQUEST;
    }
    request.set_header(c"Cache-Control", c"no-store");
    request.send(c"application/json", &json::json(&snapshot(running)));
    sys::OK
}

/// What there is to see now.
pub fn snapshot(running: Running) -> Snapshot {
    let reading = store::read(&running.runtime.segment);
    let (busy, idle) = running.child.scoreboard.pool();
    let names: HashMap<u64, &RuleRecord> =
        reading.rules.iter().map(|rule| (rule.id, rule)).collect();
    let counts = reading.counts.iter().map(|count| {
        let record = names.get(&count.count.0);
        CountRow {
            rule: record.map_or_else(|| String::from("?"), |record| record.name.clone()),
            vhost: record.and_then(|record| record.vhost.clone()),
            key: key(count.client, running.runtime.prefix),
            count: count.value.into(),
        }
    });
    let current = reading
        .rules
        .iter()
        .filter(|rule| rule.generation == running.runtime.generation);
    let rules = current.filter_map(|rule| {
        let Meta { limit, meaning } = Meta::unpack(rule.meta)?;
        Some(RuleRow {
            rule: rule.name.clone(),
            vhost: rule.vhost.clone(),
            limit: limit.into(),
            scope: meaning.scope.word().into(),
            count: meaning.count.word().into(),
            busy: meaning.busy,
            passed: rule.passed,
            refused: rule.refused,
            refused_dry_run: rule.refused_dry_run,
        })
    });
    Snapshot {
        version: env!("CARGO_PKG_VERSION").into(),
        httpd: state::description().into(),
        pool: Pool {
            busy: busy.into(),
            idle: idle.into(),
        },
        rules: rules.collect(),
        counts: counts.collect(),
        leases: Leases {
            capacity: reading.leases.capacity,
            pending: reading.leases.pending,
            held: reading.leases.held,
            releasing: reading.leases.releasing,
            released: reading.leases.released,
        },
        keys: Keys {
            capacity: reading.keys.capacity,
            used: reading.keys.used,
            held: reading.keys.held,
        },
        evictions: reading.evictions,
        untracked: reading.untracked,
        exempt: reading.exempt,
        log_lines_left_out: reading.left_out,
        audits: reading.audits,
        audit_mismatches: reading.audit_mismatches,
        faults: reading.faults,
        reaped: Reaped {
            pending: reading.reaped.pending,
            held: reading.reaped.held,
            releasing: reading.reaped.releasing,
            released: reading.reaped.released,
        },
    }
}

/// A key as people write it: an address, or the network that an IPv6 key is.
fn key(client: Address, prefix: Prefix) -> String {
    match (client.is_v4(), prefix) {
        (true, Prefix { v4: 32, .. }) | (false, Prefix { v6: 128, .. }) => client.to_string(),
        (true, Prefix { v4, .. }) => format!("{client}/{v4}"),
        (false, Prefix { v6, .. }) => format!("{client}/{v6}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_networks_where_they_are_some() {
        assert_eq!(
            key(Address::from_v4([127, 0, 0, 2]), Prefix::default()),
            "127.0.0.2"
        );
        let network = Address::from_v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(key(network, Prefix::default()), "2001:db8:0:1::/64");
    }
}
