//! Text for a terminal: nothing in it moves a cursor, and columns stand under each other.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Text that somebody chose, with what has no shape of its own as `%XX`: controls, marks that
/// join or turn other characters, what is no character at all.
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_plain(char) {
            shown.push(char);
        } else {
            let mut buffer = [0; 4];
            let bytes = char.encode_utf8(&mut buffer).bytes();
            bytes.for_each(|byte| shown.push_str(&format!("%{byte:02X}")));
        }
    }
    shown
}

/// Whether a character has a shape of its own and does nothing else.
fn is_plain(char: char) -> bool {
    // What Debug would escape, but for the characters that only mean something in a literal; and
    // what is drawn into the character before it.
    let is_plain = matches!(char, '\'' | '"' | '\\') || char.escape_debug().len() == 1;
    is_plain && char.width().is_some_and(|width| width > 0)
}

/// A document in JSON with all such characters as `\uXXXX`, which means the same.
pub fn json(document: &str) -> String {
    let mut json = String::with_capacity(document.len());
    for char in document.chars() {
        if char == '\n' || is_plain(char) {
            json.push(char);
        } else {
            let units = char.encode_utf16(&mut [0; 2]).to_vec();
            units
                .iter()
                .for_each(|unit| json.push_str(&format!("\\u{unit:04x}")));
        }
    }
    json
}

/// The same of bytes: those that are no text as `%XX` too.
pub fn shown_bytes(bytes: &[u8]) -> String {
    bytes
        .utf8_chunks()
        .map(|chunk| {
            let bad: String = chunk
                .invalid()
                .iter()
                .map(|byte| format!("%{byte:02X}"))
                .collect();
            shown(chunk.valid()) + &bad
        })
        .collect()
}

/// As much of a line as so many columns hold; `…` says that there was more.
pub fn cut(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let kept = line.chars().take_while(|char| {
        let width = char.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    });
    let mut kept: String = kept.collect();
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// A table: a heading for each column, `>` before those whose cells stand on the right. The
/// cells are [`shown`] already.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(at, heading)| {
            let cells = rows
                .iter()
                .filter_map(|row| row.get(at))
                .map(|cell| cell.width());
            cells.fold(heading.trim_start_matches('>').width(), usize::max)
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let mut line = String::new();
        for ((cell, width), heading) in cells.iter().zip(&widths).zip(headings) {
            let blank = " ".repeat(width.saturating_sub(cell.width()));
            line += &match heading.starts_with('>') {
                true => format!("{blank}{cell}  "),
                false => format!("{cell}{blank}  "),
            };
        }
        line.trim_end().to_owned()
    };
    let first = headings
        .iter()
        .map(|heading| heading.trim_start_matches('>'));
    std::iter::once(line(first.collect()))
        .chain(
            rows.iter()
                .map(|row| line(row.iter().map(String::as_str).collect())),
        )
        .collect()
}

/// So many of something: `1 refusal`, `3 refusals`.
pub fn many(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// So many bytes as people say it: `17`, `1.5 KiB`.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["", " KiB", " MiB", " GiB", " TiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => number.to_string(),
        _ => format!("{value:.1}{}", UNITS[unit]),
    }
}

/// So long as people say it: `0.4s`, `59s`, `3m20s`, `2h05m`, `4d03h`.
pub fn time(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..10 if !millis.is_multiple_of(1000) => format!("{seconds}.{}s", millis % 1000 / 100),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Writes an answer; nobody is there to read it any more is no failure.
pub fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(if text.ends_with('\n') { b"" } else { b"\n" }))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write the answer: {error}"))
        }
        _ => Ok(()),
    }
}

/// Writes an answer in JSON.
pub fn print_json(answer: &impl Serialize) -> Result<(), String> {
    let document = serde_json::to_string(answer)
        .map_err(|error| format!("the JSON could not be made: {error}"))?;
    print(&json(&document))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor_and_letters_stay() {
        for (text, expected) in [
            ("/hoge/a b\"'\\", "/hoge/a b\"'\\"),
            ("/müsik/音楽", "/müsik/音楽"),
            ("\u{1b}[2J\r\n\t\u{7f}", "%1B[2J%0D%0A%09%7F"),
            ("\u{9b}31m", "%C2%9B31m"),
            // From right to left, no width, a mark on what is before it, no character.
            (
                "a\u{202e}b\u{200b}\u{301}\u{feff}",
                "a%E2%80%AEb%E2%80%8B%CC%81%EF%BB%BF",
            ),
            ("\u{e000}\u{2028}\u{a0}", "%EE%80%80%E2%80%A8%C2%A0"),
        ] {
            assert_eq!(shown(text), expected);
        }
        assert_eq!(shown_bytes(b"/a\xff\xc3\xbc\x1b"), "/a%FF\u{fc}%1B");
        assert!((0..=0x10_ffff).filter_map(char::from_u32).all(|char| {
            shown(&char.to_string())
                .chars()
                .all(|char| char.width().is_some_and(|width| width > 0))
        }));
    }

    #[test]
    fn json_moves_no_cursor_either_and_says_the_same() {
        let text = "a\u{9b}31m\u{7f}\u{202e}\u{e0001}b\"\\\u{1b}";
        let document = serde_json::json!({ text: [text, "音楽"] }).to_string();
        let shown = json(&document);
        assert!(
            shown.chars().all(is_plain) && shown.contains("音楽"),
            "{shown}"
        );
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read[text][0], text);
    }

    #[test]
    fn columns_stand_under_each_other() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            table(
                &["NAME", ">N", "URI"],
                &[row(["音楽", "5", "/x"]), row(["a", "123", "/y"])]
            ),
            ["NAME    N  URI", "音楽    5  /x", "a     123  /y"]
        );
        assert_eq!(table(&["A", "B"], &[]), ["A  B"]);
    }

    #[test]
    fn a_line_is_cut_where_the_screen_ends() {
        for (line, columns, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("音楽楽", 6, "音楽楽"),
            ("音楽楽", 5, "音楽…"),
            ("音楽楽", 4, "音…"),
            ("abc", 0, ""),
            ("abc", 1, "…"),
        ] {
            let cut = cut(line, columns);
            assert_eq!(cut, expected);
            assert!(cut.width() <= columns);
        }
    }

    #[test]
    fn numbers_are_said_as_people_say_them() {
        for (number, expected) in [
            (0, "0"),
            (1023, "1023"),
            (1536, "1.5 KiB"),
            (5 << 40, "5.0 TiB"),
        ] {
            assert_eq!(bytes(number), expected);
        }
        assert_eq!(
            [0, 1, 2].map(|number| many(number, "key")),
            ["0 keys", "1 key", "2 keys"]
        );
        for (millis, expected) in [
            (0, "0s"),
            (450, "0.4s"),
            (9000, "9s"),
            (59_999, "59s"),
            (200_000, "3m20s"),
            (7_500_000, "2h05m"),
            (356_400_000, "4d03h"),
        ] {
            assert_eq!(time(millis), expected);
        }
    }
}
