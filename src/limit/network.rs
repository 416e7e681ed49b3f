//! Networks as they are written, and which addresses they contain.
//!
//! The words are those of `Require ip`; what is refused here although httpd takes
//! it stands at [`parse`]. Nothing is looked up: a host name is no network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use super::address::Address;

/// Bits in front of an IPv4 address: `::ffff:0:0/96` is all of IPv4.
const BEFORE_V4: u8 = 96;

/// A network: an address and how many leading bits of it count.
///
/// The other bits are zero, so that equal networks are equal values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: Address,
    length: u8,
}

impl Network {
    /// The network of this length around an address.
    const fn around(address: Address, length: u8) -> Self {
        let address = address.leading(length as u32);
        Network { address, length }
    }

    /// Whether the address is in the network.
    ///
    /// IPv4 and IPv6 never meet: `::/0` is all of IPv6 and nothing of IPv4.
    pub fn contains(&self, address: Address) -> bool {
        // Cut to less than 96 bits, no address is IPv4: the family stays known.
        address.is_v4() == self.address.is_v4()
            && address.leading(self.length.into()) == self.address
    }

    /// How many bits count, 0..=128. IPv4 starts at 96: `10.0.0.0/8` has 104.
    pub const fn length(&self) -> u8 {
        self.length
    }
}

impl fmt::Display for Network {
    /// As people write it; a single host has no length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = if self.address.is_v4() { BEFORE_V4 } else { 0 };
        match self.length {
            128 => self.address.fmt(f),
            length => write!(f, "{}/{}", self.address, length - before),
        }
    }
}

/// The network that is written so.
///
/// - an address: `192.0.2.1`, `2001:db8::1`
/// - the first octets of an IPv4 address, a dot after them or not: `10`, `10.1.`
/// - an address and a length: `10.0.0.0/8`, `2001:db8::/32`
/// - an IPv4 address and a netmask: `10.1.0.0/255.255.0.0`
///
/// Bits after the length are ignored, as in `Require ip`. Unlike there, the length
/// may be 0 and an IPv4 address may be written `::ffff:10.0.0.0/104`, with a
/// length of 96 at least. Refused, although httpd takes them: netmasks with a one
/// after a zero, which are no networks, and numbers with a sign or with zeros in
/// front, which many programs read as octal.
pub fn parse(word: &str) -> Option<Network> {
    let Some((address, length)) = word.split_once('/') else {
        return match word.parse::<IpAddr>() {
            Ok(ip) => Some(Network::around(ip.into(), 128)),
            Err(_) => first_octets(word),
        };
    };
    let ip: IpAddr = address.parse().ok()?;
    let length = match ip {
        IpAddr::V4(_) => BEFORE_V4 + number(length, 32).or_else(|| netmask(length))?,
        IpAddr::V6(_) => number(length, 128)?,
    };
    let address = Address::from(ip);
    let is_slip = address.is_v4() && length < BEFORE_V4;
    (!is_slip).then(|| Network::around(address, length))
}

