//! What was read of the logs, and what of it could not be used.

use super::escape;
use super::line::Fault;

/// So many bad lines are shown, and so much of each.
const SAMPLES: usize = 3;
const SAMPLE: usize = 100;

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
    pub silent: u64,
    /// httpd's own.
    pub dummies: u64,
    /// The first bad lines, printable.
    pub samples: Vec<String>,
    /// Logs that could not be read, wholly or in part.
    pub failures: Vec<String>,
    /// Lines go on after the format of this name, which was recognized.
    pub goes_on: Option<&'static str>,
}

impl Tally {
    pub fn bad(&mut self, line: &[u8], fault: Fault) {
        self.faults[fault as usize] += 1;
        if self.samples.len() < SAMPLES {
            self.samples.push(escape::beginning(line, SAMPLE));
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
