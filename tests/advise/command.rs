//! Runs the command `limitipconn` on logs that a test has made.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// A directory that goes away with the test.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("limitipconn-advise-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a directory of the test's own");
        Directory(path)
    }

    /// Writes a file; gives back how to name it.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("write a log");
        path.to_str().expect("a path in UTF-8").to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the command has said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// `limitipconn advise`, with these arguments and this standard input.
#[track_caller]
pub fn advise(arguments: &[&str], stdin: &[u8]) -> Said {
    run(
        Command::new(env!("CARGO_BIN_EXE_limitipconn"))
            .arg("advise")
            .args(arguments),
        stdin,
    )
}

/// Runs it with this standard input.
#[track_caller]
pub fn run(command: &mut Command, stdin: &[u8]) -> Said {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the command");
    let mut input = child.stdin.take().expect("its standard input");
    let said = thread::scope(|scope| {
        // It need not read what it is given.
        scope.spawn(move || input.write_all(stdin));
        child.wait_with_output().expect("wait for the command")
    });
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("answers are ASCII");
    Said {
        code: said.status.code().expect("no signal ends it"),
        stdout: text(said.stdout),
        stderr: text(said.stderr),
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).expect("to memory");
    packed.finish().expect("to memory")
}
