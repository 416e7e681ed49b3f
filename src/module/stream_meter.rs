//! How fast the client takes one stream of HTTP/2: what was handed on by the stream's own
//! worker, less what went out on the connection, waits for the client. Beyond as much as
//! mod_http2 has room for the worker waits here, where it can be told to end the stream, and
//! not inside mod_http2. A file needs no room and no worker.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
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
/// A worker that waits is woken when no more than these are left.
const FEW: u64 = ROOM / 2;
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
    /// Its entry, if there is room; none once its worker is done, unless it is of use then.
    pub entry: Cell<Option<WatchedIndex>>,
    /// What was found until its worker was done, and is not told.
    pub findings: Cell<Findings>,
    /// Whether it was told that it was cut.
    pub is_cut: Cell<bool>,
    /// Whether it waits for its client, its worker with it or not.
    pub is_waiting: Cell<bool>,
    /// Whether its worker is done with it.
    pub is_done: Cell<bool>,
    /// Whether that has handed on all of it, and holds nothing any more.
    pub is_free: Cell<bool>,
    /// Whether it was reset since.
    pub is_reset: Cell<bool>,
    /// Whether its last byte has gone out.
    pub is_sent: Cell<bool>,
    /// Whether it was counted as one that nobody watches.
    pub is_told: Cell<bool>,
    /// Whether the worker waits here.
    is_parked: AtomicBool,
    /// Whether the worker is handing a file on: with H2CopyFiles it waits for that inside
    /// mod_http2.
    is_handing_on: AtomicBool,
    /// Bytes that were handed on; the worker adds.
    handed: AtomicU64,
    /// Up to which of these nothing counts against the room: there the last file ends.
    unmeasured: AtomicU64,
    /// Bytes of them that went out; the connection's thread adds.
    sent: AtomicU64,
    /// Changes with them.
    moved: AtomicU32,
    /// The worker's own: how many had gone out when it looked last, and since when no more.
    stands: Cell<(u64, u64)>,
    /// The worker's own: whether the stream was ended here.
    is_ended: Cell<bool>,
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
            is_done: Cell::new(false),
            is_free: Cell::new(false),
            is_reset: Cell::new(false),
            is_sent: Cell::new(false),
            is_told: Cell::new(false),
            is_parked: AtomicBool::new(false),
            is_handing_on: AtomicBool::new(false),
            handed: AtomicU64::new(0),
            unmeasured: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            moved: AtomicU32::new(0),
            stands: Cell::new((u64::MAX, 0)),
            is_ended: Cell::new(false),
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
    pub fn goes_out(&self, guard: &Guard<'_>, bytes: u64) {
        if let Some(entry) = self.entry.get() {
            self.running.child.watched.went_out(entry, bytes, 0);
        }
        // SeqCst, here and in `wait`: either the worker sees what went out, or it is seen
        // to wait and is woken.
        let sent = self.sent.fetch_add(bytes, SeqCst) + bytes;
        self.moved.fetch_add(1, SeqCst);
        if self.is_parked.load(SeqCst) {
            if self.measured() <= FEW {
                futex::wake(&self.moved);
            }
        } else if self.is_waiting.get() && sent >= self.handed.load(Acquire) {
            // All that there was has gone out: now its server is waited for.
            self.carrier.streams.turn(guard, self.running, self, false);
        }
    }

    /// Whether its worker waits here.
    pub fn is_parked(&self) -> bool {
        self.is_parked.load(Relaxed)
    }

    /// Whether no worker here can be told to end it, but a reset does.
    pub fn is_out_of_reach(&self) -> bool {
        self.is_free.get() || self.is_handing_on.load(Relaxed)
    }

    /// Bytes that take room inside mod_http2.
    fn measured(&self) -> u64 {
        let gone = self.sent.load(SeqCst).max(self.unmeasured.load(Acquire));
        self.handed.load(Acquire).saturating_sub(gone)
    }

    fn has_room(&self, bytes: u64) -> bool {
        let measured = self.measured();
        bytes == 0 || measured == 0 || measured + bytes <= ROOM
    }

    /// How long the worker of a stream that stands still waits here: until the watch must
    /// have found out. Who is not ended by then is mod_http2's, and under its
    /// H2StreamTimeout. 0 where nobody may end it: that is as if we were not there.
    fn patience(&self) -> u64 {
        let nanos = |time: Duration| time.as_nanos() as u64;
        let since = self.stands.get().1;
        self.bounds.get().min_rate_in_earnest().map_or(0, |min| {
            let judged = since.max(self.begun + nanos(min.after));
            judged + nanos(min.window) * 7 / 6 + 3_000_000_000
        })
    }

    /// Whether the stream stands still for longer than that.
    fn is_patience_lost(&self) -> bool {
        let (sent, now) = (self.sent.load(SeqCst), self.running.nanos());
        if self.stands.get().0 != sent {
            self.stands.set((sent, now));
        }
        now >= self.patience()
    }

    /// Whether the watch wants the stream to end.
    fn is_to_end(&self) -> bool {
        let entry = self.entry.get();
        entry.is_some_and(|entry| self.running.child.watched.found(entry).is_some())
    }

    /// The stream ends here. mod_http2 resets it when its client next lets it send, and keeps
    /// the request until then: so what there is to tell is told now, and its places are free.
    fn end(&self) {
        self.is_ended.set(true);
        slow::tell(self.running, self.request);
        if let Some(trip) = self.request.initial().state(MODULE) {
            trip.give_back();
        }
    }

    /// Whether it may go on. Some handlers write on after an error: it stays ended.
    fn goes_on(&self) -> bool {
        if !self.is_ended.get() && self.is_to_end() {
            self.end();
        }
        !self.is_ended.get()
    }

    /// The stream begins to wait for its client, or goes on.
    fn turn(&self, is_waiting: bool) {
        if let Some(guard) = self.carrier.streams.lock() {
            self.carrier
                .streams
                .turn(&guard, self.running, self, is_waiting);
        }
    }

    /// Waits until there is room for so many bytes. False: the stream is to be ended.
    fn wait(&self, bytes: u64, is_given_up: impl Fn() -> bool) -> bool {
        self.is_parked.store(true, SeqCst);
        self.turn(true);
        let goes_on = loop {
            let moved = self.moved.load(SeqCst);
            if self.has_room(bytes) {
                self.turn(false);
                break true;
            }
            if is_given_up() || self.is_patience_lost() {
                // It waits on, inside mod_http2.
                break true;
            }
            if !self.goes_on() {
                break false;
            }
            if self.entry.get().is_none() {
                self.turn(true);
            }
            futex::wait(&self.moved, moved, TICK);
        };
        self.is_parked.store(false, SeqCst);
        goes_on
    }
}

