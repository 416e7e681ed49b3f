//! Pure decisions: functions take state and time and return a verdict.
//!
//! No httpd, no clock, no I/O, no unsafe; nothing of ours is imported here.

#![forbid(unsafe_code)]

pub mod address;
pub mod arguments;
pub mod concurrency;
pub mod fleet;
pub mod forwarded;
pub mod frames;
pub mod gcra;
pub mod hand;
pub mod key;
pub mod mime;
pub mod network;
pub mod policy;
pub mod rate;
pub mod rating;
pub mod rule;
pub mod section;
pub mod settings;
pub mod slow;
pub mod syntax;
pub mod units;
pub mod window;
