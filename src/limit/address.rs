//! A client's address as sixteen bytes, and the prefix that makes it a key.
//!
//! IPv4 is kept as `::ffff:a.b.c.d`, so that a v4-mapped peer and the same
//! peer over IPv4 are one client.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A client address; IPv4 and IPv4-mapped IPv6 are the same value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address(u128);

/// How many leading bits of an address make the key: 0..=32 and 0..=128.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// Bits of an IPv4 address.
    pub v4: u8,
    /// Bits of an IPv6 address.
    pub v6: u8,
}

impl Default for Prefix {
    /// One IPv4 address, one IPv6 /64: what a provider hands to one client.
    fn default() -> Self {
        Prefix { v4: 32, v6: 64 }
    }
}

impl Address {
    /// The address of an IPv4 peer.
    pub const fn from_v4(octets: [u8; 4]) -> Self {
        Address(0xffff_0000_0000 | u32::from_be_bytes(octets) as u128)
    }

    /// The address of an IPv6 peer.
    pub const fn from_v6(octets: [u8; 16]) -> Self {
        Address(u128::from_be_bytes(octets))
    }

    /// The address stored as [`Address::words`].
    pub const fn from_words(words: [u64; 2]) -> Self {
        Address((words[0] as u128) << 64 | words[1] as u128)
    }

    /// High and low half, the form in which shared memory holds it.
    pub const fn words(self) -> [u64; 2] {
        [(self.0 >> 64) as u64, self.0 as u64]
    }

    /// Whether this is an IPv4 (or IPv4-mapped) address.
    pub const fn is_v4(self) -> bool {
        self.0 >> 32 == 0xffff
    }

    /// The address with everything after the prefix set to zero.
    pub const fn masked(self, prefix: Prefix) -> Self {
        let keep = if self.is_v4() { 96 + prefix.v4 as u32 } else { prefix.v6 as u32 };
        match keep {
            0 => Address(0),
            1..128 => Address(self.0 & (u128::MAX << (128 - keep))),
            _ => self,
        }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => Address::from_v4(v4.octets()),
            IpAddr::V6(v6) => Address::from_v6(v6.octets()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from_bits(self.0).to_canonical().fmt(f)
    }
}
