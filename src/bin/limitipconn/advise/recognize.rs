//! Which of the named formats a log has, by its first lines.

use super::format::{Format, NAMED};
use super::line::Reader;

/// So many lines are looked at.
const LINES: usize = 200;

/// A format that was recognized.
pub struct Recognized {
    pub name: &'static str,
    pub format: Format,
    /// Whether lines go on after it.
    pub goes_on: bool,
}

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
    let (_, name, goes_on) = best;
    Recognized {
        name,
        format: Format::parse(name).expect("the named formats can be parsed"),
        goes_on,
    }
}
