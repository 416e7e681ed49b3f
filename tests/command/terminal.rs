//! A pseudo terminal with the command in it: what it writes, keys, and how the line was set.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
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
    reader: Option<JoinHandle<()>>,
    /// Whether what comes is not wanted any more.
    is_left: Arc<AtomicBool>,
    child: Mutex<Child>,
}

impl Terminal {
    /// Runs the command with these arguments on a terminal of this size.
    pub fn run(arguments: &[&str], columns: u16, rows: u16) -> Terminal {
        let (master, line) = pair(&size(columns, rows));
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
        let is_left = Arc::<AtomicBool>::default();
        let leaves = is_left.clone();
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                if leaves.load(Ordering::Relaxed) {
                    return;
                }
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
            reader: Some(reader),
            is_left,
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

    /// Goes away, as a connection does that breaks; how the command ends then.
    #[track_caller]
    pub fn hang_up(mut self) -> Ended {
        self.is_left.store(true, Ordering::Relaxed);
        // Wakes the reader, which has the terminal open too.
        File::from(self.line.try_clone().expect("a descriptor"))
            .write_all(b"x")
            .expect("write");
        self.reader.take().map(JoinHandle::join);
        let null = || File::open("/dev/null").expect("/dev/null");
        (self.master, self.line) = (null(), null().into());
        self.ended()
    }

    /// Waits for the end.
    #[track_caller]
    fn ended(&self) -> Ended {
        let status: ExitStatus = wait_until(LONG, || {
            let ended = self.child.lock().expect("no panic").try_wait();
            ended.expect("wait for it").ok_or_else(|| self.text())
        });
        match status.signal() {
            Some(signal) => Ended::Signal(signal),
            None => Ended::Code(status.code().unwrap_or(-1)),
        }
    }

    /// Waits for the end, which must be so; the terminal is as it was before.
    #[track_caller]
    pub fn ends(&self, so: Ended) {
        let ended = self.ended();
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

/// Both ends of a new terminal. Neither is inherited, by this command or what other tests start:
/// whoever had the master would keep the terminal alive.
fn pair(size: &libc::winsize) -> (File, OwnedFd) {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    let checked = |result: libc::c_int| {
        assert_ne!(result, -1, "{}", io::Error::last_os_error());
        result
    };
    let mut name = [0; 64];
    // SAFETY: the first and the last call give descriptors that are ours alone; the others take
    // such a descriptor and write into memory that is as long as said.
    unsafe {
        let master = File::from_raw_fd(checked(libc::posix_openpt(flags)));
        let number = master.as_raw_fd();
        checked(libc::grantpt(number));
        checked(libc::unlockpt(number));
        assert_eq!(libc::ptsname_r(number, name.as_mut_ptr(), name.len()), 0);
        checked(libc::ioctl(number, libc::TIOCSWINSZ, size));
        let line = checked(libc::open(name.as_ptr(), flags));
        (master, OwnedFd::from_raw_fd(line))
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
