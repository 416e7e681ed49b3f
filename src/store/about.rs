//! What a reader outside of httpd must know to make sense of the rest: which generation
//! is up, and where the scoreboard lies in the parent.
//!
//! Written by the parent while it (re)starts, under a number that is odd meanwhile.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::words;
use crate::limit::address::Prefix;

/// Bytes of what httpd calls itself that are kept.
pub const HTTPD: usize = 192;

/// Where the status bytes of httpd's scoreboard lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Board {
    /// The address of the first slot, in the parent's memory.
    pub address: u64,
    /// From one slot to the next, in bytes.
    pub stride: u64,
    /// From the beginning of a slot to its status byte.
    pub status: u64,
}

/// One start or reload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    /// How often the configuration was read.
    pub generation: u32,
    /// MaxRequestWorkers.
    pub max_workers: u32,
    /// How addresses are cut.
    pub prefix: Prefix,
    /// Whether httpd's files have a rule, or watch a response.
    pub has_rules: bool,
    /// Where the scoreboard is.
    pub board: Board,
    /// What httpd calls itself.
    pub httpd: String,
}

/// Where that is kept.
#[repr(C, align(64))]
pub struct Notice {
    version: AtomicU64,
    generation: AtomicU64,
    max_workers: AtomicU64,
    prefix: AtomicU64,
    has_rules: AtomicU64,
    board: [AtomicU64; 3],
    length: AtomicU64,
    httpd: [AtomicU64; HTTPD / 8],
}

impl Notice {
    /// Replaces what stands here. Only the parent does.
    pub fn write(&self, about: &About) {
        let version = self.version.load(Relaxed) | 1;
        self.version.store(version, Relaxed);
        let Board {
            address,
            stride,
            status,
        } = about.board;
        let numbers = [
            (&self.generation, about.generation.into()),
            (&self.max_workers, about.max_workers.into()),
            (
                &self.prefix,
                u64::from(about.prefix.v4) << 8 | u64::from(about.prefix.v6),
            ),
            (&self.has_rules, about.has_rules.into()),
            (&self.board[0], address),
            (&self.board[1], stride),
            (&self.board[2], status),
        ];
        for (word, number) in numbers {
            // Release, here and below: whoever sees one of these sees the odd version too.
            word.store(number, Release);
        }
        let length = words::write(&self.httpd, about.httpd.as_bytes());
        self.length.store(length as u64, Release);
        // Release: pairs with the Acquire of `read`: what it closes is whole.
        self.version.store(version.wrapping_add(1), Release);
    }

    /// What stands here; None before the first start is done, or while one is under way.
    pub fn read(&self) -> Option<About> {
        let version = self.version.load(Acquire);
        if version == 0 || version % 2 == 1 {
            return None;
        }
        let [address, stride, status] = self.board.each_ref().map(|word| word.load(Acquire));
        let prefix = self.prefix.load(Acquire);
        let httpd = words::read(&self.httpd, self.length.load(Acquire) as usize);
        let about = About {
            generation: self.generation.load(Acquire) as u32,
            max_workers: self.max_workers.load(Acquire) as u32,
            prefix: Prefix {
                v4: (prefix >> 8) as u8,
                v6: prefix as u8,
            },
            has_rules: self.has_rules.load(Acquire) != 0,
            board: Board {
                address,
                stride,
                status,
            },
            httpd: String::from_utf8_lossy(&httpd).into_owned(),
        };
        // The loads above are Acquire, so this one comes last.
        (self.version.load(Relaxed) == version).then_some(about)
    }
}
