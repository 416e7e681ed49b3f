//! The command `limitipconn`: a table of subcommands, each in a file of its own, and what
//! its exit codes mean.
//!
//! Errors are one sentence on stderr, `limitipconn: ...`.

#![forbid(unsafe_code)]

mod advise;
mod change;
mod check;
mod clock;
mod server;
mod show;
mod text;
mod top;

use std::io::{self, ErrorKind as Cause, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "limitipconn",
    version,
    about = "Looks at what mod_limitipconn limits, or should",
    after_help = "Exit codes: 0 done; 1 it could not be done, not found, or something is wrong; 2 wrong usage.",
    disable_help_subcommand = true,
    max_term_width = 100
)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Top(top::Arguments),
    Show(show::Arguments),
    Clear(change::Clear),
    Freeze(change::Freeze),
    Unfreeze(change::Unfreeze),
    Check(check::Arguments),
    Advise(advise::Arguments),
}

/// How a subcommand ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// 0
    Done,
    /// 1: it could not be done, wholly or in part, what was looked for is not there, or
    /// something is wrong; and the user was told.
    Failed,
    /// 2: the options or arguments make no sense, and the user was told why.
    Misused,
}

/// What a subcommand gives back: how it ended, or the sentence that says why it could not
/// be done.
pub type Answer = Result<Outcome, String>;

fn main() -> ExitCode {
    #[cfg(debug_assertions)]
    slow_steps_for_tests();
    let answer = match Command::try_parse() {
        Ok(command) => match command.what {
            What::Top(arguments) => top::run(arguments),
            What::Show(arguments) => show::run(arguments),
            What::Clear(arguments) => change::clear(arguments),
            What::Freeze(arguments) => change::freeze(arguments),
            What::Unfreeze(arguments) => change::unfreeze(arguments),
            What::Check(arguments) => check::run(arguments),
            What::Advise(arguments) => advise::run(arguments),
        },
        Err(error) => not_run(error),
    };
    let outcome = answer.unwrap_or_else(|sentence| {
        complain(&sentence);
        Outcome::Failed
    });
    ExitCode::from(match outcome {
        Outcome::Done => 0,
        Outcome::Failed => 1,
        Outcome::Misused => 2,
    })
}

/// Help and version, which clap has made, or the sentence that says what it did not understand.
fn not_run(error: clap::Error) -> Answer {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Where even that cannot be written, the exit code says it.
        let _ = write!(io::stderr(), "{}", error.render());
        return Ok(Outcome::Misused);
    }
    if !error.use_stderr() {
        return match error.print().and_then(|()| io::stdout().flush()) {
            Err(error) if error.kind() != Cause::BrokenPipe => {
                Err(format!("cannot write the answer: {error}"))
            }
            _ => Ok(Outcome::Done),
        };
    }
    // "error: what is wrong", then tips, the usage and a pointer to --help.
    let text = error.to_string();
    let said: Vec<&str> = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let sentence = said.join("; ");
    let sentence = sentence.strip_prefix("error: ").unwrap_or(&sentence);
    Ok(misused(&format!("{sentence}; --help says what works")))
}

/// Tells the user, in one sentence, which option or argument makes no sense.
pub fn misused(sentence: &str) -> Outcome {
    complain(sentence);
    Outcome::Misused
}

/// Tells the user, in one sentence, what went wrong.
pub fn complain(sentence: &str) {
    // Where even that cannot be written, the exit code says it.
    let _ = writeln!(io::stderr(), "limitipconn: {sentence}");
}

/// Debug builds only: as the module does, so that a kill -9 meets a write in the middle.
#[cfg(debug_assertions)]
fn slow_steps_for_tests() {
    let micros = std::env::var("LIMITIPCONN_SLOW_STEPS").ok();
    if let Some(micros) = micros.and_then(|text| text.parse().ok()) {
        mod_limitipconn::store::slow_steps(micros);
    }
}
