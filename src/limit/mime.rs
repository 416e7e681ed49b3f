//! MIME types that a level's rules let through (`NoIPLimit`) or are about (`OnlyIPLimit`).
//!
//! Patterns are exact (`audio/mpeg`), a whole class (`video`, `video/`), or have wildcards
//! (`image/*`, `*`, `?`). Case never matters.

/// The lists in effect at one level; `None` where no list was ever said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Filter<'a> {
    /// `NoIPLimit`: these are let through.
    pub no: Option<&'a [&'a str]>,
    /// `OnlyIPLimit`: all others are let through.
    pub only: Option<&'a [&'a str]>,
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
    pub fn is_empty(&self) -> bool {
        self.no.is_none_or(<[_]>::is_empty) && self.only.is_none_or(<[_]>::is_empty)
    }

    /// Whether rules are asked for a response of this type.
    ///
    /// A type that is not known is let through by `NoIPLimit *` only, and is not
    /// what `OnlyIPLimit` is about.
    pub fn governs(&self, content_type: Option<&str>) -> bool {
        let bare = content_type.map(bare);
        let listed = |patterns: &[&str]| match bare {
            Some(content_type) => patterns
                .iter()
                .any(|pattern| matches(pattern, content_type)),
            None => false,
        };
        if self
            .no
            .is_some_and(|patterns| listed(patterns) || patterns.contains(&"*"))
        {
            return false;
        }
        self.only
            .is_none_or(|patterns| patterns.is_empty() || listed(patterns))
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

fn bare(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

fn matches(pattern: &str, content_type: &str) -> bool {
    if pattern.contains(['*', '?']) {
        return wildcard(pattern.as_bytes(), content_type.as_bytes());
    }
    if pattern.eq_ignore_ascii_case(content_type) {
        return true;
    }
    let Some((class, _)) = content_type.split_once('/') else {
        return false;
    };
    pattern
        .strip_suffix('/')
        .unwrap_or(pattern)
        .eq_ignore_ascii_case(class)
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
                matches(pattern, content_type),
                expected,
                "{pattern} {content_type}"
            );
        }
    }

    #[test]
    fn an_unknown_type_is_only_let_through_by_the_star() {
        let no = |patterns| {
            Filter {
                no: Some(patterns),
                only: None,
            }
            .governs(None)
        };
        assert!(no(&["image/*"]));
        assert!(!no(&["*"]));
        assert!(
            !Filter {
                no: None,
                only: Some(&["text/html"])
            }
            .governs(None)
        );
    }

    #[test]
    fn lists_together_and_empty_lists() {
        let both = Filter {
            no: Some(&["image/gif"]),
            only: Some(&["image"]),
        };
        assert!(both.governs(Some("image/png")));
        assert!(!both.governs(Some("image/gif")));
        assert!(!both.governs(Some("text/html; charset=utf-8")));
        assert!(
            !Filter {
                no: Some(&["text/html"]),
                only: None
            }
            .governs(Some("text/html ;charset=x"))
        );
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
