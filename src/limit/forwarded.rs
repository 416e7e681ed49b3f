//! Who the client is, by what trusted proxies say in X-Forwarded-For or X-Real-IP.
//!
//! Each proxy adds its own peer on the right, so only what trusted ones added
//! counts: the walk goes from right to left. No allocation, one pass.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address::Address;
use super::network::{self, Network};

/// What a forwarding header says when the TCP peer is a trusted proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forwarded<'h> {
    /// The client.
    Client(Address),
    /// No header, or only blanks and commas.
    Nothing,
    /// A hop that is no address, as it is written; what stands left of it is
    /// worth nothing.
    Nonsense(&'h str),
}

/// The client that the header's lines name, given in the order of the request.
///
/// The first hop from the right that is not trusted is the client; when all are
/// trusted, the leftmost is. A hop is an address, `a.b.c.d:port`, `[v6]` or
/// `[v6]:port`, in double quotes or not; IPv4-mapped IPv6 is IPv4. Empty elements
/// are skipped. `unknown`, names and zone ids are no addresses.
pub fn client<'h>(
    lines: impl DoubleEndedIterator<Item = &'h str>,
    trusted: &[Network],
) -> Forwarded<'h> {
    let hops = lines
        .rev()
        .flat_map(|line| line.rsplit(','))
        .map(|hop| hop.trim_matches([' ', '\t']))
        .filter(|hop| !hop.is_empty());
    let mut said = Forwarded::Nothing;
    for hop in hops {
        let Some(address) = address(hop) else {
            return Forwarded::Nonsense(hop);
        };
        said = Forwarded::Client(address);
        if !network::any_contains(trusted, address) {
            break;
        }
    }
    said
}

/// The address of a hop, without blanks around it.
pub fn address(hop: &str) -> Option<Address> {
    let bare = match hop.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"')?,
        None => hop,
    };
    let ip = if let Some(rest) = bare.strip_prefix('[') {
        let (ip, after) = rest.split_once(']')?;
        let is_end = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        IpAddr::V6(ip.parse::<Ipv6Addr>().ok().filter(|_| is_end)?)
    } else if let Ok(ip) = bare.parse() {
        ip
    } else {
        let (ip, port) = bare.split_once(':')?;
        IpAddr::V4(ip.parse::<Ipv4Addr>().ok().filter(|_| is_port(port))?)
    };
    Some(ip.into())
}

