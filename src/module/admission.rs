//! When a rule looks: each rule is asked at most once per client request, at the
//! place where it is known. Every function here may be called any number of times
//! for one request and asks only what was not asked before.

use std::ffi::c_int;
use std::ptr;

use super::MODULE;
use super::answer;
use super::config::{Level as Said, Site};
use super::meta::Meta;
use super::rules::Placed;
use super::running::Running;
use super::trip::Trip;
use super::visitor::Client;
use crate::httpd::request::Request;
use crate::limit::concurrency::{count_of, over};
use crate::limit::key::CountId;
use crate::limit::rule::{Count, Defaults, Level, Meaning, Scope};
use crate::store::{Ledger, RecordIndex};
use crate::sys::{DECLINED, HTTP_SERVICE_UNAVAILABLE};

/// The narrowest scope is asked first: what it refuses never shows in the wider ones.
const NARROWEST_FIRST: [Scope; 3] = [Scope::Location, Scope::Vhost, Scope::Server];

/// A rule under decision.
#[derive(Clone, Copy)]
struct Ask<'r> {
    rule: &'r Placed<'r>,
    limit: u16,
    meaning: Meaning,
    count: CountId,
}

/// A level's rules where the request is now.
struct Asking<'r> {
    request: Request<'r>,
    trip: &'r Trip<'r>,
    level: Level,
    rules: &'r [&'r Placed<'r>],
    defaults: Defaults,
    vhost: CountId,
}

/// quick_handler: who the client really is; rules outside sections.
pub fn on_arrival(running: Running, request: Request<'_>) -> c_int {
    if request.is_sub() {
        return DECLINED;
    }
    seat(running, request);
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
    match request.client_other_than_peer() {
        None => visitor.is_the_peer(),
        Some(address) => {
            visitor.is_really(&Client::at(address, running.secret()));
            // Its end seats the peer again.
            Trip::of(running, request);
        }
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
    if running.counts_wide(Level::Directory) {
        count_ungoverned(running, request, site, Level::Directory);
    }
    DECLINED
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
    if !site.level.rules.is_empty() {
        let Some(trip) = Trip::of(running, request) else {
            return DECLINED;
        };
        let status = Asking::new(request, trip, Level::Server, &site.level, site).ask_all(running);
        if status != DECLINED {
            return status;
        }
    }
    if running.counts_wide(Level::Server) {
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
    let status = Asking::new(request, trip, Level::Directory, said, site).ask_all(running);
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
        if !trip.refused.get() {
            let _ = trip.take_place(count_of(scope, level, CountId(0), site.id.get()), None);
        }
    }
}

impl<'r> Asking<'r> {
    fn new(
        request: Request<'r>,
        trip: &'r Trip<'r>,
        level: Level,
        said: &'r Said<'r>,
        site: &Site<'_>,
    ) -> Self {
        let defaults = match level {
            Level::Server => said.defaults,
            Level::Directory => said.defaults.or(site.level.defaults),
        };
        let rules = if said.types.is_empty() || said.types.governs(request.content_type()) {
            said.rules
        } else {
            &[]
        };
        Asking {
            request,
            trip,
            level,
            rules,
            defaults,
            vhost: site.id.get(),
        }
    }

    /// What is to be asked of a rule, if it has not been asked yet.
    #[inline]
    fn ask(&self, rule: &'r Placed<'r>) -> Option<Ask<'r>> {
        let limit = rule.terms.limit?;
        if self.trip.answer(rule.id.get()) == Some(true) {
            return None;
        }
        let meaning = rule.terms.meaning(&self.defaults);
        let count = count_of(meaning.scope, self.level, rule.id.get(), self.vhost);
        Some(Ask {
            rule,
            limit,
            meaning,
            count,
        })
    }

    fn open(&self) -> impl Iterator<Item = Ask<'r>> {
        self.rules.iter().filter_map(|rule| self.ask(rule))
    }

    /// Asks what is open. All must pass: looks at all of them first, then takes the
    /// places, the narrowest first; a refusal gives back what was taken.
    #[inline]
    fn ask_all(&self, running: Running) -> c_int {
        // The answer to our own refusal is neither counted nor refused.
        if self.trip.refused.get() || self.request.is_dummy() {
            return DECLINED;
        }
        // Asked and told once: further subrequests to a place that refused one.
        let refused = |rule: &&Placed<'_>| self.trip.answer(rule.id.get()) == Some(false);
        if self.request.is_sub() && self.rules.iter().any(refused) {
            return HTTP_SERVICE_UNAVAILABLE;
        }
        if let [rule] = self.rules {
            return self
                .ask(rule)
                .map_or(DECLINED, |ask| self.decide(running, ask));
        }
        for ask in self.open() {
            let stands = self.stands(ask);
            if over(stands, ask.limit) && !self.has_room_now(ask) {
                return self.refuse(running, ask, stands);
            }
        }
        for scope in NARROWEST_FIRST {
            for ask in self.open().filter(|ask| ask.meaning.scope == scope) {
                let status = match ask.meaning.count {
                    // Looked at above.
                    Count::Workers => self.pass(running, ask),
                    Count::Requests => self.decide(running, ask),
                };
                if status != DECLINED {
                    return status;
                }
            }
        }
        DECLINED
    }

    /// A second look, as for a single rule: see [`Trip::take_place`].
    fn has_room_now(&self, ask: Ask<'r>) -> bool {
        std::thread::yield_now();
        ask.meaning.count == Count::Requests && !over(self.stands(ask), ask.limit)
    }

    /// The count that would stand if the request were admitted.
    #[inline]
    fn stands(&self, ask: Ask<'r>) -> u32 {
        match ask.meaning.count {
            Count::Workers => self.trip.busy_workers(ask.limit),
            Count::Requests => self.trip.count_with_this(ask.count),
        }
    }

    #[inline]
    fn decide(&self, running: Running, ask: Ask<'r>) -> c_int {
        let refused = match ask.meaning.count {
            Count::Workers => {
                Some(self.trip.busy_workers(ask.limit)).filter(|stands| over(*stands, ask.limit))
            }
            Count::Requests => self.trip.take_place(ask.count, Some(ask.limit)).err(),
        };
        match refused {
            Some(stands) => self.refuse(running, ask, stands),
            None => self.pass(running, ask),
        }
    }

    #[inline]
    fn pass(&self, running: Running, ask: Ask<'r>) -> c_int {
        self.trip.note(ask.rule.id.get(), true);
        self.record(running, ask, Ledger::passed);
        if running.runtime.names_variables {
            answer::passed(
                self.request,
                self.trip,
                ask.rule,
                self.stands(ask),
                ask.limit,
            );
        }
        DECLINED
    }

    fn refuse(&self, running: Running, ask: Ask<'r>, stands: u32) -> c_int {
        self.trip.note(ask.rule.id.get(), false);
        self.record(running, ask, Ledger::refused);
        answer::refuse(self.request, self.trip, ask.rule, stands, ask.limit)
    }

    /// Counts the decision, and notes what the rule means here: the defaults of the
    /// sections around its own are known only now.
    #[inline]
    fn record(&self, running: Running, ask: Ask<'r>, decided: fn(&Ledger, RecordIndex)) {
        if let Some(index) = ask.rule.record.get() {
            let ledger = running.runtime.segment.ledger();
            decided(&ledger, index);
            ledger.redefine(index, Meta::of_rule(&ask.rule.terms, ask.meaning).pack());
        }
    }
}
