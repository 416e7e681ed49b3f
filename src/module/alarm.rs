//! What the parent tells by itself, from shared memory, so that it comes when no worker is
//! free: who holds the pool when it is nearly all busy, and in quiet times a sign of life.

use std::sync::atomic::{AtomicU32, Ordering};

use super::running::Runtime;
use super::status;
use crate::gauge::{self, Meta};
use crate::httpd::log::LogLevel;
use crate::httpd::scoreboard::Scoreboard;
use crate::httpd::state;
use crate::report::alarm::{Alarm, Check, Heartbeat, Started};
use crate::store::{self, Counter, Fate, Sample};

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

/// Writes the line by which `limitipconn check` sees that lines arrive, if it asks for one. A
/// notice is written whatever LogLevel says, but to syslog.
pub fn answer(runtime: &Runtime) {
    runtime.segment.mailbox().answer(|number| {
        let text = Check(number).to_string();
        runtime.log(LogLevel::NOTICE, &text);
    });
}

/// Now and then in the parent.
pub fn look(runtime: &Runtime) {
    let Ok(scoreboard) = Scoreboard::find(runtime.segment.size().slots) else {
        return;
    };
    let (busy, _) = scoreboard.pool();
    remember(runtime, busy);
    let workers = state::max_request_workers();
    if let Some(alarm) = runtime.alarm
        && u64::from(busy) * 100 >= u64::from(alarm.busy) * u64::from(workers)
        && is_due(&ALARM, alarm.every.as_secs())
    {
        let holders = status::look(runtime, scoreboard, gauge::holders);
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
        let (segment, now) = (&runtime.segment, state::nanoseconds_up());
        let keys = store::scan(segment, now, |_| ());
        let ledger = segment.ledger();
        let rules = ledger
            .iter()
            .filter(|rule| rule.generation == runtime.generation)
            .filter(|rule| Meta::unpack(rule.meta).is_some_and(|meta| meta.is_rule()));
        let life = Heartbeat {
            rules: rules.count() as u32,
            busy,
            workers,
            keys: keys.used,
            table: keys.capacity,
            shared: segment.breaker().health(now).map(gauge::reach),
        };
        runtime.log(LogLevel::NOTICE, &life.to_string());
    }
}

/// A sample for the history of the last minutes.
fn remember(runtime: &Runtime, busy: u32) {
    let segment = &runtime.segment;
    let ledger = segment.ledger();
    segment.history().add(Sample {
        micros: state::microseconds(),
        busy: busy.into(),
        cut: segment.read(Counter::CutTooSlow) + segment.read(Counter::CutTooLong),
        passed: ledger.sum(Fate::Passed),
        refused: ledger.sum(Fate::Refused),
        refused_dry_run: ledger.sum(Fate::RefusedDryRun),
    });
}

/// Whether so many seconds have gone since this was told; then they begin anew.
pub(super) fn is_due(last: &AtomicU32, every: u64) -> bool {
    let now = state::seconds_up().max(1);
    let before = last.load(Ordering::Relaxed);
    let due = before == 0 || u64::from(now.saturating_sub(before)) >= every;
    if due {
        last.store(now, Ordering::Relaxed);
    }
    due
}
