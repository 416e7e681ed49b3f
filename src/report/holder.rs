//! Who holds workers: a row of the alarm, of the gauge and of `limitipconn top`.

use serde::{Serialize, Serializer};

use super::printable::encoded;

/// Who holds workers; what is not known is `None`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Holder {
    /// Its address, or the network that it is cut to.
    pub client: String,
    /// How many busy workers it holds.
    pub workers: u32,
    /// How long it has held the oldest of them, in seconds.
    pub oldest_seconds: u64,
    /// The name of the rule that governs the oldest request.
    pub rule: Option<String>,
    /// `name:port` of the server that was asked.
    pub vhost: Option<String>,
    /// The path of the oldest request, as httpd decoded it; written with `%` and two digits
    /// for what is no printable character.
    #[serde(serialize_with = "as_text")]
    pub uri: Option<Vec<u8>>,
    /// Bytes of the response that the client has taken, where that is watched.
    pub bytes_acknowledged: Option<u64>,
    /// How fast it takes them.
    pub bytes_per_second: Option<u64>,
}

fn as_text<S: Serializer>(uri: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
    uri.as_deref().map(encoded).serialize(to)
}
