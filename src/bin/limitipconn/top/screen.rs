//! The terminal while `top` runs: raw, on its other screen, without a cursor. However it ends,
//! by a key, an error, a panic or a signal that can be caught, it is then as it was before.

use std::fs::File;
use std::io::{self, IsTerminal, Stdout, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::style::Print;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};
use rustix::event::{PollFd, PollFlags, Timespec};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP};
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
        };
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            let value = usize::try_from(signal).unwrap_or(0);
            flag::register_usize(signal, Arc::clone(&screen.ended_by), value)?;
        }
        flag::register(SIGTSTP, Arc::clone(&screen.pause))?;
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
            // Asked first each time: crossterm reads from a terminal that has gone for ever.
            if self.keys.is_gone(Duration::ZERO)? {
                return self.end_by(SIGHUP);
            }
            if !poll(Duration::ZERO)? {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok(Next::Look);
                }
                self.keys.is_gone(left.min(SLICE))?;
                continue;
            }
            match read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match meant(key) {
                    Some(Key::Quit) => return Ok(Next::Quit),
                    Some(Key::Pause) => return self.stop(),
                    Some(Key::Look) => return Ok(Next::Look),
                    None => {}
                },
                Event::Resize(..) => return Ok(Next::Redraw),
                _ => {}
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

/// Where crossterm reads keys: standard input if it is a terminal, else that which we belong to.
enum Keys {
    Input(io::Stdin),
    Ours(File),
}

impl Keys {
    fn open() -> io::Result<Keys> {
        let input = io::stdin();
        Ok(match input.is_terminal() {
            true => Keys::Input(input),
            false => Keys::Ours(File::open("/dev/tty")?),
        })
    }

    /// Waits for a key, a signal or the end of this time; whether there is no terminal any more.
    fn is_gone(&self, patience: Duration) -> io::Result<bool> {
        let keys: BorrowedFd<'_> = match self {
            Keys::Input(input) => input.as_fd(),
            Keys::Ours(file) => file.as_fd(),
        };
        let mut asked = [PollFd::from_borrowed_fd(keys, PollFlags::IN)];
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        match rustix::event::poll(&mut asked, Some(&patience)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        Ok(asked[0].revents().intersects(gone))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Quit,
    Pause,
    Look,
}

/// What a key means; a raw terminal makes no signals of Ctrl-C and Ctrl-Z.
fn meant(key: KeyEvent) -> Option<Key> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match (control, key.code) {
        (false, KeyCode::Char('q' | 'Q') | KeyCode::Esc) | (true, KeyCode::Char('c' | 'd')) => {
            Some(Key::Quit)
        }
        (true, KeyCode::Char('z')) => Some(Key::Pause),
        (false, KeyCode::Char(' ')) => Some(Key::Look),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_they_mean_elsewhere() {
        for (code, modifiers, expected) in [
            ('q', KeyModifiers::NONE, Some(Key::Quit)),
            ('Q', KeyModifiers::SHIFT, Some(Key::Quit)),
            ('c', KeyModifiers::CONTROL, Some(Key::Quit)),
            ('z', KeyModifiers::CONTROL, Some(Key::Pause)),
            (' ', KeyModifiers::NONE, Some(Key::Look)),
            ('c', KeyModifiers::NONE, None),
        ] {
            assert_eq!(
                meant(KeyEvent::new(KeyCode::Char(code), modifiers)),
                expected
            );
        }
    }
}
