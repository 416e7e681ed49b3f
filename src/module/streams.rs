//! The streams of an HTTP/2 connection: their places are given back when their last
//! byte has gone out.
//!
//! mod_http2 clears a stream's request pool when it next looks at the connection, which
//! can be much later. So the connection's output is watched: the frame with END_STREAM
//! ends the stream's request here, and the pool's own cleanup finds nothing left.

use std::cell::Cell;
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::running;
use super::trip::Trip;
use super::visitor::Visitor;
use crate::httpd::connection::Connection;
use crate::httpd::output::{self, Watch};
use crate::limit::frames::Frames;

/// Streams that can end with one write and are not yet given back.
const AT_ONCE: usize = 32;

/// The streams of one connection.
pub struct Streams {
    /// The thread that looks at them; 0 for none.
    looking: AtomicUsize,
    /// The requests that are under way, each linked to the next; under the lock.
    first: Cell<*const Trip<'static>>,
    // What follows belongs to the thread that carries the connection.
    /// Where the output is; None before its first byte.
    frames: Cell<Option<Frames>>,
    /// Whether its first byte was not of HTTP/2. The response that is on its way goes on
    /// through the filter when that is removed.
    is_other: Cell<bool>,
    ended: [Cell<u32>; AT_ONCE],
    count: Cell<usize>,
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
            first: Cell::new(ptr::null()),
            frames: Cell::new(None),
            is_other: Cell::new(false),
            ended: [const { Cell::new(0) }; AT_ONCE],
            count: Cell::new(0),
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
        if let Some(_guard) = self.lock() {
            trip.next_stream.set(self.first.get());
            self.first.set(ptr::from_ref(trip).cast());
        }
    }

    /// The request's pool is cleared, on whatever thread.
    pub fn remove(&self, trip: &Trip<'_>) {
        let Some(_guard) = self.lock() else {
            return;
        };
        let mut link = &self.first;
        // SAFETY: null, or a request that has not been removed, and that no thread removes
        // while we have the lock: its memory lives until its own removal has returned.
        while let Some(found) = unsafe { link.get().as_ref() } {
            if ptr::eq(found, ptr::from_ref(trip).cast()) {
                link.set(found.next_stream.get());
                return;
            }
            link = &found.next_stream;
        }
    }

    /// The last byte of the stream has gone out.
    fn end(&self, stream: u32) {
        let Some(guard) = self.lock() else {
            return;
        };
        let mut next = self.first.get();
        // SAFETY: as in `remove`.
        while let Some(found) = unsafe { next.as_ref() } {
            if found.stream == stream {
                found.give_back_of_stream(&guard);
                return;
            }
            next = found.next_stream.get();
        }
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

impl Visitor {
    /// Watches what goes out on the connection: from its beginning, or from an upgrade to
    /// HTTP/2 on.
    pub fn watch_streams<'c>(&'c self, connection: Connection<'c>) {
        self.streams.frames.set(None);
        self.streams.is_other.set(false);
        output::watch(connection, self);
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
            None if Frames::begin_with(bytes) => Frames::default(),
            None if bytes.is_empty() => return true,
            None => {
                self.streams.is_other.set(true);
                return false;
            }
        };
        frames.read(bytes, |stream| self.streams.note(stream));
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
