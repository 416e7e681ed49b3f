//! The streams of an HTTP/2 connection: their places are given back when their last
//! byte has gone out.
//!
//! mod_http2 clears a stream's request pool when it next looks at the connection, which
//! can be much later. So the connection's output is watched: the frame with END_STREAM
//! ends the stream's request here, and the pool's own cleanup finds nothing left.

use std::cell::Cell;
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use super::resets::Client;
use super::running::{self, Running};
use super::trip::Trip;
use super::visitor::Visitor;
use crate::httpd::connection::Connection;
use crate::httpd::input;
use crate::httpd::output::{self, Watch};
use crate::limit::frames::{Frames, Seen};
use crate::limit::slow::MinRate;
use crate::store::WatchedIndex;

/// Streams that can end with one write and are not yet given back.
const AT_ONCE: usize = 32;

/// The streams of one connection.
pub struct Streams {
    /// The thread that looks at them; 0 for none.
    looking: AtomicUsize,
    /// How many of them are watched for a slow client.
    pub(super) metered: AtomicU32,
    /// Whether all that goes out on the connection is seen.
    is_seen: AtomicBool,
    // What follows is under the lock.
    /// The requests that are under way, each linked to the next.
    first: Cell<*const Trip<'static>>,
    /// How many of them have not gone out whole, and of these how many wait for the client.
    pub(super) live: Cell<u32>,
    pub(super) waiting: Cell<u32>,
    /// How many that hold a worker have an entry of their own in the watch, and how many that
    /// hold none.
    pub(super) entries: Cell<u32>,
    pub(super) free: Cell<u32>,
    /// Whether all that are live wait.
    pub(super) all_wait: Cell<bool>,
    /// How many of those that have not gone out have a minimum, in earnest and in a dry run;
    /// what holds for these together, and when the youngest began.
    pub(super) bound: Cell<[u32; 2]>,
    pub(super) min_rate: Cell<Option<MinRate>>,
    pub(super) youngest: Cell<u64>,
    /// Whether a key was charged for it being cut.
    pub(super) is_charged: Cell<bool>,
    /// The entry of the connection.
    pub(super) entry: Cell<Option<WatchedIndex>>,
    // What follows belongs to the thread that carries the connection.
    /// Where the output is; None before its first byte.
    frames: Cell<Option<Frames>>,
    /// Whether its first byte was not of HTTP/2. The response that is on its way goes on
    /// through the filter when that is removed.
    is_other: Cell<bool>,
    ended: [Cell<u32>; AT_ONCE],
    count: Cell<usize>,
    pub(super) client: Client,
}

/// The right to look at streams that several threads have, until it is dropped.
pub struct Guard<'s>(&'s AtomicUsize);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of whoever locks next.
        self.0.store(0, Release);
    }
}

impl Streams {
    /// No streams.
    pub fn new() -> Streams {
        Streams {
            looking: AtomicUsize::new(0),
            metered: AtomicU32::new(0),
            is_seen: AtomicBool::new(false),
            first: Cell::new(ptr::null()),
            live: Cell::new(0),
            waiting: Cell::new(0),
            entries: Cell::new(0),
            free: Cell::new(0),
            all_wait: Cell::new(false),
            bound: Cell::new([0; 2]),
            min_rate: Cell::new(None),
            youngest: Cell::new(0),
            is_charged: Cell::new(false),
            entry: Cell::new(None),
            frames: Cell::new(None),
            is_other: Cell::new(false),
            ended: [const { Cell::new(0) }; AT_ONCE],
            count: Cell::new(0),
            client: Client::new(),
        }
    }

