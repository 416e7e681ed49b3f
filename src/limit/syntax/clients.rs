//! The directives that say who a client is, and who is spared.

use super::{ADDRESSES, Fault, digits, networks, once, some_words};
use crate::limit::address::Prefix;
use crate::limit::arguments::words;
use crate::limit::network::{self, Network};

/// `IPLimitAddress`: whom the per-address rules count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// The client as mod_remoteip or a header of a trusted proxy tells it.
    Client,
    /// The TCP peer.
    Connection,
}

/// What `IPLimitClientHeader` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientHeader {
    /// The header's name.
    pub name: String,
    /// Whose headers are read.
    pub trusted: Vec<Network>,
}

/// What one line of `IPLimitExempt` or `LocalIP` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exempt {
    /// Everything.
    All,
    /// CORS preflights, from rates.
    Preflight,
    /// What fulfils all of these conditions; there is at least one.
    Where {
        /// One of these clients; empty for everybody.
        networks: Vec<Network>,
        /// One of these methods; empty for all.
        methods: Vec<String>,
        /// This expression of httpd's holds.
        expression: Option<String>,
    },
}

/// The argument of `IPLimitAddress client|connection`.
pub fn address(arguments: &str) -> Result<Who, Fault> {
    match words(arguments)?.as_slice() {
        [word] if word.eq_ignore_ascii_case("client") => Ok(Who::Client),
        [word] if word.eq_ignore_ascii_case("connection") => Ok(Who::Connection),
        [] => Err(Fault::Empty("client or connection")),
        _ => Err(Fault::Other(arguments.to_owned(), "client or connection")),
    }
}

/// The arguments of `IPLimitPrefix v4 v6`.
pub fn prefix(arguments: &str) -> Result<Prefix, Fault> {
    const WORKS: &str =
        "two lengths, for IPv4 from 0 to 32 and for IPv6 from 0 to 128, for example 32 64";
    let wrong = |what: &str| Fault::Other(what.to_owned(), WORKS);
    let length = |word: &String, most: u8| {
        digits(word)
            .filter(|length| *length <= most)
            .ok_or_else(|| wrong(word))
    };
    match some_words(arguments, WORKS)?.as_slice() {
        [v4, v6] => Ok(Prefix {
            v4: length(v4, 32)?,
            v6: length(v6, 128)?,
        }),
        _ => Err(wrong(arguments)),
    }
}

/// The arguments of `IPLimitClientHeader name trusted=ADDRESSES`.
pub fn client_header(arguments: &str) -> Result<ClientHeader, Fault> {
    const WORKS: &str = "a header and the proxies whose word is taken, \
                         for example X-Forwarded-For trusted=10.0.0.0/8";
    let words = some_words(arguments, WORKS)?;
    let (name, options) = words.split_first().expect("some words");
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(Fault::Other(name.clone(), WORKS));
    }
    if name.eq_ignore_ascii_case("Forwarded") {
        return Err(Fault::Sentence(format!(
            "\"{name}\" has a form of its own that is not read here; \
             let the proxy send X-Forwarded-For or X-Real-IP"
        )));
    }
    let mut trusted = None;
    for option in options {
        match option.split_once('=') {
            Some((word, value)) if word.eq_ignore_ascii_case("trusted") => {
                once(&mut trusted, networks("trusted=", value)?, "trusted=")?;
            }
            _ => {
                return Err(Fault::Word(
                    option.clone(),
                    "use trusted=ADDRESSES, with commas between them",
                ));
            }
        }
    }
    match trusted {
        Some(trusted) => Ok(ClientHeader {
            name: name.clone(),
            trusted,
        }),
        None => Err(Fault::Sentence(format!(
            "\"{arguments}\" trusts nobody; add trusted= with the addresses of your proxies, \
             for example {name} trusted=10.0.0.0/8"
        ))),
    }
}

/// The arguments of `IPLimitExempt all | preflight | [addresses ...] [method=] [expr=]`.
pub fn exempt(arguments: &str) -> Result<Exempt, Fault> {
    let wanted = "all, preflight, addresses, method=NAME,... or expr=EXPRESSION";
    let words = some_words(arguments, wanted)?;
    let alone = |word: &str| {
        let said = words.iter().any(|said| said.eq_ignore_ascii_case(word));
        match (said, words.len()) {
            (true, 1) => Ok(true),
            (true, _) => Err(Fault::Sentence(format!(
                "\"{arguments}\": \"{word}\" stands alone; give the other conditions a line of their own"
            ))),
            (false, _) => Ok(false),
        }
    };
    if alone("all")? {
        return Ok(Exempt::All);
    }
    if alone("preflight")? {
        return Ok(Exempt::Preflight);
    }
    let (mut found, mut methods, mut expression) = (Vec::new(), None, None);
    for word in &words {
        match word.split_once('=') {
            Some((name, value)) if name.eq_ignore_ascii_case("method") => {
                once(&mut methods, methods_of(value)?, "method=")?;
            }
            Some((name, value)) if name.eq_ignore_ascii_case("expr") => {
                once(&mut expression, value.to_owned(), "expr=")?;
            }
            _ => found.extend(addresses(word, wanted)?),
        }
    }
    Ok(Exempt::Where {
        networks: found,
        methods: methods.unwrap_or_default(),
        expression,
    })
}

