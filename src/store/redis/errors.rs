//! What the errors of the client library, and those that the server answers, mean for us.

use redis::{ErrorKind, RedisError, ServerError};

use crate::limit::fleet::Failure;
use crate::store::fleet::Fault;

/// Bytes of what somebody else said that are kept.
const LONGEST: usize = 120;

/// How the text of EINTR ends, in whatever language it is.
const INTERRUPTED: &str = "(os error 4)";

/// An answer that is an error.
pub fn of_server(error: &ServerError) -> Fault {
    let detail = error.details().unwrap_or_default();
    fault(
        said(error.code(), detail),
        &format!("{} {detail}", error.code()),
    )
}

/// A call that failed.
pub fn of_client(error: &RedisError) -> Fault {
    let text = error.to_string();
    if error.is_timeout() {
        return fault(Failure::Hung, "");
    }
    match error.kind() {
        ErrorKind::Io if is_about_tls(&text) => fault(Failure::Tls, &text),
        // A process that is stopped for a while and goes on is told so amid a wait. The library
        // knows no way to wait on, but nothing is wrong with the server.
        ErrorKind::Io if text.contains(INTERRUPTED) => Fault {
            was_closed: true,
            ..fault(Failure::Unreachable, &text)
        },
        ErrorKind::Io if error.is_connection_refusal() || !error.is_connection_dropped() => {
            fault(Failure::Unreachable, &text)
        }
        ErrorKind::Io => Fault {
            was_closed: true,
            ..fault(Failure::Unreachable, "the connection was closed")
        },
        // What the library says of these helps nobody.
        ErrorKind::AuthenticationFailed => fault(Failure::Password, ""),
        ErrorKind::Parse | ErrorKind::RESP3NotSupported => fault(Failure::NotRedis, ""),
        ErrorKind::Server(_) => fault(said(error.code().unwrap_or("ERR"), &text), &text),
        _ => fault(Failure::Refused, &text),
    }
}

/// The library says in texts only what its TLS met.
fn is_about_tls(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [
        "certificate",
        "handshake",
        "tls",
        "corrupt message",
        "alert",
    ]
    .iter()
    .any(|word| text.contains(word))
}

/// An answer that is none.
pub fn not_ours() -> Fault {
    fault(Failure::NotRedis, "")
}

/// A fault of this kind.
pub fn fault(failure: Failure, detail: &str) -> Fault {
    let detail = detail.trim();
    let kept = &detail[..detail.floor_char_boundary(LONGEST)];
    Fault {
        failure,
        detail: kept.to_owned(),
        was_closed: false,
    }
}

/// What a command within a script met, as servers from 6 on and from 7 on say it.
fn is_about_rights(detail: &str) -> bool {
    detail.contains("user executing the script can't run")
        || detail.contains("ACL failure in script")
}

/// By its first word; scripts of older servers have it within their own error.
fn said(code: &str, detail: &str) -> Failure {
    let is = |word: &str| code == word || detail.contains(&format!("-{word} "));
    let of = |words: &[&str]| words.iter().any(|word| is(word));
    if of(&["LOADING", "BUSY", "MASTERDOWN"]) {
        match is("LOADING") {
            true => Failure::Loading,
            false => Failure::Hung,
        }
    } else if of(&["READONLY", "MISCONF", "NOREPLICAS"]) {
        Failure::ReadOnly
    } else if is("OOM") {
        Failure::OutOfMemory
    } else if of(&["NOAUTH", "WRONGPASS"]) {
        Failure::Password
    } else if is("NOPERM") || is_about_rights(detail) {
        Failure::Forbidden
    } else if of(&["MOVED", "ASK", "CLUSTERDOWN", "CROSSSLOT", "TRYAGAIN"]) {
        Failure::Cluster
    } else if code == "ERR" && detail.contains("invalid password") {
        Failure::Password
    } else {
        Failure::Refused
    }
}
