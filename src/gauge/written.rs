//! What the keys of a count are, as its record in shared memory says it in one word: so that
//! somebody outside of httpd can make the digest of a key, and knows what must not be shown.

use std::net::IpAddr;

use crate::limit::address::{Address, Prefix};
use crate::limit::key::{Digest, Secret};
use crate::report::printable::decoded;
use crate::store::Name;

/// What the keys of a count are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keys {
    /// What they are made of.
    pub made: Made,
    /// Whether they are shown as digests only.
    pub is_secret: bool,
}

/// What keys are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// Addresses of clients, cut as all are.
    Client,
    /// Addresses, cut to these lengths.
    Network(Prefix),
    /// Texts.
    Text,
    /// One key for everybody.
    All,
}

/// The text of the one key of everybody.
pub const ALL: &[u8] = b"all";

const CLIENT: u64 = 1;
const NETWORK: u64 = 2;
const TEXT: u64 = 3;
const EVERYBODY: u64 = 4;

impl Keys {
    /// One word, never 0.
    pub fn pack(self) -> u64 {
        let made = match self.made {
            Made::Client => CLIENT,
            Made::Network(prefix) => {
                NETWORK | u64::from(prefix.v4) << 16 | u64::from(prefix.v6) << 24
            }
            Made::Text => TEXT,
            Made::All => EVERYBODY,
        };
        made | u64::from(self.is_secret) << 8
    }

    /// What the word says; None for 0 and what nobody packed.
    pub fn unpack(word: u64) -> Option<Keys> {
        let made = match word & 0xff {
            CLIENT => Made::Client,
            NETWORK => Made::Network(Prefix {
                v4: (word >> 16) as u8,
                v6: (word >> 24) as u8,
            }),
            TEXT => Made::Text,
            EVERYBODY => Made::All,
            _ => return None,
        };
        Some(Keys {
            made,
            is_secret: word >> 8 & 1 == 1,
        })
    }
}

/// A key as somebody has written it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// An address.
    Address(Address),
    /// A network of this length.
    Network(Address, u8),
    /// The part of a digest by which secret keys are shown.
    Digest(u64),
    /// Any text.
    Text(Vec<u8>),
}

impl Written {
    /// What this text is.
    pub fn parse(text: &[u8]) -> Written {
        let other = || Written::Text(text.to_vec());
        let Ok(word) = std::str::from_utf8(text) else {
            return other();
        };
        if let Ok(address) = word.parse::<IpAddr>() {
            return Written::Address(address.into());
        }
        if let Some(digits) = word.strip_prefix("digest:")
            && digits.len() == 16
            && let Ok(digest) = u64::from_str_radix(digits, 16)
        {
            return Written::Digest(digest);
        }
        let network = word.split_once('/').and_then(|(address, length)| {
            let address: Address = address.parse::<IpAddr>().ok()?.into();
            let length = length.parse().ok()?;
            let longest = if address.is_v4() { 32 } else { 128 };
            (length <= longest).then_some(Written::Network(address, length))
        });
        network.unwrap_or_else(other)
    }

    /// The digest and the name of this key in a count whose keys are such; none where it is
    /// no key of these. An address is a text too, but only where it has to be.
    pub fn key_of<'t>(
        &'t self,
        text: &'t [u8],
        keys: Keys,
        prefix: Prefix,
        secret: Secret,
    ) -> Option<(Digest, Name<'t>)> {
        let cut = match keys.made {
            Made::Network(prefix) => prefix,
            _ => prefix,
        };
        let bits = |address: Address| if address.is_v4() { cut.v4 } else { cut.v6 };
        let (digest, name) = match (keys.made, self) {
            (Made::Client | Made::Network(_), Written::Address(address)) => {
                network(address.masked(cut), bits(*address), keys.made, secret)
            }
            (Made::Client | Made::Network(_), Written::Network(address, length))
                if *length == bits(*address) =>
            {
                network(address.masked(cut), *length, keys.made, secret)
            }
            (Made::Text, Written::Text(_) | Written::Address(_) | Written::Network(..)) => {
                (secret.digest_of(text), Name::Text(text))
            }
            (Made::All, _) if text == ALL => (secret.digest_of(ALL), Name::Text(ALL)),
            _ => return None,
        };
        let hidden = Name::Hidden(digest.tag);
        Some((digest, if keys.is_secret { hidden } else { name }))
    }

    /// The digests that it may have, in counts of all of these kinds.
    pub fn digests(
        &self,
        text: &[u8],
        kinds: &[Keys],
        prefix: Prefix,
        secret: Secret,
    ) -> Vec<Digest> {
        let texts = [text.to_vec(), decoded(text)];
        let mut all: Vec<Digest> = texts.iter().map(|text| secret.digest_of(text)).collect();
        match *self {
            Written::Address(address) => {
                let networks = kinds.iter().filter_map(|keys| match keys.made {
                    Made::Network(prefix) => Some(prefix),
                    _ => None,
                });
                let cut = networks
                    .chain([prefix])
                    .map(|prefix| address.masked(prefix));
                all.extend(cut.map(|address| secret.digest(address)));
            }
            Written::Network(address, length) => {
                let prefix = Prefix {
                    v4: length,
                    v6: length,
                };
                all.push(secret.digest(address.masked(prefix)));
            }
            Written::Digest(_) | Written::Text(_) => {}
        }
        all
    }
}

