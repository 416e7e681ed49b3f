//! What one request of a client has asked and taken so far, over all its redirects
//! and subrequests. Its places are given back when the request's pool is cleared:
//! when the last byte is handed to the kernel, or the request is aborted. Those of a
//! stream of HTTP/2 are given back when its last byte has gone out, on another thread.

mod asked;

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::ptr;

use self::asked::Became;
use super::charges::Charges;
use super::client::{self, Client};
use super::config::Level;
use super::fleet::Away;
use super::rules::Placed;
use super::running::Running;
use super::stream_meter::StreamMeter;
use super::streams::Guard;
use super::visitor::Visitor;
use super::zones::Key;
use crate::httpd::first_output::AwaitStatus;
use crate::httpd::pool::{List, OnClear};
use crate::httpd::request::Request;
use crate::limit::key::{CountId, Digest};
use crate::store::{LeaseIndex, RecordIndex, WatchedIndex};

/// A place in a count.
#[derive(Clone, Copy)]
struct Place {
    digest: Digest,
    limit: Option<u16>,
    lease: LeaseIndex,
    /// Whether it stays taken when a dry run marks the request.
    outlives_mark: bool,
}

/// Whether a request that has a place which was taken within the limit `kept` is within
/// `wanted` too.
pub(super) fn suffices(kept: Option<u16>, wanted: Option<u16>) -> bool {
    match (wanted, kept) {
        (None, _) => true,
        (Some(wanted), Some(kept)) => kept <= wanted,
        (Some(_), None) => false,
    }
}

/// What those who look at the workers see of a request.
#[derive(Clone, Copy)]
struct Described<'r> {
    /// Whether a rule governs it, which may have no record.
    is_governed: bool,
    rule: Option<RecordIndex>,
    vhost: &'r str,
    path: &'r [u8],
}

/// The state of one client request.
pub struct Trip<'r> {
    pub(super) running: Running,
    /// Who asks.
    pub client: Client,
    pub(super) visitor: Option<&'r Visitor>,
    /// The connection that carries the stream of HTTP/2 on which the request came.
    pub(super) carrier: Option<&'r Visitor>,
    /// That stream; 0 for none.
    pub stream: u32,
    /// The next request of a stream of that connection; under its lock.
    pub next_stream: Cell<*const Trip<'static>>,
    asked: List<'r, (CountId, Became), 4>,
    places: List<'r, Place, 4>,
    /// The places that it has in counts of several servers.
    pub(super) away: List<'r, Away, 1>,
    /// How long it has waited for those counts, in nanoseconds.
    pub(super) asked_away: Cell<u64>,
    /// What it was charged at rates.
    pub charges: Charges<'r>,
    /// The directory level whose rules were all asked last.
    pub seen: Cell<*const Level<'r>>,
    /// Whether a rule waits for its key, which was empty.
    pub postponed: Cell<bool>,
    /// Whether the server's rules about keys were asked.
    pub keys_asked: Cell<bool>,
    /// Whether one of our rules refused the request.
    pub refused: Cell<bool>,
    /// Whether a dry run would have refused it.
    pub marked: Cell<bool>,
    /// How long it has waited for its turn, in nanoseconds.
    pub waited: Cell<u64>,
    /// Whether it was counted as exempt.
    pub exempt: Cell<bool>,
    /// The least room that a rule which let it pass had left.
    pub least_room: Cell<u32>,
    /// The request before on the same connection, while it has not ended.
    pub earlier: Cell<*const Trip<'static>>,
    /// The watch for its slow client, if there is one.
    pub(super) watched: Cell<Option<WatchedIndex>>,
    /// Of a stream: who measures how its client takes it; under the lock of its connection.
    pub(super) meter: Cell<Option<&'r StreamMeter<'r>>>,
    /// Of a stream: whether its last byte has gone out; likewise.
    pub(super) is_sent: Cell<bool>,
    /// Whether it was counted as one that nobody watches.
    pub(super) is_unwatched: Cell<bool>,
    /// What those who look at the workers see of it.
    described: Cell<Option<Described<'r>>>,
    /// When it began, in microseconds of the wall clock.
    pub(super) began: u64,
    /// When it began, in seconds of the wall clock: who is stalest goes by it, nothing else.
    pub started: u32,
}

impl<'r> Trip<'r> {
    /// The trip of the client request that `request` belongs to; made at first sight.
    #[inline]
    pub fn of(running: Running, request: Request<'r>) -> Option<&'r Trip<'r>> {
        let initial = request.initial();
        match initial.state(super::MODULE) {
            Some(trip) => Some(trip),
            None => Trip::begin(running, request, initial),
        }
    }

