//! The gauge in the text format of OpenMetrics 1.0: for Prometheus and its like.
//!
//! Labels are the state of a worker, or a rule and its virtual host, and nothing else: no
//! series for each client, so that their number is that of the rules.

mod rules;
mod whole;

use std::ffi::CStr;
use std::fmt::{self, Display, Write};

use super::snapshot::Snapshot;

/// The type of the text.
pub const CONTENT_TYPE: &CStr = c"application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A family of metrics: its name, which ends with its unit if it has one, and what it is.
type Family = (&'static str, &'static str);

/// Units that a name ends with; all others are counts of things.
const UNITS: [&str; 2] = ["seconds", "ratio"];

/// The snapshot as text.
pub fn openmetrics(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write(snapshot, &mut text);
    text
}

fn write(snapshot: &Snapshot, to: &mut String) -> fmt::Result {
    whole::write(snapshot, to)?;
    rules::write(snapshot, to)?;
    writeln!(to, "# EOF")
}

fn head(to: &mut String, kind: &str, (name, help): Family) -> fmt::Result {
    writeln!(to, "# TYPE {name} {kind}")?;
    let ends = |unit: &&&str| name.rsplit('_').next() == Some(**unit);
    if let Some(unit) = UNITS.iter().find(ends) {
        writeln!(to, "# UNIT {name} {unit}")?;
    }
    writeln!(to, "# HELP {name} {}", Escaped(help))
}

/// Text that stays in its quotes and on its line.
struct Escaped<'s>(&'s str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                // Readers by lines may take these for one.
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
