//! What is known of one key in one count: a row of `limitipconn show`.

use serde::Serialize;

/// One key in one count, at one moment; what does not apply is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeyRow {
    /// The name of the rule, or of the count that rules share.
    pub rule: String,
    /// The zone whose key it is; none for an address that no zone makes.
    pub zone: Option<String>,
    /// `name:port` of the virtual host that it belongs to, if to one.
    pub vhost: Option<String>,
    /// The key, as in [`CountRow`](super::snapshot::CountRow).
    pub key: String,
    /// Requests in flight; none for a rate.
    pub in_flight: Option<u64>,
    /// The number of the rule; none where rules of several numbers share the count.
    pub limit: Option<u64>,
    /// The period of a rate in milliseconds.
    pub period_milliseconds: Option<u64>,
    /// How many more may come at once; none where the number is not known.
    pub requests_left: Option<u64>,
    /// When a bucket is full again, in milliseconds, rounded up.
    pub full_in_milliseconds: Option<u64>,
    /// How many were counted in the window.
    pub hits: Option<u64>,
    /// When the window ends, in milliseconds, rounded up.
    pub window_ends_in_milliseconds: Option<u64>,
    /// For how many seconds the key is still frozen, rounded up.
    pub frozen_seconds_left: Option<u64>,
}
