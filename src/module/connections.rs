//! Rules about connections (`count=connections`): asked when one arrives, before any
//! request; behind the PROXY protocol at its first request, when the client is known.
//!
//! A connection holds one place, whatever it carries, until its pool is cleared.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::{Duration, Instant};

use super::MODULE;
use super::answer;
use super::client::Client;
use super::config::Site;
use super::exempt;
use super::found::Found;
use super::running::{Child, Running};
use super::visitor::Visitor;
use super::zones::Key;
use crate::httpd::connection::Connection;
use crate::httpd::request::Request;
use crate::httpd::state;
use crate::limit::policy;
use crate::report::refusal::Verdict;
use crate::store::{Fate, LeaseIndex, Name};

/// Nothing was asked yet, and nothing is to be asked.
const OPEN: u8 = 0;
/// The first request is to ask.
const AWAITED: u8 = 1;
/// One of several streams that came at once is asking.
const ASKING: u8 = 2;
/// A dry run would have refused it: so it would every request on it.
const MARKED: u8 = 3;
/// Refused: so is every request on it.
const REFUSED: u8 = 4;

/// How long streams wait for the one of them that asks.
const PATIENCE: Duration = Duration::from_secs(1);

/// What became of a connection.
pub struct Arrival {
    state: AtomicU8,
    /// Written by whoever asks, before `state` says that all is decided.
    lease: Cell<Option<LeaseIndex>>,
    /// Why it was refused; written likewise.
    found: Cell<Option<Found<'static>>>,
}

impl Arrival {
    /// A connection that was not looked at.
    pub fn new() -> Arrival {
        Arrival {
            state: AtomicU8::new(OPEN),
            lease: Cell::new(None),
            found: Cell::new(None),
        }
    }

    /// What was decided. Streams that come while the first of them asks wait for it: that
    /// looks at memory and writes a line at most.
    fn decided(&self) -> u8 {
        let mut since = None;
        loop {
            // Acquire: what the one that asked has written is seen here.
            let state = self.state.load(Acquire);
            if state != ASKING {
                return state;
            }
            // Whoever asks has failed then, and nobody else is to wait.
            if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                let _ = self.state.compare_exchange(ASKING, OPEN, AcqRel, Acquire);
            }
            std::thread::yield_now();
        }
    }

    /// Gives the connection's place back.
    pub fn end(&self, child: &Child) {
        if let Some(lease) = self.lease.take() {
            child.holder.release(lease);
        }
    }
}

/// pre_connection: whether the connection may stay.
pub fn on_arrival(running: Running, visitor: &Visitor, connection: Connection<'_>) -> bool {
    if connection.awaits_proxy_header() {
        visitor.arrival.state.store(AWAITED, Release);
        return true;
    }
    let state = ask(running, visitor, connection, &visitor.peer);
    visitor.arrival.state.store(state, Release);
    state != REFUSED
}

/// quick_handler: the status of the answer when the connection is one too many. In a
/// dry run its requests are marked, and count as little as if they had not come.
pub fn at_first_request(running: Running, request: Request<'_>) -> Option<c_int> {
    let connection = request.connection();
    let carrier = connection.master().unwrap_or(connection);
    // Streams of HTTP/2 come here on threads of their own. They use of the visitor what
    // never changes, `streams` under its lock, and `arrival`, whose state lets one of them
    // in at a time. Pools belong to one thread: nothing is allocated in the carrier's.
    let visitor = carrier.state(MODULE)?;
    let arrival = &visitor.arrival;
    // Acquire, Release: what the one that asked has written is seen by the others.
    if arrival
        .state
        .compare_exchange(AWAITED, ASKING, AcqRel, Acquire)
        .is_ok()
    {
        let client = match request.client_other_than_peer() {
            Some(address) => running.client_at(address.into()),
            None => visitor.peer,
        };
        arrival
            .state
            .store(ask(running, visitor, connection, &client), Release);
    }
    let state = arrival.decided();
    if !matches!(state, MARKED | REFUSED) || answer::is_refused(request) {
        return None;
    }
    let found = arrival.found.get()?;
    if state == MARKED {
        answer::mark_for_connection(running, request, found);
        return None;
    }
    connection.close_after_response();
    Some(answer::refuse_for_connection(running, request, found))
}

/// What becomes of the connection: OPEN, MARKED or REFUSED.
fn ask(running: Running, visitor: &Visitor, connection: Connection<'_>, client: &Client) -> u8 {
    let Some(main) = running.runtime.main.config(MODULE) else {
        return OPEN;
    };
    let rules = main.connections;
    let Some(rule) = rules
        .iter()
        .find(|rule| policy::is_for(rules, **rule, client.address))
    else {
        return OPEN;
    };
    let Some((terms, limit)) = rule
        .terms
        .concurrency()
        .and_then(|terms| Some((terms, terms.limit?)))
    else {
        return OPEN;
    };
    let spares = |site: &Site<'_>| is_spared(site, client);
    let base = connection
        .base_server()
        .and_then(|server| server.config(MODULE));
    if base.map_or_else(|| spares(main), spares) {
        running.count(rule, Fate::Exempt);
        return OPEN;
    }
    let busy = terms.meaning(&main.level.defaults).busy;
    let settings = &main.level.settings;
    let key = Key {
        digest: client.digest,
        name: Name::Client(client.key),
    };
    let key = key.within(rule.count.get());
    let take_place = |limit| {
        let lease = running.take_place(&key, limit, state::seconds())?;
        visitor.arrival.lease.set(lease);
        Ok(())
    };
    let stands = match take_place(Some(limit)) {
        Err(stands) if running.is_busy(busy) => stands,
        taken => {
            if taken.is_err() {
                let _: Result<(), u32> = take_place(None);
            }
            running.count(rule, Fate::Passed);
            return OPEN;
        }
    };
    let found = Found::places(rule, client.digest, stands, limit);
    visitor.arrival.found.set(Some(found));
    answer::tell_of_connection(running, connection, client, found, settings);
    let verdict = answer::verdict(settings);
    running.count_refusal(rule, verdict);
    match verdict {
        Verdict::Refused => REFUSED,
        Verdict::RefusedDryRun | Verdict::DelayedDryRun => MARKED,
    }
}

/// Proxies whose word is taken carry other people's requests; they are nobody's client.
fn is_spared(site: &Site<'_>, client: &Client) -> bool {
    site.client_header
        .is_some_and(|header| header.trusts(client.address))
        || exempt::spares_peer(site.level.exempt, client.address)
}
