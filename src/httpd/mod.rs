//! The safe face of httpd's C API: typed views over what httpd owns.
//!
//! Nothing here decides anything; it only turns pointers into Rust and back.

pub mod boundary;
mod buckets;
pub mod command;
pub mod connection;
pub mod expression;
pub mod first_output;
pub mod futex;
pub mod http2;
pub mod input;
pub mod layout;
pub mod log;
pub mod optional;
pub mod output;
pub mod pieces;
pub mod pool;
pub mod process;
pub mod record;
pub mod request;
pub mod scoreboard;
pub mod server;
pub mod socket;
pub mod state;
pub mod tree;
