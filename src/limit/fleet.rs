//! Several servers that count together: what becomes of requests while their counts are out
//! of reach, and why they can be.

use std::fmt;
use std::time::Duration;

/// `on-failure=`: what shared rules do while the shared counts are out of reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailure {
    /// They limit by this server's own counts.
    #[default]
    Local,
    /// They limit nobody.
    Open,
    /// They refuse everybody.
    Closed,
}

/// How long a request waits for the shared counts, and how long a place there lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// For an answer.
    pub timeout: Duration,
    /// For a connection, before that.
    pub connect: Duration,
    /// A place whose server is gone is free after this time.
    pub lease: Duration,
}

/// Why the shared counts are out of reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Failure {
    /// Nobody listens, or the connection ended.
    Unreachable = 1,
    /// The name has no address.
    Unresolved,
    /// No answer in time.
    Hung,
    /// TLS could not be agreed on.
    Tls,
    /// It still reads its data.
    Loading,
    /// It is a replica, or cannot save.
    ReadOnly,
    /// It has no memory for more.
    OutOfMemory,
    /// It wants a password, or another one.
    Password,
    /// The user may not do what is needed.
    Forbidden,
    /// It is a node of a cluster, and the key is another's.
    Cluster,
    /// It does not speak the protocol.
    NotRedis,
    /// It answered with an error of another kind.
    Refused,
}

impl Failure {
    /// All of them.
    pub const ALL: [Failure; 12] = [
        Failure::Unreachable,
        Failure::Unresolved,
        Failure::Hung,
        Failure::Tls,
        Failure::Loading,
        Failure::ReadOnly,
        Failure::OutOfMemory,
        Failure::Password,
        Failure::Forbidden,
        Failure::Cluster,
        Failure::NotRedis,
        Failure::Refused,
    ];

    /// The failure of this number.
    pub fn numbered(number: u8) -> Option<Failure> {
        Failure::ALL
            .into_iter()
            .find(|failure| *failure as u8 == number)
    }

    /// One word, for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Failure::Unreachable => "unreachable",
            Failure::Unresolved => "unresolved",
            Failure::Hung => "hung",
            Failure::Tls => "tls",
            Failure::Loading => "loading",
            Failure::ReadOnly => "read-only",
            Failure::OutOfMemory => "out-of-memory",
            Failure::Password => "password",
            Failure::Forbidden => "forbidden",
            Failure::Cluster => "cluster",
            Failure::NotRedis => "not-redis",
            Failure::Refused => "error",
        }
    }

    /// What happened, and what helps: the middle of a sentence about the server.
    pub const fn sentence(self) -> &'static str {
        match self {
            Failure::Unreachable => "cannot be reached (is it running, and is the address right?)",
            Failure::Unresolved => "has a name without an address; look at the URL and at the DNS",
            Failure::Hung => "does not answer in time (is it overloaded or stopped?)",
            Failure::Tls => {
                "does not agree on TLS; look at its certificate and at rediss:// in the URL"
            }
            Failure::Loading => "is still loading its data; nothing is to be done but wait",
            Failure::ReadOnly => {
                "takes no writes; name the primary, not a replica, and look at its disk"
            }
            Failure::OutOfMemory => {
                "is out of memory; give it a higher maxmemory, or a policy that evicts"
            }
            Failure::Password => {
                "refuses the password, or wants one; look at password-file= or at the URL"
            }
            Failure::Forbidden => {
                "does not let its user do this; allow EVALSHA, SCRIPT and the keys of the prefix"
            }
            Failure::Cluster => {
                "is a node of a cluster and sends elsewhere; name a single server, or a proxy before the cluster"
            }
            Failure::NotRedis => {
                "is not a Redis or Valkey: its answer is not theirs; look at host and port"
            }
            Failure::Refused => "answers with an error",
        }
    }
}

impl OnFailure {
    /// The word after `on-failure=`.
    pub const fn word(self) -> &'static str {
        match self {
            OnFailure::Local => "local",
            OnFailure::Open => "open",
            OnFailure::Closed => "closed",
        }
    }

    /// All of them, in the order of their numbers.
    pub const ALL: [OnFailure; 3] = [OnFailure::Local, OnFailure::Open, OnFailure::Closed];

    /// The one of this number; the default for others.
    pub fn numbered(number: u32) -> OnFailure {
        let known = OnFailure::ALL.get(number as usize);
        known.copied().unwrap_or_default()
    }

    /// The one that this word says.
    pub fn parse(word: &str) -> Option<OnFailure> {
        OnFailure::ALL
            .into_iter()
            .find(|mode| word.eq_ignore_ascii_case(mode.word()))
    }

    /// What shared rules do meanwhile, as the log says it.
    pub const fn consequence(self) -> &'static str {
        match self {
            OnFailure::Local => "shared rules limit by this server's own counts",
            OnFailure::Open => "shared rules limit nobody",
            OnFailure::Closed => "shared rules refuse everybody",
        }
    }
}

/// A password, which is never shown: not in a log, not in a fault, not in a dump.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// A password.
    pub fn new(text: String) -> Password {
        Password(text)
    }

    /// The text itself, for the server that wants it and nobody else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_known_by_its_number_and_its_word() {
        for failure in Failure::ALL {
            assert_eq!(Failure::numbered(failure as u8), Some(failure));
            let same = Failure::ALL
                .iter()
                .filter(|other| other.word() == failure.word());
            assert_eq!(same.count(), 1);
        }
        assert_eq!(Failure::numbered(0), None);
        assert_eq!(Failure::numbered(u8::MAX), None);
    }

    #[test]
    fn passwords_are_not_shown() {
        let password = Password::new(String::from("hunter2"));
        assert_eq!(format!("{password:?}"), "***");
        assert_eq!(password.expose(), "hunter2");
    }

    #[test]
    fn failure_modes_are_read_in_any_case() {
        assert_eq!(OnFailure::parse("Closed"), Some(OnFailure::Closed));
        assert_eq!(OnFailure::parse("off"), None);
    }
}
