//! Keys as 128-bit digests: fixed size, no collisions that a client can aim at.
//!
//! The digest is SipHash-1-3 (Aumasson and Bernstein, 2012) with 128-bit output
//! under a secret drawn at each start.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::address::Address;

/// The secret of the keyed hash; made by getrandom, kept in the segment.
#[derive(Clone, Copy)]
pub struct Secret(pub [u64; 2]);

/// A key's digest. `tag` tells keys apart within a bucket, `place` picks the bucket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Digest {
    /// Never 0 in a table: see [`Digest::within`].
    pub tag: u64,
    /// Reduced modulo the number of buckets.
    pub place: u64,
}

/// What a count is about, by name and never by a running number: a hash of scope,
/// level and place, the same in every child and after every reload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CountId(pub u64);

impl Secret {
    /// The digest of a client address.
    pub fn digest(&self, address: Address) -> Digest {
        let [high, low] = address.words();
        let mut hasher = SipHasher13::new_with_keys(self.0[0], self.0[1]);
        hasher.write_u64(high);
        hasher.write_u64(low);
        hasher.finish128().into()
    }
}

impl Secret {
    /// The digest of a key that is a text, of any length.
    pub fn digest_of(&self, text: &[u8]) -> Digest {
        let mut hasher = SipHasher13::new_with_keys(self.0[0], self.0[1]);
        hasher.write(text);
        hasher.finish128().into()
    }
}

impl Digest {
    /// The digest of this key within one count.
    ///
    /// The client's half is secret and uniform, so two (count, key) pairs meet
    /// only by chance of 1 in 2^128: xor is enough, and costs nothing.
    #[must_use]
    pub fn within(self, count: CountId) -> Digest {
        Digest {
            tag: (self.tag ^ count.0).max(1),
            place: self.place ^ count.0.rotate_left(32),
        }
    }
}

impl CountId {
    /// The id of the count with this name; parts are kept apart.
    pub fn named(parts: &[&str]) -> CountId {
        let mut hasher = SipHasher13::new();
        for part in parts {
            hasher.write_usize(part.len());
            hasher.write(part.as_bytes());
        }
        CountId(hasher.finish128().h1)
    }
}

impl From<siphasher::sip128::Hash128> for Digest {
    fn from(hash: siphasher::sip128::Hash128) -> Self {
        Digest {
            tag: hash.h1,
            place: hash.h2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_moved_borders_differ() {
        assert_ne!(CountId::named(&["ab", "c"]), CountId::named(&["a", "bc"]));
        assert_ne!(CountId::named(&["a"]), CountId::named(&["a", ""]));
    }

    #[test]
    fn the_secret_decides_and_the_count_tells_apart() {
        let client = Address::from_v4([192, 0, 2, 1]);
        let (one, other) = (Secret([1, 2]), Secret([1, 3]));
        assert_eq!(one.digest(client), one.digest(client));
        assert_ne!(one.digest(client), other.digest(client));
        let (hoge, fuga) = (CountId::named(&["hoge"]), CountId::named(&["fuga"]));
        assert_ne!(
            one.digest(client).within(hoge),
            one.digest(client).within(fuga)
        );
    }

    #[test]
    fn a_tag_is_never_zero() {
        let digest = Digest { tag: 7, place: 0 };
        assert_eq!(digest.within(CountId(7)).tag, 1);
    }
}
