//! MIME types that a level's rules let through (`NoIPLimit`) or are about (`OnlyIPLimit`).
//!
//! Patterns are exact (`audio/mpeg`), a whole class (`video`, `video/`), or have wildcards
//! (`image/*`, `*`, `?`). Case never matters.

/// A pattern, sorted out once when it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern<'a> {
    /// `*`: every response, even one without a type.
    Any,
    /// `video`, `video/`, `video/*`: every type of a class.
    Class(&'a str),
    /// `audio/mpeg`: this type.
    Exact(&'a str),
    /// Wildcards elsewhere.
    Wildcard(&'a str),
}

/// The lists in effect at one level; `None` where no list was ever said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Filter<'a> {
    /// `NoIPLimit`: these are let through.
    pub no: Option<&'a [Pattern<'a>]>,
    /// `OnlyIPLimit`: all others are let through.
    pub only: Option<&'a [Pattern<'a>]>,
}

impl Filter<'_> {
    /// No list was ever said.
    pub const NONE: Filter<'static> = Filter {
        no: None,
        only: None,
    };
}

impl<'a> Pattern<'a> {
    /// The pattern that is written so.
    pub fn new(text: &'a str) -> Pattern<'a> {
        let has_wildcard = |text: &str| text.contains(['*', '?']);
        let class = text
            .strip_suffix("/*")
            .or_else(|| text.strip_suffix('/'))
            .unwrap_or(text);
        match text {
            "*" => Pattern::Any,
            _ if !class.is_empty() && !class.contains('/') && !has_wildcard(class) => {
                Pattern::Class(class)
            }
            _ if has_wildcard(text) => Pattern::Wildcard(text),
            _ => Pattern::Exact(text),
        }
    }

    /// Whether a type, without its parameters, is meant.
    fn matches(&self, content_type: &[u8]) -> bool {
        match self {
            Pattern::Any => true,
            Pattern::Exact(text) => content_type.eq_ignore_ascii_case(text.as_bytes()),
            Pattern::Class(class) => match content_type.split_at_checked(class.len()) {
                Some((start, rest)) => {
                    matches!(rest, [] | [b'/', ..]) && start.eq_ignore_ascii_case(class.as_bytes())
                }
                None => false,
            },
            Pattern::Wildcard(text) => wildcard(text.as_bytes(), content_type),
        }
    }
}

impl<'a> Filter<'a> {
    /// These lists, and where they are silent those of the place around.
    pub fn or(self, around: Filter<'a>) -> Filter<'a> {
        Filter {
            no: self.no.or(around.no),
            only: self.only.or(around.only),
        }
    }

    /// Whether the type decides at all. When not, a rule need not wait for it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.no.is_none_or(<[_]>::is_empty) && self.only.is_none_or(<[_]>::is_empty)
    }