impl Meter for StreamMeter<'_> {
    const NAME: &'static CStr = c"LIMITIPCONN_PIECES";

    fn waits(&self, piece: Piece, is_given_up: impl Fn() -> bool) -> bool {
        let bytes = piece.bytes as u64;
        let is_watched = !self.bounds.get().is_idle() && self.carrier.streams.sees_all();
        let must_wait = is_watched && !piece.is_whole && !self.has_room(bytes);
        if !self.goes_on() || (must_wait && !self.wait(bytes, is_given_up)) {
            return false;
        }
        // Release: pairs with the Acquire of `goes_out`, which may see it go out at once.
        let end = self.handed.fetch_add(bytes, Release) + bytes;
        self.is_handing_on.store(piece.is_whole, Relaxed);
        if piece.is_whole {
            self.unmeasured.store(end, Release);
            if is_watched {
                self.turn(true);
            }
        }
        true
    }

    fn passed(&self, piece: Piece, is_taken: bool) -> bool {
        self.is_handing_on.store(false, Relaxed);
        if piece.is_last || !is_taken {
            if let Some(guard) = self.carrier.streams.lock() {
                self.carrier
                    .streams
                    .done(&guard, self.running, self, is_taken);
            }
            return true;
        }
        self.goes_on()
    }

    fn on_fault(text: &str) {
        running::fault(text);
    }
}
