//! What people see: the lines of the log and the gauge.
//!
//! Everything here is made from plain values that the caller has copied out;
//! nothing reads live memory, and nothing knows httpd.

#![forbid(unsafe_code)]

pub mod alarm;
pub mod cut;
pub mod dump;
pub mod fleet;
pub mod holder;
pub mod html;
pub mod json;
pub mod key;
pub mod message;
pub mod openmetrics;
pub mod printable;
pub mod ratelimit;
pub mod refusal;
pub mod server_status;
pub mod snapshot;
pub mod top;
