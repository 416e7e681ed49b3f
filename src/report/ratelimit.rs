//! The fields RateLimit and RateLimit-Policy of answers, as the IETF's draft
//! draft-ietf-httpapi-ratelimit-headers-10 has them.
//!
//! Each rule is one item of the two lists, named by a string of structured fields
//! (RFC 9651); a client joins the two by that name.

use std::fmt::{self, Display, Write};

/// What a client may have in flight by a rule, and how much of it is left.
#[derive(Clone, Copy, Debug)]
pub struct Concurrency<'a> {
    /// The rule's name.
    pub rule: &'a str,
    /// How many it may have at a time.
    pub limit: u16,
    /// How many more it may have now.
    pub left: u32,
}

impl Concurrency<'_> {
    /// The rule's item in `RateLimit-Policy`.
    pub fn policy(&self) -> String {
        format!(
            "{};q={};qu=\"concurrent-requests\"",
            Quoted(self.rule),
            self.limit
        )
    }

    /// The rule's item in `RateLimit`.
    pub fn state(&self) -> String {
        format!("{};r={}", Quoted(self.rule), self.left)
    }
}

/// A string of structured fields: printable ASCII, with quotes and backslashes escaped.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for byte in self.0.bytes() {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..=b'~' => f.write_char(byte.into())?,
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_fields_are_those_of_the_draft() {
        let fields = Concurrency {
            rule: "MaxConnPerIP@/hoge",
            limit: 10,
            left: 5,
        };
        assert_eq!(
            fields.policy(),
            "\"MaxConnPerIP@/hoge\";q=10;qu=\"concurrent-requests\""
        );
        assert_eq!(fields.state(), "\"MaxConnPerIP@/hoge\";r=5");
    }

    #[test]
    fn a_regular_expression_is_escaped() {
        let fields = Concurrency {
            rule: r#"MaxConnPerIP@LocationMatch:^/\d+"#,
            limit: 1,
            left: 0,
        };
        assert_eq!(fields.state(), r#""MaxConnPerIP@LocationMatch:^/\\d+";r=0"#);
    }

    proptest! {
        #[test]
        fn no_name_leaves_its_string(rule in any::<String>()) {
            let text = Quoted(&rule).to_string();
            let inner = &text[1..text.len() - 1];
            prop_assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            prop_assert!(!inner.replace("\\\\", "").replace("\\\"", "").contains(['"', '\\']));
        }
    }
}
