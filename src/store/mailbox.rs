//! What the command `limitipconn` asks of the parent, which looks now and then: one letter, a
//! number that the parent writes into the error log.
//!
//! Each step is one word: whoever is killed leaves a letter that the parent answers all the same.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Where the letter lies; one cache line.
#[repr(C, align(64))]
pub struct Letter {
    /// 0 while there is none.
    asked: AtomicU64,
    /// The last that was answered.
    answered: AtomicU64,
}

/// The letter box.
#[derive(Clone, Copy)]
pub struct Mailbox {
    letter: &'static Letter,
}

impl Mailbox {
    pub(super) fn new(letter: &'static Letter) -> Self {
        Mailbox { letter }
    }

    /// Asks for a line with this number, which is not 0. If somebody asks already it is the
    /// number of theirs that will come: one line serves both.
    pub fn ask(&self, number: u64) -> u64 {
        match self
            .letter
            .asked
            .compare_exchange(0, number, AcqRel, Acquire)
        {
            Ok(_) => number,
            Err(theirs) => theirs,
        }
    }

    /// The number of the last line that was written.
    pub fn answered(&self) -> u64 {
        // Acquire: pairs with the Release of `answer`: its line is written.
        self.letter.answered.load(Acquire)
    }

    /// Writes the line that is asked for, if one is. Only the parent does.
    pub fn answer(&self, write: impl FnOnce(u64)) {
        let asked = self.letter.asked.load(Acquire);
        if asked == 0 {
            return;
        }
        write(asked);
        // Release, twice: the line is written before it is said to be, and that is said
        // before somebody else can ask.
        self.letter.answered.store(asked, Release);
        self.letter.asked.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox() -> Mailbox {
        let letter = Letter {
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        };
        Mailbox::new(Box::leak(Box::new(letter)))
    }

    #[test]
    fn one_line_answers_all_who_ask() {
        let mailbox = mailbox();
        mailbox.answer(|_| panic!("nobody asks"));
        assert_eq!(mailbox.ask(5), 5);
        // Whoever asked may be gone.
        assert_eq!(mailbox.ask(6), 5);
        let mut lines = Vec::new();
        mailbox.answer(|number| {
            assert_eq!(mailbox.answered(), 0, "not before it is written");
            lines.push(number);
        });
        assert_eq!(mailbox.answered(), 5);
        assert_eq!(mailbox.ask(7), 7);
        mailbox.answer(|number| lines.push(number));
        assert_eq!((lines, mailbox.answered()), (vec![5, 7], 7));
        mailbox.answer(|_| panic!("nobody asks"));
    }
}
