//! `IPLimitZone`: a name for the keys that rules are about.

use super::{Fault, digits, once, some_words};
use crate::limit::address::Prefix;

/// What one line of `IPLimitZone` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Its name as written; names that differ in case only are the same.
    pub name: String,
    /// `key=`
    pub key: KeySource,
    /// Whether the keys are shown as digests only.
    pub secret: bool,
}

/// Where the keys of a zone come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeySource {
    /// One key for everybody.
    All,
    /// The address as the rules about addresses see it, or cut to these lengths.
    Client(Option<Prefix>),
    /// A string expression of httpd's, not parsed yet.
    Expression(String),
}

/// A word that cannot name a zone, since people expect it to mean something already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reserved {
    All,
    Client,
    Server,
    Off,
}

const OPTIONS: &str =
    "options are key=EXPRESSION and secret, and an expression with blanks needs quotes";
/// The longest name.
const LONGEST_NAME: usize = 64;

impl Reserved {
    /// The word as one of these, in any case.
    pub(super) fn of(word: &str) -> Option<Reserved> {
        [
            ("all", Reserved::All),
            ("client", Reserved::Client),
            ("server", Reserved::Server),
            ("off", Reserved::Off),
        ]
        .into_iter()
        .find_map(|(name, reserved)| word.eq_ignore_ascii_case(name).then_some(reserved))
    }

    /// What a zone's `key=` says to mean what somebody meant who wrote the word.
    pub(super) fn key(self) -> &'static str {
        match self {
            Reserved::Client => "client",
            Reserved::All | Reserved::Server | Reserved::Off => "all",
        }
    }
}

/// The arguments of `IPLimitZone name key=EXPR [secret]`.
pub fn zone(arguments: &str) -> Result<Zone, Fault> {
    let words = some_words(arguments, "a name and a key, for example everybody key=all")?;
    let (first, options) = words.split_first().expect("some words");
    if first.contains('=') {
        return Err(Fault::Sentence(format!(
            "\"{first}\" stands where the zone's name belongs; write the name first, for example api {first}"
        )));
    }
    if Reserved::of(first).is_some() {
        return Err(Fault::Sentence(format!(
            "\"{first}\" cannot name a zone, it has a meaning of its own; use another name, for example my-{}",
            first.to_ascii_lowercase()
        )));
    }
    let name = name(first)?.to_owned();
    let (mut source, mut secret) = (None, None);
    for word in options {
        match word.split_once('=') {
            Some((option, value)) if option.eq_ignore_ascii_case("key") => {
                once(&mut source, key(value)?, "key=")?;
            }
            None if word.eq_ignore_ascii_case("secret") => once(&mut secret, (), "secret")?,
            _ => return Err(Fault::Word(word.clone(), OPTIONS)),
        }
    }
    match source {
        Some(key) => Ok(Zone {
            name,
            key,
            secret: secret.is_some(),
        }),
        None => Err(Fault::Sentence(format!(
            "\"{arguments}\" says no key; add key=client, key=all or an expression, \
             for example {name} key=%{{HTTP:X-Api-Key}}"
        ))),
    }
}

/// The word, if it can name a zone.
pub(super) fn name(word: &str) -> Result<&str, Fault> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let begins = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins && word.len() <= LONGEST_NAME && word.bytes().all(is_part) {
        return Ok(word);
    }
    Err(Fault::Sentence(format!(
        "\"{word}\" is no name of a zone; use a letter or _ and then letters, digits, _, . or -, \
         {LONGEST_NAME} at most, for example api"
    )))
}

/// The value of `key=`.
fn key(value: &str) -> Result<KeySource, Fault> {
    if value.eq_ignore_ascii_case("all") {
        return Ok(KeySource::All);
    }
    let client = value
        .get(..6)
        .filter(|word| word.eq_ignore_ascii_case("client"));
    match client.map(|word| value[word.len()..].strip_prefix('/')) {
        Some(Some(lengths)) => return Ok(KeySource::Client(Some(prefix(value, lengths)?))),
        Some(None) if value.len() == 6 => return Ok(KeySource::Client(None)),
        _ => {}
    }
    if value.trim().is_empty() {
        return Err(Fault::Value(
            "key=",
            value.to_owned(),
            "client, key=all or an expression, for example key=%{HTTP:X-Api-Key}",
        ));
    }
    // httpd takes text without a variable as it is: one key for all, and hardly meant.
    let is_text = |c: char| c.is_whitespace() || c == '"';
    if !value.contains("%{") && !value.contains(is_text) {
        return Err(Fault::Sentence(format!(
            "key=\"{value}\" is the same for every request; write {}, \
             or key=all for one key for everybody",
            variable(value)
        )));
    }
    Ok(KeySource::Expression(value.to_owned()))
}

