//! The handler `limitipconn-status`: the gauge.

use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::time::Duration;

use super::MODULE;
use super::meta::{Kind, Meta};
use super::running::Running;
use crate::httpd::log::{self, LogLevel};
use crate::httpd::request::Request;
use crate::httpd::state;
use crate::limit::address::{Address, Prefix};
use crate::report::json;
use crate::report::message::Id;
use crate::report::printable::encoded_key;
use crate::report::snapshot::{CountRow, FrozenRow, Keys, Leases, Pool, Reaped, RuleRow, Snapshot};
use crate::store::{self, Fate, KeyName, RuleRecord};
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
    let reading = store::read(&running.runtime.segment, running.nanos());
    let (busy, idle) = running.child.scoreboard.pool();
    let names: HashMap<u64, &RuleRecord> =
        reading.rules.iter().map(|rule| (rule.id, rule)).collect();
    let counts = reading.counts.iter().map(|count| {
        let record = names.get(&count.count.0);
        CountRow {
            rule: record.map_or_else(|| String::from("?"), |record| record.name.clone()),
            vhost: record.and_then(|record| record.vhost.clone()),
            key: key(&count.name, running.runtime.prefix),
            count: count.value.into(),
        }
    });
    let frozen = reading.frozen.iter().map(|frozen| {
        let record = names.get(&frozen.count.0);
        FrozenRow {
            rule: record.map_or_else(|| String::from("?"), |record| record.name.clone()),
            vhost: record.and_then(|record| record.vhost.clone()),
            key: key(&frozen.name, running.runtime.prefix),
            seconds_left: frozen.left.as_millis().div_ceil(1000) as u64,
        }
    });
    let current = reading
        .rules
        .iter()
        .filter(|rule| rule.generation == running.runtime.generation);
    let rules = current.filter_map(row_of);
    Snapshot {
        version: env!("CARGO_PKG_VERSION").into(),
        httpd: state::description().into(),
        pool: Pool {
            busy: busy.into(),
            idle: idle.into(),
        },
        rules: rules.collect(),
        counts: counts.collect(),
        frozen: frozen.collect(),
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
            rated: reading.keys.rated,
            frozen: reading.frozen.len() as u64,
        },
        evictions: reading.evictions,
        untracked: reading.untracked,
        exempt: reading.exempt,
        log_lines_left_out: reading.left_out,
        audits: reading.audits,
        audit_mismatches: reading.audit_mismatches,
        cut_too_slow: reading.cut_too_slow,
        cut_too_long: reading.cut_too_long,
        faults: reading.faults,
        reaped: Reaped {
            pending: reading.reaped.pending,
            held: reading.reaped.held,
            releasing: reading.reaped.releasing,
            released: reading.reaped.released,
        },
    }
}

/// What a rule's record says; None for a count that is no single rule's.
fn row_of(record: &RuleRecord) -> Option<RuleRow> {
    let of_all = RuleRow {
        rule: record.name.clone(),
        vhost: record.vhost.clone(),
        passed: record.count(Fate::Passed),
        refused: record.count(Fate::Refused),
        refused_dry_run: record.count(Fate::RefusedDryRun),
        delayed: record.count(Fate::Delayed),
        delayed_dry_run: record.count(Fate::DelayedDryRun),
        ..RuleRow::default()
    };
    let millis = |time: Duration| time.as_millis() as u64;
    Some(match Meta::unpack(record.meta)? {
        Meta::Places { limit, meaning } => RuleRow {
            limit: limit.into(),
            scope: meaning.scope.word().into(),
            count: meaning.count.word().into(),
            busy: meaning.busy,
            ..of_all
        },
        Meta::Rate(rate) => {
            let (count, burst, freeze) = match rate.kind {
                Kind::Bucket { burst } => ("rate", Some(burst), None),
                Kind::Window { freeze } => ("hits", None, freeze),
            };
            RuleRow {
                limit: rate.number.into(),
                scope: rate.scope.word().into(),
                count: count.into(),
                period_milliseconds: Some(millis(rate.period)),
                burst,
                freeze_milliseconds: freeze.map(millis),
                ..of_all
            }
        }
    })
}

/// A key as people write it: an address, the network that one is, or a text.
fn key(name: &KeyName, prefix: Prefix) -> String {
    match name {
        KeyName::Client(address) => client(*address, prefix),
        KeyName::Network(address, length) => network(*address, *length),
        KeyName::Text(bytes, is_cut) => {
            let end = if *is_cut { "..." } else { "" };
            encoded_key(bytes) + end
        }
        KeyName::Hidden(digest) => format!("digest:{digest:016x}"),
    }
}

/// A client's key: an address, or the network that it stands for.
pub fn client(address: Address, prefix: Prefix) -> String {
    match address.is_v4() {
        true => network(address, prefix.v4),
        false => network(address, prefix.v6),
    }
}

/// A network; one of a whole address is the address.
fn network(address: Address, length: u8) -> String {
    let whole = if address.is_v4() { 32 } else { 128 };
    match length == whole {
        true => address.to_string(),
        false => format!("{address}/{length}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_people_write_them() {
        let v4 = Address::from_v4([127, 0, 0, 2]);
        let v6 = Address::from_v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        for (name, written) in [
            (KeyName::Client(v4), "127.0.0.2"),
            (KeyName::Client(v6), "2001:db8:0:1::/64"),
            (KeyName::Network(v4, 16), "127.0.0.2/16"),
            (KeyName::Network(v6, 128), "2001:db8:0:1::"),
            (KeyName::Text(b"a b".to_vec(), false), "a b"),
            (KeyName::Text(b"a%\n\xff".to_vec(), true), "a%25%0A%FF..."),
            (KeyName::Hidden(0xab), "digest:00000000000000ab"),
        ] {
            assert_eq!(key(&name, Prefix::default()), written);
        }
    }
}
