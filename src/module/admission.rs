//! When a rule looks: each rule is asked at most once per client request, at the
//! place where it is known. Every function here may be called any number of times
//! for one request and asks only what was not asked before.

use std::ffi::c_int;
use std::ptr;

use super::MODULE;
use super::answer;
use super::asking::Asking;
use super::config::{Level as Said, Site};
use super::exempt::Exemption;
use super::running::Running;
use super::trip::Trip;
use super::{connections, exempt, shared_address};
use crate::httpd::request::Request;
use crate::limit::concurrency::count_of;
use crate::limit::key::CountId;
use crate::limit::rule::{Level, Scope};
use crate::limit::syntax::Who;
use crate::sys::DECLINED;

/// quick_handler: who the client really is; rules outside sections.
pub fn on_arrival(running: Running, request: Request<'_>) -> c_int {
    if request.is_sub() {
        return DECLINED;
    }
    seat(running, request);
    shared_address::look(running, request);
    if running.has_connection_rules()
        && let Some(status) = connections::at_first_request(running, request)
    {
        return status;
    }
    if !running.asks_on_arrival() {
        return DECLINED;
    }
    match request.server().config(MODULE) {
        // A list of types can only be applied once the type is known: in fixups.
        Some(site) if site.level.types.is_empty() => ask_server(running, request, site),
        _ => DECLINED,
    }
}

/// Puts the client of this request into the slot of its worker. Before a first rule
/// is met (.htaccess), the connection's peer sits there.
#[inline]
fn seat(running: Running, request: Request<'_>) {
    let connection = request.connection();
    let Some(visitor) = connection.state(MODULE) else {
        return;
    };
    if request.is_dummy() {
        return visitor.get_up();
    }
    if visitor.slot().is_none() {
        visitor.sit_down(connection);
    }
    let may_differ = running.runtime.who == Who::Client
        && (request.client_other_than_peer().is_some()
            || request
                .server()
                .config(MODULE)
                .is_some_and(|site| site.client_header.is_some()));
    if !may_differ {
        visitor.is_the_peer();
    } else if let Some(trip) = Trip::of(running, request) {
        // The end of the trip seats the peer again.
        visitor.is_really(&trip.client);
    }
}

/// Whether the rules of the place where the request is were asked already, or wait
/// for the type: mostly so after the first of the hooks that look.
#[inline]
pub fn is_settled(request: Request<'_>) -> bool {
    match (request.directory(MODULE), request.state(MODULE)) {
        (None, _) => true,
        (Some(said), _) if !said.types.is_empty() => true,
        (Some(said), Some(trip)) => ptr::eq(trip.seen.get(), said),
        (Some(_), None) => false,
    }
}

/// post_perdir_config and access_checker: rules of the place that was found.
pub fn after_walk(running: Running, request: Request<'_>) -> c_int {
    match request.directory(MODULE) {
        Some(said) if !said.rules.is_empty() && said.types.is_empty() && !request.is_sub() => {
            ask_directory(running, request, said)
        }
        _ => DECLINED,
    }
}

/// The end of fixups: rules that waited for the type, rules of a place that mod_dir,
/// mod_negotiation or another fast redirect led to, and counts that look further than
/// the rules that govern this request.
pub fn when_all_is_known(running: Running, request: Request<'_>) -> c_int {
    if request.is_sub() {
        return DECLINED;
    }
    let initial = request.initial();
    if initial != request && initial.state(MODULE).is_some_and(|trip| trip.refused.get()) {
        answer::keep_status(request);
        return DECLINED;
    }
    let Some(site) = request.server().config(MODULE) else {
        return DECLINED;
    };
    if !site.level.types.is_empty() {
        let status = ask_server(running, request, site);
        if status != DECLINED {
            return status;
        }
    }
    if let Some(said) = request
        .directory(MODULE)
        .filter(|said| !said.rules.is_empty())
    {
        let status = ask_directory(running, request, said);
        if status != DECLINED {
            return status;
        }
    }
    if running.counts_wide(Level::Directory) && !is_spared_here(running, request, site) {
        count_ungoverned(running, request, site, Level::Directory);
    }
    DECLINED
}

