//! Zones: what a key is made of (`IPLimitZone`), and the key that a request has.

use super::fleet::FLEET;
use super::running::Running;
use super::trip::Trip;
use crate::gauge::ALL;
use crate::httpd::expression::Text;
use crate::httpd::request::Request;
use crate::limit::address::Prefix;
use crate::limit::key::{CountId, Digest};
use crate::store::{Keyed, Name};

/// A zone as it was declared.
pub struct Zone<'p> {
    /// Its name, as written; names ignore case.
    pub name: &'p str,
    /// What its keys are made of.
    pub source: Source<'p>,
    /// Whether its keys have other text around something that is known late.
    pub is_late: bool,
    /// Whether its keys are shown as digests only.
    pub is_secret: bool,
    /// The file it stands in.
    pub file: &'p str,
    /// The line it stands on.
    pub line: u32,
}

/// What the keys of a zone are made of.
pub enum Source<'p> {
    /// One key for everybody.
    All,
    /// The client's address, as rules about addresses see it or cut to these lengths.
    Client(Option<Prefix>),
    /// An expression of httpd's; an empty value is no key.
    Expression(Text<'p>),
}

/// What a rule counts a request for.
#[derive(Clone, Copy)]
pub struct Key<'r> {
    /// Its digest, of no count yet.
    pub digest: Digest,
    /// What it is called.
    pub name: Name<'r>,
}

impl<'r> Key<'r> {
    /// The client that asks.
    #[inline]
    pub fn of_client(trip: &Trip<'r>) -> Key<'r> {
        Key {
            digest: trip.client.digest,
            name: Name::Client(trip.client.key),
        }
    }

    /// The key within a count.
    #[inline]
    pub fn within(self, count: CountId) -> Keyed<'r> {
        Keyed {
            digest: self.digest.within(count),
            count,
            name: self.name,
        }
    }
}

impl Zone<'_> {
    /// The key that the request has now; none where it is empty.
    pub fn key<'r>(
        &self,
        running: Running,
        request: Request<'r>,
        trip: &Trip<'r>,
    ) -> Option<Key<'r>> {
        let key = match &self.source {
            Source::All => Key {
                digest: running.secret().digest_of(ALL),
                name: Name::Text(ALL),
            },
            Source::Client(None) => Key::of_client(trip),
            Source::Client(Some(prefix)) => {
                let network = trip.client.address.masked(*prefix);
                let bits = match network.is_v4() {
                    true => prefix.v4,
                    false => prefix.v6,
                };
                Key {
                    digest: running.secret().digest(network),
                    name: Name::Network(network, bits),
                }
            }
            Source::Expression(expression) => {
                let value = expression.value(request).unwrap_or_else(|why| {
                    running.expression_failed("IPLimitZone", &why);
                    &[]
                });
                if value.is_empty() {
                    return None;
                }
                Key {
                    digest: running.secret().digest_of(value),
                    name: Name::Text(value),
                }
            }
        };
        Some(match self.is_secret {
            true => Key {
                name: Name::Hidden(key.digest.tag),
                ..key
            },
            false => key,
        })
    }

    /// The digest of the key that the request has now, as all servers make it that share
    /// counts; none where it is empty.
    pub fn fleet_digest(&self, request: Request<'_>, trip: &Trip<'_>) -> Option<Digest> {
        Some(match &self.source {
            Source::All => FLEET.digest_of(b"all"),
            Source::Client(None) => FLEET.digest(trip.client.key),
            Source::Client(Some(prefix)) => FLEET.digest(trip.client.address.masked(*prefix)),
            Source::Expression(expression) => match expression.value(request) {
                Ok([]) | Err(_) => return None,
                Ok(value) => FLEET.digest_of(value),
            },
        })
    }
}
