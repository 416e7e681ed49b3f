//! What a key is called, for whoever reads the table: kept beside its cell, in a line of
//! its own that deciding never touches.
//!
//! A text that is longer than 56 bytes is cut; it is shown, never compared.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::words;
use crate::limit::address::Address;

/// Bytes of a text that are kept.
pub const TEXT: usize = 56;

/// What a key is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name<'a> {
    /// A client, its address cut as all are.
    Client(Address),
    /// A network of this length.
    Network(Address, u8),
    /// What an expression has made.
    Text(&'a [u8]),
    /// A part of the digest of what must not be shown.
    Hidden(u64),
}

/// A name, as read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyName {
    /// As [`Name::Client`].
    Client(Address),
    /// As [`Name::Network`].
    Network(Address, u8),
    /// As [`Name::Text`]: the first 56 bytes, and whether there were more.
    Text(Vec<u8>, bool),
    /// As [`Name::Hidden`].
    Hidden(u64),
}

/// Where a name is kept; one cache line.
#[repr(C, align(64))]
pub struct Label {
    /// `kind:8 | length:8`, from the lowest bit.
    head: AtomicU64,
    words: [AtomicU64; TEXT / 8],
}

const CLIENT: u64 = 0;
const NETWORK: u64 = 1;
const TEXTUAL: u64 = 2;
const HIDDEN: u64 = 3;

impl Label {
    /// Writes the name; only under the insert lock, while the cell is dead.
    pub fn write(&self, name: Name<'_>) {
        let (kind, length) = match name {
            Name::Client(address) => {
                self.write_address(address);
                (CLIENT, 0)
            }
            Name::Network(address, bits) => {
                self.write_address(address);
                (NETWORK, u64::from(bits))
            }
            Name::Text(text) => {
                words::write(&self.words, text);
                // One more than is kept says that there was more.
                (TEXTUAL, text.len().min(TEXT + 1) as u64)
            }
            Name::Hidden(digest) => {
                self.words[0].store(digest, Release);
                (HIDDEN, 0)
            }
        };
        // Release, here as above: whoever reads one of these also sees that the cell's
        // state before is gone, and reads again.
        self.head.store(kind | length << 8, Release);
    }

    fn write_address(&self, address: Address) {
        let [high, low] = address.words();
        self.words[0].store(high, Release);
        self.words[1].store(low, Release);
    }

    /// The name; only good while the cell's state has not changed around the reading.
    pub fn read(&self) -> KeyName {
        let head = self.head.load(Acquire);
        let word = |at: usize| self.words[at].load(Acquire);
        let address = || Address::from_words([word(0), word(1)]);
        let length = (head >> 8) as u8;
        match head & 0xff {
            TEXTUAL => {
                let kept = words::read(&self.words, length.into());
                KeyName::Text(kept, usize::from(length) > TEXT)
            }
            HIDDEN => KeyName::Hidden(word(0)),
            NETWORK => KeyName::Network(address(), length),
            _ => KeyName::Client(address()),
        }
    }
}
