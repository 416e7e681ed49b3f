//! How fast the client takes one stream of HTTP/2: what was handed on by the stream's own
//! worker, less what went out on the connection, waits for the client. Beyond a little the
//! worker waits here, where it can be told to end the stream, and not inside mod_http2.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use super::running::{self, Running};
use super::streams::Guard;
use super::trip::Trip;
use super::visitor::Visitor;
use super::{MODULE, slow};
use crate::httpd::futex;
use crate::httpd::pieces::{self, Meter, Piece};
use crate::httpd::request::Request;
use crate::store::{Bounds, Findings, WatchedIndex};

/// Bytes of a stream that may wait in mod_http2: it takes these without making the worker
/// wait, unless H2StreamMaxMemSize is less than its default.
const ROOM: u64 = 32 * 1024;
/// How often a worker that waits looks around.
const TICK: Duration = Duration::from_millis(200);

/// The meter of a stream. What is not an atomic and not the worker's own is under the lock
/// of the connection's streams.
pub struct StreamMeter<'r> {
    running: Running,
    request: Request<'r>,
    carrier: &'r Visitor,
    /// The connection's socket.
    pub fd: i32,
    /// When the response began.
    pub begun: u64,
    /// What is watched for.
    pub bounds: Cell<Bounds>,
    /// Its entry, if there is room and its worker is not done.
    pub entry: Cell<Option<WatchedIndex>>,
    /// What was found until its worker was done, and is not told.
    pub findings: Cell<Findings>,
    /// Whether it was told that it was cut.
    pub is_cut: Cell<bool>,
    /// Whether it waits for its client, its worker with it or not.
    pub is_waiting: Cell<bool>,
    /// Whether its last byte has gone out.
    pub is_sent: Cell<bool>,
    /// Whether it was counted as one that nobody watches.
    pub is_told: Cell<bool>,
    /// Bytes that were handed on; the worker's own.
    handed: Cell<u64>,
    /// Bytes of them that went out; the connection's thread adds.
    sent: AtomicU64,
    /// Changes with them.
    moved: AtomicU32,
}

impl<'r> StreamMeter<'r> {
    /// Measures the answer to this request on a stream of the connection.
    pub fn put_on(request: Request<'r>, trip: &Trip<'r>, carrier: &'r Visitor, bounds: &Bounds) {
        let connection = request.connection();
        let Some(fd) = connection.master().unwrap_or(connection).descriptor() else {
            return;
        };
        let meter: &'r StreamMeter<'r> = request.pool().alloc(StreamMeter {
            running: trip.running,
            request,
            carrier,
            fd,
            begun: trip.running.nanos(),
            bounds: Cell::new(Bounds::default()),
            entry: Cell::new(None),
            findings: Cell::new(Findings::default()),
            is_cut: Cell::new(false),
            is_waiting: Cell::new(false),
            is_sent: Cell::new(false),
            is_told: Cell::new(false),
            handed: Cell::new(0),
            sent: AtomicU64::new(0),
            moved: AtomicU32::new(0),
        });
        if let Some(guard) = carrier.streams.lock() {
            meter.is_sent.set(trip.is_sent.get());
            trip.meter.set(Some(meter));
            carrier.streams.begin(&guard, trip.running, meter, bounds);
        }
        pieces::meter(request, meter);
    }

    /// What is watched for from now on.
    pub fn bound(&self, bounds: &Bounds) {
        if let Some(guard) = self.carrier.streams.lock() {
            self.carrier
                .streams
                .bind(&guard, self.running, self, bounds);
        }
    }

    /// So many bytes of its body go out. Called under the lock.
    pub fn goes_out(&self, _guard: &Guard<'_>, bytes: u64) {
        if let Some(entry) = self.entry.get() {
            self.running.child.watched.went_out(entry, bytes, 0);
        }
        // Release, both: pair with the Acquire of `unsent` and of `wait`.
        self.sent.fetch_add(bytes, Release);
        self.moved.fetch_add(1, Release);
        if self.is_waiting.get() {
            futex::wake(&self.moved);
        }
    }

    /// Bytes that wait inside mod_http2.
    fn unsent(&self) -> u64 {
        // Acquire: pairs with the Release of `goes_out`.
        self.handed.get().saturating_sub(self.sent.load(Acquire))
    }

    /// How long the worker waits here at most: until the watch must have found out. Who is
    /// not ended by then is mod_http2's, and under its H2StreamTimeout.
    fn patience(&self, since: u64) -> u64 {
        let nanos = |time: Duration| time.as_nanos() as u64;
        self.bounds.get().min_rate.map_or(0, |min| {
            let judged = since.max(self.begun + nanos(min.after));
            judged + nanos(min.window) * 7 / 6 + 3_000_000_000
        })
    }

    /// Whether the watch wants the stream to end.
    fn is_to_end(&self) -> bool {
        let entry = self.entry.get();
        entry.is_some_and(|entry| self.running.child.watched.found(entry).is_some())
    }

    /// The stream ends here. mod_http2 resets it when its client next lets it send, and keeps
    /// the request until then: so what there is to tell is told now, and its places are free.
    fn end(&self) {
        slow::tell(self.running, self.request);
        if let Some(trip) = self.request.initial().state(MODULE) {
            trip.give_back();
        }
    }

    fn goes_on(&self) -> bool {
        let is_to_end = self.is_to_end();
        if is_to_end {
            self.end();
        }
        !is_to_end
    }

    /// The stream begins to wait for its client, or goes on.
    fn turn(&self, is_waiting: bool) {
        let Some(guard) = self.carrier.streams.lock() else {
            return;
        };
        self.carrier
            .streams
            .turn(&guard, self.running, self, is_waiting);
    }

    fn wait(&self, bytes: u64, is_given_up: impl Fn() -> bool) -> bool {
        let since = self.running.nanos();
        let last = self.patience(since);
        self.turn(true);
        loop {
            // Acquire: what went out before this is seen by `unsent`.
            let moved = self.moved.load(Acquire);
            if self.unsent() + bytes <= ROOM {
                self.turn(false);
                return true;
            }
            if is_given_up() || self.running.nanos() >= last {
                // It waits on, inside mod_http2.
                return true;
            }
            if !self.goes_on() {
                return false;
            }
            if self.entry.get().is_none() {
                self.turn(true);
            }
            futex::wait(&self.moved, moved, TICK);
        }
    }
}

impl Meter for StreamMeter<'_> {
    const NAME: &'static CStr = c"LIMITIPCONN_PIECES";

    fn waits(&self, bytes: usize, is_given_up: impl Fn() -> bool) -> bool {
        let bytes = bytes as u64;
        let has_room = bytes == 0 || self.unsent() + bytes <= ROOM || self.unsent() == 0;
        if has_room || self.bounds.get().is_idle() || !self.carrier.streams.sees_all() {
            return self.goes_on();
        }
        self.wait(bytes, is_given_up)
    }

    fn passed(&self, piece: Piece) -> bool {
        if piece.is_taken {
            self.handed.set(self.handed.get() + piece.bytes as u64);
        }
        let is_done = piece.is_last || !piece.is_taken;
        if is_done {
            if let Some(guard) = self.carrier.streams.lock() {
                self.carrier
                    .streams
                    .done(&guard, self.running, self, piece.is_last);
            }
            return true;
        }
        if self.is_waiting.get() {
            self.turn(false);
        }
        self.goes_on()
    }

    fn on_fault(text: &str) {
        running::fault(text);
    }
}