/// What only has its value at the end of fixups: user, type, per-directory environment.
const LATE: [&str; 7] = [
    "SSL_CLIENT_",
    "REMOTE_USER",
    "AUTH_TYPE",
    "CONTENT_TYPE",
    "HANDLER",
    "ENV:",
    "NOTE:",
];

/// Whether an expression has other text around something that is known late: then its value
/// is not empty before, and yet another one.
pub fn is_complete_late(expression: &str) -> bool {
    let is_one_variable =
        expression.starts_with("%{") && expression.find('}') == Some(expression.len() - 1);
    let expression = expression.to_ascii_uppercase();
    !is_one_variable && LATE.iter().any(|name| expression.contains(name))
}

/// The two lengths of `client/16,48`.
fn prefix(value: &str, lengths: &str) -> Result<Prefix, Fault> {
    let length = |word: &str, most: u8| digits(word).filter(|length| *length <= most);
    lengths
        .split_once(',')
        .and_then(|(v4, v6)| {
            Some(Prefix {
                v4: length(v4, 32)?,
                v6: length(v6, 128)?,
            })
        })
        .ok_or_else(|| {
            Fault::Value(
                "key=",
                value.to_owned(),
                "client/V4,V6 with lengths to 32 and to 128, for example key=client/24,48",
            )
        })
}

