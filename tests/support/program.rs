//! Clients that are programs of their own: curl, h2load, nghttp. They speak TLS and the
//! upgrade to h2c, which the clients here do not.

use std::process::{Child, Command, Stdio};

/// A program that runs beside the test. Dropped, it is killed.
pub struct Program {
    name: String,
    child: Option<Child>,
}

impl Program {
    /// Starts it; the arguments are divided by blanks.
    #[track_caller]
    pub fn start(name: &str, arguments: &str) -> Program {
        let child = Command::new(name)
            .args(arguments.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("cannot run {name}: {e}; install curl and nghttp2-client"));
        Program {
            name: name.to_owned(),
            child: Some(child),
        }
    }

    /// Waits for its end and returns what it wrote; a failure is the test's.
    #[track_caller]
    pub fn finish(mut self) -> String {
        let child = self.child.take().expect("a program that runs");
        let said = child.wait_with_output().expect("wait for a program");
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(
            said.status.success(),
            "{}: {}: {text}{}",
            self.name,
            said.status,
            String::from_utf8_lossy(&said.stderr)
        );
        text
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// `status version` of one request by curl, such as `200 2`; the arguments are divided by blanks.
#[track_caller]
pub fn curl(arguments: &str) -> String {
    let always = "--silent --show-error --max-time 30 --output /dev/null --write-out";
    Program::start(
        "curl",
        &format!("{always} %{{http_code}}/%{{http_version}} {arguments}"),
    )
    .finish()
    .replace('/', " ")
}
