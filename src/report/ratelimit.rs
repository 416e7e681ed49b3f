//! The fields RateLimit and RateLimit-Policy of answers, as the IETF's draft
//! draft-ietf-httpapi-ratelimit-headers-10 has them.
//!
//! Each rule is one item of the two lists, named by a string of structured fields
//! (RFC 9651); a client joins the two by that name.

use std::fmt::{self, Display, Write};

use crate::limit::rate::Rate;

/// What a client may have by a rule, and how much of it is left.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    rule: &'a str,
    quota: u32,
    left: u32,
    /// The period, and the time to the full quota, in whole seconds; none for what is in
    /// flight.
    seconds: Option<(u64, u32)>,
}

impl<'a> Fields<'a> {
    /// So many may be in flight at a time, and so many more now.
    pub fn concurrency(rule: &'a str, limit: u32, left: u32) -> Fields<'a> {
        Fields {
            rule,
            quota: limit,
            left,
            seconds: None,
        }
    }

    /// So many may come in a time, so many more now, and all of them in so many seconds;
    /// where none is left, the next in so many.
    pub fn rate(rule: &'a str, rate: Rate, left: u32, seconds: u32) -> Fields<'a> {
        let period = rate.period.as_millis().div_ceil(1000) as u64;
        Fields {
            rule,
            quota: rate.number,
            left,
            seconds: Some((period, seconds)),
        }
    }

    /// The rule's item in `RateLimit-Policy`.
    pub fn policy(&self) -> String {
        let (rule, quota) = (Quoted(self.rule), self.quota);
        match self.seconds {
            None => format!("{rule};q={quota};qu=\"concurrent-requests\""),
            Some((period, _)) => format!("{rule};q={quota};w={period}"),
        }
    }

    /// The rule's item in `RateLimit`.
    pub fn state(&self) -> String {
        let (rule, left) = (Quoted(self.rule), self.left);
        match self.seconds {
            None => format!("{rule};r={left}"),
            Some((_, seconds)) => format!("{rule};r={left};t={seconds}"),
        }
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
        let fields = Fields::concurrency("MaxConnPerIP@/hoge", 10, 5);
        assert_eq!(
            fields.policy(),
            "\"MaxConnPerIP@/hoge\";q=10;qu=\"concurrent-requests\""
        );
        assert_eq!(fields.state(), "\"MaxConnPerIP@/hoge\";r=5");
        let fields = Fields::rate("MaxRatePerIP@/hoge", Rate::parse("10/min").unwrap(), 5, 30);
        assert_eq!(fields.policy(), "\"MaxRatePerIP@/hoge\";q=10;w=60");
        assert_eq!(fields.state(), "\"MaxRatePerIP@/hoge\";r=5;t=30");
    }

    #[test]
    fn a_regular_expression_is_escaped() {
        let fields = Fields::concurrency(r#"MaxConnPerIP@LocationMatch:^/\d+"#, 1, 0);
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