/// Whether the place where the request is, or its server, spares it.
fn is_spared_here(running: Running, request: Request<'_>, site: &Site<'_>) -> bool {
    let of_place = request
        .directory(MODULE)
        .map_or(&[][..], |said| said.exempt);
    if site.level.exempt.is_empty() && of_place.is_empty() {
        return false;
    }
    Trip::of(running, request)
        .is_some_and(|trip| spares(running, request, trip, [site.level.exempt, of_place]))
}

/// Whether one of the lines of a server or of a place spares the request.
fn spares(
    running: Running,
    request: Request<'_>,
    trip: &Trip<'_>,
    lines: [&[&Exemption<'_>]; 2],
) -> bool {
    lines
        .iter()
        .any(|lines| exempt::spares(lines, running, request, trip.client.address))
}

/// The first handler, for subrequests that are run: the rules of their place.
pub fn before_subrequest(running: Running, request: Request<'_>) -> c_int {
    match request.directory(MODULE) {
        Some(said) if !said.rules.is_empty() => ask_directory(running, request, said),
        _ => DECLINED,
    }
}

/// protocol_switch: the request becomes a connection of another protocol, inside which
/// it is asked again (h2c) or which no rule counts.
pub fn before_upgrade(request: Request<'_>) {
    if let Some(trip) = request.initial().state(MODULE) {
        trip.give_back();
    }
}

fn ask_server<'r>(running: Running, request: Request<'r>, site: &'r Site<'r>) -> c_int {
    let level = &site.level;
    let counts_wide = running.counts_wide(Level::Server);
    if level.rules.is_empty() && !counts_wide {
        return DECLINED;
    }
    let Some(trip) = Trip::of(running, request) else {
        return DECLINED;
    };
    if exempt::spares(level.exempt, running, request, trip.client.address) {
        if level.limits() {
            answer::exempt(running, request, trip);
        }
        return DECLINED;
    }
    if !level.rules.is_empty() {
        let status = Asking::new(running, request, trip, Level::Server, level, site).ask_all();
        if status != DECLINED {
            return status;
        }
    }
    if counts_wide {
        count_ungoverned(running, request, site, Level::Server);
    }
    DECLINED
}

fn ask_directory<'r>(running: Running, request: Request<'r>, said: &'r Said<'r>) -> c_int {
    let Some(trip) = Trip::of(running, request) else {
        return DECLINED;
    };
    // post_perdir_config, access_checker and fixups mostly see the same place. A place
    // is known by its address only as long as its pool lives: a subrequest's does not.
    let keeps = !request.is_sub() && said.types.is_empty();
    if keeps && ptr::eq(trip.seen.get(), said) {
        return DECLINED;
    }
    let Some(site) = request.server().config(MODULE) else {
        return DECLINED;
    };
    let status = if spares(running, request, trip, [site.level.exempt, said.exempt]) {
        if said.limits() {
            answer::exempt(running, request, trip);
        }
        DECLINED
    } else {
        Asking::new(running, request, trip, Level::Directory, said, site).ask_all()
    };
    if keeps && status == DECLINED {
        trip.seen.set(said);
    }
    status
}

/// Counts a request over the scopes that some rule of the level looks at, although no
/// rule governs it: `scope=server` counts limited and other places alike.
fn count_ungoverned(running: Running, request: Request<'_>, site: &Site<'_>, level: Level) {
    // mod_rewrite is about to make a new request of this one, which will be counted.
    if request.is_dummy() || request.is_being_rewritten() {
        return;
    }
    for scope in [Scope::Vhost, Scope::Server] {
        if !running.counts_all(level, scope) {
            continue;
        }
        let Some(trip) = Trip::of(running, request) else {
            return;
        };
        // What a dry run has marked would not be in flight, if nothing were enforced.
        let is_away = trip.refused.get() || (trip.marked.get() && !running.runtime.enforces);
        if !is_away {
            let count = count_of(scope, level, CountId(0), site.id.get());
            let _ = trip.take_place(count, None, running.runtime.enforces);
        }
    }
}
