//! What people see: the log line of a refusal and the gauge.
//!
//! Everything here is made from plain values that the caller has copied out;
//! nothing reads live memory, and nothing knows httpd.

#![forbid(unsafe_code)]

pub mod dump;
pub mod json;
pub mod message;
pub mod printable;
pub mod ratelimit;
pub mod refusal;
pub mod server_status;
pub mod snapshot;
