//! The error log: httpd's own lines of an ordinary life, and everything else.
//!
//! A line that is neither ordinary nor expected by its test fails the test.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{DEADLINE, Httpd, wait_until};

/// In the line that every MPM writes when a generation has started.
pub const SERVING: &str = "resuming normal operations";

/// In every line of ours about a refusal.
pub const REFUSED: &str = "limitipconn(101): ";

/// In every line of ours about refusals that had no line.
pub const LEFT_OUT: &str = "limitipconn(102): ";

/// All that stands in a file; nothing when there is none.
pub fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Httpd {
    /// All that stands in the error log.
    pub fn error_log(&self) -> String {
        read(&self.dir().join("error_log"))
    }

    /// The lines of the error log that hold this text, each of them whole: the last one may just
    /// be written.
    pub fn log_lines(&self, text: &str) -> Vec<String> {
        self.error_log()
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'))
            .filter(|line| line.contains(text))
            .map(str::to_owned)
            .collect()
    }

    /// Waits until the error log has a line with this text, and returns all of them.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) -> Vec<String> {
        self.wait_for_lines(DEADLINE, text, 1)
    }

    /// Waits until the error log has so many lines with this text, and returns all of them,
    /// which may be more.
    #[track_caller]
    pub fn wait_for_lines(&self, within: Duration, text: &str, number: usize) -> Vec<String> {
        wait_until(within, || match self.log_lines(text) {
            lines if lines.len() >= number => Ok(lines),
            lines => {
                let (found, log) = (lines.len(), self.error_log());
                Err(format!("{found} of {number} lines with {text:?} in {log}"))
            }
        })
    }
}

/// What httpd says at start, graceful, restart and stop, whatever it is loaded with.
const ORDINARY: &[&str] = &[
    "AH00163:",           // prefork: configured, resuming normal operations
    "AH00292:",           // worker: the same
    "AH00489:",           // event: the same
    "AH00094:",           // command line
    "AH00171:",           // prefork: graceful restart requested
    "AH00297:",           // worker: graceful restart requested
    "AH00493:",           // event: graceful restart requested
    "AH00173:",           // prefork: SIGHUP received
    "AH00298:",           // worker: SIGHUP received
    "AH00494:",           // event: SIGHUP received
    "AH00169:",           // prefork: caught SIGTERM
    "AH00295:",           // worker: caught SIGTERM
    "AH00491:",           // event: caught SIGTERM
    "AH00161:",           // prefork: all workers are busy, as tests of full pools want it
    "AH00286:",           // worker: the same
    "AH00287:",           // worker: nearly all workers are busy
    "AH00484:",           // event: all workers are busy
    "AH10159:",           // event: nearly all workers are busy
    "AH00045:",           // a child has not ended after three seconds; AH00046 if it is killed
    "limitipconn(502): ", // ours: nearly all workers are busy
    "limitipconn(503): ", // ours: who holds them
    "limitipconn(505): ", // ours: it has started
    "limitipconn(210): ", // ours: of a burst= not all can come in, as tests of delay= want it
    "AH03092:",           // event: a connection that closes while its child ends
    "AH03093:",           // event: a connection that is kept while its child ends
];

/// Lines that tell of a child's death or of httpd's trouble; only a test that causes them
/// may expect them, by name.
const ALARMING: &[&str] = &[
    "exit signal",
    "AH00051",
    "AH00052",
    "AH00046",
    "AH00047",
    "panicked at",
];

/// The lines that are neither ordinary nor expected. What is alarming is expected only by a
/// text that names the alarm itself.
pub fn unexpected(text: &str, expected: &[String]) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !is_known(line, expected));
    lines.map(str::to_owned).collect()
}

fn is_known(line: &str, expected: &[String]) -> bool {
    let alarms: Vec<_> = ALARMING
        .iter()
        .filter(|alarm| line.contains(**alarm))
        .collect();
    let mut expecting = expected.iter().filter(|text| line.contains(text.as_str()));
    if alarms.is_empty() {
        ORDINARY.iter().any(|code| line.contains(code)) || expecting.next().is_some()
    } else {
        expecting.any(|text| alarms.iter().any(|alarm| text.contains(**alarm)))
    }
}
