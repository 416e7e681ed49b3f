//! The terminal while `top` runs: raw, on its other screen, without a cursor. However it ends,
//! by a key, an error, a panic or a signal that can be caught, it is then as it was before.

use std::fs::File;
use std::io::{self, IsTerminal, Stdout, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::Print;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::{flag, low_level};

/// How long a signal may have to wait.
const SLICE: Duration = Duration::from_millis(100);

/// The terminal, taken.
pub struct Screen {
    out: Stdout,
    keys: Keys,
    is_taken: bool,
    /// The signal that asks for the end; 0 for none.
    ended_by: Arc<AtomicUsize>,
    /// Whether to stop for a while.
    pause: Arc<AtomicBool>,
    /// Whether it has another size.
    is_resized: Arc<AtomicBool>,
}

/// What to do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// It is time for another look.
    Look,
    /// Show the same again: the screen is another.
    Redraw,
    /// Somebody has had enough.
    Quit,
}

impl Screen {
    /// Takes the terminal.
    pub fn open() -> io::Result<Screen> {
        let mut screen = Screen {
            out: io::stdout(),
            keys: Keys::open()?,
            is_taken: false,
            ended_by: Arc::default(),
            pause: Arc::default(),
            is_resized: Arc::default(),
        };
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            let value = usize::try_from(signal).unwrap_or(0);
            flag::register_usize(signal, Arc::clone(&screen.ended_by), value)?;
        }
        flag::register(SIGTSTP, Arc::clone(&screen.pause))?;
        flag::register(SIGWINCH, Arc::clone(&screen.is_resized))?;
        screen.take()?;
        Ok(screen)
    }

    fn take(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        self.is_taken = true;
        execute!(self.out, EnterAlternateScreen, Hide, Clear(ClearType::All))
    }

    fn give_back(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_taken) {
            return Ok(());
        }
        // Each is tried, whatever became of the other.
        let shown = execute!(self.out, LeaveAlternateScreen, Show);
        disable_raw_mode().and(shown)
    }

    /// Columns and rows.
    pub fn size(&self) -> io::Result<(usize, usize)> {
        let (columns, rows) = size()?;
        Ok((columns.into(), rows.into()))
    }

    /// Shows these lines from the top; each fits.
    pub fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        for (row, line) in (0..).zip(lines) {
            queue!(
                self.out,
                MoveTo(0, row),
                // Before the line: behind one as wide as the screen it would take its last letter.
                Clear(ClearType::UntilNewLine),
                Print(line)
            )?;
        }
        self.out.flush()
    }

    /// Waits for a key, or until this time.
    pub fn wait(&mut self, until: Instant) -> io::Result<Next> {
        loop {
            let signal = self.ended_by.load(Ordering::Relaxed);
            if signal != 0 {
                return self.end_by(signal as i32);
            }
            if self.pause.swap(false, Ordering::Relaxed) {
                return self.stop();
            }
            if self.is_resized.swap(false, Ordering::Relaxed) {
                return Ok(Next::Redraw);
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.keys.wait(left.min(SLICE))? {
                Came::Key(Key::Quit) => return Ok(Next::Quit),
                Came::Key(Key::Pause) => return self.stop(),
                Came::Key(Key::Look) => return Ok(Next::Look),
                Came::Gone => return self.end_by(SIGHUP),
                Came::Nothing if left.is_zero() => return Ok(Next::Look),
                Came::Nothing => {}
            }
        }
    }

    /// Ends by this signal: whoever waits for us shall see by what.
    fn end_by(&mut self, signal: i32) -> io::Result<Next> {
        // There may be no terminal any more.
        let _ = self.give_back();
        low_level::emulate_default_handler(signal)?;
        Ok(Next::Quit)
    }

    /// Lets the shell have the terminal until it wants us back.
    fn stop(&mut self) -> io::Result<Next> {
        self.give_back()?;
        low_level::raise(SIGSTOP)?;
        self.take()?;
        Ok(Next::Look)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nobody left to tell.
        let _ = self.give_back();
    }
}

/// Where keys come from: standard input if it is a terminal, else that which we belong to.
///
/// Read here, each time once and only what is there: crossterm goes on until it has a whole key,
/// which from a terminal that has gone meanwhile is for ever.
enum Keys {
    Input(io::Stdin),
    Ours(File),
}

/// What came from there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Came {
    Nothing,
    Key(Key),
    /// There is no terminal any more.
    Gone,
}

impl Keys {
    fn open() -> io::Result<Keys> {
        let input = io::stdin();
        Ok(match input.is_terminal() {
            true => Keys::Input(input),
            false => Keys::Ours(File::open("/dev/tty")?),
        })
    }

    /// Waits for a key, a signal or the end of this time.
    fn wait(&self, patience: Duration) -> io::Result<Came> {
        let keys: BorrowedFd<'_> = match self {
            Keys::Input(input) => input.as_fd(),
            Keys::Ours(file) => file.as_fd(),
        };
        let mut asked = [PollFd::from_borrowed_fd(keys, PollFlags::IN)];
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        match rustix::event::poll(&mut asked, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Came::Nothing),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 64];
        match rustix::io::read(keys, &mut bytes) {
            Ok(0) | Err(Errno::IO) => Ok(Came::Gone),
            Ok(read) => Ok(meant(&bytes[..read]).map_or(Came::Nothing, Came::Key)),
            Err(Errno::INTR | Errno::AGAIN) => Ok(Came::Nothing),
            Err(error) => Err(error.into()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Quit,
    Pause,
    Look,
}

const CONTROL_C: u8 = 3;
const CONTROL_D: u8 = 4;
const CONTROL_Z: u8 = 26;
const ESCAPE: u8 = 27;

/// What the first of these bytes means that means something; a raw terminal makes no signals of
/// Ctrl-C and Ctrl-Z. Behind an escape they are a key that means nothing here.
fn meant(bytes: &[u8]) -> Option<Key> {
    let end = bytes.iter().position(|byte| *byte == ESCAPE);
    let (plain, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    let key = plain.iter().find_map(|byte| match *byte {
        b'q' | b'Q' | CONTROL_C | CONTROL_D => Some(Key::Quit),
        CONTROL_Z => Some(Key::Pause),
        b' ' => Some(Key::Look),
        _ => None,
    });
    key.or((rest == [ESCAPE]).then_some(Key::Quit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_they_mean_elsewhere() {
        for (bytes, expected) in [
            (&b"q"[..], Some(Key::Quit)),
            (b"Q", Some(Key::Quit)),
            (b"\x03", Some(Key::Quit)),
            (b"\x04", Some(Key::Quit)),
            (b"\x1b", Some(Key::Quit)),
            (b"x\x1b", Some(Key::Quit)),
            (b"\x1a", Some(Key::Pause)),
            (b" ", Some(Key::Look)),
            (b"xy q", Some(Key::Look)),
            (b"c", None),
            (b"\x1b[A", None),
            (b"\x1bq", None),
            (b"\xc3\xa4", None),
            (b"", None),
        ] {
            assert_eq!(meant(bytes), expected, "{bytes:?}");
        }
    }
}