    /// Whether rules are asked for a response of this type.
    ///
    /// A type that is not known is let through by `NoIPLimit *` only, and is not
    /// what `OnlyIPLimit` is about.
    pub fn governs(&self, content_type: Option<&[u8]>) -> bool {
        let bare = content_type.map(bare);
        let listed = |patterns: &[Pattern<'_>]| match bare {
            Some(content_type) => patterns.iter().any(|pattern| pattern.matches(content_type)),
            None => patterns.contains(&Pattern::Any),
        };
        let let_through = self.no.is_some_and(listed);
        let about =
            |patterns: &[Pattern<'_>]| patterns.is_empty() || bare.is_some() && listed(patterns);
        !let_through && self.only.is_none_or(about)
    }
}

/// Whether a word of `NoIPLimit` is more likely a slip than meant: alone among
/// other words it lets everything (`*`) or nothing (`/`, `#`) through.
pub fn is_suspicious(words: &[String]) -> Option<&str> {
    words.iter().map(String::as_str).find(|word| match *word {
        "*" => words.len() > 1,
        word if word.starts_with('#') => true,
        word => !word.contains(['/', '*', '?']) && !is_class(word) || word.starts_with('/'),
    })
}

/// The top-level types that IANA registers, and those that are seen beside them.
fn is_class(word: &str) -> bool {
    const CLASSES: [&str; 13] = [
        "application",
        "audio",
        "chemical",
        "example",
        "font",
        "haptics",
        "image",
        "inode",
        "message",
        "model",
        "multipart",
        "text",
        "video",
    ];
    CLASSES.iter().any(|class| word.eq_ignore_ascii_case(class))
        || word.to_ascii_lowercase().starts_with("x-")
}

/// A type without its parameters.
fn bare(content_type: &[u8]) -> &[u8] {
    let end = content_type
        .iter()
        .position(|&byte| byte == b';')
        .unwrap_or(content_type.len());
    content_type[..end].trim_ascii()
}

/// `*` is any run of bytes, `?` one byte; case does not matter. Linear in the text
/// for each star: only the last star is ever gone back to.
fn wildcard(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, seen));
                at += 1;
            }
            Some(&wanted) if wanted == b'?' || wanted.eq_ignore_ascii_case(&text[seen]) => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((after, from)) = star else {
                    return false;
                };
                star = Some((after, from + 1));
                at = after;
                seen = from + 1;
            }
        }
    }
    pattern[at..].iter().all(|&rest| rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn exact_class_and_wildcard_match() {
        for (pattern, content_type, expected) in [
            ("audio/mpeg", "audio/mpeg", true),
            ("audio/mpeg", "AUDIO/MPEG", true),
            ("audio/mpeg", "audio/mpeg3", false),
            ("audio/mpeg", "audio/ogg", false),
            ("video", "video/mp4", true),
            ("Video", "video/webm", true),
            ("video/", "video/webm", true),
            ("/", "video/webm", false),
            ("video", "videotext/x", false),
            ("image/*", "IMAGE/png", true),
            ("image/*", "text/html", false),
            ("image/?ng", "image/png", true),
            ("*/xml", "text/xml", true),
            ("*", "httpd/unix-directory", true),
            ("a*b*c/*", "aXbXbc/", true),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(content_type.as_bytes()),
                expected,
                "{pattern} {content_type}"
            );
        }
    }

    fn patterns<'a, const N: usize>(texts: [&'a str; N]) -> [Pattern<'a>; N] {
        texts.map(Pattern::new)
    }

    #[test]
    fn an_unknown_type_is_only_let_through_by_the_star() {
        let no = |text| {
            Filter {
                no: Some(&patterns([text])),
                only: None,
            }
            .governs(None)
        };
        assert!(no("image/*"));
        assert!(!no("*"));
        for only in ["text/html", "*"] {
            assert!(
                !Filter {
                    no: None,
                    only: Some(&patterns([only]))
                }
                .governs(None)
            );
        }
    }

    #[test]
    fn lists_together_and_empty_lists() {
        let (gif, image) = (patterns(["image/gif"]), patterns(["image"]));
        let both = Filter {
            no: Some(&gif),
            only: Some(&image),
        };
        assert!(both.governs(Some(b"image/png")));
        assert!(!both.governs(Some(b"image/gif")));
        assert!(!both.governs(Some(b"text/html; charset=utf-8")));
        let html = patterns(["text/html"]);
        let no_html = Filter {
            no: Some(&html),
            only: None,
        };
        assert!(!no_html.governs(Some(b"text/html ;charset=x")));
        let off = Filter {
            no: Some(&[]),
            only: Some(&[]),
        };
        assert!(off.is_empty() && off.governs(None));
        assert_eq!(off.or(both), off);
        assert_eq!(Filter::default().or(both), both);
    }

    #[test]
    fn slips_are_noticed() {
        assert_eq!(is_suspicious(&owned(&["image", "/", "*"])), Some("/"));
        assert_eq!(
            is_suspicious(&owned(&["image/*", "#", "pictures"])),
            Some("#")
        );
        assert_eq!(is_suspicious(&owned(&["image/*", "*"])), Some("*"));
        assert_eq!(is_suspicious(&owned(&["pictures"])), Some("pictures"));
        assert_eq!(is_suspicious(&owned(&["*"])), None);
        assert_eq!(
            is_suspicious(&owned(&["image/*", "video", "text/css", "x-world"])),
            None
        );
    }

    proptest! {
        #[test]
        fn the_wildcard_agrees_with_a_recursive_one(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            fn slow(pattern: &[u8], text: &[u8]) -> bool {
                match pattern.split_first() {
                    None => text.is_empty(),
                    Some((b'*', rest)) => (0..=text.len()).any(|n| slow(rest, &text[n..])),
                    Some((&c, rest)) => !text.is_empty() && (c == b'?' || c == text[0]) && slow(rest, &text[1..]),
                }
            }
            prop_assert_eq!(wildcard(pattern.as_bytes(), text.as_bytes()), slow(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
