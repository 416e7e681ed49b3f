//! The instruments: live memory goes in, plain snapshots come out.
//!
//! They need no worker and no httpd: the module looks through them from inside of the
//! server, and the command `limitipconn` from outside.

#![forbid(unsafe_code)]

mod busiest;
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

use crate::limit::address::{Address, Prefix};
use crate::store::Segment;

/// The flag of the segment that says: some rule exists.
pub const ANY_RULE: u32 = 1;

/// Which clients a rule is for, which shared memory does not say.
pub trait Audience {
    /// Whether the rule is not for every client: it has `for=`, or a like rule beside it has.
    fn is_narrow(&self, rule: u64) -> bool;
    /// Whether it is for this client.
    fn includes(&self, rule: u64, client: Address) -> bool;
}

/// For whom nothing is known: every rule is taken to be for everybody.
pub struct Everybody;

impl Audience for Everybody {
    fn is_narrow(&self, _: u64) -> bool {
        false
    }

    fn includes(&self, _: u64, _: Address) -> bool {
        true
    }
}

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
    /// Whom the rules are for.
    pub audience: &'a dyn Audience,
    /// What httpd calls itself.
    pub httpd: &'a str,
    /// Now, in nanoseconds of the clock of rates, which is `CLOCK_MONOTONIC`.
    pub nanos: u64,
    /// Now, in microseconds of the wall clock.
    pub micros: u64,
}
