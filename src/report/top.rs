//! Who holds the server now: what `limitipconn top` shows, without a look at the table of keys.
//!
//! Field names are the document that users read: a field may be added, none is renamed.

use serde::Serialize;

use super::holder::Holder;
use super::snapshot::Pool;

/// The workers at one moment, who holds them, and what all rules have decided since start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Top {
    /// Version of the module.
    pub version: String,
    /// What httpd calls itself.
    pub httpd: String,
    /// The workers of the server.
    pub pool: Pool,
    /// Whether it is known who sits where: there is a rule, or a response is watched.
    pub holders_known: bool,
    /// Who holds the busy workers, the one that holds one longest first.
    pub holders: Vec<Holder>,
    /// What rules let through: a request that two rules were asked about is here twice.
    pub passed: u64,
    /// What rules refused.
    pub refused: u64,
    /// What rules would have refused, were it not a dry run.
    pub refused_dry_run: u64,
    /// What rules let wait for its turn.
    pub delayed: u64,
    /// Responses that were cut because their clients took them too slowly.
    pub cut_too_slow: u64,
    /// Responses that were cut because they lasted too long.
    pub cut_too_long: u64,
}
