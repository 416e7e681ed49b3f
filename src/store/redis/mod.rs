//! Redis or Valkey behind the counts that servers share: a connection, what is said on it, and
//! what its errors mean.
//!
//! Everything that has to be done in one step is a script, on one key, by the clock of the
//! server. Only the courier of a child comes here, so that nothing of it is on a request's way.

mod errors;
mod link;
mod names;
mod scripts;

pub use link::{Dialer, Target};

#[cfg(test)]
mod tests;