fn is_port(text: &str) -> bool {
    // parse() would take a leading plus sign.
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::network;
    use proptest::prelude::*;
    use std::net::{SocketAddr, SocketAddrV4};

    fn known(text: &str) -> Forwarded<'_> {
        Forwarded::Client(text.parse::<IpAddr>().expect("a test's own address").into())
    }

    fn trusted() -> Vec<Network> {
        network::list("10.0.0.0/8, 2001:db8::/32").expect("a test's own networks")
    }

    fn said<'h>(lines: &[&'h str]) -> Forwarded<'h> {
        client(lines.iter().copied(), &trusted())
    }

    #[test]
    fn a_hop_may_be_written_in_many_ways() {
        for (hop, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            (" \t192.0.2.1\t ", "192.0.2.1"),
            ("192.0.2.1:0", "192.0.2.1"),
            ("192.0.2.1:65535", "192.0.2.1"),
            ("\"192.0.2.1:80\"", "192.0.2.1"),
            ("\"192.0.2.1\"", "192.0.2.1"),
            ("2001:DB9::1", "2001:db9::1"),
            ("::1:80", "::1:80"),
            ("[2001:db9::1]", "2001:db9::1"),
            ("[2001:db9::1]:443", "2001:db9::1"),
            ("\"[2001:db9::1]:443\"", "2001:db9::1"),
            ("\"2001:db9::1\"", "2001:db9::1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("[::ffff:c000:201]:80", "192.0.2.1"),
        ] {
            assert_eq!(said(&[hop]), known(expected), "{hop}");
        }
    }

    #[test]
    fn what_is_no_address_is_nonsense() {
        let hops = "unknown _hidden localhost - for=192.0.2.1 192.0.2.1/32 192.0.2.1;192.0.2.2 \
            192.0.2 192.0.2.256 192.0.2.01 192.0.2.1: 192.0.2.1:65536 192.0.2.1:-1 192.0.2.1:+1 \
            192.0.2.1:http 192.0.2.1:80:80 [192.0.2.1] [2001:db9::1 2001:db9::1] \
            [2001:db9::1]443 [2001:db9::1]: [[2001:db9::1]] [] fe80::1%eth0 [fe80::1%2]:80 \
            \"192.0.2.1 192.0.2.1\" \"\"192.0.2.1\"\" '192.0.2.1' \" \"\"";
        let with_blanks = [
            "192.0.2.1 192.0.2.2",
            "\" 192.0.2.1\"",
            "192.0.2.1\r",
            "192.0.2.1\u{a0}",
        ];
        for hop in hops.split(' ').chain(with_blanks) {
            assert_eq!(said(&[hop]), Forwarded::Nonsense(hop));
        }
    }

    #[test]
    fn the_first_untrusted_hop_from_the_right_is_the_client() {
        for (lines, expected) in [
            (&["192.0.2.1, 192.0.2.2"][..], known("192.0.2.2")),
            (&["192.0.2.1,10.0.0.2"], known("192.0.2.1")),
            (
                &["192.0.2.1, 192.0.2.2, 10.0.0.2, 2001:db8::1"],
                known("192.0.2.2"),
            ),
            (&["10.0.0.1, 10.0.0.2"], known("10.0.0.1")),
            (&["10.0.0.1"], known("10.0.0.1")),
            (&["192.0.2.1, 192.0.2.2", "10.0.0.2"], known("192.0.2.2")),
            (&["192.0.2.1", "192.0.2.2"], known("192.0.2.2")),
            (&["192.0.2.1", "", " , "], known("192.0.2.1")),
            (&[",192.0.2.1,, ,10.0.0.2,"], known("192.0.2.1")),
            (&["unknown, 192.0.2.1"], known("192.0.2.1")),
            (
                &["192.0.2.1, unknown, 10.0.0.2"],
                Forwarded::Nonsense("unknown"),
            ),
            (&["192.0.2.1", "a, b "], Forwarded::Nonsense("b")),
            (
                &["\"192.0.2.1,192.0.2.2\""],
                Forwarded::Nonsense("192.0.2.2\""),
            ),
            (&[], Forwarded::Nothing),
            (&["", " ,\t,"], Forwarded::Nothing),
        ] {
            assert_eq!(said(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn nobody_trusted_is_the_rightmost() {
        let lines = ["192.0.2.1, 10.0.0.1"];
        assert_eq!(client(lines.into_iter(), &[]), known("10.0.0.1"));
    }

    #[test]
    fn long_headers_are_read_to_their_end() {
        let hops = format!("192.0.2.1{}", ", 10.0.0.1:80".repeat(1000));
        assert_eq!(said(&[&hops]), known("192.0.2.1"));
        for byte in ["a", "1", ":", "[", "\"", "."] {
            let garbage = byte.repeat(8192);
            assert_eq!(said(&[&garbage]), Forwarded::Nonsense(&garbage));
        }
        for blank in [" ", ",", "\t"] {
            assert_eq!(said(&[&blank.repeat(8192)]), Forwarded::Nothing);
        }
    }

    /// The same, with the whole list in memory and std's own socket addresses.
    fn reference(lines: &[String]) -> Result<Option<IpAddr>, String> {
        let joined = lines.join(",");
        let mut hops: Vec<&str> = joined
            .split(',')
            .map(|hop| hop.trim_matches([' ', '\t']))
            .collect();
        hops.retain(|hop| !hop.is_empty());
        let mut last = None;
        for hop in hops.iter().rev() {
            let inner = match hop.as_bytes() {
                [b'"', .., b'"'] => &hop[1..hop.len() - 1],
                _ => hop,
            };
            let as_socket = || {
                inner
                    .parse::<SocketAddr>()
                    .or_else(|_| format!("{inner}:0").parse())
            };
            let ip = match inner.parse::<Ipv6Addr>() {
                _ if inner.contains('%') => return Err((*hop).to_owned()),
                Ok(v6) => v6.to_canonical(),
                Err(_) => as_socket()
                    .map_err(|_| (*hop).to_owned())?
                    .ip()
                    .to_canonical(),
            };
            last = Some(ip);
            match ip {
                IpAddr::V4(v4) if v4.octets()[0] == 10 => {}
                IpAddr::V6(v6) if v6.segments()[..2] == [0x2001, 0xdb8] => {}
                _ => break,
            }
        }
        Ok(last)
    }

    fn any_hop() -> impl Strategy<Value = String> {
        let v4 = (
            prop_oneof![3 => Just(10u8), 1 => any::<u8>()],
            any::<[u8; 3]>(),
        )
            .prop_map(|(first, [b, c, d])| Ipv4Addr::new(first, b, c, d));
        let v6 = (
            prop_oneof![3 => Just(0x2001_0db8u128), 1 => any::<u32>().prop_map(u128::from)],
            any::<u64>(),
        )
            .prop_map(|(first, rest)| Ipv6Addr::from(first << 96 | u128::from(rest)));
        let address = prop_oneof![
            4 => v4.clone().prop_map(|ip| ip.to_string()),
            2 => (v4.clone(), any::<u16>()).prop_map(|(ip, port)| SocketAddrV4::new(ip, port).to_string()),
            1 => v4.prop_map(|ip| ip.to_ipv6_mapped().to_string()),
            2 => v6.clone().prop_map(|ip| ip.to_string()),
            1 => v6.clone().prop_map(|ip| format!("[{ip}]")),
            2 => (v6, 0u32..70_000).prop_map(|(ip, port)| format!("[{ip}]:{port}")),
        ];
        let written = prop_oneof![
            20 => address.clone(),
            4 => address.prop_map(|hop| format!("\"{hop}\"")),
            2 => Just(String::new()),
            1 => "[0-9a-f:.%\"\\[\\]]{0,12}",
        ];
        ("[ \t]{0,2}", written, "[ \t]{0,2}")
            .prop_map(|(before, hop, after)| before + &hop + &after)
    }

    fn agrees(lines: &[String]) -> Result<(), TestCaseError> {
        let said = client(lines.iter().map(String::as_str), &trusted());
        let expected = reference(lines);
        prop_assert_eq!(
            said,
            match &expected {
                Ok(Some(ip)) => Forwarded::Client((*ip).into()),
                Ok(None) => Forwarded::Nothing,
                Err(hop) => Forwarded::Nonsense(hop),
            }
        );
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn it_agrees_with_a_plain_reading(lines in prop::collection::vec(
            prop::collection::vec(any_hop(), 0..8).prop_map(|hops| hops.join(",")), 0..4)) {
            agrees(&lines)?;
        }

        #[test]
        fn any_text_is_read_alike(lines in prop::collection::vec(
            "[0-9a-f:.,%\"\\[\\] \t]{0,60}|\\PC{0,60}", 0..3)) {
            agrees(&lines)?;
        }
    }
}