/// The arguments of `LocalIP address ...`.
pub fn local_ip(arguments: &str) -> Result<Exempt, Fault> {
    let mut found = Vec::new();
    for word in some_words(arguments, "addresses such as 127.0.0.1 or 192.0.2.0/24")? {
        found.extend(addresses(&word, ADDRESSES)?);
    }
    Ok(Exempt::Where {
        networks: found,
        methods: Vec::new(),
        expression: None,
    })
}

fn addresses(word: &str, works: &'static str) -> Result<Vec<Network>, Fault> {
    network::list(word).map_err(|wrong| Fault::Other(wrong, works))
}

fn methods_of(value: &str) -> Result<Vec<String>, Fault> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let methods: Vec<String> = value
        .split(',')
        .map(|name| name.trim().to_ascii_uppercase())
        .collect();
    match methods.iter().find(|name| !is_name(name)) {
        Some(wrong) => Err(Fault::Value(
            "method=",
            if wrong.is_empty() { value } else { wrong }.to_owned(),
            "NAME,... for example method=HEAD,OPTIONS",
        )),
        None => Ok(methods),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(networks: &[Network]) -> Vec<String> {
        networks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn who_a_client_is_can_be_said() {
        assert_eq!(address("Client"), Ok(Who::Client));
        assert_eq!(address("connection"), Ok(Who::Connection));
        assert_eq!(prefix("24 56"), Ok(Prefix { v4: 24, v6: 56 }));
        let header = client_header("X-Forwarded-For trusted=10.0.0.0/8,::1").unwrap();
        assert_eq!(header.name, "X-Forwarded-For");
        assert_eq!(shown(&header.trusted), ["10.0.0.0/8", "::1"]);
    }

    #[test]
    fn exemptions_have_conditions_that_must_all_hold() {
        assert_eq!(exempt("ALL"), Ok(Exempt::All));
        assert_eq!(exempt("preflight"), Ok(Exempt::Preflight));
        let Ok(Exempt::Where {
            networks,
            methods,
            expression,
        }) = exempt("10.1 192.0.2.1,::1 method=HEAD,get \"expr=%{HTTP_HOST} == 'a b'\"")
        else {
            panic!("not understood");
        };
        assert_eq!(shown(&networks), ["10.1.0.0/16", "192.0.2.1", "::1"]);
        assert_eq!(methods, ["HEAD", "GET"]);
        assert_eq!(expression.unwrap(), "%{HTTP_HOST} == 'a b'");
    }

    #[test]
    fn what_is_wrong_is_named_with_what_works() {
        for (result, value, helps) in [
            (address("peer").map(|_| ()), "\"peer\"", "connection"),
            (address("").map(|_| ()), "needs", "client"),
            (prefix("33 64").map(|_| ()), "\"33\"", "32 64"),
            (prefix("32 129").map(|_| ()), "\"129\"", "32 64"),
            (prefix("32").map(|_| ()), "\"32\"", "two lengths"),
            (prefix("/24 64").map(|_| ()), "\"/24\"", "32 64"),
            (client_header("").map(|_| ()), "needs", "trusted="),
            (
                client_header("X-Real-IP").map(|_| ()),
                "\"X-Real-IP\"",
                "trusted=10.0.0.0/8",
            ),
            (
                client_header("X-Real-IP trusted=all").map(|_| ()),
                "\"all\"",
                "10.1.0.0/16",
            ),
            (
                client_header("X-Real-IP 10.0.0.0/8").map(|_| ()),
                "\"10.0.0.0/8\"",
                "trusted=",
            ),
            (
                client_header("Forwarded trusted=10.1").map(|_| ()),
                "\"Forwarded\"",
                "X-Forwarded-For",
            ),
            (
                client_header("X: trusted=10.1").map(|_| ()),
                "\"X:\"",
                "X-Forwarded-For",
            ),
            (exempt("all 10.1").map(|_| ()), "\"all 10.1\"", "alone"),
            (exempt("host").map(|_| ()), "\"host\"", "addresses"),
            (exempt("method=").map(|_| ()), "method=\"\"", "HEAD"),
            (exempt("").map(|_| ()), "needs", "expr="),
            (local_ip("").map(|_| ()), "needs", "127.0.0.1"),
            (local_ip("localhost").map(|_| ()), "\"localhost\"", "10.1"),
        ] {
            let message = result.unwrap_err().to_string();
            assert!(
                message.contains(value) && message.contains(helps),
                "{value}: {message}"
            );
        }
    }
}
