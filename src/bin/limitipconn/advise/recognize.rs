//! Which of the named formats a log has, by its first lines.

use super::format::{Format, NAMED};
use super::line::Reader;

/// So many lines are looked at.
const LINES: usize = 200;

/// A format that was recognized.
pub struct Recognized {
    pub name: &'static str,
    pub format: Format,
    /// Whether any line has it.
    pub fits: bool,
    /// What lines go on with after it, as far as that can be told.
    pub goes_on: Option<&'static str>,
}

/// What mostly follows.
const GUESSES: [&str; 2] = ["%D", "%D %{usec_frac}t"];

/// The format that most lines have; combined where none has any.
pub fn recognize(lines: &[u8]) -> Recognized {
    let lines: Vec<&[u8]> = lines
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .take(LINES)
        .collect();
    let mut best = (0, "combined", false);
    for goes_on in [false, true] {
        // The longer formats come first: lines of theirs begin like the shorter ones'.
        for (name, _) in NAMED {
            let Ok(format) = Format::parse(name) else {
                continue;
            };
            let mut reader = match goes_on {
                false => Reader::whole(format),
                true => Reader::beginning(format),
            };
            let fit = lines
                .iter()
                .filter(|line| reader.read(line).is_ok())
                .count();
            if fit > best.0 {
                best = (fit, name, goes_on);
            }
        }
        // Lines that were cut or are of others do not make it another format.
        if best.0 * 2 > lines.len() {
            break;
        }
    }
    let (fit, name, goes_on) = best;
    Recognized {
        name,
        fits: fit > 0,
        format: Format::parse(name).expect("the named formats can be parsed"),
        goes_on: goes_on.then(|| guess(name, &lines)),
    }
}

/// What follows the format in most lines.
fn guess(name: &str, lines: &[&[u8]]) -> &'static str {
    let fit = |guess: &&str| {
        Format::parse(&format!("{name} {guess}")).map_or(0, |format| {
            let mut reader = Reader::whole(format);
            lines
                .iter()
                .filter(|line| reader.read(line).is_ok())
                .count()
        })
    };
    GUESSES
        .into_iter()
        .rev()
        .max_by_key(fit)
        .unwrap_or(GUESSES[0])
}
