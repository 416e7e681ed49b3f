//! What lies in atomic words: texts in arrays of them, and bits, each of which says that
//! something is free.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Writes as much as fits; how many bytes that is. Release, so that whoever sees a part of
/// it also sees what said, before it, that it is being written.
#[inline]
pub fn write(words: &[AtomicU64], text: &[u8]) -> usize {
    let kept = &text[..text.len().min(words.len() * 8)];
    for (word, bytes) in words.iter().zip(kept.chunks(8)) {
        let mut buffer = [0; 8];
        buffer[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(buffer), Release);
    }
    kept.len()
}

/// Reads so many bytes, or as many as there are. Acquire, so that a look at what says
/// whether it was whole comes after it.
pub fn read(words: &[AtomicU64], length: usize) -> Vec<u8> {
    let bytes = words
        .iter()
        .flat_map(|word| word.load(Acquire).to_le_bytes());
    bytes.take(length).collect()
}

/// Takes the lowest bit; none where there is none. Acquire: pairs with the Release by which it
/// was set: whoever did that has done with what it stands for.
#[inline]
pub fn take_bit(word: &AtomicU64) -> Option<u32> {
    let mut bits = word.load(Relaxed);
    while bits != 0 {
        match word.compare_exchange_weak(bits, bits & (bits - 1), Acquire, Relaxed) {
            Ok(_) => return Some(bits.trailing_zeros()),
            Err(now) => bits = now,
        }
    }
    None
}
