//! What is asked: how far a request has come, and a rule under decision.

use crate::limit::key::CountId;
use crate::limit::rating::{Limit, Rating};
use crate::limit::rule::{Meaning, Scope};
use crate::module::rules::Placed;
use crate::module::zones::Key;

/// The narrowest scope is asked first: what it refuses never shows in the wider ones.
pub const NARROWEST_FIRST: [Scope; 4] = [Scope::Location, Scope::Vhost, Scope::Zone, Scope::Server];

/// How far a request has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// quick_handler: only the client is known.
    Arrival,
    /// After the directory walk: the place is known. A rule whose key is empty waits.
    Walk,
    /// The end of fixups: type, user and environment are known. What is empty now is empty.
    Last,
}

/// A rule under decision.
#[derive(Clone, Copy)]
pub struct Ask<'r> {
    pub rule: &'r Placed<'r>,
    pub key: Key<'r>,
    pub count: CountId,
    pub what: What<'r>,
}

/// What it is about.
#[derive(Clone, Copy)]
pub enum What<'r> {
    Places {
        limit: u16,
        meaning: Meaning,
    },
    Rate {
        limit: &'r Limit,
        rating: &'r Rating,
    },
}

impl Ask<'_> {
    /// Over which place it counts.
    pub fn scope(&self) -> Scope {
        match self.what {
            What::Places { meaning, .. } => meaning.scope,
            What::Rate { rating, .. } => rating.scope,
        }
    }
}
