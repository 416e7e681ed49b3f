//! The command `limitipconn`, run as people run it: arguments in, exit code and texts out.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::support::Httpd;

/// The program that was built with this test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_limitipconn");

/// What it said.
#[derive(Debug)]
pub struct Said {
    /// The exit code; -1 where a signal ended it.
    pub code: i32,
    /// What came on stdout.
    pub out: String,
    /// What came on stderr.
    pub err: String,
    /// From start to end.
    pub took: Duration,
}

impl Said {
    /// What a program that was run said.
    pub fn of(output: Output, took: Duration) -> Said {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Said {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
            took,
        }
    }

    /// It was done, and this is what came.
    #[track_caller]
    pub fn done(self) -> String {
        assert!(self.code == 0 && self.err.is_empty(), "{self:#?}");
        self.out
    }

    /// It was done, and this is what came as JSON.
    #[track_caller]
    pub fn json(self) -> Value {
        let out = self.done();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// It failed, and said why in one sentence: this is it.
    #[track_caller]
    pub fn failed(self, code: i32) -> String {
        assert!(self.code == code && self.out.is_empty(), "{self:#?}");
        let sentence = self.err.strip_prefix("limitipconn: ");
        let sentence = sentence.unwrap_or_else(|| panic!("{self:#?}"));
        assert!(
            sentence.lines().count() == 1 && sentence.ends_with('\n'),
            "{self:#?}"
        );
        sentence.trim_end().to_owned()
    }
}

/// Runs it.
#[track_caller]
pub fn limitipconn(arguments: &[&str]) -> Said {
    let start = Instant::now();
    let output = Command::new(PROGRAM).args(arguments).output();
    Said::of(output.expect("run limitipconn"), start.elapsed())
}

/// The server's PID file.
pub fn pid_file(httpd: &Httpd) -> String {
    let file = httpd.dir().join("run/httpd.pid");
    path(&file).to_owned()
}

/// A path of a test's own.
pub fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Runs it for this server, named by its PID file.
#[track_caller]
pub fn ask(httpd: &Httpd, arguments: &[&str]) -> Said {
    let file = pid_file(httpd);
    limitipconn(&[arguments, &["--pid-file", &file]].concat())
}
