//! The first words of the segment: what it is, its secret, the module's flags,
//! and what it counts about itself.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::fleet::Breakers;

/// "limitipc", in the order of bytes that readers see in a dump.
pub const MAGIC: u64 = u64::from_le_bytes(*b"limitipc");

/// What the segment counts about itself, since start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counter {
    /// Requests admitted without being counted.
    Untracked,
    /// Keys that made room for others.
    Evictions,
    /// Counts that an audit found not to be the sum of their leases.
    AuditMismatches,
    /// Faults of the module that were caught.
    Faults,
    /// Leases of dead children found PENDING.
    ReapedPending,
    /// Leases of dead children found HELD.
    ReapedHeld,
    /// Leases of dead children found RELEASING.
    ReapedReleasing,
    /// Leases of dead children found RELEASED.
    ReapedReleased,
    /// Requests that an exemption spared.
    Exempt,
    /// Refusals that got no line in the log, told or not yet.
    LeftOut,
    /// Audits, whatever they found.
    Audits,
    /// Responses that were cut because their clients took them too slowly.
    CutTooSlow,
    /// Responses that were cut because they lasted too long.
    CutTooLong,
    /// Responses that nobody watched, for want of room.
    Unwatched,
    /// Looks at which a cut had to wait for a descriptor.
    CutsPutOff,
    /// Questions asked about counts that servers share.
    FleetAsked,
    /// Requests that went on without an answer to one.
    FleetMissed,
    /// How often the shared counts went out of reach.
    FleetOutages,
    /// Questions and tidings that found no room in their child.
    FleetUncounted,
}

/// One more than the last.
const COUNTERS: usize = Counter::FleetUncounted as usize + 1;

/// The first words of the segment.
#[repr(C, align(64))]
pub struct Header {
    /// Written last: a segment without it was never finished.
    pub magic: AtomicU64,
    /// See [`Layout::hash`](super::layout::Layout::hash).
    pub layout: AtomicU64,
    pub len: AtomicU64,
    /// As in [`Size`](super::Size), in its order.
    pub size: [AtomicU32; 4],
    pub secret: [AtomicU64; 2],
    pub flags: AtomicU32,
    counters: [AtomicU64; COUNTERS],
    /// Lines about refusals in the current second; see [`Flood`](super::Flood).
    pub lines: AtomicU64,
    /// Refusals left out of the log that nobody has told yet.
    pub untold: AtomicU64,
    /// When each kind of hourly line was written last, plus 1; 0 for never.
    pub hourly: [AtomicU32; HOURLY],
    /// See [`Majority`](super::Majority).
    pub majority: AtomicU64,
    /// See [`Breaker`](super::fleet::Breaker).
    pub breakers: Breakers,
}

/// What is told once an hour at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hourly {
    /// A trusted proxy's header that is no address.
    Unreadable,
    /// All clients behind one address.
    SharedAddress,
    /// An expression that fails.
    ExpressionFailed,
}

const HOURLY: usize = 3;
const HOUR: u32 = 3600;

impl Header {
    /// When this was told last, by the clock of the next; None for never.
    pub fn told(&self, about: Hourly) -> Option<u32> {
        self.hourly[about as usize].load(Relaxed).checked_sub(1)
    }

    /// Whether nobody has told this in the last hour; who hears yes tells it. `now` is
    /// in seconds of a clock that does not go back.
    pub fn is_first_this_hour(&self, about: Hourly, now: u32) -> bool {
        let word = &self.hourly[about as usize];
        let last = word.load(Relaxed);
        let is_due = last == 0 || now.wrapping_sub(last - 1) >= HOUR;
        is_due
            && word
                .compare_exchange(last, now.wrapping_add(1), Relaxed, Relaxed)
                .is_ok()
    }
}

/// The counters, for those who have no business with the rest of the header.
#[derive(Clone, Copy)]
pub struct Tally(&'static Header);

impl Tally {
    pub fn new(header: &'static Header) -> Self {
        Tally(header)
    }

    /// Adds to a counter.
    pub fn add(self, counter: Counter, number: u64) {
        self.0.counters[counter as usize].fetch_add(number, Relaxed);
    }

    /// Reads a counter.
    pub fn read(self, counter: Counter) -> u64 {
        self.0.counters[counter as usize].load(Relaxed)
    }
}
