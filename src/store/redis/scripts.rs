//! The scripts: how they are called, and what their answers mean.
//!
//! A clock can be given to each, for tests; without one it is the server's. States and times
//! are handed up as [`Limit`] wants them, in nanoseconds since [`EPOCH`], so that this side
//! works out the decision with the same functions as for its own counts.

use std::time::Duration;

use redis::{Cmd, Value};

use super::names;
use crate::limit::gcra;
use crate::limit::key::Digest;
use crate::limit::rating::Limit;
use crate::limit::window;
use crate::store::fleet::{Command, Reply, Step};

/// 2024-01-01 in seconds since 1970. The ends of windows have 40 bits for milliseconds: 34 years.
pub const EPOCH: u64 = 1_704_067_200;

const BILLION: u64 = 1_000_000_000;
const LONGEST_LIST: usize = 8;
/// 136 years after [`EPOCH`], in seconds.
const LAST: u64 = 1 << 32;

/// A script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Script {
    Take,
    Renew,
    Bucket,
    Window,
}

impl Script {
    pub const ALL: [Script; 4] = [Script::Take, Script::Renew, Script::Bucket, Script::Window];

    pub const fn text(self) -> &'static str {
        match self {
            Script::Take => include_str!("scripts/take.lua"),
            Script::Renew => include_str!("scripts/renew.lua"),
            Script::Bucket => include_str!("scripts/bucket.lua"),
            Script::Window => include_str!("scripts/window.lua"),
        }
    }
}

/// What calls need to know.
#[derive(Clone, Copy)]
pub struct Caller<'c> {
    pub prefix: &'c str,
    pub lease: Duration,
    /// The digests under which the server knows the scripts, in the order of [`Script::ALL`].
    pub loaded: &'c [String],
    /// Now, in nanoseconds since [`EPOCH`], instead of the server's clock: for tests.
    pub clock: Option<u64>,
}

impl Caller<'_> {
    /// What is sent for a command.
    pub fn cmd(&self, command: &Command<'_>) -> Cmd {
        match *command {
            Command::Take { key, member, limit } => {
                let limit = limit.map_or(-1, i64::from);
                let mut cmd = self.call(Script::Take, &names::count(self.prefix, key));
                cmd.arg(self.millis()).arg(member);
                cmd.arg(self.lease.as_millis() as u64).arg(limit);
                cmd
            }
            Command::Renew { key, members } => {
                let mut cmd = self.call(Script::Renew, &names::count(self.prefix, key));
                cmd.arg(self.millis()).arg(self.lease.as_millis() as u64);
                cmd.arg(members);
                cmd
            }
            Command::Remove { key, members } => {
                let mut cmd = redis::cmd("ZREM");
                cmd.arg(names::count(self.prefix, key)).arg(members);
                cmd
            }
            Command::Rate { key, limit, step } => self.rate(key, &limit, step),
        }
    }

    fn rate(&self, key: Digest, limit: &Limit, step: Step) -> Cmd {
        let name = names::rate(self.prefix, key);
        let clock = self
            .clock
            .map_or_else(String::new, |now| pair(now + EPOCH * BILLION));
        let word = match step {
            Step::Decide => "decide",
            Step::Check => "check",
            Step::Charge => "charge",
            Step::Refund { .. } => "refund",
        };
        match limit {
            Limit::Bucket(bucket) => {
                let mut cmd = self.call(Script::Bucket, &name);
                cmd.arg(clock).arg(word);
                for time in bucket.terms() {
                    cmd.arg(pair(time));
                }
                if let Step::Refund { charged, at } = step {
                    for time in [charged + EPOCH * BILLION, at + EPOCH * BILLION] {
                        cmd.arg(pair(time));
                    }
                    cmd.arg(pair(gcra::AT_ONCE.as_nanos() as u64));
                }
                cmd
            }
            Limit::Window(window) => {
                let mut cmd = self.call(Script::Window, &name);
                cmd.arg(clock).arg(word).arg(EPOCH).arg(window.rate.number);
                cmd.arg(window.rate.period.as_millis() as u64);
                cmd.arg(window.freeze.map_or(-1, |time| time.as_millis() as i64));
                cmd.arg(u8::from(window.extend));
                if let Step::Refund { charged, .. } = step {
                    cmd.arg(window::State::of(charged).end);
                }
                cmd
            }
        }
    }

    fn call(&self, script: Script, key: &str) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.loaded[script as usize]).arg(1).arg(key);
        cmd
    }

    fn millis(&self) -> String {
        self.clock.map_or_else(String::new, |now| {
            (now / 1_000_000 + EPOCH * 1000).to_string()
        })
    }
}

/// What an answer says; None where it is none of a script of ours.
pub fn reply(command: &Command<'_>, value: &Value) -> Option<Reply> {
    match command {
        Command::Remove { .. } | Command::Renew { .. } => match value {
            Value::Int(_) => Some(Reply::Done),
            _ => None,
        },
        Command::Take { .. } => match numbers(value)?.as_slice() {
            [taken, count] => Some(Reply::Place {
                taken: *taken == 1,
                count: u32::try_from(*count).ok()?,
            }),
            _ => None,
        },
        Command::Rate { limit, .. } => {
            let numbers = numbers(value)?;
            let now = since_epoch(*numbers.first()?, *numbers.get(1)?)?;
            let word = match (limit, &numbers[2..]) {
                (Limit::Bucket(_), [0, 0]) => 0,
                (Limit::Bucket(_), [seconds, nanos]) => since_epoch(*seconds, *nanos)?,
                (Limit::Window(_), [0, ..]) => 0,
                (Limit::Window(_), [_, frozen, count, end]) => window::State {
                    frozen: *frozen == 1,
                    count: *count,
                    end: *end,
                }
                .word(),
                _ => return None,
            };
            Some(Reply::Rated { word, now })
        }
    }
}

fn numbers(value: &Value) -> Option<Vec<u64>> {
    let Value::Array(values) = value else {
        return None;
    };
    if values.len() > LONGEST_LIST {
        return None;
    }
    let number = |value: &Value| match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    values.iter().map(number).collect()
}

/// Seconds and nanoseconds since 1970, in nanoseconds since [`EPOCH`]; None for what no clock
/// that goes right says, and what sums would overflow with.
fn since_epoch(seconds: u64, nanos: u64) -> Option<u64> {
    let seconds = seconds.checked_sub(EPOCH)?;
    (seconds < LAST && nanos < BILLION).then(|| seconds * BILLION + nanos)
}

/// Nanoseconds as the scripts take them.
fn pair(nanos: u64) -> String {
    format!("{}:{}", nanos / BILLION, nanos % BILLION)
}
