//! Numbers, times and tables as people read them.

use std::fmt::Write;

/// `1,234,567`
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `12 %`: a part of a whole, with as many digits as say something.
pub fn share(part: u64, whole: u64) -> String {
    percent(part as f64 / whole.max(1) as f64)
}

/// A part of one, in per cent.
pub fn percent(part: f64) -> String {
    let percent = part * 100.0;
    match percent {
        0.0 => "0 %".into(),
        ..0.01 => "<0.01 %".into(),
        ..1.0 => format!("{percent:.2} %"),
        ..10.0 => format!("{percent:.1} %"),
        // Not all is all but little.
        99.5..100.0 => ">99 %".into(),
        _ => format!("{percent:.0} %"),
    }
}

/// `1 h 12 min`, `35 min 2 s`, `4.2 s`, `120 ms`
pub fn time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 0.000_001 => "0 s".into(),
        _ if seconds < 0.001 => "<1 ms".into(),
        _ if seconds < 0.9995 => format!("{:.0} ms", seconds * 1000.0),
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {} h", count(whole / 86_400), whole / 3600 % 24),
    }
}

/// `1 client`, `2 clients`
pub fn several(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{} {what}s", count(number)),
    }
}

/// A sentence in lines that are not longer than a terminal mostly is wide, each with so many
/// blanks before it.
pub fn wrapped(sentence: &str, indent: usize) -> String {
    const WIDTH: usize = 96;
    let mut lines = " ".repeat(indent);
    let mut column = indent;
    for (at, word) in sentence.split(' ').enumerate() {
        if at > 0 && column + 1 + word.len() > WIDTH {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = indent;
        } else if at > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += word.len();
    }
    lines
}

/// Columns: so many numbers to the right, then texts to the left.
pub fn table(page: &mut String, heads: &[&str], rows: Vec<Vec<String>>, numbers: usize) {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].len());
        cells.chain([heads[at].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let head = heads.iter().map(|head| (*head).to_owned()).collect();
    for row in std::iter::once(head).chain(rows) {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match at < numbers {
                true => write!(line, "  {cell:>width$}"),
                false => write!(line, "  {cell:<width$}"),
            };
        }
        page.push_str(line.trim_end());
        page.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, shown) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1234567, "1,234,567"),
        ] {
            assert_eq!(count(number), shown);
        }
        assert_eq!(
            (several(1, "client"), several(2, "client")),
            ("1 client".into(), "2 clients".into())
        );
    }

    #[test]
    fn sentences_are_wrapped_between_words() {
        let lines = wrapped(&["word"; 40].join(" "), 2);
        assert_eq!(lines.lines().count(), 3);
        assert!(
            lines
                .lines()
                .all(|line| line.len() <= 96 && line.starts_with("  word"))
        );
        assert_eq!(lines.split_whitespace().count(), 40);
        let long = "x".repeat(200);
        assert_eq!(wrapped(&long, 1), format!(" {long}"));
    }

    #[test]
    fn shares_have_the_digits_that_say_something() {
        for (part, whole, shown) in [
            (0, 10, "0 %"),
            (0, 0, "0 %"),
            (1, 1_000_000, "<0.01 %"),
            (1, 400, "0.25 %"),
            (1, 40, "2.5 %"),
            (1, 8, "12 %"),
            (999, 1000, ">99 %"),
            (10, 10, "100 %"),
        ] {
            assert_eq!(share(part, whole), shown);
        }
    }

    #[test]
    fn times_are_said_in_their_own_units() {
        for (seconds, shown) in [
            (0.0, "0 s"),
            (0.000_2, "<1 ms"),
            (0.12, "120 ms"),
            (0.999_9, "1.0 s"),
            (4.24, "4.2 s"),
            (9.97, "10 s"),
            (59.4, "59 s"),
            (59.6, "1 min 0 s"),
            (2102.0, "35 min 2 s"),
            (4320.0, "1 h 12 min"),
            (90_000.0, "1 d 1 h"),
        ] {
            assert_eq!(time(seconds), shown, "{seconds}");
        }
    }
}
