//! What is asked of the counts that servers share, and what is answered.

use crate::limit::fleet::Failure;
use crate::limit::key::Digest;
use crate::limit::rating::Limit;

use super::places::PlaceIndex;

/// What a request wants.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// A place in a count.
    Take {
        /// Which of the child's places it will be.
        place: PlaceIndex,
        /// The key within its count.
        key: Digest,
        /// How many there may be; none: it is counted only.
        limit: Option<u16>,
    },
    /// A step of a rate.
    Rate {
        /// The key within its rate.
        key: Digest,
        /// The rate.
        limit: Limit,
        /// Which step.
        step: Step,
    },
}

/// A step of a rate, as [`Limit`] has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// [`Limit::decide`], and its charge.
    Decide,
    /// [`Limit::check`]
    Check,
    /// [`Limit::charge`]
    Charge,
    /// [`Limit::refund`]
    Refund {
        /// The state that the charge had made.
        charged: u64,
        /// When, by the clock of the other side.
        at: u64,
    },
}

/// What the request hears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The place is taken; so many are, with this one.
    Held(u32),
    /// So many hold a place, and there may be no more.
    Full(u32),
    /// The state of the rate before the step, and when that was: what became of the request is
    /// then what [`Limit`] makes of them.
    Rated {
        /// The state.
        word: u64,
        /// The time, by the clock of the other side.
        now: u64,
    },
    /// There was no answer, or not in time.
    Missed,
}

/// What goes over the wire.
#[derive(Clone, Copy, Debug)]
pub enum Command<'c> {
    /// Takes a place.
    Take {
        /// The key within its count.
        key: Digest,
        /// The place's name, which no other place of any server has.
        member: &'c str,
        /// How many there may be.
        limit: Option<u16>,
    },
    /// Gives places back.
    Remove {
        /// The key within its count.
        key: Digest,
        /// The places' names.
        members: &'c [String],
    },
    /// Lets places last longer.
    Renew {
        /// The key within its count.
        key: Digest,
        /// The places' names.
        members: &'c [String],
    },
    /// A step of a rate.
    Rate {
        /// The key within its rate.
        key: Digest,
        /// The rate.
        limit: Limit,
        /// Which step.
        step: Step,
    },
}

/// What comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Whether the place was taken, and how many are.
    Place {
        /// Whether it was.
        taken: bool,
        /// How many are.
        count: u32,
    },
    /// As [`Answer::Rated`].
    Rated {
        /// The state before.
        word: u64,
        /// When.
        now: u64,
    },
    /// It was done.
    Done,
}

/// Why nothing came back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What kind of fault.
    pub failure: Failure,
    /// What the other side, or the system, said; empty for nothing. Without any password.
    pub detail: String,
    /// Whether the connection had ended before anything was answered, as idle ones do.
    pub was_closed: bool,
}

/// A connection to the other side. One that had a fault is not used again.
pub trait Link: Send {
    /// Has all of these done, in this order, within the time that it was made for. As many
    /// replies come back as there are commands.
    fn run(&mut self, commands: &[Command<'_>]) -> Result<Vec<Reply>, Fault>;

    /// Whether the other side does what requests ask for, on keys that are no request's.
    fn probe(&mut self) -> Result<(), Fault>;
}

/// How a connection is made.
pub trait Dial: Send {
    /// Connects, within the time that is set for it.
    fn dial(&mut self) -> Result<Box<dyn Link>, Fault>;
}
