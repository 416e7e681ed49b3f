//! `IPLimitRedis`: where the counts of shared rules are, and how long requests wait for them.
//!
//! What it quotes never holds the password, whatever is wrong with the rest.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Fault, digits, once, some_words};
use crate::limit::fleet::{OnFailure, Password, Patience};
use crate::limit::units;

/// What `IPLimitRedis` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redis {
    /// Where it is.
    pub endpoint: Endpoint,
    /// Who asks; none: the default user.
    pub user: Option<String>,
    /// With which password.
    pub password: Option<Password>,
    /// `password-file=`, as written.
    pub password_file: Option<String>,
    /// Which of its databases.
    pub database: u32,
    /// `prefix=`: what all keys begin with.
    pub prefix: String,
    /// `timeout=`, `connect=` and `lease=`
    pub patience: Patience,
    /// `on-failure=`
    pub on_failure: OnFailure,
}

/// Where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// At a name or address.
    Tcp {
        /// Without the brackets of an IPv6 address.
        host: String,
        /// 6379 unless it is said.
        port: u16,
        /// `rediss://`
        tls: bool,
    },
    /// At a socket of this machine.
    Unix(String),
}

const PORT: u16 = 6379;
const FORMS: &str = "redis://[user:password@]host:port/db, rediss://... for TLS, or unix:///path";
const HELP: &str = "options are prefix=, password-file=, timeout=, connect=, lease= and on-failure=local|open|closed";
const WAIT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(5);
const LEASE: RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_secs(3600);

/// The arguments of `IPLimitRedis URL [prefix=] [password-file=] [timeout=] [connect=]
/// [lease=] [on-failure=]`.
pub fn redis(arguments: &str) -> Result<Redis, Fault> {
    let words = some_words(arguments, FORMS)?;
    let (url, options) = words.split_first().ok_or(Fault::Empty(FORMS))?;
    let mut said = self::url(url)?;
    let mut options_said = Options::default();
    for word in options {
        options_said.take(word)?;
    }
    if options_said.password_file.is_some() && said.password.is_some() {
        return Err(Fault::Sentence(String::from(
            "password-file= and the URL both give a password; keep one of them",
        )));
    }
    said.password_file = options_said.password_file;
    if let Some(prefix) = options_said.prefix {
        said.prefix = prefix;
    }
    let default = said.patience;
    said.patience = Patience {
        timeout: options_said.timeout.unwrap_or(default.timeout),
        connect: options_said.connect.unwrap_or(default.connect),
        lease: options_said.lease.unwrap_or(default.lease),
    };
    said.on_failure = options_said.on_failure.unwrap_or_default();
    Ok(said)
}

/// The arguments as they may be shown: with `***` for what may be a password.
pub fn without_password(arguments: &str) -> String {
    let Some((scheme, rest)) = arguments.split_once("://") else {
        return match arguments.rsplit_once('@') {
            Some((_, rest)) => format!("***@{rest}"),
            None => arguments.to_owned(),
        };
    };
    match rest.rsplit_once('@') {
        Some((_, rest)) => without_query(&format!("{scheme}://***@{rest}")),
        // Whoever forgets the @ has written a password where a port belongs.
        None => {
            let end = rest.find(['/', ' ', '"', '\'']).unwrap_or(rest.len());
            let (authority, rest) = rest.split_at(end);
            let is_plain = match authority.rsplit_once(':') {
                Some((_, port)) => digits::<u16>(port).is_some() || authority.ends_with(']'),
                None => true,
            };
            let shown = if is_plain { authority } else { "***" };
            without_query(&format!("{scheme}://{shown}{rest}"))
        }
    }
}

/// Other programs take a password there.
fn without_query(arguments: &str) -> String {
    let Some((before, rest)) = arguments.split_once('?') else {
        return arguments.to_owned();
    };
    let end = rest.find([' ', '"', '\'']).unwrap_or(rest.len());
    let (query, after) = rest.split_at(end);
    let is_database = query.strip_prefix("db=").and_then(digits::<u32>).is_some();
    let shown = if is_database { query } else { "***" };
    format!("{before}?{shown}{after}")
}

/// A word that is no option, with `***` where it was to be one for the password.
fn unknown_option(word: &str) -> String {
    let name = word.split('=').next().unwrap_or("").to_ascii_lowercase();
    match ["pass", "pw", "auth", "secret"]
        .iter()
        .any(|part| name.contains(part))
    {
        true => format!("{name}=***"),
        false => without_password(word),
    }
}

