//! Whether limits see the true clients, or only one proxy in front of them.

use std::collections::HashSet;
use std::net::IpAddr;

use mod_limitipconn::store::{Hourly, KeyName};

use super::{Finding, Verdict};
use crate::clock;
use crate::server::Server;

/// For so long what the module saw itself still counts, in seconds.
const HOUR: u32 = 3600;

/// What is known of how clients are told apart.
#[derive(Clone, Copy, Default, Debug)]
struct Facts {
    /// How many addresses are known, in the table and in the workers' seats.
    clients: usize,
    /// One of them, where there is one only.
    only: Option<IpAddr>,
    has_remoteip: bool,
    has_client_header: bool,
    is_by_peer: bool,
    /// Whether the module saw, in this last hour, that nearly all requests come from one
    /// address with a header that nobody reads.
    proxy_was_seen: bool,
}

/// What it looks like.
pub fn look(server: &Server) -> Vec<Finding> {
    let (segment, about) = (&server.segment, &server.about);
    let identity = segment.identity();
    let seats = (0..identity.slots()).filter_map(|slot| identity.seated(slot));
    let keys = segment.spots(|_, _| true).into_iter();
    let keys = keys.filter_map(|spot| match spot.name {
        KeyName::Client(address) => Some(address),
        _ => None,
    });
    let known: HashSet<IpAddr> = keys
        .chain(seats)
        .map(|address| address.masked(about.prefix).into())
        .collect();
    let told = segment.told(Hourly::SharedAddress);
    let finding = judge(Facts {
        clients: known.len(),
        only: known.iter().next().copied().filter(|_| known.len() == 1),
        has_remoteip: about.has_remoteip,
        has_client_header: about.has_client_header,
        is_by_peer: about.is_by_peer,
        proxy_was_seen: told.is_some_and(|told| clock::seconds().saturating_sub(told) < HOUR),
    });
    vec![finding]
}

fn judge(facts: Facts) -> Finding {
    let finding = |verdict, text: String| Finding::new("clients", verdict, text);
    let means = match (facts.has_client_header, facts.has_remoteip) {
        (true, true) => "IPLimitClientHeader is set and mod_remoteip is loaded",
        (true, false) => "IPLimitClientHeader is set",
        (false, true) => "mod_remoteip is loaded",
        (false, false) => "neither IPLimitClientHeader nor mod_remoteip is used",
    };
    let reads = (facts.has_client_header || facts.has_remoteip) && !facts.is_by_peer;
    let advice = "if that is a proxy, all its visitors share one limit: name it with IPLimitClientHeader or mod_remoteip";
    if facts.proxy_was_seen {
        return finding(
            Verdict::Wrong,
            format!(
                "nearly all requests came from one address with a forwarding header that nobody reads (message 402 in \
                 the error log names it), {means}: its visitors share one limit; name it with IPLimitClientHeader or \
                 mod_remoteip"
            ),
        );
    }
    let by_peer = if facts.is_by_peer {
        "; IPLimitAddress connection: they are told apart by who connects"
    } else {
        ""
    };
    match (facts.clients, facts.only) {
        (0, _) => finding(
            Verdict::Doubt,
            format!("none was seen yet, so nothing can be said of them; {means}{by_peer}"),
        ),
        (_, Some(only)) if is_private(only) && !reads => finding(
            Verdict::Doubt,
            format!(
                "all that are known are one private address, {only}, and {means}{by_peer}; {advice}"
            ),
        ),
        (_, Some(only)) => finding(
            Verdict::Good,
            format!("one address is known, {only}; {means}{by_peer}"),
        ),
        (number, None) => finding(
            Verdict::Good,
            format!("{number} addresses are known; {means}{by_peer}"),
        ),
    }
}

/// Whether an address is of no use in the internet: that of a proxy next door, or of ourselves.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            // 100.64.0.0/10: between a provider and its customers, and in clouds.
            let [first, second, ..] = v4.octets();
            v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || (first == 100 && second >> 6 == 1)
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_nobody_names_is_noticed() {
        let private: IpAddr = "10.0.0.1".parse().unwrap();
        let public: IpAddr = "192.0.2.1".parse().unwrap();
        let one = |only| Facts {
            clients: 1,
            only: Some(only),
            ..Facts::default()
        };
        let named = Facts {
            has_remoteip: true,
            ..one(private)
        };
        for (facts, verdict, text) in [
            (Facts::default(), Verdict::Doubt, "none was seen yet"),
            (
                one(private),
                Verdict::Doubt,
                "one private address, 10.0.0.1, and neither",
            ),
            (one(public), Verdict::Good, "192.0.2.1"),
            (named, Verdict::Good, "mod_remoteip is loaded"),
            (
                Facts {
                    is_by_peer: true,
                    ..named
                },
                Verdict::Doubt,
                "IPLimitAddress connection",
            ),
            (
                Facts {
                    clients: 9,
                    ..Facts::default()
                },
                Verdict::Good,
                "9 addresses",
            ),
            (
                Facts {
                    clients: 9,
                    proxy_was_seen: true,
                    ..Facts::default()
                },
                Verdict::Wrong,
                "message 402",
            ),
        ] {
            let finding = judge(facts);
            assert_eq!(finding.verdict, verdict, "{facts:?}");
            assert!(finding.text.contains(text), "{finding:?}");
        }
    }

    #[test]
    fn private_addresses_are_known() {
        for (address, expected) in [
            ("10.1.2.3", true),
            ("172.16.0.1", true),
            ("172.32.0.1", false),
            ("192.168.1.1", true),
            ("100.64.0.1", true),
            ("100.128.0.1", false),
            ("127.0.0.1", true),
            ("8.8.8.8", false),
            ("::1", true),
            ("fd00::1", true),
            ("fe80::1", true),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_private(address.parse().unwrap()), expected, "{address}");
        }
    }
}
