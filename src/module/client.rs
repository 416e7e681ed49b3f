//! Who asks: the address that a request is counted for, and its key.

use std::ffi::CStr;

use super::MODULE;
use super::running::Running;
use crate::httpd::request::Request;
use crate::limit::address::{Address, Prefix};
use crate::limit::forwarded::{self, Forwarded};
use crate::limit::key::{Digest, Secret};
use crate::limit::network::{self, Network};
use crate::limit::syntax::Who;

/// A client as the rules see it.
#[derive(Clone, Copy)]
pub struct Client {
    /// The full address, for people.
    pub address: Address,
    /// The address cut to its prefix: the key.
    pub key: Address,
    /// The key's digest.
    pub digest: Digest,
}

/// `IPLimitClientHeader`: whose word about the client is taken.
pub struct ClientHeader<'p> {
    /// The header.
    pub name: &'p CStr,
    /// The proxies whose header is read.
    pub trusted: &'p [Network],
}

impl Client {
    /// The client at this address.
    pub fn at(address: Address, prefix: Prefix, secret: Secret) -> Client {
        let key = address.masked(prefix);
        Client {
            address,
            key,
            digest: secret.digest(key),
        }
    }

    /// A byte of the digest, never 0, by which the slots are searched.
    pub fn tag(&self) -> u8 {
        ((self.digest.tag >> 56) as u8).max(1)
    }
}

impl ClientHeader<'_> {
    /// Whether the header of this peer is read.
    pub fn trusts(&self, peer: Address) -> bool {
        network::any_contains(self.trusted, peer)
    }
}

/// The client of the request when it is not its connection's peer.
#[inline]
pub fn other_than_peer(running: Running, request: Request<'_>) -> Option<Address> {
    if running.runtime.who == Who::Connection {
        return None;
    }
    // What mod_remoteip has replaced is not replaced again: it removes what it read
    // from the header, and the rest of it is the client's own invention.
    if let Some(address) = request.client_other_than_peer() {
        return Some(address.into());
    }
    let header = request.server().config(MODULE)?.client_header?;
    told_by_proxy(running, request, header)
}

#[inline(never)]
fn told_by_proxy(
    running: Running,
    request: Request<'_>,
    header: &ClientHeader<'_>,
) -> Option<Address> {
    let peer = Address::from(request.connection().peer()?);
    if !header.trusts(peer) {
        return None;
    }
    let value = request.raw_header_in(header.name)?;
    // httpd has joined several lines to one. What is no UTF-8 is no address either.
    let text = String::from_utf8_lossy(value);
    match forwarded::client(std::iter::once(&*text), header.trusted) {
        Forwarded::Client(client) if client != peer => Some(client),
        Forwarded::Client(_) | Forwarded::Nothing => None,
        Forwarded::Nonsense(hop) => {
            running.unreadable(header.name, peer, hop);
            None
        }
    }
}
