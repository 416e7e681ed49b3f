//! What users paste for a format: a name, a LogFormat's text, or the whole line of the
//! configuration with its quotes and its nickname.

use super::NAMED;

/// The text of the LogFormat, with its quotes unescaped.
pub fn spelled(given: &str) -> String {
    let text = given.trim();
    let (first, rest) = cut(text);
    let is_line = first.eq_ignore_ascii_case("LogFormat");
    let text = if is_line { rest } else { text };
    let text = in_quotes(text, is_line).unwrap_or(text).trim();
    let (first, rest) = cut(text);
    let spelled = match NAMED.iter().find(|(name, _)| *name == first) {
        Some((_, format)) => format!("{format} {rest}"),
        None => text.to_owned(),
    };
    // As in httpd's configuration, where quotes in quotes have a backslash.
    spelled.trim_end().replace("\\\"", "\"")
}

/// The first word, and what follows the blanks after it.
fn cut(text: &str) -> (&str, &str) {
    match text.split_once(char::is_whitespace) {
        Some((first, rest)) => (first, rest.trim_start()),
        None => (text, ""),
    }
}

/// What stands in quotes that are around all of it, but for a nickname; none where the quotes
/// are part of the format, as in `"%r" %t`.
fn in_quotes(text: &str, is_line: bool) -> Option<&str> {
    let quote = text.chars().next().filter(|first| "\"'".contains(*first))?;
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, letter)| {
        let ends = *letter == quote && !is_escaped;
        is_escaped = *letter == '\\' && !is_escaped;
        ends
    });
    let (end, _) = end?;
    let after = &text[end + 1..];
    let is_nickname = after.is_empty()
        || after.starts_with(char::is_whitespace)
            && cut(after.trim()).1.is_empty()
            && !after.contains('%');
    (is_line || is_nickname).then(|| &text[1..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_configuration_is_taken_as_it_is() {
        let plain = "%h %l %u %t \"%r\" %>s %b %D";
        for given in [
            "common %D",
            "  common   %D ",
            "common\t%D",
            "\"common %D\"",
            plain,
            "%h %l %u %t \\\"%r\\\" %>s %b %D",
            "\"%h %l %u %t \\\"%r\\\" %>s %b %D\"",
            "\"%h %l %u %t \\\"%r\\\" %>s %b %D\" timed",
            "LogFormat \"%h %l %u %t \\\"%r\\\" %>s %b %D\" timed",
            "  logformat   '%h %l %u %t \"%r\" %>s %b %D'   timed  ",
            "LogFormat \"%h %l %u %t \\\"%r\\\" %>s %b %D\"",
        ] {
            assert_eq!(spelled(given), plain, "{given}");
        }
        // Quotes of the format itself.
        for given in ["\"%r\" %t", "\"%h\" \"%t\"", "'%h' %t"] {
            assert_eq!(spelled(given), given);
        }
    }
}
