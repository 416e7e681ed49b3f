//! Pure decisions: functions take state and time and return a verdict.
//!
//! No httpd, no clock, no I/O, no unsafe; nothing of ours is imported here.

pub mod address;
pub mod key;
