//! What the directives of LogFormat tell: a letter, and what stands in its braces.

use super::super::clock::{Pattern, READABLE};
use super::{Field, TimeForm};

/// All letters of mod_log_config, mod_logio and mod_ssl.
const LETTERS: &[u8] = b"aAbBcCDefhHiklLmnoOpPqrRsStTuUvVxXI";

/// What is said of a directive that httpd does not have.
pub fn unknown(directive: &[u8]) -> String {
    format!(
        "\"%{}\" is no directive of LogFormat that is known here; those of mod_log_config, mod_logio \
         and mod_ssl work (for example %h %t %r %>s %b %D %{{Referer}}i)",
        directive.escape_ascii()
    )
}

/// The field that a letter and what stands in its braces make.
pub fn field(letter: u8, argument: &[u8], directive: &[u8]) -> Result<Field, String> {
    Ok(match (letter, argument) {
        (b'a', b"") => Field::Client(0),
        (b'h', b"") => Field::Client(1),
        (b'a', b"c") => Field::Client(2),
        (b'h', b"c") => Field::Client(3),
        (b'i', header) if header.eq_ignore_ascii_case(b"X-Forwarded-For") => Field::Forwarded,
        (b'i' | b'o', _) => Field::List,
        (b'q', _) => Field::Query,
        (b't', argument) => time(argument, directive)?,
        (b'D', _) => Field::Duration(1),
        (b'T', b"" | b"s") => Field::Duration(1_000_000),
        (b'T', b"ms") => Field::Duration(1000),
        (b'T', b"us") => Field::Duration(1),
        (b'T', _) => {
            return Err(format!(
                "\"%{}\" has an unknown unit; use %{{us}}T, %{{ms}}T or %{{s}}T",
                directive.escape_ascii()
            ));
        }
        (b'r', _) => Field::Request,
        (b'U', _) => Field::Path,
        (b'P', b"hextid") => Field::Other,
        (b'b' | b'B' | b's' | b'I' | b'O' | b'S' | b'k' | b'p' | b'P', _) => Field::Number,
        (letter, _) if LETTERS.contains(&letter) => Field::Other,
        _ => return Err(unknown(directive)),
    })
}

/// `%t` in all its forms.
fn time(argument: &[u8], directive: &[u8]) -> Result<Field, String> {
    let (end, form) = match argument {
        [b'b', b'e', b'g', b'i', b'n', b':', form @ ..] => (false, form),
        [b'e', b'n', b'd', b':', form @ ..] => (true, form),
        b"begin" => (false, &b""[..]),
        b"end" => (true, &b""[..]),
        form => (false, form),
    };
    let form = match form {
        b"" => TimeForm::Common,
        b"sec" => TimeForm::Since1970(1_000_000),
        b"msec" => TimeForm::Since1970(1000),
        b"usec" => TimeForm::Since1970(1),
        b"msec_frac" => TimeForm::Fraction(1000),
        b"usec_frac" => TimeForm::Fraction(1),
        format => TimeForm::Pattern(Pattern::parse(format).map_err(|conversion| {
            format!(
                "\"%{}\" has {conversion}, which cannot be read back; {READABLE}",
                directive.escape_ascii()
            )
        })?),
    };
    Ok(Field::Time { end, form })
}
