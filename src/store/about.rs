//! What a reader outside of httpd must know to make sense of the rest: which generation
//! is up, where the scoreboard lies in the parent, and what httpd is told about its log and
//! its clients.
//!
//! Written by the parent while it (re)starts, under a number that is odd meanwhile.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::words;
use crate::limit::address::Prefix;

/// Bytes of what httpd calls itself that are kept, and of its ErrorLog.
pub const HTTPD: usize = 192;
/// Bytes of the module's version that are kept.
const MODULE: usize = 32;
/// Numbers of an [`About`].
const NUMBERS: usize = 12;

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
#[derive(Clone, PartialEq, Eq, Debug, Default)]
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
    /// The parent, by the number that it has for itself.
    pub pid: u32,
    /// When that was, in seconds since the machine was started.
    pub started: u32,
    /// Whether some place may enforce its rules: not all of it is a dry run.
    pub enforces: bool,
    /// Whether mod_remoteip is loaded.
    pub has_remoteip: bool,
    /// Whether some server has an `IPLimitClientHeader`.
    pub has_client_header: bool,
    /// Whether clients are who connects: `IPLimitAddress connection`.
    pub is_by_peer: bool,
    /// Up to which level, by httpd's number, lines of this module come to the main error log.
    pub log_level: u8,
    /// An address in the module's code, in the parent's memory: which file is loaded.
    pub code: u64,
    /// How many virtual hosts have another ErrorLog than the main server.
    pub other_logs: u32,
    /// The main server's ErrorLog, as it is configured.
    pub error_log: String,
    /// The version of the module.
    pub module: String,
}

impl About {
    /// What is so or not, in the order of its bits.
    fn facts(&mut self) -> [&mut bool; 5] {
        [
            &mut self.has_rules,
            &mut self.enforces,
            &mut self.has_remoteip,
            &mut self.has_client_header,
            &mut self.is_by_peer,
        ]
    }
}

/// Where that is kept.
#[repr(C, align(64))]
pub struct Notice {
    version: AtomicU64,
    numbers: [AtomicU64; NUMBERS],
    lengths: [AtomicU64; 3],
    httpd: [AtomicU64; HTTPD / 8],
    error_log: [AtomicU64; HTTPD / 8],
    module: [AtomicU64; MODULE / 8],
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
        let mut facts = about.clone();
        let facts = (0..).zip(facts.facts());
        let facts = facts.fold(0, |all, (bit, fact)| all | u64::from(*fact) << bit);
        let numbers: [u64; NUMBERS] = [
            about.generation.into(),
            about.max_workers.into(),
            u64::from(about.prefix.v4) << 8 | u64::from(about.prefix.v6),
            address,
            stride,
            status,
            about.pid.into(),
            about.started.into(),
            about.log_level.into(),
            about.other_logs.into(),
            facts,
            about.code,
        ];
        for (word, number) in self.numbers.iter().zip(numbers) {
            // Release, here and below: whoever sees one of these sees the odd version too.
            word.store(number, Release);
        }
        let texts = [&about.httpd, &about.error_log, &about.module];
        for ((length, words), text) in self.lengths.iter().zip(self.texts()).zip(texts) {
            length.store(words::write(words, text.as_bytes()) as u64, Release);
        }
        // Release: pairs with the Acquire of `read`: what it closes is whole.
        self.version.store(version.wrapping_add(1), Release);
    }

    fn texts(&self) -> [&[AtomicU64]; 3] {
        [&self.httpd, &self.error_log, &self.module]
    }

    /// What stands here; None before the first start is done, or while one is under way.
    pub fn read(&self) -> Option<About> {
        let version = self.version.load(Acquire);
        if version == 0 || version % 2 == 1 {
            return None;
        }
        let [
            generation,
            max_workers,
            prefix,
            address,
            stride,
            status,
            pid,
            started,
            log_level,
            other_logs,
            facts,
            code,
        ] = self.numbers.each_ref().map(|word| word.load(Acquire));
        let texts = self.texts();
        let [httpd, error_log, module] = [0, 1, 2].map(|at: usize| {
            let length = self.lengths[at].load(Acquire) as usize;
            String::from_utf8_lossy(&words::read(texts[at], length)).into_owned()
        });
        let mut about = About {
            generation: generation as u32,
            max_workers: max_workers as u32,
            prefix: Prefix {
                v4: (prefix >> 8) as u8,
                v6: prefix as u8,
            },
            board: Board {
                address,
                stride,
                status,
            },
            httpd,
            pid: pid as u32,
            started: started as u32,
            log_level: log_level as u8,
            other_logs: other_logs as u32,
            code,
            error_log,
            module,
            ..About::default()
        };
        for (bit, fact) in (0..).zip(about.facts()) {
            *fact = facts >> bit & 1 == 1;
        }
        // The loads above are Acquire, so this one comes last.
        (self.version.load(Relaxed) == version).then_some(about)
    }
}
