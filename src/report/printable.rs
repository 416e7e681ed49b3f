//! Text that a client, a customer or a regular expression chose, as it may stand in a
//! line of the log: printable ASCII only, so that it ends neither the line nor its quotes.

use std::fmt::{self, Display, Write};

/// A name with every byte outside printable ASCII, and every quote, as `%XX`.
pub fn printable(name: &str) -> String {
    Encoded::name(name).to_string()
}

/// A text of the configuration as it was written, with every byte outside printable
/// ASCII as `%XX`, so that it stays on its line.
pub fn on_one_line(text: &str) -> String {
    Encoded {
        text: text.as_bytes(),
        also: b"",
    }
    .to_string()
}

/// A key or a path of any bytes, in printable ASCII without quotes; it can be decoded again.
pub fn encoded(key: &[u8]) -> String {
    Encoded::path(key).to_string()
}

/// A path with its `%XX` decoded, once: so that it is shown as if httpd had done it.
pub fn decoded(path: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(path.len());
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        match (byte, digit(path.get(at + 1)), digit(path.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high << 4 | low) as u8);
                at += 3;
            }
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded
}

/// Text with every byte outside printable ASCII as `%XX`, and some others too.
pub(super) struct Encoded<'a> {
    text: &'a [u8],
    also: &'static [u8],
}

impl<'a> Encoded<'a> {
    /// The name of a rule or of a virtual host: backslashes and percent signs stay.
    pub fn name(text: &'a str) -> Self {
        Encoded {
            text: text.as_bytes(),
            also: b"\"",
        }
    }

    /// A path, between quotes: it can be decoded again.
    pub fn path(text: &'a [u8]) -> Self {
        Encoded {
            text,
            also: b"\"\\%",
        }
    }
}

impl Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.text {
            if matches!(byte, b' '..=b'~') && !self.also.contains(&byte) {
                f.write_char(byte.into())?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_once() {
        for (path, expected) in [
            ("/a%20b%2541", "/a b%41"),
            ("/%", "/%"),
            ("/%4", "/%4"),
            ("/%zz%7E", "/%zz~"),
        ] {
            assert_eq!(decoded(path.as_bytes()), expected.as_bytes());
        }
    }

    #[test]
    fn a_name_keeps_all_that_is_printable_but_quotes() {
        assert_eq!(
            printable("If:%{REQUEST_URI} =~ m#\\d#"),
            "If:%{REQUEST_URI} =~ m#\\d#"
        );
        assert_eq!(printable("a\"b\né"), "a%22b%0A%C3%A9");
    }
}
