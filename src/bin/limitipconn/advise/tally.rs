//! What was read of the logs, and what of it could not be used.

use serde::Serialize;

use super::escape;
use super::line::Fault;
use super::silence::Silence;

/// So many bad lines are shown, and so much of each.
const SAMPLES: usize = 3;
const SAMPLE: usize = 100;

/// A bad line, printable.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    pub log: String,
    /// Its number in the log.
    pub line: u64,
    pub reason: &'static str,
    pub text: String,
}

/// What the lines of a log go on with after a named format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GoesOn {
    /// The name of the format.
    pub name: &'static str,
    /// What seems to follow.
    pub guess: &'static str,
    /// How the log may be named on a command line.
    pub log: String,
}

/// Lines, and why some were left out.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    pub logs: u64,
    pub lines: u64,
    /// By [`Fault`].
    faults: [u64; Fault::ALL.len()],
    /// Longer than a block.
    pub too_long: u64,
    /// Connections on which no request came.
    pub silence: Silence,
    /// httpd's own.
    pub dummies: u64,
    /// The first bad lines.
    pub samples: Vec<Sample>,
    /// Logs that could not be read, wholly or in part.
    pub failures: Vec<String>,
    /// Lines go on after a format that was recognized.
    pub goes_on: Option<GoesOn>,
}

impl Tally {
    /// Counts a line that is of no use; shows it if it is one of the first and is text.
    pub fn bad(&mut self, line: &[u8], fault: Fault, log: impl FnOnce() -> String, number: u64) {
        self.faults[fault as usize] += 1;
        if self.samples.len() < SAMPLES && !is_binary(line) {
            self.samples.push(Sample {
                log: log(),
                line: number,
                reason: fault.name(),
                text: escape::beginning(line, SAMPLE),
            });
        }
    }

    /// Why lines were left out, with how many.
    pub fn faults(&self) -> impl Iterator<Item = (Fault, u64)> {
        let counts = Fault::ALL.into_iter().zip(self.faults);
        counts.filter(|(_, count)| *count > 0)
    }

    /// How many lines are of no use.
    pub fn bad_lines(&self) -> u64 {
        self.too_long + self.faults.iter().sum::<u64>()
    }
}

/// Whether much of it cannot be printed: it would show nobody what is wrong.
fn is_binary(line: &[u8]) -> bool {
    let is_printable = |byte: &&u8| (b' '..=b'~').contains(*byte) || **byte == b'\t';
    let printable = line.iter().filter(is_printable).count();
    line.contains(&0) || printable * 3 < line.len() * 2
}