/// The networks of a list, separated by commas, blanks or both.
///
/// The error is the first word that is no network; it is empty when there is no word.
pub fn list(text: &str) -> Result<Vec<Network>, String> {
    let networks = text
        .split(|c: char| c == ',' || c.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .map(|word| parse(word).ok_or_else(|| word.to_owned()))
        .collect::<Result<Vec<_>, _>>()?;
    if networks.is_empty() {
        return Err(String::new());
    }
    Ok(networks)
}

/// Whether one of them contains the address.
pub fn any_contains(networks: &[Network], address: Address) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// The length of the longest of the networks that contain the address.
pub fn longest(networks: &[Network], address: Address) -> Option<u8> {
    networks
        .iter()
        .filter(|network| network.contains(address))
        .map(Network::length)
        .max()
}

fn first_octets(word: &str) -> Option<Network> {
    let mut octets = [0; 4];
    let mut length = BEFORE_V4;
    let mut places = octets.iter_mut();
    for octet in word.strip_suffix('.').unwrap_or(word).split('.') {
        *places.next()? = number(octet, 255)?;
        length += 8;
    }
    Some(Network::around(Address::from_v4(octets), length))
}

/// How many leading ones a netmask has, if zeros only follow.
fn netmask(word: &str) -> Option<u8> {
    let bits = word.parse::<Ipv4Addr>().ok()?.to_bits();
    let ones = bits.leading_ones();
    (ones + bits.trailing_zeros() == 32).then_some(ones as u8)
}

fn number(word: &str, most: u8) -> Option<u8> {
    // parse() would take a leading plus sign.
    let is_plain = word == "0" || word.starts_with(|c: char| matches!(c, '1'..='9'));
    word.parse()
        .ok()
        .filter(|&number| is_plain && number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

    fn address(text: &str) -> Address {
        text.parse::<IpAddr>().expect("a test's own address").into()
    }

    fn network(word: &str) -> Network {
        parse(word).unwrap_or_else(|| panic!("{word} is a network"))
    }

    #[test]
    fn good_words_are_understood() {
        for (word, shown, length) in [
            ("192.0.2.1", "192.0.2.1", 128),
            ("192.0.2.1/32", "192.0.2.1", 128),
            ("192.0.2.1.", "192.0.2.1", 128),
            ("127.0.1.0/24", "127.0.1.0/24", 120),
            ("127.0.1.9/24", "127.0.1.0/24", 120),
            ("10", "10.0.0.0/8", 104),
            ("10.", "10.0.0.0/8", 104),
            ("10.1", "10.1.0.0/16", 112),
            ("10.1.2.", "10.1.2.0/24", 120),
            ("0", "0.0.0.0/8", 104),
            ("0.0.0.0/0", "0.0.0.0/0", 96),
            ("10.1.2.3/255.255.0.0", "10.1.0.0/16", 112),
            ("10.1.2.3/255.255.255.255", "10.1.2.3", 128),
            ("10.1.2.3/0.0.0.0", "0.0.0.0/0", 96),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8", 104),
            ("::ffff:0:0/96", "0.0.0.0/0", 96),
            ("::ffff:10.0.0.1", "10.0.0.1", 128),
            ("2001:db8::/32", "2001:db8::/32", 32),
            ("2001:DB8::1/32", "2001:db8::/32", 32),
            ("2001:db8::1", "2001:db8::1", 128),
            ("::1/128", "::1", 128),
            ("::/0", "::/0", 0),
        ] {
            let network = network(word);
            assert_eq!(network.to_string(), shown, "{word}");
            assert_eq!(network.length(), length, "{word}");
        }
    }

    #[test]
    fn bad_words_are_none() {
        let words = ". .10 10..1 10.1.. 256 -1 +1 010 10.01 1.2.3.4.5 1.2.3.4.5. 1０ localhost \
            10.0.0.0/ /8 10/8 10.0.0.0/33 10.0.0.0/-1 10.0.0.0/+8 10.0.0.0/08 10.0.0.0/300 \
            10.0.0.0/8/8 10.0.0.0/255.0.255.0 10.0.0.0/0.0.0.255 10.0.0.0/ffff:: \
            ::/129 ::1/255.0.0.0 ::ffff:10.0.0.0/24 ::ffff:10.0.0.0/95 \
            ::ffff:10.0.0.0/255.0.0.0 fe80::1%eth0 [::1] 10.0.0.1:80";
        for word in words.split(' ').chain(["", " ", "10.0.0.0/8 ", "1 0"]) {
            assert_eq!(parse(word), None, "{word}");
        }
    }

    #[test]
    fn families_never_meet() {
        for (word, inside, outside) in [
            ("::/0", "2001:db8::1", "192.0.2.1"),
            ("::/0", "::", "::ffff:192.0.2.1"),
            ("::/80", "::1", "0.0.0.1"),
            ("0.0.0.0/0", "255.255.255.255", "::"),
            ("0.0.0.0/0", "::ffff:192.0.2.1", "::fffe:192.0.2.1"),
            ("10", "10.255.0.1", "11.0.0.0"),
            ("::fffe:0:0/95", "::fffe:0:1", "0.0.0.1"),
        ] {
            assert!(network(word).contains(address(inside)), "{word} {inside}");
            assert!(
                !network(word).contains(address(outside)),
                "{word} {outside}"
            );
        }
    }

    #[test]
    fn lists_take_commas_and_blanks() {
        let expected = Ok(vec![network("10"), network("::1")]);
        for text in ["10 ::1", "10,::1", " 10 ,\t::1, ", ",10.0.0.0/8,,::1"] {
            assert_eq!(list(text), expected, "{text:?}");
        }
        assert_eq!(list("10, ten, 300"), Err("ten".to_owned()));
        for text in ["", " ", ", ,"] {
            assert_eq!(list(text), Err(String::new()), "{text:?}");
        }
    }

    #[test]
    fn the_longest_network_wins() {
        let networks = list("10 10.1.2 10.1 ::/0").unwrap();
        for (text, expected) in [
            ("10.1.2.3", Some(120)),
            ("10.1.3.3", Some(112)),
            ("10.2.3.3", Some(104)),
            ("11.0.0.1", None),
            ("::1", Some(0)),
        ] {
            assert_eq!(longest(&networks, address(text)), expected, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn v4_agrees_with_first_and_last(ip: u32, length in 0u32..=32, flip: u32, shift in 0u32..=32, form in 0..4) {
            let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
            let (first, last) = (Ipv4Addr::from(ip & !hosts), Ipv4Addr::from(ip | hosts));
            let ip = Ipv4Addr::from(ip);
            let word = match form {
                0 => format!("{ip}/{length}"),
                1 => format!("{ip}/{}", Ipv4Addr::from(!hosts)),
                2 => format!("{}/{}", ip.to_ipv6_mapped(), 96 + length),
                // Whole octets without a length, where it is one.
                _ if length % 8 == 0 && length > 0 => {
                    ip.octets()[..length as usize / 8].iter().map(|octet| format!("{octet}.")).collect()
                }
                _ => format!("{first}/{length}"),
            };
            let near = Ipv4Addr::from(ip.to_bits() ^ flip.checked_shr(shift).unwrap_or(0));
            let network = parse(&word).unwrap();
            prop_assert_eq!(network.contains(Address::from_v4(near.octets())), (first..=last).contains(&near));
            prop_assert!(!network.contains(Address::from_v6(near.to_ipv6_compatible().octets())));
            prop_assert_eq!(u32::from(network.length()), 96 + length);
            prop_assert_eq!(parse(&network.to_string()), Some(network));
            prop_assert_eq!(parse(&format!("{first}/{length}")), Some(network));
        }

        #[test]
        fn v6_agrees_with_first_and_last(bits: u128, zeros in 0u32..128, length in 0u32..=128, flip: u128, shift in 0u32..=128) {
            let ip = Ipv6Addr::from(bits >> zeros);
            prop_assume!(ip.to_ipv4_mapped().is_none());
            let hosts = u128::MAX.checked_shr(length).unwrap_or(0);
            let (first, last) = (Ipv6Addr::from(ip.to_bits() & !hosts), Ipv6Addr::from(ip.to_bits() | hosts));
            let near = Ipv6Addr::from(ip.to_bits() ^ flip.checked_shr(shift).unwrap_or(0));
            let network = parse(&format!("{ip}/{length}")).unwrap();
            let expected = near.to_ipv4_mapped().is_none() && (first..=last).contains(&near);
            prop_assert_eq!(network.contains(Address::from_v6(near.octets())), expected);
            prop_assert!(!network.contains(Address::from_v4((flip as u32).to_be_bytes())));
            prop_assert_eq!(u32::from(network.length()), length);
            prop_assert_eq!(parse(&network.to_string()), Some(network));
            prop_assert_eq!(parse(&format!("{first}/{length}")), Some(network));
        }

        #[test]
        fn nothing_panics_and_what_is_read_comes_back(text in "\\PC{0,40}|[0-9a-f:./, ]{0,24}") {
            for network in list(&text).unwrap_or_default() {
                prop_assert_eq!(parse(&network.to_string()), Some(network));
            }
            let _ = parse(&text);
        }
    }
}
