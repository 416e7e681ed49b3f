//! Requests on their way from the thread that reads to the one that counts: many at a time,
//! with the texts that belong to them beside.

use mod_limitipconn::limit::address::{Address, Prefix};
use mod_limitipconn::limit::forwarded;
use mod_limitipconn::limit::key::Secret;

use super::line::Line;

/// The longest path, and the longest name of a client, that are kept; of longer ones the
/// beginning is, with [`DOTS`].
pub const TEXT: usize = 47;
const DOTS: &[u8] = b"...";

/// Stands for a duration that the log does not tell.
pub const UNKNOWN: u64 = u64::MAX;

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The client's key: its address cut to the prefix, or a digest of its name.
    pub client: Address,
    /// When it ended; when it began, if its duration is not known. In microseconds since 1970;
    /// where the log has whole seconds, the earliest that it can have been.
    pub time: i64,
    /// In microseconds.
    pub duration: u64,
    text: u32,
    name: u8,
    path: u8,
}

/// Many requests, in the order of their lines.
#[derive(Default)]
pub struct Batch {
    pub requests: Vec<Request>,
    text: Vec<u8>,
}

/// How clients are told apart.
#[derive(Clone, Copy)]
pub struct Keys {
    pub prefix: Prefix,
    /// For names instead of addresses: without it, names could be made that are one client.
    pub secret: Secret,
}

impl Keys {
    /// The key of what stands in a log, and whether it is a name.
    #[inline]
    pub fn of(&self, client: &[u8]) -> (Address, bool) {
        match address(client) {
            Some(address) => (address.masked(self.prefix), false),
            None => {
                let digest = self.secret.digest_of(client);
                (Address::from_words([digest.tag, digest.place]), true)
            }
        }
    }
}

/// An address as it stands in a log, or in a header that is logged: with a port, perhaps.
#[inline]
fn address(text: &[u8]) -> Option<Address> {
    if let Some(octets) = dotted(text) {
        return Some(Address::from_v4(octets));
    }
    let text = std::str::from_utf8(text).ok()?;
    forwarded::address(text).or_else(|| {
        // A link-local address may have its interface behind it.
        let (address, zone) = text.split_once('%')?;
        match zone.split_once(']') {
            Some((_, after)) => forwarded::address(&format!("{address}]{after}")),
            None => forwarded::address(address),
        }
    })
}

#[inline]
fn dotted(text: &[u8]) -> Option<[u8; 4]> {
    let mut octets = [0; 4];
    let mut at = 0;
    let (mut number, mut digits) = (0u32, 0);
    for &byte in text {
        match byte {
            b'0'..=b'9' => {
                number = number * 10 + u32::from(byte - b'0');
                digits += 1;
                if digits > 3 || number > 255 {
                    return None;
                }
            }
            b'.' if digits > 0 && at < 3 => {
                octets[at] = number as u8;
                at += 1;
                (number, digits) = (0, 0);
            }
            _ => return None,
        }
    }
    octets[3] = number as u8;
    (at == 3 && digits > 0).then_some(octets)
}

impl Batch {
    pub fn clear(&mut self) {
        self.requests.clear();
        self.text.clear();
    }

    /// Adds what a line tells.
    #[inline]
    pub fn add(&mut self, line: &Line, keys: &Keys) {
        let (client, is_name) = keys.of(line.client);
        let duration = line.duration.unwrap_or(UNKNOWN);
        let ends_later = match (line.ended, duration) {
            (true, _) | (_, UNKNOWN) => 0,
            (false, duration) => duration as i64,
        };
        let text = self.text.len() as u32;
        let name = self.push(if is_name { line.client } else { &[] });
        let path = self.push(line.path);
        self.requests.push(Request {
            client,
            time: line.time + ends_later,
            duration,
            text,
            name,
            path,
        });
    }

    /// Keeps a text, or its beginning; says how long that is.
    #[inline]
    fn push(&mut self, text: &[u8]) -> u8 {
        if text.len() <= TEXT {
            self.text.extend_from_slice(text);
            return text.len() as u8;
        }
        self.text.extend_from_slice(&text[..TEXT - DOTS.len()]);
        self.text.extend_from_slice(DOTS);
        TEXT as u8
    }

    /// Adds a request of another batch.
    pub fn copy(&mut self, other: &Batch, request: &Request) {
        let (name, path) = other.texts(request);
        let text = self.text.len() as u32;
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(path);
        self.requests.push(Request { text, ..*request });
    }

    /// The client's name, empty where it is an address, and the path.
    #[inline]
    pub fn texts(&self, request: &Request) -> (&[u8], &[u8]) {
        let start = request.text as usize;
        let middle = start + usize::from(request.name);
        let end = middle + usize::from(request.path);
        (&self.text[start..middle], &self.text[middle..end])
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read_as_httpd_writes_them() {
        for (text, expected) in [
            ("192.0.2.1", Some("192.0.2.1")),
            ("0.0.0.0", Some("0.0.0.0")),
            ("255.255.255.255", Some("255.255.255.255")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("fe80::1%eth0", Some("fe80::1")),
            ("[fe80::1%eth0]:80", Some("fe80::1")),
            ("192.0.2.1:4431", Some("192.0.2.1")),
            ("[2001:db8::1]:99", Some("2001:db8::1")),
            ("192.0.2.1:99999", None),
            ("[2001:db8::1]x", None),
            ("::ffff:192.0.2.1", Some("192.0.2.1")),
            ("256.0.2.1", None),
            ("192.0.2", None),
            ("192.0.2.1.5", None),
            ("192.0..1", None),
            (".0.2.1", None),
            ("1921.0.2.1", None),
            ("host.example.org", None),
            ("", None),
        ] {
            let expected = expected.map(|text| Address::from(text.parse::<IpAddr>().unwrap()));
            assert_eq!(address(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn long_texts_end_with_dots() {
        let keys = Keys {
            prefix: Prefix::default(),
            secret: Secret([1, 2]),
        };
        for (length, kept) in [(47, "x".repeat(47)), (48, "x".repeat(44) + "...")] {
            let text = "x".repeat(length);
            let mut batch = Batch::default();
            batch.add(
                &Line {
                    client: text.as_bytes(),
                    path: text.as_bytes(),
                    ..Line::default()
                },
                &keys,
            );
            let (name, path) = batch.texts(&batch.requests[0]);
            assert_eq!((name, path), (kept.as_bytes(), kept.as_bytes()));
        }
    }

    proptest! {
        #[test]
        fn dotted_agrees_with_the_standard_library(octets: [u8; 4]) {
            let text = octets.map(|octet| octet.to_string()).join(".");
            prop_assert_eq!(dotted(text.as_bytes()), Some(octets));
        }

        #[test]
        fn nothing_panics(text in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = address(&text);
        }
    }
}
