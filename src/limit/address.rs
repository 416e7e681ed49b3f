//! A client's address as sixteen bytes, and the prefix that makes it a key.
//!
//! IPv4 is kept as `::ffff:a.b.c.d`, so that a v4-mapped peer and the same
//! peer over IPv4 are one client.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A client address; IPv4 and IPv4-mapped IPv6 are the same value.
///
/// High and low half rather than one u128: pools align to 8 bytes, not to 16.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address([u64; 2]);

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
        Address([0, 0xffff_0000_0000 | u32::from_be_bytes(octets) as u64])
    }

    /// The address of an IPv6 peer.
    pub const fn from_v6(octets: [u8; 16]) -> Self {
        Address::from_bits(u128::from_be_bytes(octets))
    }

    const fn from_bits(bits: u128) -> Self {
        Address([(bits >> 64) as u64, bits as u64])
    }

    const fn bits(self) -> u128 {
        (self.0[0] as u128) << 64 | self.0[1] as u128
    }

    /// The address stored as [`Address::words`].
    pub const fn from_words(words: [u64; 2]) -> Self {
        Address(words)
    }

    /// High and low half, the form in which shared memory holds it.
    pub const fn words(self) -> [u64; 2] {
        self.0
    }

    /// Whether this is an IPv4 (or IPv4-mapped) address.
    pub const fn is_v4(self) -> bool {
        self.0[0] == 0 && self.0[1] >> 32 == 0xffff
    }

    /// The address with everything after the prefix set to zero.
    pub const fn masked(self, prefix: Prefix) -> Self {
        let keep = if self.is_v4() {
            96 + prefix.v4 as u32
        } else {
            prefix.v6 as u32
        };
        self.leading(keep)
    }

    /// The leading bits, counted from the start of all 128; the others are zero.
    pub(super) const fn leading(self, bits: u32) -> Self {
        match bits {
            0 => Address([0, 0]),
            1..128 => Address::from_bits(self.bits() & (u128::MAX << (128 - bits))),
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

impl From<Address> for IpAddr {
    fn from(address: Address) -> Self {
        Ipv6Addr::from_bits(address.bits()).to_canonical()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> Address {
        text.parse::<IpAddr>().expect("a test's own address").into()
    }

    #[test]
    fn mapped_addresses_are_ipv4() {
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
        assert!(address("::ffff:192.0.2.1").is_v4());
        assert_eq!(address("::ffff:192.0.2.1").to_string(), "192.0.2.1");
        assert!(!address("2001:db8::1").is_v4());
        for text in ["192.0.2.1", "2001:db8::1"] {
            assert_eq!(IpAddr::from(address(text)).to_string(), text);
        }
    }

    #[test]
    fn one_ipv6_network_is_one_key() {
        let key = |text| address(text).masked(Prefix::default());
        assert_eq!(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff::2"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }

    proptest! {
        #[test]
        fn masking_agrees_with_bit_by_bit(bits: u128, v4: u32, short in 0u8..=32, long in 0u8..=128) {
            let v6 = Ipv6Addr::from_bits(bits);
            let prefix = Prefix { v4: short, v6: long };
            let expected: u128 = (0..128).filter(|bit| *bit < long).map(|bit| bits & (1 << (127 - bit))).sum();
            if v6.to_ipv4_mapped().is_none() {
                prop_assert_eq!(Address::from_v6(v6.octets()).masked(prefix), Address::from_bits(expected));
            }
            let expected: u32 = (0..32).filter(|bit| *bit < short).map(|bit| v4 & (1 << (31 - bit))).sum();
            prop_assert_eq!(
                Address::from_v4(v4.to_be_bytes()).masked(prefix),
                Address::from_v4(expected.to_be_bytes())
            );
        }

        #[test]
        fn words_come_back(bits: u128) {
            let address = Address::from_bits(bits);
            prop_assert_eq!(Address::from_words(address.words()), address);
        }
    }
}
