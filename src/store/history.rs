//! The last ten minutes, a sample every ten seconds or so: what the pool was at, and what
//! the rules had decided until then.
//!
//! The parent alone writes, round and round; each sample has a number that is odd while it
//! is written.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Samples that are kept: ten minutes of one every ten seconds, and a few more.
pub const SAMPLES: usize = 64;

/// One sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// When, in microseconds of the wall clock.
    pub micros: u64,
    /// Busy workers.
    pub busy: u64,
    /// What all rules have passed, since start.
    pub passed: u64,
    /// What all rules have refused, since start.
    pub refused: u64,
    /// What all rules would have refused, were it not a dry run, since start.
    pub refused_dry_run: u64,
    /// Responses that were cut, since start.
    pub cut: u64,
}

/// Where a sample is kept.
#[repr(C, align(64))]
pub struct Frame {
    version: AtomicU64,
    words: [AtomicU64; 6],
}

/// The samples.
#[derive(Clone, Copy)]
pub struct History {
    frames: &'static [Frame],
}

impl History {
    pub(super) fn new(frames: &'static [Frame]) -> Self {
        History { frames }
    }

    /// Adds a sample in place of the oldest. Only the parent does.
    pub fn add(&self, sample: Sample) {
        let age = |frame: &&Frame| frame.words[0].load(Relaxed);
        let Some(oldest) = self.frames.iter().min_by_key(age) else {
            return;
        };
        let version = oldest.version.load(Relaxed) | 1;
        oldest.version.store(version, Relaxed);
        let Sample {
            micros,
            busy,
            passed,
            refused,
            refused_dry_run,
            cut,
        } = sample;
        let numbers = [micros, busy, passed, refused, refused_dry_run, cut];
        for (word, number) in oldest.words.iter().zip(numbers) {
            // Release: whoever sees one of these sees the odd version too.
            word.store(number, Release);
        }
        // Release: pairs with the Acquire of `read`: what it closes is whole.
        oldest.version.store(version.wrapping_add(1), Release);
    }

    /// All samples, the oldest first.
    pub fn read(&self) -> Vec<Sample> {
        let mut samples: Vec<Sample> = self.frames.iter().filter_map(Frame::read).collect();
        samples.sort_by_key(|sample| sample.micros);
        samples
    }
}

impl Frame {
    fn read(&self) -> Option<Sample> {
        let version = self.version.load(Acquire);
        if version == 0 || version % 2 == 1 {
            return None;
        }
        let [micros, busy, passed, refused, refused_dry_run, cut] =
            self.words.each_ref().map(|word| word.load(Acquire));
        // The loads above are Acquire, so this one comes last.
        (self.version.load(Relaxed) == version).then_some(Sample {
            micros,
            busy,
            passed,
            refused,
            refused_dry_run,
            cut,
        })
    }
}