fn network(address: Address, bits: u8, made: Made, secret: Secret) -> (Digest, Name<'static>) {
    let name = match made {
        Made::Network(_) => Name::Network(address, bits),
        _ => Name::Client(address),
    };
    (secret.digest(address), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: Address = Address::from_v4([10, 1, 2, 3]);

    #[test]
    fn a_word_keeps_what_the_keys_are() {
        for made in [
            Made::Client,
            Made::Network(Prefix { v4: 0, v6: 128 }),
            Made::Network(Prefix { v4: 32, v6: 48 }),
            Made::Text,
            Made::All,
        ] {
            for is_secret in [false, true] {
                let keys = Keys { made, is_secret };
                assert_ne!(keys.pack(), 0);
                assert_eq!(Keys::unpack(keys.pack()), Some(keys));
            }
        }
        assert_eq!(Keys::unpack(0), None);
    }

    #[test]
    fn keys_are_read_as_they_are_shown() {
        let text = |text: &str| Written::Text(text.into());
        for (word, expected) in [
            ("10.1.2.3", Written::Address(V4)),
            ("::ffff:10.1.2.3", Written::Address(V4)),
            ("10.1.2.3/16", Written::Network(V4, 16)),
            ("10.1.2.3/33", text("10.1.2.3/33")),
            ("10.1", text("10.1")),
            ("digest:00000000000000ab", Written::Digest(0xab)),
            ("digest:ab", text("digest:ab")),
            ("a b", text("a b")),
            ("", text("")),
        ] {
            assert_eq!(Written::parse(word.as_bytes()), expected, "{word}");
        }
        assert_eq!(Written::parse(b"\xff"), Written::Text(vec![0xff]));
    }

    #[test]
    fn each_count_has_its_own_key_of_a_client() {
        let secret = Secret([1, 2]);
        let key = |word: &str, made, is_secret| {
            let (word, keys) = (word.to_owned(), Keys { made, is_secret });
            let written = Written::parse(word.as_bytes());
            let key = written.key_of(word.as_bytes(), keys, Prefix::default(), secret);
            key.map(|(digest, name)| (digest, format!("{name:?}")))
        };
        let wide = Made::Network(Prefix { v4: 16, v6: 48 });
        let shown = |name: Name<'_>| format!("{name:?}");
        let net = Address::from_v4([10, 1, 0, 0]);
        assert_eq!(
            key("10.1.2.3", Made::Client, false),
            Some((secret.digest(V4), shown(Name::Client(V4))))
        );
        assert_eq!(
            key("10.1.2.3", wide, false),
            Some((secret.digest(net), shown(Name::Network(net, 16))))
        );
        assert_eq!(
            key("10.1.9.9/16", wide, false),
            key("10.1.2.3", wide, false)
        );
        assert_eq!(key("10.1.9.9/17", wide, false), None);
        let digest = secret.digest_of(b"10.1.2.3");
        assert_eq!(
            key("10.1.2.3", Made::Text, true),
            Some((digest, shown(Name::Hidden(digest.tag))))
        );
        assert_eq!(key("x", Made::Client, false), None);
        assert_eq!(key("x", Made::All, false), None);
        assert!(key("all", Made::All, false).is_some());
    }
}
