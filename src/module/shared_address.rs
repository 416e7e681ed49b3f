//! Notices that nearly all clients are one proxy, whose forwarding header nobody reads:
//! then all visitors share one limit, and one of them can shut the others out.

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use super::MODULE;
use super::exempt;
use super::running::Running;
use crate::httpd::request::Request;
use crate::limit::syntax::Who;

/// The first requests of a child are all looked at, later ones now and then.
const ALL_OF_THE_FIRST: u32 = 64;
const ONE_OF: u32 = 16;

/// Headers by which proxies name their clients. Only the first two are read by
/// IPLimitClientHeader.
const HEADERS: [(&CStr, &str); 3] = [
    (c"X-Forwarded-For", "X-Forwarded-For"),
    (c"X-Real-IP", "X-Real-IP"),
    (c"Forwarded", "X-Forwarded-For"),
];

/// Looks at a request that has just come.
#[inline]
pub fn look(running: Running, request: Request<'_>) {
    let count = &running.child.looked_at;
    // Threads may lose a step here: it is a sample.
    let number = count.load(Relaxed);
    count.store(number.wrapping_add(1), Relaxed);
    if number < ALL_OF_THE_FIRST || number.is_multiple_of(ONE_OF) {
        look_closely(running, request);
    }
}

#[inline(never)]
fn look_closely(running: Running, request: Request<'_>) {
    if running.runtime.who == Who::Connection || request.is_dummy() {
        return;
    }
    let Some(peer) = request.connection().peer() else {
        return;
    };
    let site = request.server().config(MODULE);
    if site.is_some_and(|site| exempt::spares_peer(site.level.exempt, peer.into())) {
        return;
    }
    let watch = running.runtime.segment.majority();
    let is_read = request.client_other_than_peer().is_some()
        || site
            .and_then(|site| site.client_header)
            .is_some_and(|header| header.trusts(peer.into()));
    let header = HEADERS
        .iter()
        .find(|(name, _)| !is_read && request.raw_header_in(name).is_some());
    match header {
        None => watch.note_other(),
        Some((_, advice)) => {
            if watch.note(running.client_at(peer.into()).digest.tag) {
                running.address_is_shared(peer.into(), advice);
            }
        }
    }
}
