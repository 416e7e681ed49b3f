//! The numbers of all messages in the error log.

use std::fmt::{self, Display};

/// The number of a message. A number is never used for anything else, even when
/// its message is gone; the manual lists all of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum Id {
    /// A request or a connection was refused ([`Refusal`](super::refusal::Refusal)).
    Refused = 101,
    /// Refusals were left out of the log ([`LeftOut`](super::refusal::LeftOut)).
    LeftOut = 102,
    /// The configuration has no rule at all.
    NoRule = 201,
    /// A MIME pattern that lets more through than its author meant.
    SuspiciousPattern = 202,
    /// The same plain rule twice in one section: the last one counts.
    Duplicate = 203,
    /// A rule inside `<Limit>` holds for all methods.
    InsideLimit = 204,
    /// A rule in a section counts the whole server and does not say scope=.
    CountsWholeServer = 205,
    /// A number under 6 on `/`.
    LowOnRoot = 206,
    /// An ErrorDocument by full URL of the same host.
    ErrorDocumentUrl = 207,
    /// `CacheQuickHandler` above a rule of a section.
    CacheAboveRule = 208,
    /// A rule about connections, and a proxy that is not spared from it.
    ProxiesCounted = 209,
    /// A bucket whose burst is mostly out of reach, since waits are short.
    BurstOutOfReach = 210,
    /// A shared rule of a server without a name that others share.
    SharedNameless = 211,
    /// A changed size takes effect at a full restart only.
    NeedsRestart = 301,
    /// This httpd's scoreboard is laid out otherwise than the one built for.
    SlotLayout = 302,
    /// A count was not the sum of its leases.
    AuditMismatch = 303,
    /// A fault of the module itself was caught.
    Fault = 304,
    /// Places of a dead child were given back.
    Reaped = 305,
    /// Shared memory could not be made.
    NoSharedMemory = 306,
    /// The status page was asked for while it is off.
    StatusPageOff = 307,
    /// Requests were admitted without being counted.
    Untracked = 308,
    /// A rule has no counters, because there is no room for more.
    NoRecord = 309,
    /// An MPM under which requests cannot be counted.
    UnknownMpm = 310,
    /// The header in which a trusted proxy names the client cannot be read.
    Unreadable = 401,
    /// Nearly all clients are one address, that of a proxy.
    SharedAddress = 402,
    /// The expression of an exemption failed while a request was asked about.
    ExpressionFailed = 403,
    /// A response was cut ([`Cut`](super::cut::Cut)).
    Cut = 501,
    /// Nearly all workers are busy ([`Alarm`](super::alarm::Alarm)).
    Alarm = 502,
    /// One of those who hold them ([`Holder`](super::holder::Holder)).
    AlarmHolder = 503,
    /// All is well ([`Heartbeat`](super::alarm::Heartbeat)).
    Heartbeat = 504,
    /// The module started ([`Started`](super::alarm::Started)).
    Started = 505,
    /// Responses are not watched, because there is no room for more.
    Unwatched = 506,
    /// A cut has to wait, because no descriptor is free.
    CutPutOff = 507,
    /// Somebody asks whether lines arrive ([`Check`](super::alarm::Check)).
    Check = 508,
    /// The counts of several servers are out of reach ([`Down`](super::fleet::Down)).
    RedisDown = 601,
    /// They are within reach again ([`Up`](super::fleet::Up)).
    RedisUp = 602,
}

impl Id {
    /// All messages, in the order of their numbers.
    pub const ALL: [Id; 36] = [
        Id::Refused,
        Id::LeftOut,
        Id::NoRule,
        Id::SuspiciousPattern,
        Id::Duplicate,
        Id::InsideLimit,
        Id::CountsWholeServer,
        Id::LowOnRoot,
        Id::ErrorDocumentUrl,
        Id::CacheAboveRule,
        Id::ProxiesCounted,
        Id::BurstOutOfReach,
        Id::SharedNameless,
        Id::NeedsRestart,
        Id::SlotLayout,
        Id::AuditMismatch,
        Id::Fault,
        Id::Reaped,
        Id::NoSharedMemory,
        Id::StatusPageOff,
        Id::Untracked,
        Id::NoRecord,
        Id::UnknownMpm,
        Id::Unreadable,
        Id::SharedAddress,
        Id::ExpressionFailed,
        Id::Cut,
        Id::Alarm,
        Id::AlarmHolder,
        Id::Heartbeat,
        Id::Started,
        Id::Unwatched,
        Id::CutPutOff,
        Id::Check,
        Id::RedisDown,
        Id::RedisUp,
    ];

    /// The number, 100..=999.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

impl Display for Id {
    /// `limitipconn(101)`, how each of our lines begins.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limitipconn({})", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once() {
        assert!(
            Id::ALL
                .windows(2)
                .all(|pair| pair[0].number() < pair[1].number())
        );
        assert_eq!(Id::Refused.to_string(), "limitipconn(101)");
        assert_eq!(Id::NoSharedMemory.number(), 306);
        assert_eq!(Id::ExpressionFailed.number(), 403);
        assert_eq!(Id::Cut.to_string(), "limitipconn(501)");
        assert_eq!(Id::Check.number(), 508);
    }
}
