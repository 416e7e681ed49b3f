//! Splits a directive's raw arguments into words.
//!
//! httpd's own splitter takes quotes only at the start of a word; people write
//! `key="a b"` as often as `"key=a b"`, and both must mean the same.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// What cannot be split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentError {
    /// A quote that is never closed.
    OpenQuote(char),
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentError::OpenQuote(quote) => write!(f, "the quote {quote} is never closed"),
        }
    }
}

/// The words of a directive's arguments, without their quotes.
///
/// Within quotes a backslash takes a quote or a backslash literally, as httpd does;
/// outside quotes it is an ordinary character.
pub fn words(arguments: &str) -> Result<Vec<String>, ArgumentError> {
    let mut chars = arguments.chars().peekable();
    let mut words = Vec::new();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        if chars.peek().is_none() {
            return Ok(words);
        }
        words.push(word(&mut chars)?);
    }
}

fn word(chars: &mut Peekable<Chars<'_>>) -> Result<String, ArgumentError> {
    let mut word = String::new();
    while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
        let may_open = word.is_empty() || word.ends_with('=');
        match c {
            '"' | '\'' if may_open => quoted(c, chars, &mut word)?,
            _ => word.push(c),
        }
    }
    Ok(word)
}

fn quoted(
    quote: char,
    chars: &mut Peekable<Chars<'_>>,
    word: &mut String,
) -> Result<(), ArgumentError> {
    while let Some(c) = chars.next() {
        match c {
            _ if c == quote => return Ok(()),
            '\\' => match chars.next_if(|&next| next == quote || next == '\\') {
                Some(next) => word.push(next),
                None => word.push('\\'),
            },
            _ => word.push(c),
        }
    }
    Err(ArgumentError::OpenQuote(quote))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_and_quotes_split_as_people_expect() {
        for (arguments, expected) in [
            ("", vec![]),
            ("  3  ", vec!["3"]),
            ("3 scope=location", vec!["3", "scope=location"]),
            ("\"key=a b\"", vec!["key=a b"]),
            ("key=\"a b\" c", vec!["key=a b", "c"]),
            ("key='a b'", vec!["key=a b"]),
            (r#""a \" b" "c\\""#, vec![r#"a " b"#, r"c\"]),
            (r"video\x", vec![r"video\x"]),
            ("\"\" x", vec!["", "x"]),
            ("it's", vec!["it's"]),
            ("10 # ten", vec!["10", "#", "ten"]),
        ] {
            assert_eq!(words(arguments).unwrap(), expected, "{arguments:?}");
        }
    }

    #[test]
    fn an_open_quote_is_an_error() {
        assert_eq!(words("\"a b"), Err(ArgumentError::OpenQuote('"')));
        assert_eq!(words("key='a b"), Err(ArgumentError::OpenQuote('\'')));
    }

    proptest! {
        #[test]
        fn any_quoted_word_comes_back(text in "[^\u{0}]{0,40}") {
            let quoted = text.replace('\\', r"\\").replace('"', "\\\"");
            prop_assert_eq!(words(&format!("\"{quoted}\"")).unwrap(), vec![text]);
        }

        #[test]
        fn nothing_panics(arguments in ".{0,80}") {
            let _ = words(&arguments);
        }
    }
}
