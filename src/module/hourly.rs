//! What is told once an hour, by whichever child meets it first: what could be true of
//! every request must not fill the log.

use std::ffi::CStr;

use super::running::Running;
use crate::httpd::log::LogLevel;
use crate::httpd::state;
use crate::limit::address::Address;
use crate::report::message::Id;
use crate::report::printable::printable;
use crate::store::Hourly;

/// Bytes of a client's text that are shown.
const LONGEST: usize = 80;

impl Running {
    /// A proxy whose word is taken sent what is no address.
    pub fn unreadable(self, header: &CStr, peer: Address, hop: &str) {
        let shown = &hop[..hop.floor_char_boundary(LONGEST)];
        self.tell_hourly(Hourly::Unreadable, || {
            format!(
                "{}: {} from the trusted {peer} has \"{}\" where an address belongs; such requests count for {peer}; \
                 look at what this proxy sends",
                Id::Unreadable,
                printable(&header.to_string_lossy()),
                printable(shown),
            )
        });
    }

    /// The expression of a directive could not be evaluated, so nobody was spared by it, or
    /// has a key of it.
    pub fn expression_failed(self, directive: &str, why: &str) {
        self.tell_hourly(Hourly::ExpressionFailed, || {
            format!(
                "{}: {directive}: an expression cannot be evaluated, so {}: {}",
                Id::ExpressionFailed,
                match directive {
                    "IPLimitZone" => "rules of its zone do not apply",
                    _ => "it spares nobody",
                },
                printable(why)
            )
        });
    }

    /// Nearly all clients come from one address, which is a proxy's.
    pub fn address_is_shared(self, peer: Address, header: &str) {
        self.tell_hourly(Hourly::SharedAddress, || {
            format!(
                "{}: nearly all requests come from {peer} with a {header} header that nobody reads, so all clients \
                 share one limit; if {peer} is a proxy of yours, set RemoteIPHeader and RemoteIPInternalProxy \
                 (mod_remoteip), or IPLimitClientHeader {header} trusted={peer}",
                Id::SharedAddress
            )
        });
    }

    fn tell_hourly(self, about: Hourly, text: impl FnOnce() -> String) {
        if self
            .runtime
            .segment
            .is_first_this_hour(about, state::seconds_up())
        {
            self.runtime.log(LogLevel::WARNING, &text());
        }
    }
}
