//! `limitipconn top`: who holds the workers, the longest first; live, or once for scripts.
//!
//! It asks nothing of httpd, so it answers also when no worker is free.

mod screen;
pub mod view;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use clap::Args;
use mod_limitipconn::gauge;
use mod_limitipconn::limit::units;
use mod_limitipconn::report::top::Top;
use serde::Serialize;

use crate::server::{Server, Which};
use crate::text::{cut, many, print, print_json};
use crate::{Answer, Outcome, misused};
use screen::{Next, Screen};
use view::{Before, lines};

/// Shows who holds the workers, the longest first; q quits
#[derive(Args)]
pub struct Arguments {
    /// Print it once, whole, and end: for scripts
    #[arg(long)]
    once: bool,

    /// How often to look: a number with ms, s or min, from 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    every: Duration,

    #[command(flatten)]
    which: Which,

    /// Print it once in JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` says.
#[derive(Serialize)]
struct Answered {
    pid: u32,
    #[serde(flatten)]
    top: Top,
}

fn interval(word: &str) -> Result<Duration, String> {
    let time = units::time(word)?;
    match (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time) {
        true => Ok(time),
        false => Err(format!("\"{word}\" is not from 100ms to 1h")),
    }
}

/// Shows it.
pub fn run(arguments: Arguments) -> Answer {
    let is_terminal = io::stdout().is_terminal();
    if !arguments.once && !arguments.json && !is_terminal {
        let sentence = "top: the output is no terminal to show it live on; use --once or --json";
        return Ok(misused(sentence));
    }
    let mut server = arguments.which.find()?;
    if !arguments.once && !arguments.json {
        return live(&mut server, arguments.every);
    }
    let top = server.look(gauge::top)?;
    let pid = server.process.0;
    match arguments.json {
        true => print_json(&Answered { pid, top })?,
        false => print(&lines(&top, pid, None).join("\n"))?,
    }
    Ok(Outcome::Done)
}

/// Until somebody quits, or httpd ends.
fn live(server: &mut Server, every: Duration) -> Answer {
    let pid = server.process.0;
    let broken = |error: io::Error| format!("top: the terminal cannot be used: {error}");
    let mut screen = Screen::open().map_err(broken)?;
    let mut before: Option<(Instant, Top)> = None;
    loop {
        let (now, top) = (Instant::now(), server.look(gauge::top)?);
        let since = before.as_ref().map(|(then, top)| Before {
            top,
            elapsed: now - *then,
        });
        let lines = lines(&top, pid, since);
        before = Some((now, top));
        loop {
            let (columns, rows) = screen.size().map_err(broken)?;
            let page = page(&lines, columns, rows);
            screen.draw(&page).map_err(broken)?;
            match screen.wait(now + every).map_err(broken)? {
                Next::Quit => return Ok(Outcome::Done),
                Next::Redraw => {}
                Next::Look => break,
            }
        }
    }
}

/// As much of the lines as a screen holds; the last row says how to leave and what is not shown.
fn page(lines: &[String], columns: usize, rows: usize) -> Vec<String> {
    let room = rows.saturating_sub(1);
    let mut page: Vec<String> = lines
        .iter()
        .take(room)
        .map(|line| cut(line, columns))
        .collect();
    page.resize(room, String::new());
    let last = match lines.len().saturating_sub(room) {
        0 => String::from("q quits"),
        more => format!(
            "q quits; not shown: {} (--once shows all)",
            many(more as u64, "line")
        ),
    };
    page.push(cut(&last, columns));
    page.truncate(rows);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_fits_its_screen() {
        let lines = ["abcdef", "b", "c", "d"].map(str::to_owned);
        assert_eq!(
            page(&lines, 80, 6),
            ["abcdef", "b", "c", "d", "", "q quits"]
        );
        assert_eq!(
            page(&lines, 80, 3),
            [
                "abcdef",
                "b",
                "q quits; not shown: 2 lines (--once shows all)"
            ]
        );
        assert_eq!(page(&lines, 3, 2), ["ab…", "q …"]);
        assert_eq!(page(&lines, 3, 0), [""; 0]);
    }
}
