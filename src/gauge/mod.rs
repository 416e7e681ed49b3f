//! The instruments: live memory goes in, plain snapshots come out.
//!
//! They need no worker and no httpd: the module looks through them from inside of the
//! server, and the command `limitipconn` from outside.

#![forbid(unsafe_code)]

mod by_hand;
mod freeze;
mod highest;
mod holders;
mod keys;
mod meta;
mod names;
mod snapshot;
mod top;
mod worker;
mod written;

pub use by_hand::ByHand;
pub use freeze::{Frozen, NotFrozen};
pub use holders::holders;
pub use meta::{Guard, Kind, Meta, Rate, What};
pub use names::client;
pub use snapshot::{reach, snapshot};
pub use top::top;
pub use worker::Worker;
pub use written::{ALL, Keys, Made, Written};

use crate::limit::address::Prefix;
use crate::store::Segment;

/// The flag of the segment that says: some rule exists.
pub const ANY_RULE: u32 = 1;

/// What is looked at, and when.
pub struct Scene<'a> {
    /// The shared memory.
    pub segment: &'a Segment,
    /// What the workers of the scoreboard's slots do, by slot.
    pub workers: &'a [Worker],
    /// MaxRequestWorkers.
    pub max_workers: u32,
    /// How often the configuration was read: rules of other generations are gone.
    pub generation: u32,
    /// How addresses are cut.
    pub prefix: Prefix,
    /// Whether there is any rule, or a response is watched: without it nobody knows who
    /// sits where.
    pub has_rules: bool,
    /// What httpd calls itself.
    pub httpd: &'a str,
    /// Now, in nanoseconds of the clock of rates, which is `CLOCK_MONOTONIC`.
    pub nanos: u64,
    /// Now, in microseconds of the wall clock.
    pub micros: u64,
}
