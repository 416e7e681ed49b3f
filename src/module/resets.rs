//! Ends single streams of HTTP/2 that hold no worker, or one that waits inside mod_http2: files,
//! and the last of anything. Nobody but their client can: mod_http2 obeys its RST_STREAM. So
//! once the watch wants a stream to end, such a frame is put among those that the client sends.
//! When mod_http2 has dealt with it, and all that it had of the stream has gone out, the client
//! gets one, too.
//!
//! All of it on the thread that carries the connection, when that looks at its input.

use std::cell::Cell;
use std::ffi::CStr;

use super::running::{self, Running};
use super::streams::Streams;
use super::visitor::Visitor;
use crate::httpd::input::Follow;
use crate::limit::frames::{Incoming, Resets};

/// What the thread that carries a connection knows of its client's frames.
pub struct Client {
    /// Whether there is a filter that follows it, and whether that does.
    has_filter: Cell<bool>,
    is_followed: Cell<bool>,
    incoming: Cell<Incoming>,
    /// What mod_http2 was told and the client was not.
    untold: Cell<Resets>,
}

impl Client {
    /// Before the first byte.
    pub fn new() -> Client {
        Client {
            has_filter: Cell::new(false),
            is_followed: Cell::new(false),
            incoming: Cell::new(Incoming::default()),
            untold: Cell::new(Resets::none()),
        }
    }

    /// It begins, or begins anew after an upgrade; whether a filter is needed.
    pub fn begin(&self) -> bool {
        self.is_followed.set(true);
        self.incoming.set(Incoming::default());
        self.untold.set(Resets::none());
        !self.has_filter.replace(true)
    }
}

impl Streams {
    /// Gives up the streams that the watch wants to end, as if their last byte had gone out.
    fn give_up(&self, running: Running, incoming: &Incoming) -> Resets {
        let mut resets = Resets::none();
        let watched = &running.child.watched;
        let Some(guard) = self.lock() else {
            return resets;
        };
        // One that was cut ends with all of its streams.
        let is_due = |entry| watched.take_due(entry) && watched.found(entry).is_none();
        if !self.entry.get().is_some_and(is_due) {
            return resets;
        }
        for trip in self.requests(&guard) {
            let Some(meter) = trip.meter.get().filter(|meter| meter.is_out_of_reach()) else {
                continue;
            };
            let entry = meter.entry.get().filter(|_| !trip.is_sent.get());
            let is_found = entry.is_some_and(|entry| watched.found(entry).is_some());
            // Those that stay are due again with the watch's next look.
            if is_found && incoming.is_whole(trip.stream) && resets.has_room() {
                resets.add(trip.stream);
                meter.is_reset.set(true);
                trip.give_back_of_stream(&guard);
                self.is_sent(&guard, trip);
            }
        }
        if !resets.as_bytes().is_empty() {
            self.enroll_free(&guard, running);
        }
        resets
    }
}

impl Follow for Visitor {
    const NAME: &CStr = c"LIMITIPCONN_RESETS";

    fn answers(&self, mut add: impl FnMut(&[u8])) {
        let untold = self.streams.client.untold.get();
        if !untold.as_bytes().is_empty() && self.streams.is_between() {
            self.streams.client.untold.set(Resets::none());
            add(untold.as_bytes());
        }
    }

    fn follows(&self) -> bool {
        self.streams.client.is_followed.get()
    }

    fn stops(&self) {
        self.streams.client.is_followed.set(false);
    }

    fn sees(&self, bytes: &[u8]) -> bool {
        let mut incoming = self.streams.client.incoming.get();
        let is_http2 = incoming.read(bytes);
        self.streams.client.incoming.set(incoming);
        is_http2
    }

    fn adds(&self, mut add: impl FnMut(&[u8])) {
        let (streams, client) = (&self.streams, &self.streams.client);
        if !streams.is_metered() || !streams.sees_all() {
            return;
        }
        let incoming = client.incoming.get();
        let has_told = client.untold.get().as_bytes().is_empty();
        if !incoming.is_between() || !has_told {
            return;
        }
        let Some(running) = Running::get() else {
            return;
        };
        let resets = streams.give_up(running, &incoming);
        if !resets.as_bytes().is_empty() {
            client.untold.set(resets);
            add(resets.as_bytes());
        }
    }

    fn on_fault(text: &str) {
        running::fault(text);
    }
}
