//! What client, log and other modules get to see of a decision.

use std::borrow::Cow;
use std::ffi::{CStr, c_int};

use super::MODULE;
use super::rules::Placed;
use super::trip::Trip;
use crate::httpd::log::{self, LogLevel};
use crate::httpd::request::Request;
use crate::report::printable::decoded;
use crate::report::refusal::{Asked, Refusal, Verdict};
use crate::sys;

/// When a client may try again: a place can become free at any time.
const RETRY_AFTER_SECONDS: &CStr = c"5";

/// Refuses: gives every place back, marks the client's request, and tells client and
/// log. Returns what the hook returns.
pub fn refuse(
    request: Request<'_>,
    trip: &Trip<'_>,
    rule: &Placed<'_>,
    stands: u32,
    limit: u16,
) -> c_int {
    tell(request, trip, rule, stands, limit);
    if request.is_sub() {
        // Only this part of the page is refused; the page itself was admitted.
        return sys::HTTP_SERVICE_UNAVAILABLE;
    }
    trip.refused.set(true);
    trip.give_back();
    let initial = request.initial();
    initial.set_variable(c"LIMITIP", "1");
    initial.set_variable(c"LIMITIP_STATUS", "REJECTED");
    name(initial, rule, stands, limit);
    request.set_error_header(c"Retry-After", RETRY_AFTER_SECONDS);
    request.set_error_header(c"Cache-Control", c"no-store");
    sys::HTTP_SERVICE_UNAVAILABLE
}

/// Marks an admitted request, naming the rule that had least room left.
pub fn passed(request: Request<'_>, trip: &Trip<'_>, rule: &Placed<'_>, stands: u32, limit: u16) {
    let initial = request.initial();
    initial.set_variable(c"LIMITIP_STATUS", "PASSED");
    let room = u32::from(limit).saturating_sub(stands);
    if room < trip.least_room.get() {
        trip.least_room.set(room);
        name(initial, rule, stands, limit);
    }
}

fn name(initial: Request<'_>, rule: &Placed<'_>, stands: u32, limit: u16) {
    initial.set_variable(c"LIMITIP_RULE", rule.name);
    initial.set_variable(c"LIMITIP_COUNT", &stands.to_string());
    initial.set_variable(c"LIMITIP_LIMIT", &limit.to_string());
}

fn tell(request: Request<'_>, trip: &Trip<'_>, rule: &Placed<'_>, stands: u32, limit: u16) {
    let initial = request.initial();
    let path = if initial.is_untranslated() {
        Cow::Owned(decoded(initial.uri()))
    } else {
        Cow::Borrowed(initial.uri())
    };
    let refusal = Refusal {
        client: trip.client.address,
        verdict: Verdict::Refused,
        count: stands,
        limit: limit.into(),
        rule: rule.name,
        asked: Some(Asked {
            vhost: request
                .server()
                .config(MODULE)
                .map_or("-", |site| site.label.get()),
            uri: &path,
        }),
        left_out: 0,
    };
    log::request(MODULE, LogLevel::Warning, request, &refusal.to_string());
}
