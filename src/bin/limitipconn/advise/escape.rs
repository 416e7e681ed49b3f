//! Text that clients have chosen, as it may stand on a terminal: printable ASCII only.

/// Every byte outside printable ASCII as `\xHH`, so that nothing moves the cursor, ends the
/// line or looks like something else.
pub fn text(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b' '..=b'~' => shown.push(byte.into()),
            _ => shown.push_str(&format!("\\x{byte:02X}")),
        }
    }
    shown
}

/// The beginning of such a text, so many characters at most, with dots where something is left
/// out.
pub fn beginning(bytes: &[u8], most: usize) -> String {
    let mut shown = String::new();
    for byte in bytes {
        let next = text(std::slice::from_ref(byte));
        if shown.len() + next.len() > most {
            return shown + "...";
        }
        shown.push_str(&next);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_printable_ascii_is_left() {
        let all: Vec<u8> = (0..=255).collect();
        let shown = text(&all);
        assert!(shown.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        assert_eq!(text(b"/a\x1b[2J\n\xffb"), "/a\\x1B[2J\\x0A\\xFFb");
    }

    #[test]
    fn what_is_long_is_cut() {
        assert_eq!(beginning(b"abcdef", 3), "abc...");
        assert_eq!(beginning(b"abc", 3), "abc");
        // Nothing is cut within what stands for a byte.
        assert_eq!(beginning(b"ab\x1b\x1b", 7), "ab\\x1B...");
    }
}