    fn begin(running: Running, request: Request<'r>, initial: Request<'r>) -> Option<&'r Trip<'r>> {
        let connection = initial.connection();
        let visitor = connection.state(super::MODULE);
        // Where httpd finds fault with a request before any module sees it, mod_remoteip
        // learns its client only from the redirect to the page of the error.
        let client = match (client::other_than_peer(running, request), visitor) {
            (Some(address), _) => running.client_at(address),
            (None, Some(visitor)) => visitor.peer,
            // A stream of HTTP/2 has a connection of its own, without a visitor.
            (None, None) => running.client_at(connection.peer()?.into()),
        };
        let pool = initial.pool();
        let stream = running
            .child
            .http2
            .filter(|_| visitor.is_none())
            .and_then(|http2| http2.stream(initial));
        let carrier = stream
            .and_then(|_| connection.master())
            .and_then(|carrier| carrier.state(super::MODULE));
        let trip: &'r Trip<'r> = pool.alloc(Trip {
            running,
            client,
            visitor,
            carrier,
            stream: stream.unwrap_or(0),
            next_stream: Cell::new(ptr::null()),
            asked: List::new(pool),
            places: List::new(pool),
            away: List::new(pool),
            asked_away: Cell::new(0),
            charges: Charges::new(pool),
            seen: Cell::new(ptr::null()),
            postponed: Cell::new(false),
            keys_asked: Cell::new(false),
            refused: Cell::new(false),
            marked: Cell::new(false),
            waited: Cell::new(0),
            exempt: Cell::new(false),
            least_room: Cell::new(u32::MAX),
            earlier: Cell::new(ptr::null()),
            watched: Cell::new(None),
            meter: Cell::new(None),
            is_sent: Cell::new(false),
            is_unwatched: Cell::new(false),
            described: Cell::new(None),
            began: initial.started_micros(),
            started: initial.started(),
        });
        // Before it is linked: whoever finds it there may rely on its cleanup.
        pool.on_clear_first(trip);
        if let Some(visitor) = visitor {
            trip.earlier.set(visitor.begins(trip));
        }
        if let Some(carrier) = carrier {
            carrier.streams.add(trip);
        }
        initial.keep(super::MODULE, trip);
        Some(trip)
    }

    /// Lets those who look at the workers see what this request is: when it is watched for
    /// a slow client, and the first time that a rule governs it.
    #[inline]
    pub fn describe(&self, request: Request<'r>, rule: Option<&Placed<'_>>) {
        match (self.described.get(), rule) {
            (None, _) => {}
            (Some(known), Some(_)) if !known.is_governed => {}
            _ => return,
        }
        let site = request.server().config(super::MODULE);
        self.described.set(Some(Described {
            is_governed: rule.is_some(),
            rule: rule.and_then(|rule| rule.record.get()),
            vhost: site.map_or("", |site| site.label.get()),
            path: request.initial().uri(),
        }));
        if let Some(seat) = self.visitor.and_then(Visitor::seat) {
            self.show(seat);
        }
    }

    /// The same at the desk of this seat.
    pub fn show(&self, seat: (u32, u64)) {
        if let Some(known) = self.described.get() {
            let desks = self.running.child.desks;
            desks.describe(seat, known.rule, known.vhost.as_bytes(), known.path);
        }
    }

