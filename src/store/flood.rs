//! Which refusals get a line in the log, so that a flood of them does not become a
//! flood of lines: one a second for each key, and so many a second in all.
//!
//! Nothing is lost but the text: a refusal without a line is added to a number that
//! the next line, or the parent, tells. Each is told once, whoever races for it. The
//! words are shared by all children and hold whole facts, so all orders are Relaxed.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::header::{Counter, Header, Tally};
use crate::limit::key::Digest;

/// Words for keys, one for each place. Two keys in one word forget each other: at worst
/// both have as many lines as [`LINES_A_SECOND`] lets them.
pub const WORDS: usize = 4096;
/// Lines of all keys together in one second.
pub const LINES_A_SECOND: u32 = 50;
/// A process can be held up between reading the clock and coming here: so far behind the
/// others it is in their second, or two of them could reopen a second again and again.
/// Further back is a clock that was set back, and a new second.
const LATE_SECONDS: u32 = 2;

/// The refusals of all children, thinned.
#[derive(Clone, Copy)]
pub struct Flood {
    header: &'static Header,
    words: &'static [AtomicU64; WORDS],
}

/// A word: `what:32 | second:32`, where `what` is a key's tag or a number of lines.
#[derive(Clone, Copy)]
struct Mark {
    what: u32,
    second: u32,
}

impl Flood {
    pub(super) fn new(header: &'static Header, words: &'static [AtomicU64; WORDS]) -> Self {
        Flood { header, words }
    }

    /// Whether this refusal of `key` gets a line. Some: it does, and the line must tell
    /// that so many were left out before it. None: this one is left out, and was noted.
    ///
    /// `now` is the second in which this is called, not the one in which the request
    /// came, of any clock that is the same for all children.
    pub fn tell(&self, key: Digest, now: u32) -> Option<u64> {
        if self.first_of_key(key, now) && self.room_in_all(now) {
            return Some(self.take_left_out());
        }
        self.leave_out();
        None
    }

    /// The same for what gets a line each, whoever it is about, as long as there is room
    /// in all.
    pub fn tell_any(&self, now: u32) -> Option<u64> {
        if self.room_in_all(now) {
            return Some(self.take_left_out());
        }
        self.leave_out();
        None
    }

    /// Notes one that gets no line, whatever room there is: nobody can write it.
    pub fn leave_out(&self) {
        self.header.untold.fetch_add(1, Relaxed);
        Tally::new(self.header).add(Counter::LeftOut, 1);
    }

    /// How many were left out and told by nobody yet. Who takes them must tell them.
    pub fn take_left_out(&self) -> u64 {
        // A look first: most lines have nothing to tell and leave the word alone.
        match self.header.untold.load(Relaxed) {
            0 => 0,
            _ => self.header.untold.swap(0, Relaxed),
        }
    }

    fn first_of_key(&self, key: Digest, now: u32) -> bool {
        let word = &self.words[key.place as usize % WORDS];
        // Not 0: that is the tag of a word that nobody has used.
        let tag = (key.tag as u32).max(1);
        let claimed = word.fetch_update(Relaxed, Relaxed, |before| {
            let before = Mark::from(before);
            let again = before.what == tag && before.is_now(now);
            (!again).then_some(
                Mark {
                    what: tag,
                    second: now,
                }
                .into(),
            )
        });
        claimed.is_ok()
    }

    fn room_in_all(&self, now: u32) -> bool {
        let counted = self.header.lines.fetch_update(Relaxed, Relaxed, |before| {
            let mut lines = Mark::from(before);
            if !lines.is_now(now) {
                lines = Mark {
                    what: 0,
                    second: now,
                };
            }
            (lines.what < LINES_A_SECOND).then(|| {
                lines.what += 1;
                lines.into()
            })
        });
        counted.is_ok()
    }
}

impl Mark {
    fn is_now(self, now: u32) -> bool {
        // Not an order: a clock that was set back must not silence anybody for long.
        self.second.wrapping_sub(now) <= LATE_SECONDS
    }
}

impl From<u64> for Mark {
    fn from(word: u64) -> Self {
        Mark {
            what: (word >> 32) as u32,
            second: word as u32,
        }
    }
}

impl From<Mark> for u64 {
    fn from(mark: Mark) -> Self {
        u64::from(mark.what) << 32 | u64::from(mark.second)
    }
}
