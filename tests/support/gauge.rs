//! The module's numbers, as the status handler gives them: what tests wait for.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use serde_json::Value;

use super::{DEADLINE, Httpd, wait_until};

/// The address from which the gauge is read, so that it is in no test's count.
const READER: &str = "127.0.0.99";

/// One reading of `limitipconn-status?format=json`.
#[derive(Clone, PartialEq)]
pub struct Gauge(pub Value);

impl Gauge {
    /// The count of one key under one rule (or under `requests@server (server level)` and its
    /// like), over all virtual hosts; 0 when it is not listed.
    pub fn count_of(&self, rule: &str, key: &str) -> u64 {
        let rows = self
            .rows("counts")
            .filter(|row| row["rule"] == rule && row["key"] == key);
        rows.map(|row| number(&row["count"])).sum()
    }

    /// The sum of all counts; the gauge's own request, which wide scopes see, is left out.
    pub fn total(&self) -> u64 {
        self.sum(|key| key != READER)
    }

    /// Places that are taken, but for those of the gauge's own request.
    pub fn held(&self) -> u64 {
        number(&self["leases"]["held"]).saturating_sub(self.sum(|key| key == READER))
    }

    fn sum(&self, wanted: impl Fn(&str) -> bool) -> u64 {
        let rows = self
            .rows("counts")
            .filter(|row| row["key"].as_str().is_some_and(&wanted));
        rows.map(|row| number(&row["count"])).sum()
    }

    /// How often this rule refused, over all virtual hosts.
    pub fn refused(&self, rule: &str) -> u64 {
        self.rows("rules")
            .filter(|row| row["rule"] == rule)
            .map(|row| number(&row["refused"]))
            .sum()
    }

    /// How often this rule would have refused, were it no dry run, over all virtual hosts.
    pub fn marked(&self, rule: &str) -> u64 {
        self.rows("rules")
            .filter(|row| row["rule"] == rule)
            .map(|row| number(&row["refused_dry_run"]))
            .sum()
    }

    /// How often this rule let a request pass, over all virtual hosts.
    pub fn passed(&self, rule: &str) -> u64 {
        self.rows("rules")
            .filter(|row| row["rule"] == rule)
            .map(|row| number(&row["passed"]))
            .sum()
    }

    /// For how many seconds still this rule has frozen this key, if it has.
    pub fn frozen(&self, rule: &str, key: &str) -> Option<u64> {
        let mut rows = self
            .rows("frozen")
            .filter(|row| row["rule"] == rule && row["key"] == key);
        rows.next().map(|row| number(&row["seconds_left"]))
    }

    /// Whether nothing is counted and no place is held. Counts and places are read one after the
    /// other, so a request that ends meanwhile may be in one of them.
    pub fn is_empty(&self) -> bool {
        self.total() == 0 && self.held() == 0
    }

    /// Workers that are busy, the one that answers the gauge included.
    pub fn busy(&self) -> u64 {
        number(&self["pool"]["busy"])
    }

    /// A number at the top level: `evictions`, `untracked`, `audit_mismatches`, `faults`.
    pub fn number(&self, name: &str) -> u64 {
        number(&self[name])
    }

    /// The rows of an array.
    pub fn rows(&self, name: &str) -> impl Iterator<Item = &Value> {
        self[name]
            .as_array()
            .unwrap_or_else(|| panic!("no {name} in the gauge: {self:?}"))
            .iter()
    }
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number in the gauge: {value}"))
}

impl Deref for Gauge {
    type Target = Value;
    fn deref(&self) -> &Value {
        &self.0
    }
}

impl fmt::Debug for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl Httpd {
    /// Reads the gauge. It may be refused where the workers that answered it before are busy
    /// still, and count under a rule of the whole server.
    #[track_caller]
    pub fn gauge(&self) -> Gauge {
        wait_until(DEADLINE, || self.try_gauge())
    }

    fn try_gauge(&self) -> Result<Gauge, String> {
        let answer = self.client(READER).try_get("/limit-status?format=json");
        let answer = answer.map_err(|e| format!("no gauge: {e}"))?;
        if answer.status != 200 {
            return Err(format!(
                "the gauge answers {}: {}",
                answer.status,
                answer.text()
            ));
        }
        let value = serde_json::from_slice(&answer.body);
        value
            .map(Gauge)
            .map_err(|e| format!("no gauge: {e} in {}", answer.text()))
    }

    /// Reads the gauge until it is so; fails with the last reading.
    #[track_caller]
    pub fn wait_for(&self, so: impl Fn(&Gauge) -> bool) -> Gauge {
        self.wait_for_within(DEADLINE, so)
    }

    /// As [`Httpd::wait_for`], with a deadline of its own.
    #[track_caller]
    pub fn wait_for_within(&self, deadline: Duration, so: impl Fn(&Gauge) -> bool) -> Gauge {
        wait_until(deadline, || match self.try_gauge() {
            Ok(gauge) if so(&gauge) => Ok(gauge),
            Ok(gauge) => Err(format!("{gauge:?}")),
            Err(why) => Err(why),
        })
    }

    /// Waits until no request but the gauge's own is in flight and no other worker is busy.
    #[track_caller]
    pub fn wait_for_quiet(&self) -> Gauge {
        self.wait_for(|gauge| gauge.is_empty() && gauge.busy() <= 1)
    }
}