    /// This request and those before it on the same connection that have not ended.
    ///
    /// The requests of an HTTP/1 connection are served one after the other, so the
    /// earlier ones are done but for their last bytes, and their places pass on.
    pub fn chain(&self) -> impl Iterator<Item = &Trip<'r>> {
        // SAFETY: null, or a trip that has not ended: each unlinks itself when it does.
        // One thread at a time carries a connection and its requests, so none ends here
        // meanwhile; the streams of HTTP/2 have no visitor and so no chain.
        std::iter::successors(Some(self), |trip| unsafe {
            trip.earlier.get().cast::<Trip<'r>>().as_ref()
        })
    }

    /// Those of a stream are given back by another thread than the one that takes them, so
    /// nobody looks at places without the lock of its connection.
    fn locked<T>(&self, look: impl FnOnce() -> T) -> T {
        let _guard = self.carrier.map(|carrier| carrier.streams.lock());
        look()
    }

    /// Looks at the places.
    fn with_places<T>(&self, look: impl FnOnce(&List<'r, Place, 4>) -> T) -> T {
        self.locked(|| look(&self.places))
    }

    /// The same with the places in counts of several servers.
    pub(super) fn with_away<T>(&self, look: impl FnOnce(&List<'r, Away, 1>) -> T) -> T {
        self.locked(|| look(&self.away))
    }

    /// The count that would stand if this request were admitted, by loads only.
    pub fn count_with_this(&self, key: &Key<'_>, count: CountId) -> u32 {
        let digest = key.digest.within(count);
        let of_this = |place: Place| place.digest == digest;
        let counted = self
            .chain()
            .any(|trip| trip.with_places(|places| places.iter().any(of_this)));
        self.running.child.holder.count(digest) + u32::from(!counted)
    }

    /// Busy workers of this client in the scoreboard, this request's included; stops
    /// counting once the number is passed.
    pub fn busy_workers(&self, limit: u16) -> u32 {
        let child = self.running.child;
        let own = self.visitor.and_then(Visitor::slot);
        let busy = |slot| {
            own == Some(slot)
                || child
                    .scoreboard
                    .is_busy(crate::httpd::scoreboard::Slot(slot))
        };
        let found =
            child
                .identity
                .count(self.client.key, self.client.tag(), u32::from(limit), busy);
        // A request without a worker of its own (HTTP/2) is still one.
        found.max(1)
    }

    /// Takes a place in a count. `Err` is the count that it would have been.
    ///
    /// A place that does not outlive a mark is given back when a dry run marks the
    /// request: enforced, it would not have been there.
    pub fn take_place(
        &self,
        key: &Key<'_>,
        count: CountId,
        limit: Option<u16>,
        outlives_mark: bool,
    ) -> Result<(), u32> {
        let digest = key.digest.within(count);
        let of_this = |place: &Place| place.digest == digest;
        let kept = self.with_places(|places| places.iter().find(of_this));
        if kept.is_some_and(|kept| suffices(kept.limit, limit)) {
            return Ok(());
        }
        // Counted under a wider limit before a redirect, or by a request before this one
        // on the connection. Decision and increment are one step, so the place is given
        // back and asked for anew.
        for trip in self.chain() {
            if let Some(place) = trip.with_places(|places| places.take(of_this)) {
                self.running.child.holder.release(place.lease);
            }
        }
        let taken = self.acquire(key, count, limit, outlives_mark);
        if taken.is_err() && kept.is_some() {
            // A refused include must not take the page's own place away.
            let _ = self.acquire(key, count, None, outlives_mark);
        }
        taken
    }

    fn acquire(
        &self,
        key: &Key<'_>,
        count: CountId,
        limit: Option<u16>,
        outlives_mark: bool,
    ) -> Result<(), u32> {
        let key = key.within(count);
        let taken = self.running.take_place(&key, limit, self.started)?;
        if let Some(lease) = taken {
            let place = Place {
                digest: key.digest,
                limit,
                lease,
                outlives_mark,
            };
            self.with_places(|places| places.push(place));
        }
        Ok(())
    }

    /// Gives back what a request that was refused would not hold; nobody is refused for
    /// a request that a dry run has marked. A worker that it holds is nobody's either.
    pub fn give_back_marked(&self) {
        let is_short = |place: &Place| !place.outlives_mark;
        while let Some(place) = self.with_places(|places| places.take(is_short)) {
            self.running.child.holder.release(place.lease);
        }
        self.give_back_marked_away();
        self.charges.refund_marked(self.running);
        if !self.running.runtime.enforces
            && let Some(visitor) = self.visitor
        {
            visitor.go_away();
        }
    }

    /// Gives every place back.
    pub fn give_back(&self) {
        match self.carrier.map(|carrier| carrier.streams.lock()) {
            None => self.release_all(),
            Some(Some(guard)) => self.give_back_of_stream(&guard),
            // The process is about to end; the parent gives them back.
            Some(None) => {}
        }
    }

    /// Gives every place back, of a request on a stream of the connection whose guard
    /// this is.
    pub fn give_back_of_stream(&self, _guard: &Guard<'_>) {
        self.release_all();
    }

    fn release_all(&self) {
        while let Some(place) = self.places.pop() {
            self.running.child.holder.release(place.lease);
        }
        while let Some(away) = self.away.pop() {
            away.give_back(self.running.child);
        }
    }
}

impl AwaitStatus for Trip<'_> {
    const NAME: &'static CStr = c"LIMITIPCONN_STATUS";

    fn has_status(&self, status: c_int) {
        let status = u16::try_from(status).unwrap_or(0);
        self.charges.has_status(self.running, self.started, status);
    }

    fn on_fault(text: &str) {
        super::running::fault(text);
    }
}

impl OnClear for Trip<'_> {
    fn on_clear(&self) {
        // First, so that not even a fault below leaves a link to what is gone.
        if let Some(visitor) = self.visitor {
            visitor.ends(self);
        }
        if let Some(carrier) = self.carrier {
            carrier.streams.remove(self);
        }
        self.give_back();
        self.end_watch();
    }

    fn on_fault(text: &str) {
        super::running::fault(text);
    }
}