    /// The right to look at the streams and at the places of their requests; held for a
    /// few steps in memory. None in a signal handler that interrupts one who has it: so
    /// prefork ends a process, all others wait for ever then, and the parent gives back
    /// what the process had.
    pub fn lock(&self) -> Option<Guard<'_>> {
        // SAFETY: takes nothing and cannot fail.
        let me = unsafe { libc::pthread_self() } as usize;
        // Acquire: pairs with the Release of the one who had it.
        while let Err(other) = self.looking.compare_exchange_weak(0, me, Acquire, Relaxed) {
            if other == me {
                return None;
            }
            std::thread::yield_now();
        }
        Some(Guard(&self.looking))
    }

    /// A request begins on a stream, on the stream's thread.
    pub fn add(&self, trip: &Trip<'_>) {
        if let Some(guard) = self.lock() {
            trip.next_stream.set(self.first.get());
            self.first.set(ptr::from_ref(trip).cast());
            self.live.set(self.live.get() + 1);
            self.publish(&guard, trip.running);
        }
    }

    /// The request's pool is cleared, on whatever thread.
    pub fn remove(&self, trip: &Trip<'_>) {
        let Some(guard) = self.lock() else {
            return;
        };
        let mut link = &self.first;
        // SAFETY: null, or a request that has not been removed, and that no thread removes
        // while we have the lock: its memory lives until its own removal has returned.
        while let Some(found) = unsafe { link.get().as_ref() } {
            if ptr::eq(found, ptr::from_ref(trip).cast()) {
                link.set(found.next_stream.get());
                self.forget(&guard, trip);
                return;
            }
            link = &found.next_stream;
        }
    }

    /// The requests that are under way.
    pub(super) fn requests<'s>(
        &'s self,
        _guard: &'s Guard<'_>,
    ) -> impl Iterator<Item = &'s Trip<'static>> {
        // SAFETY: as in `remove`; the request is there as long as the lock is held.
        std::iter::successors(unsafe { self.first.get().as_ref() }, |trip| unsafe {
            trip.next_stream.get().as_ref()
        })
    }

    /// The request on this stream.
    fn with<'s>(&'s self, guard: &'s Guard<'_>, stream: u32) -> Option<&'s Trip<'static>> {
        self.requests(guard).find(|trip| trip.stream == stream)
    }

    /// The last byte of the stream has gone out.
    fn end(&self, stream: u32) {
        if let Some(guard) = self.lock()
            && let Some(trip) = self.with(&guard, stream)
        {
            trip.give_back_of_stream(&guard);
            self.is_sent(&guard, trip);
        }
    }

    /// A frame goes out.
    fn goes_out(&self, running: Running, stream: u32, data: u32, other: u32) {
        if !self.is_metered() {
            return;
        }
        let Some(guard) = self.lock() else {
            return;
        };
        if let Some(entry) = self.entry.get() {
            let watched = &running.child.watched;
            watched.went_out(entry, data.into(), other.into());
        }
        if data > 0
            && let Some(trip) = self.with(&guard, stream)
            && let Some(meter) = trip.meter.get()
        {
            meter.goes_out(&guard, data.into());
            if meter.is_free.get() {
                // It may have found no room before.
                self.enroll(&guard, running, meter);
            }
        }
    }

    /// Whether any is watched for a slow client.
    pub fn is_metered(&self) -> bool {
        self.metered.load(Relaxed) != 0
    }

    /// Whether a frame may go out next that belongs to nothing before it.
    pub(super) fn is_between(&self) -> bool {
        self.frames.get().is_some_and(|frames| frames.is_between())
    }

    /// Whether all that goes out on the connection is seen.
    pub fn sees_all(&self) -> bool {
        self.is_seen.load(Relaxed)
    }

    fn end_all(&self) {
        for stream in &self.ended[..self.count.replace(0)] {
            self.end(stream.get());
        }
    }

    fn note(&self, stream: u32) {
        if self.count.get() == AT_ONCE {
            self.end_all();
        }
        self.ended[self.count.get()].set(stream);
        self.count.set(self.count.get() + 1);
    }
}

/// What TLS adds to a frame that is written by itself.
const OVERHEAD: u32 = 32;
/// The header of a frame.
const HEADER: u32 = 9;

impl Visitor {
    fn sees_frame(&self, seen: Seen) {
        let Some(running) = Running::get() else {
            return;
        };
        match seen {
            Seen::End(stream) => self.streams.note(stream),
            Seen::Data(stream, bytes, padding) => {
                let other = HEADER + padding;
                self.streams.goes_out(running, stream, bytes, other);
            }
            Seen::Other(bytes) => self.streams.goes_out(running, 0, 0, bytes + OVERHEAD),
            Seen::Open(_) | Seen::Reset(_) => {}
        }
    }

    /// Watches what goes out on the connection, and what comes in where that may matter:
    /// from its beginning, or from an upgrade to HTTP/2 on.
    pub fn watch_streams<'c>(&'c self, connection: Connection<'c>) {
        self.streams.frames.set(None);
        self.streams.is_other.set(false);
        self.streams.is_seen.store(false, Relaxed);
        output::watch(connection, self);
        let watches = Running::get().is_some_and(Running::watches);
        if watches && self.streams.client.begin() {
            input::follow(connection, self);
        }
    }
}

impl Watch for Visitor {
    const NAME: &CStr = c"LIMITIPCONN_STREAMS";

    fn unseen(&self) -> usize {
        if self.streams.is_other.get() {
            return usize::MAX;
        }
        self.streams
            .frames
            .get()
            .map_or(0, |frames| frames.payload())
    }

    fn skips(&self, bytes: usize) {
        if let Some(mut frames) = self.streams.frames.get() {
            let ended = frames.skip(bytes);
            self.streams.frames.set(Some(frames));
            if let Some(stream) = ended {
                self.streams.note(stream);
            }
        }
    }

    fn sees(&self, bytes: &[u8]) -> bool {
        let mut frames = match self.streams.frames.get() {
            Some(frames) => frames,
            None if Frames::begin_with(bytes) => {
                self.streams.is_seen.store(true, Relaxed);
                Frames::default()
            }
            None if bytes.is_empty() => return true,
            None => {
                self.streams.is_other.set(true);
                return false;
            }
        };
        frames.read(bytes, |seen| self.sees_frame(seen));
        self.streams.frames.set(Some(frames));
        true
    }

    fn passed(&self) {
        self.streams.end_all();
    }

    fn on_fault(text: &str) {
        running::fault(text);
    }
}
