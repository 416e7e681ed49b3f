//! What the parent tells by itself, from shared memory, so that it comes when no worker is
//! free: who holds the pool when it is nearly all busy, and in quiet times a sign of life.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use super::running::{Running, Runtime};
use super::status;
use crate::httpd::log::LogLevel;
use crate::httpd::scoreboard::{Scoreboard, Slot};
use crate::httpd::state;
use crate::limit::address::Address;
use crate::report::alarm::{Alarm, Heartbeat, Holder, Started};
use crate::store;

/// When each was written last, in seconds since the machine was started; 0 for never.
static ALARM: AtomicU32 = AtomicU32::new(0);
static HEARTBEAT: AtomicU32 = AtomicU32::new(0);

/// A start or a reload: what there is.
pub fn started(runtime: &Runtime, rules: usize) {
    let text = Started {
        rules: rules as u32,
        table: runtime.segment.size().keys.into(),
    };
    runtime.log(LogLevel::NOTICE, &text.to_string());
    HEARTBEAT.store(state::seconds_up(), Ordering::Relaxed);
}

/// Now and then in the parent.
pub fn look(runtime: &Runtime) {
    let Ok(scoreboard) = Scoreboard::find(runtime.segment.size().slots) else {
        return;
    };
    let (busy, _) = scoreboard.pool();
    let workers = state::max_request_workers();
    if let Some(alarm) = runtime.alarm
        && u64::from(busy) * 100 >= u64::from(alarm.busy) * u64::from(workers)
        && is_due(&ALARM, alarm.every.as_secs())
    {
        // Without a rule nobody says who sits where.
        let holders = match Running::rules_anywhere() {
            true => holders(runtime, scoreboard),
            false => Vec::new(),
        };
        let alarm = Alarm {
            busy,
            workers,
            percent: alarm.busy,
            holders: &holders,
        };
        for line in alarm.lines() {
            runtime.log(LogLevel::WARNING, &line);
        }
    }
    if let Some(every) = runtime.heartbeat
        && is_due(&HEARTBEAT, every.as_secs())
    {
        let reading = store::read(&runtime.segment, state::nanoseconds_up());
        let rules = reading
            .rules
            .iter()
            .filter(|rule| rule.generation == runtime.generation);
        let life = Heartbeat {
            rules: rules.count() as u32,
            busy,
            workers,
            keys: reading.keys.used,
            table: reading.keys.capacity,
        };
        runtime.log(LogLevel::NOTICE, &life.to_string());
    }
}

/// Whether so many seconds have gone since this was told; then they begin anew.
fn is_due(last: &AtomicU32, every: u64) -> bool {
    let now = state::seconds_up().max(1);
    let before = last.load(Ordering::Relaxed);
    let due = before == 0 || u64::from(now.saturating_sub(before)) >= every;
    if due {
        last.store(now, Ordering::Relaxed);
    }
    due
}

/// Who holds busy workers, the one that holds one longest first; nobody without a rule: then
/// requests are not looked at, and whoever sits there may be a proxy.
pub fn holders(runtime: &Runtime, scoreboard: Scoreboard) -> Vec<Holder> {
    if !Running::rules_anywhere() {
        return Vec::new();
    }
    let (identity, desks) = (runtime.segment.identity(), runtime.segment.desks());
    let now = state::microseconds();
    let mut holders: HashMap<Address, Holder> = HashMap::new();
    let slots = (0..identity.slots()).filter(|slot| scoreboard.is_busy(Slot(*slot)));
    for slot in slots {
        let Some(client) = identity.seated(slot) else {
            continue;
        };
        let work = desks.read(slot).unwrap_or_default();
        let age = match work.since {
            0 => 0,
            since => now.saturating_sub(since) / 1_000_000,
        };
        let rule = work.rule.and_then(|at| runtime.segment.ledger().get(at));
        let (host, path) = work.request.unzip();
        let rate = work
            .taken
            .map(|(bytes, millis)| bytes.saturating_mul(1000) / millis.max(1));
        let one = Holder {
            client: status::client(client, runtime.prefix),
            workers: 1,
            oldest_seconds: age,
            uri: path,
            rule: rule.map(|rule| rule.name),
            vhost: host.map(|host| String::from_utf8_lossy(&host).into_owned()),
            bytes: work.taken.map(|(bytes, _)| bytes),
            rate,
        };
        match holders.get_mut(&client) {
            None => {
                holders.insert(client, one);
            }
            Some(known) => {
                let workers = known.workers + 1;
                if one.oldest_seconds > known.oldest_seconds {
                    *known = one;
                }
                known.workers = workers;
            }
        }
    }
    let mut all: Vec<Holder> = holders.into_values().collect();
    all.sort_by(|one, other| {
        let order = |holder: &Holder| (holder.oldest_seconds, holder.workers);
        order(other)
            .cmp(&order(one))
            .then_with(|| one.client.cmp(&other.client))
    });
    all
}
