//! Where counts live.