/// How httpd would be told to take a variable, or a header, of this name.
fn variable(text: &str) -> String {
    let is_braces = |c: char| matches!(c, '%' | '$' | '{' | '}');
    let call = text.strip_suffix("')");
    let name = &match call.and_then(|call| call.split_once("('")) {
        // As `<If>` has it: reqenv('NAME').
        Some((function, argument)) => format!("{function}:{argument}"),
        None => text.trim_matches(is_braces).to_owned(),
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-');
    if name.is_empty() || !name.chars().all(is_word) {
        return String::from("a variable such as %{REMOTE_USER} or %{HTTP:X-Api-Key}");
    }
    if let Some(header) = nginx_header(text) {
        return format!("%{{HTTP:{header}}}");
    }
    // Variables have no hyphens, headers do.
    let is_header = name.contains('-') && !name.contains(':');
    let is_variable = name.contains(':') || !name.contains(|c: char| c.is_ascii_lowercase());
    match (is_header, is_variable) {
        (true, _) => format!("%{{HTTP:{name}}}"),
        (false, true) => format!("%{{{name}}}"),
        (false, false) => String::from(
            "client for addresses, or a variable such as %{HTTP_HOST} or %{HTTP:X-Api-Key}",
        ),
    }
}

/// The header that nginx calls `$http_x_api_key`.
fn nginx_header(text: &str) -> Option<String> {
    let name = text.strip_prefix("$http_")?;
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    let is_plain =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let words: Vec<&str> = name.split('_').collect();
    let is_name = words.iter().all(|word| is_plain(word));
    is_name.then(|| {
        words
            .iter()
            .map(|word| capital(word))
            .collect::<Vec<_>>()
            .join("-")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_with_text_around_the_user_is_complete_late() {
        for (expression, is_late) in [
            ("%{REMOTE_USER}", false),
            ("%{reqenv:who}", false),
            ("%{HTTP_HOST} %{HTTP:X-Api-Key}", false),
            ("%{REMOTE_USER} %{HTTP_HOST}", true),
            ("%{tolower:%{remote_user}}", true),
            ("%{IPLIMIT_CLIENT}%{reqenv:who}", true),
            ("user %{REMOTE_USER}", true),
            ("%{", false),
        ] {
            assert_eq!(is_complete_late(expression), is_late, "{expression}");
        }
    }

    #[test]
    fn good_zones_are_understood() {
        let expression = |text: &str| KeySource::Expression(text.to_owned());
        let cut = |v4, v6| KeySource::Client(Some(Prefix { v4, v6 }));
        for (arguments, name, key, secret) in [
            ("everybody key=all", "everybody", KeySource::All, false),
            ("_a.B-9 KEY=All", "_a.B-9", KeySource::All, false),
            ("c key=Client", "c", KeySource::Client(None), false),
            ("c key=client/16,48", "c", cut(16, 48), false),
            ("c key=\"CLIENT/0,128\" secret", "c", cut(0, 128), true),
            (
                "api Secret key=%{HTTP:X-Api-Key}",
                "api",
                expression("%{HTTP:X-Api-Key}"),
                true,
            ),
            (
                "secret key=%{REMOTE_USER}",
                "secret",
                expression("%{REMOTE_USER}"),
                false,
            ),
            (
                "u \"key=%{REMOTE_USER} %{HTTP_HOST}\"",
                "u",
                expression("%{REMOTE_USER} %{HTTP_HOST}"),
                false,
            ),
            (
                "u key=\"%{REMOTE_USER} %{HTTP_HOST}\" secret",
                "u",
                expression("%{REMOTE_USER} %{HTTP_HOST}"),
                true,
            ),
            ("u key=\"a b\"", "u", expression("a b"), false),
            ("u key=%{A}=b", "u", expression("%{A}=b"), false),
        ] {
            let expected = Zone {
                name: name.to_owned(),
                key,
                secret,
            };
            assert_eq!(zone(arguments), Ok(expected), "{arguments}");
        }
        let longest = "a".repeat(LONGEST_NAME);
        assert!(zone(&format!("{longest} key=all")).is_ok());
        assert!(zone(&format!("{longest}a key=all")).is_err());
    }

    #[test]
    fn bad_zones_name_the_value_and_what_works() {
        for (arguments, value, helps) in [
            ("", "needs", "everybody key=all"),
            ("api", "\"api\"", "api key=%{HTTP:X-Api-Key}"),
            ("api secret", "\"api secret\"", "add key=client"),
            ("key=all", "\"key=all\"", "api key=all"),
            ("ALL key=all", "\"ALL\"", "my-all"),
            ("client key=client", "\"client\"", "another name"),
            ("Server key=all", "\"Server\"", "another name"),
            ("off key=all", "\"off\"", "another name"),
            ("9a key=all", "\"9a\"", "a letter"),
            ("\u{e9} key=all", "\"\u{e9}\"", "a letter"),
            ("a:b key=all", "\"a:b\"", "a letter"),
            ("\"\" key=all", "\"\"", "a letter"),
            ("a key=", "key=\"\"", "key=%{HTTP:X-Api-Key}"),
            ("a key=\" \"", "key=\" \"", "key=%{HTTP:X-Api-Key}"),
            ("a key=all key=client", "key=", "twice"),
            ("a secret key=all secret", "secret", "twice"),
            ("a key=all secret=1", "\"secret=1\"", "options are key="),
            ("a %{REMOTE_USER}", "\"%{REMOTE_USER}\"", "options are key="),
            ("a key=%{A} %{B}", "\"%{B}\"", "needs quotes"),
            ("a key=all # all", "\"#\"", "line of its own"),
            ("a key=\"all", "never closed", "quote"),
            ("a key=client/16", "key=\"client/16\"", "client/24,48"),
            ("a key=client/33,48", "\"client/33,48\"", "32 and to 128"),
            ("a key=client/16,129", "\"client/16,129\"", "client/24,48"),
            ("a key=client/16,48,1", "\"client/16,48,1\"", "client/24,48"),
            ("a key=client/,", "\"client/,\"", "client/24,48"),
            ("a key=client/+1,1", "\"client/+1,1\"", "client/24,48"),
            (
                "a key=REMOTE_USER",
                "key=\"REMOTE_USER\"",
                "%{REMOTE_USER},",
            ),
            ("a key=%REMOTE_USER", "\"%REMOTE_USER\"", "%{REMOTE_USER},"),
            (
                "a key=${REMOTE_USER}",
                "\"${REMOTE_USER}\"",
                "%{REMOTE_USER},",
            ),
            ("a key=X-Api-Key", "\"X-Api-Key\"", "%{HTTP:X-Api-Key},"),
            ("a key=env:A-B", "\"env:A-B\"", "%{env:A-B},"),
            ("a key=clients", "\"clients\"", "key=all for one key"),
            (
                "a key=reqenv('SESSION')",
                "\"reqenv('SESSION')\"",
                "%{reqenv:SESSION},",
            ),
            ("a key=md5(x)", "\"md5(x)\"", "such as %{REMOTE_USER}"),
            ("a key=%", "\"%\"", "such as %{REMOTE_USER}"),
        ] {
            let message = zone(arguments).unwrap_err().to_string();
            assert!(
                message.contains(value) && message.contains(helps),
                "{arguments}: {message}"
            );
        }
    }
}
