//! When a rule looks: each rule is asked at most once per client request, at the
//! place where it is known. Every function here may be called any number of times
//! for one request and asks only what was not asked before.

use std::ffi::c_int;
use std::ptr;

use super::MODULE;
use super::answer;
use super::asking::{Asking, Look};
use super::config::{Level as Said, Site};
use super::exempt::Exemption;
use super::exempt::Spared;
use super::running::Running;
use super::trip::Trip;
use super::zones::Key;
use super::{connections, exempt, shared_address, slow};
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
    if request.is_error_page()
        && let Some(trip) = request.initial().state(MODULE)
    {
        // A refused error page is no refused request: the answer stays the error's.
        trip.charges.settle();
    }
    slow::watch(running, request);
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
        Some(site) if site.level.types.is_empty() => {
            ask_server(running, request, site, Look::Arrival)
        }
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
    // An internal redirect is the same request still.
    if request == request.initial()
        && let Some((slot, owner)) = visitor.seat()
    {
        let since = request.started_micros();
        running.child.desks.begin(slot, owner, since);
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

/// post_perdir_config and access_checker: rules outside sections about keys, which
/// sections may have set; rules of the place that was found.
pub fn after_walk(running: Running, request: Request<'_>) -> c_int {
    if running.has_server_keys() && !request.is_sub() {
        let status = ask_server_keys(running, request);
        if status != DECLINED {
            return status;
        }
    }
    match request.directory(MODULE) {
        Some(said) if !said.rules.is_empty() && said.types.is_empty() && !request.is_sub() => {
            ask_directory(running, request, said, Look::Walk)
        }
        _ => DECLINED,
    }
}

fn ask_server_keys(running: Running, request: Request<'_>) -> c_int {
    let Some(site) = request.server().config(MODULE) else {
        return DECLINED;
    };
    if !site.level.types.is_empty() || site.level.rules.is_empty() {
        return DECLINED;
    }
    match Trip::of(running, request) {
        Some(trip) if !trip.keys_asked.replace(true) => {
            ask_server(running, request, site, Look::Walk)
        }
        _ => DECLINED,
    }
}

/// The end of fixups: rules that waited for the type or for a key, rules of a place that mod_dir,
/// mod_negotiation or another fast redirect led to, and counts that look further than
/// the rules that govern this request.
pub fn when_all_is_known(running: Running, request: Request<'_>) -> c_int {
    if request.is_sub() {
        return DECLINED;
    }
    let initial = request.initial();
    slow::watch(running, request);
    if initial != request && initial.state(MODULE).is_some_and(|trip| trip.refused.get()) {
        answer::keep_status(request);
        return DECLINED;
    }
    let Some(site) = request.server().config(MODULE) else {
        return DECLINED;
    };
    let is_postponed = running.has_server_keys()
        && initial
            .state(MODULE)
            .is_some_and(|trip| trip.postponed.get());
    if !site.level.types.is_empty() || is_postponed {
        let status = ask_server(running, request, site, Look::Last);
        if status != DECLINED {
            return status;
        }
    }
    if let Some(said) = request
        .directory(MODULE)
        .filter(|said| !said.rules.is_empty())
    {
        let status = ask_directory(running, request, said, Look::Last);
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
    Trip::of(running, request).is_some_and(|trip| {
        spares(running, request, trip, [site.level.exempt, of_place]) == Spared::All
    })
}

/// What the lines of a server and of a place spare the request from.
#[inline]
pub fn spares(
    running: Running,
    request: Request<'_>,
    trip: &Trip<'_>,
    lines: [&[&Exemption<'_>]; 2],
) -> Spared {
    if lines.iter().all(|lines| lines.is_empty()) {
        return Spared::No;
    }
    let of = |lines| exempt::spares(lines, running, request, trip.client.address);
    lines.map(of).into_iter().max().unwrap_or(Spared::No)
}

/// The first handler, for requests that rates may have charged: from here on the work is done.
pub fn before_work(request: Request<'_>) {
    // mod_rewrite only makes another request of it.
    if !request.is_being_rewritten()
        && let Some(trip) = request.initial().state(MODULE)
    {
        trip.charges.settle();
    }
}

/// The first handler, for subrequests that are run: the rules of their place.
pub fn before_subrequest(running: Running, request: Request<'_>) -> c_int {
    match request.directory(MODULE) {
        Some(said) if !said.rules.is_empty() => ask_directory(running, request, said, Look::Last),
        _ => DECLINED,
    }
}

/// protocol_switch: the request becomes a connection of another protocol, inside which
/// it is asked again (h2c) or which no rule counts.
pub fn before_upgrade(request: Request<'_>) {
    if let Some(trip) = request.initial().state(MODULE) {
        trip.give_back();
        trip.end_watch();
        if let Some(running) = Running::get() {
            trip.charges.refund(running);
        }
    }
}

/// log_transaction: charges that wait for the status of an answer which never began.
///
/// httpd also does this when a pool is cleared, under prefork perhaps in its signal handler:
/// then nothing is charged.
pub fn at_the_end(running: Running, request: Request<'_>) {
    slow::tell(running, request);
    if let Some(trip) = request.initial().state(MODULE)
        && trip.charges.awaits_status()
        && !running.child.is_interrupted()
    {
        let status = u16::try_from(request.last().status()).unwrap_or(0);
        trip.charges.has_status(running, trip.started, status);
    }
}

fn ask_server<'r>(running: Running, request: Request<'r>, site: &'r Site<'r>, look: Look) -> c_int {
    let level = &site.level;
    let counts_wide = running.counts_wide(Level::Server);
    if level.rules.is_empty() && !counts_wide {
        return DECLINED;
    }
    let Some(trip) = Trip::of(running, request) else {
        return DECLINED;
    };
    let spared = exempt::spares(level.exempt, running, request, trip.client.address);
    let at = (Level::Server, look);
    let asking = || Asking::new(running, request, trip, at, level, site);
    if spared == Spared::All {
        if level.limits() {
            asking().spare_all();
            answer::exempt(running, request, trip);
        }
        return DECLINED;
    }
    if !level.rules.is_empty() {
        let asking = asking();
        let status = ask(running, request, trip, asking, spared);
        if status != DECLINED {
            return status;
        }
    }
    if counts_wide {
        count_ungoverned(running, request, site, Level::Server);
    }
    DECLINED
}

/// Asks, leaving out the rates where the request is spared from them.
#[inline]
fn ask<'r>(
    running: Running,
    request: Request<'r>,
    trip: &Trip<'r>,
    asking: Asking<'r>,
    spared: Spared,
) -> c_int {
    if spared != Spared::Rates {
        return asking.ask_all();
    }
    if asking.has_rates() {
        asking.spare_rates();
        answer::exempt(running, request, trip);
    }
    asking.without_rates().ask_all()
}

fn ask_directory<'r>(
    running: Running,
    request: Request<'r>,
    said: &'r Said<'r>,
    look: Look,
) -> c_int {
    let Some(trip) = Trip::of(running, request) else {
        return DECLINED;
    };
    // post_perdir_config, access_checker and fixups mostly see the same place. A place
    // is known by its address only as long as its pool lives: a subrequest's does not.
    let keeps = !request.is_sub() && said.types.is_empty();
    let is_postponed = look == Look::Last && trip.postponed.get();
    if keeps && ptr::eq(trip.seen.get(), said) && !is_postponed {
        return DECLINED;
    }
    let Some(site) = request.server().config(MODULE) else {
        return DECLINED;
    };
    let spared = spares(running, request, trip, [site.level.exempt, said.exempt]);
    let at = (Level::Directory, look);
    let asking = Asking::new(running, request, trip, at, said, site);
    let status = if spared == Spared::All {
        if said.limits() {
            asking.spare_all();
            answer::exempt(running, request, trip);
        }
        DECLINED
    } else {
        ask(running, request, trip, asking, spared)
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
            let key = Key::of_client(trip);
            let _ = trip.take_place(&key, count, None, running.runtime.enforces);
        }
    }
}
