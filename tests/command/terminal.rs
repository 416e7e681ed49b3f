//! A pseudo terminal with the command in it: what it writes, keys, and how the line was set.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::run::PROGRAM;
use super::support::{DEADLINE, Process, wait_until};

/// How long it may take on a busy machine.
const LONG: Duration = DEADLINE.saturating_mul(3);

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// The terminal, and the command that runs on it.
pub struct Terminal {
    master: File,
    /// Kept open: the last close would end the reading.
    line: OwnedFd,
    before: Vec<u64>,
    written: Arc<Mutex<Vec<u8>>>,
    child: Mutex<Child>,
}

impl Terminal {
    /// Runs the command with these arguments on a terminal of this size.
    pub fn run(arguments: &[&str], columns: u16, rows: u16) -> Terminal {
        let (mut master, mut line) = (-1, -1);
        let size = size(columns, rows);
        // SAFETY: the kernel writes two numbers and reads the size; null asks for no name and
        // the usual settings. Both descriptors are then ours alone.
        let (master, line) = unsafe {
            let none = std::ptr::null_mut();
            let made = libc::openpty(&mut master, &mut line, none, std::ptr::null(), &size);
            assert_eq!(made, 0, "openpty: {}", io::Error::last_os_error());
            (File::from_raw_fd(master), OwnedFd::from_raw_fd(line))
        };
        let end = || line.try_clone().expect("a descriptor");
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .stdin(end())
            .stdout(end())
            .stderr(end());
        // SAFETY: between fork and exec only system calls that take numbers.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() == -1 || libc::ioctl(0, libc::TIOCSCTTY, 0) == -1 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let before = settings(&line);
        let child = command.spawn().expect("run limitipconn");
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let (mut reader, to) = (master.try_clone().expect("a descriptor"), written.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                to.lock()
                    .expect("no panic")
                    .extend_from_slice(&bytes[..read]);
            }
        });
        Terminal {
            master,
            line,
            before,
            written,
            child: Mutex::new(child),
        }
    }

    /// All that was written.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("no panic")).into_owned()
    }

    /// Forgets what was written till now.
    pub fn forget(&self) {
        self.written.lock().expect("no panic").clear();
    }

    /// Waits until this is written.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        wait_until(LONG, || match self.text() {
            written if written.contains(text) => Ok(()),
            written => Err(written),
        });
    }

    /// Types.
    pub fn press(&self, keys: &str) {
        (&self.master).write_all(keys.as_bytes()).expect("type");
    }

    fn process(&self) -> Process {
        Process(self.child.lock().expect("no panic").id() as i32)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: i32) {
        self.process().signal(signal);
    }

    /// Gives the screen another size, which the command is told by a signal.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = size(columns, rows);
        // SAFETY: the kernel reads the size from our memory.
        let set = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        assert_eq!(set, 0);
    }

    /// Whether it is set to give each key at once, unseen.
    pub fn is_raw(&self) -> bool {
        settings(&self.line) != self.before
    }

    /// Waits until the command is stopped.
    #[track_caller]
    pub fn wait_until_stopped(&self) {
        let Process(number) = self.process();
        wait_until(LONG, || {
            let status = std::fs::read_to_string(format!("/proc/{number}/stat"));
            let status = status.expect("a child that lives");
            let state = status
                .rsplit(") ")
                .next()
                .and_then(|rest| rest.chars().next());
            if state == Some('T') {
                Ok(())
            } else {
                Err(state)
            }
        });
    }

    /// Waits for the end, which must be so; the terminal is as it was before.
    #[track_caller]
    pub fn ends(&self, so: Ended) {
        let status: ExitStatus = wait_until(LONG, || {
            let ended = self.child.lock().expect("no panic").try_wait();
            ended.expect("wait for it").ok_or_else(|| self.text())
        });
        let ended = match status.signal() {
            Some(signal) => Ended::Signal(signal),
            None => Ended::Code(status.code().unwrap_or(-1)),
        };
        assert_eq!(ended, so, "{:?}", self.text());
        assert!(!self.is_raw(), "the line is set otherwise than before");
        // The first screen, and its cursor.
        self.wait_for("\x1b[?1049l");
        self.wait_for("\x1b[?25h");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Ok(child) = self.child.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn size(columns: u16, rows: u16) -> libc::winsize {
    libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// How the line is set.
fn settings(line: &OwnedFd) -> Vec<u64> {
    let mut set = std::mem::MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: the kernel fills the structure, all of whose bits may be zero.
    let set = unsafe {
        assert_eq!(libc::tcgetattr(line.as_raw_fd(), set.as_mut_ptr()), 0);
        set.assume_init()
    };
    let flags = [set.c_iflag, set.c_oflag, set.c_cflag, set.c_lflag].map(u64::from);
    flags.into_iter().chain(set.c_cc.map(u64::from)).collect()
}
