//! What keys are called there: `PREFIXc{DIGEST}` for a count, `PREFIXr{DIGEST}` for a rate.
//!
//! The digest is in braces, so that a cluster, or a proxy before one, finds all of a script in
//! one slot.

use crate::limit::key::Digest;

/// A count of places.
pub fn count(prefix: &str, key: Digest) -> String {
    format!("{prefix}c{{{:016x}{:016x}}}", key.place, key.tag)
}

/// A rate.
pub fn rate(prefix: &str, key: Digest) -> String {
    format!("{prefix}r{{{:016x}{:016x}}}", key.place, key.tag)
}
