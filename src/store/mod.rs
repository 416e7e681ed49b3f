//! Where counts live: shared memory that cannot leak a place.
//!
//! The parent makes a [`Segment`]; each child makes a [`Holder`] over it and
//! takes places with [`Holder::acquire`]; the parent gives back what dead
//! children held ([`reap()`]). Nothing here waits longer than a second, nothing
//! allocates on the way of a request, and a full table admits and says so.

// Unsafe code is in `segment` (a pointer becomes a reference), in `memfd` and in `lock`
// (calls of the kernel and of the thread library), and nowhere else.
#[forbid(unsafe_code)]
mod about;
#[forbid(unsafe_code)]
mod cell;
#[forbid(unsafe_code)]
mod count;
#[forbid(unsafe_code)]
mod desk;
#[forbid(unsafe_code)]
pub mod fleet;
#[forbid(unsafe_code)]
mod flood;
#[forbid(unsafe_code)]
mod hand;
#[forbid(unsafe_code)]
mod header;
#[forbid(unsafe_code)]
mod history;
#[forbid(unsafe_code)]
mod holder;
#[forbid(unsafe_code)]
mod identity;
#[forbid(unsafe_code)]
mod label;
#[forbid(unsafe_code)]
mod layout;
#[forbid(unsafe_code)]
mod lease;
#[forbid(unsafe_code)]
mod ledger;
mod lock;
#[forbid(unsafe_code)]
mod mailbox;
#[forbid(unsafe_code)]
mod majority;
mod memfd;
#[cfg(test)]
mod memory;
#[forbid(unsafe_code)]
mod rates;
#[forbid(unsafe_code)]
mod reading;
#[forbid(unsafe_code)]
mod reap;
#[cfg(feature = "redis")]
#[forbid(unsafe_code)]
pub mod redis;
#[forbid(unsafe_code)]
mod refused;
mod segment;
#[forbid(unsafe_code)]
mod step;
#[forbid(unsafe_code)]
mod table;
#[forbid(unsafe_code)]
mod watched;
#[forbid(unsafe_code)]
mod words;

pub use about::{About, Board};
pub use desk::{Desks, Work};
pub use flood::Flood;
pub use hand::{NoRoom, Spot};
pub use header::{Counter, Hourly};
pub use history::{History, Sample};
pub use holder::{Acquired, Holder, Lease};
pub use identity::Identity;
pub use label::{KeyName, Name};
pub use layout::Size;
pub use lease::LeaseIndex;
pub use ledger::{Fate, Ledger, META, RecordIndex, RuleRecord};
pub use mailbox::Mailbox;
pub use majority::Majority;
pub use reading::{KeyTally, LeaseTally, Reading, Seen, read, scan};
pub use reap::{Reaped, audit, reap, reconcile};
pub use refused::SegmentError;
pub use segment::{Parts, Segment};
pub use table::Keyed;
pub use watched::{Begun, Bounds, Carried, Findings, Found, Kind, Response, Watched, WatchedIndex};

#[cfg(all(not(test), debug_assertions))]
pub use step::slow_steps;
use step::step;

#[cfg(test)]
mod tests;
