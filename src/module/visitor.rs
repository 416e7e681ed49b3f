//! Who is on a connection: the peer's key, worked out once, and the scoreboard slot
//! in which it sits while a worker carries it.

use std::cell::Cell;
use std::ptr;

use super::client::Client;
use super::connections::Arrival;
use super::running::{Child, Running};
use super::streams::Streams;
use super::trip::Trip;
use crate::httpd::connection::Connection;
use crate::httpd::pool::OnClear;
use crate::httpd::state;

/// What is kept for a client connection.
pub struct Visitor {
    child: &'static Child,
    /// The connection's peer.
    pub peer: Client,
    /// What the rules about connections made of it.
    pub arrival: Arrival,
    /// Its requests, where it carries HTTP/2.
    pub streams: Streams,
    /// Names this connection among all that ever sat in a slot.
    owner: u64,
    slot: Cell<Option<u32>>,
    seated: Cell<Client>,
    /// Whether somebody else than the peer was ever seated.
    other: Cell<bool>,
    /// Whether the request that is under way sits nowhere: a dry run has marked it.
    away: Cell<bool>,
    /// The newest of this connection's requests that have not ended. Under pipelining
    /// a request is served while the one before still waits for its bytes to leave.
    newest: Cell<*const Trip<'static>>,
}

impl Visitor {
    /// Notes who is on a new connection. The visitor takes its seat at once, so that a
    /// worker whose request is not read yet counts for its TCP peer.
    pub fn welcome<'c>(running: Running, connection: Connection<'c>) -> Option<&'c Visitor> {
        let peer = running.client_at(connection.peer()?.into());
        let visitor: &Visitor = connection.pool().alloc(Visitor {
            child: running.child,
            peer,
            arrival: Arrival::new(),
            streams: Streams::new(),
            owner: running.child.next_owner(),
            slot: Cell::new(None),
            seated: Cell::new(peer),
            other: Cell::new(false),
            away: Cell::new(false),
            newest: Cell::new(ptr::null()),
        });
        connection.pool().on_clear(visitor);
        connection.keep(super::MODULE, visitor);
        visitor.sit_down(connection);
        if running.child.http2.is_some() {
            visitor.watch_streams(connection);
        }
        Some(visitor)
    }

    /// A worker carries the connection (again): the visitor sits in that worker's slot.
    pub fn sit_down(&self, connection: Connection<'_>) {
        if self.away.get() {
            return;
        }
        let slot = connection.slot(&self.child.scoreboard).map(|slot| slot.0);
        if slot != self.slot.get() {
            self.get_up();
        }
        self.slot.set(slot);
        if let Some(seat) = self.seat() {
            let under_way = self.newest();
            let since = under_way.map_or_else(state::microseconds, |trip| trip.began);
            self.child.desks.take(seat.0, seat.1, since);
            if let Some(trip) = under_way {
                trip.show(seat);
            }
        }
        self.move_requests(self.seat());
        self.take_seat(self.seated.get());
    }

    /// No worker carries the connection any more.
    pub fn get_up(&self) {
        if let Some(slot) = self.slot.take() {
            self.move_requests(None);
            self.child.desks.mark_slow((slot, self.owner), None);
            self.child.identity.vacate(slot, self.owner);
        }
    }

    /// Tells the requests that have not ended which worker carries them now.
    fn move_requests(&self, seat: Option<(u32, u64)>) {
        for trip in self.newest().into_iter().flat_map(Trip::chain) {
            trip.moves(seat);
        }
    }

    /// The newest of the requests that have not ended.
    fn newest(&self) -> Option<&Trip<'static>> {
        // SAFETY: null, or a trip that has not ended, since each unlinks itself in `ends`.
        // One thread at a time carries a connection, so none ends meanwhile.
        unsafe { self.newest.get().as_ref() }
    }

    /// Gets up until the request that is under way has ended.
    pub fn go_away(&self) {
        self.away.set(true);
        self.get_up();
    }

    /// The client is the peer itself, unlike perhaps in the connection's last request.
    #[inline]
    pub fn is_the_peer(&self) {
        if self.other.get() {
            self.is_really(&self.peer);
        }
    }

    /// The client is now known better than by its TCP peer (mod_remoteip), or it is
    /// another one than in the connection's last request.
    pub fn is_really(&self, client: &Client) {
        if client.key != self.seated.get().key {
            self.other.set(true);
            self.take_seat(*client);
        }
    }

    fn take_seat(&self, client: Client) {
        self.seated.set(client);
        if let Some(slot) = self.slot.get() {
            self.child
                .identity
                .seat(slot, self.owner, client.key, client.tag());
        }
    }

    /// The slot in which the visitor sits, and its name there.
    pub fn seat(&self) -> Option<(u32, u64)> {
        self.slot.get().map(|slot| (slot, self.owner))
    }

    /// The slot in which the visitor sits.
    pub fn slot(&self) -> Option<u32> {
        self.slot.get()
    }

    /// A request begins; returns the one before, if it has not ended.
    pub fn begins(&self, trip: &Trip<'_>) -> *const Trip<'static> {
        self.newest.replace(ptr::from_ref(trip).cast())
    }

    /// A request ends. Until the next one is read its worker, if the connection has
    /// one, counts for the peer.
    pub fn ends(&self, trip: &Trip<'_>) {
        let this = ptr::from_ref(trip).cast();
        if ptr::eq(self.newest.get(), this) {
            self.newest.set(trip.earlier.get());
            self.away.set(false);
            self.is_the_peer();
            return;
        }
        let later = self
            .newest()
            .into_iter()
            .flat_map(Trip::chain)
            .find(|later| ptr::eq(later.earlier.get(), this));
        if let Some(later) = later {
            later.earlier.set(trip.earlier.get());
        }
    }
}

impl OnClear for Visitor {
    fn on_clear(&self) {
        self.arrival.end(self.child);
        self.get_up();
    }
    fn on_fault(text: &str) {
        super::running::fault(text);
    }
}