fn url(url: &str) -> Result<Redis, Fault> {
    let shown = without_password(url);
    let wrong = |why: &str| Fault::Sentence(format!("\"{shown}\" {why}; use {FORMS}"));
    let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("is no URL"))?;
    let is = |name: &str| scheme.eq_ignore_ascii_case(name);
    if is("unix") || is("redis+unix") {
        return unix(rest).map_err(|why| wrong(&why));
    }
    if !is("redis") && !is("rediss") && !is("valkey") && !is("valkeys") {
        return Err(wrong("has an unknown scheme"));
    }
    let tls = is("rediss") || is("valkeys");
    if rest.contains(['?', '#']) {
        return Err(wrong(
            "has more after the database, which is not understood",
        ));
    }
    let (who, rest) = match rest.rsplit_once('@') {
        Some((who, rest)) => (Some(who), rest),
        None => (None, rest),
    };
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = host_and_port(place).ok_or_else(|| wrong("has no usable host and port"))?;
    let (user, password) = match who {
        None => (None, None),
        Some(who) => {
            let (user, password) = who.split_once(':').unwrap_or((who, ""));
            let user =
                decoded(user).ok_or_else(|| wrong("has a % that is no escape in its user"))?;
            let password = decoded(password)
                .ok_or_else(|| wrong("has a % that is no escape in its password"))?;
            (Some(user), Some(password))
        }
    };
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    Ok(Redis {
        endpoint: Endpoint::Tcp { host, port, tls },
        user: filled(user),
        password: filled(password).map(Password::new),
        database: database_of(database).ok_or_else(|| wrong("has no number as its database"))?,
        ..nothing_said()
    })
}

fn unix(rest: &str) -> Result<Redis, String> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') || path.len() < 2 {
        return Err(String::from("has no path that begins with a slash"));
    }
    let database = match query.strip_prefix("db=") {
        Some(number) => database_of(number),
        None if query.is_empty() => Some(0),
        None => None,
    };
    Ok(Redis {
        endpoint: Endpoint::Unix(path.to_owned()),
        database: database.ok_or("has more after its path than ?db=NUMBER")?,
        ..nothing_said()
    })
}

/// What holds where nothing is said.
fn nothing_said() -> Redis {
    Redis {
        endpoint: Endpoint::Unix(String::new()),
        user: None,
        password: None,
        password_file: None,
        database: 0,
        prefix: String::from("limitipconn:"),
        patience: Patience {
            timeout: Duration::from_millis(20),
            connect: Duration::from_millis(50),
            lease: Duration::from_secs(30),
        },
        on_failure: OnFailure::Local,
    }
}

fn host_and_port(place: &str) -> Option<(String, u16)> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (
                host,
                rest.strip_prefix(':')
                    .or_else(|| rest.is_empty().then_some(""))?,
            )
        }
        None => place.split_once(':').unwrap_or((place, "")),
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    let port = match port {
        "" => PORT,
        port => digits(port).filter(|port| *port != 0)?,
    };
    (!host.is_empty() && host.chars().all(is_host)).then(|| (host.to_owned(), port))
}

fn database_of(text: &str) -> Option<u32> {
    match text {
        "" => Some(0),
        text => digits(text).filter(|number| *number <= 65_535),
    }
}

/// `%40` is `@`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        decoded.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(decoded).ok()
}

#[derive(Default)]
struct Options {
    prefix: Option<String>,
    password_file: Option<String>,
    timeout: Option<Duration>,
    connect: Option<Duration>,
    lease: Option<Duration>,
    on_failure: Option<OnFailure>,
}

impl Options {
    fn take(&mut self, word: &str) -> Result<(), Fault> {
        let unknown = || Fault::Word(unknown_option(word), HELP);
        let (name, value) = word.split_once('=').ok_or_else(unknown)?;
        let is = |label: &str| name.eq_ignore_ascii_case(label);
        let time = |label, range: RangeInclusive<Duration>, works| {
            let time = units::time(value).ok().filter(|time| range.contains(time));
            time.ok_or_else(|| Fault::Value(label, value.to_owned(), works))
        };
        if is("timeout") {
            let works = "TIME from 1ms to 5s, for example timeout=20ms";
            once(
                &mut self.timeout,
                time("timeout=", WAIT, works)?,
                "timeout=",
            )
        } else if is("connect") {
            let works = "TIME from 1ms to 5s, for example connect=50ms";
            once(
                &mut self.connect,
                time("connect=", WAIT, works)?,
                "connect=",
            )
        } else if is("lease") {
            let works = "TIME from 3s to 1h, for example lease=30s";
            once(&mut self.lease, time("lease=", LEASE, works)?, "lease=")
        } else if is("prefix") {
            let is_plain = |c: char| c.is_ascii_graphic() && !"{}\"'\\*?[]".contains(c);
            let fits = (1..=64).contains(&value.len()) && value.chars().all(is_plain);
            if !fits {
                let works = "TEXT of 1 to 64 ASCII characters without blanks, braces, brackets and quotes, \
                             for example prefix=shop:";
                return Err(Fault::Value("prefix=", value.to_owned(), works));
            }
            once(&mut self.prefix, value.to_owned(), "prefix=")
        } else if is("password-file") {
            if value.is_empty() {
                let works = "PATH, for example password-file=conf/redis.password";
                return Err(Fault::Value("password-file=", String::new(), works));
            }
            once(&mut self.password_file, value.to_owned(), "password-file=")
        } else if is("on-failure") {
            let mode = OnFailure::parse(value).ok_or_else(|| {
                Fault::Value("on-failure=", value.to_owned(), "local|open|closed")
            })?;
            once(&mut self.on_failure, mode, "on-failure=")
        } else {
            Err(unknown())
        }
    }
}

#[cfg(test)]
mod tests;
