//! Numbers as people read them, each with its exact value and its place in the JSON.

use maud::{Markup, html};

/// A number: its digits in groups of three. `at` is its place in the JSON (RFC 6901).
pub fn number(value: u64, at: &str) -> Markup {
    shown(value, &grouped(value), at)
}

/// A number that is written in another way.
pub fn shown(value: u64, text: &str, at: &str) -> Markup {
    let class = (value == 0).then_some("zero");
    html! { data class=[class] value=(value) data-json=(at) { (text) } }
}

/// Digits in groups of three, with a narrow blank that breaks no line.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        // Digits are ASCII, so this never is the other case.
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join("\u{202f}")
}

/// How long something has lasted.
pub fn age(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {:02} s", seconds % 60),
        3600..86_400 => format!("{hours} h {:02} min", minutes % 60),
        _ => format!("{} d {} h", seconds / 86_400, hours % 24),
    }
}

/// So many bytes.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if number < 1000 {
        return format!("{number} B");
    }
    let mut size = number as f64 / 1000.0;
    for unit in UNITS {
        // 999.95 would be written as 1000.0.
        if size < 999.95 {
            return format!("{size:.1} {unit}");
        }
        size /= 1000.0;
    }
    format!("{size:.1} EB")
}

/// The time of day of a moment, in UTC.
pub fn clock(unix_milliseconds: u64) -> String {
    let seconds = unix_milliseconds / 1000 % 86_400;
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// A part of a whole, 0 to 1000.
pub fn permille(part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    (u128::from(part.min(whole)) * 1000 / u128::from(whole)) as u64
}

/// A bar that shows a part of a whole; the numbers beside it say the same.
pub fn meter(class: &str, part: u64, whole: u64) -> Markup {
    let full = (whole > 0 && part >= whole).then_some("full");
    html! {
        svg class=(class) viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
            rect class=[full] width=(permille(part, whole)) height="10" { }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1\u{202f}000"),
            (12_345_678, "12\u{202f}345\u{202f}678"),
        ] {
            assert_eq!(grouped(value), text);
        }
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min 00 s"),
            (3599, "59 min 59 s"),
            (3600, "1 h 00 min"),
            (86_399, "23 h 59 min"),
            (86_400, "1 d 0 h"),
            (200_000, "2 d 7 h"),
        ] {
            assert_eq!(age(seconds), text);
        }
        for (number, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(number), text);
        }
        assert_eq!(clock(1_700_000_000_123), "22:13:20");
    }

    #[test]
    fn parts_are_never_more_than_the_whole() {
        for (part, whole, expected) in [
            (0, 0, 0),
            (5, 0, 0),
            (1, 3, 333),
            (3, 3, 1000),
            (9, 3, 1000),
            (u64::MAX, u64::MAX, 1000),
        ] {
            assert_eq!(permille(part, whole), expected);
        }
    }
}
