//! Of HTTP/2: connections of which nothing goes on, and single streams that their client
//! takes too slowly. What that means is in `limit::slow::shared`.
//!
//! The worker of a stream ends it, or without one the thread that carries the connection, when
//! that next looks at its input. Until then it is judged with the connection, too.

use std::time::Duration;

use super::{Watch, is_so_old};
use crate::limit::slow::shared::{Connection, Look, Stream};
use crate::limit::slow::{MinRate, Sample, Taken};
use crate::module::running::Running;
use crate::store::{Found, Response, WatchedIndex};

/// For so many looks a stream is left to its connection, which may be about to be cut.
const GRACE: u8 = 4;

/// What the watch knows of an entry besides.
#[derive(Clone)]
pub struct Known {
    connection: Connection,
    stream: Stream,
    /// Of a stream: for how many looks it was left to its connection.
    grace: u8,
    /// Of a connection: how many of its streams last too long, hold no worker and are not
    /// ended by its thread, and the longest time.
    too_long: (u32, Duration),
    /// Of a connection: how many workers its streams hold.
    pub(super) holds: u32,
    /// Of a stream that was ended: for how many looks its worker has been leaving.
    pub(super) leaves: u8,
}

impl Known {
    pub fn new() -> Known {
        Known {
            connection: Connection::default(),
            stream: Stream::default(),
            grace: 0,
            too_long: (0, Duration::ZERO),
            holds: 0,
            leaves: 0,
        }
    }
}

impl Watch {
    /// Cuts a connection with all its streams: if its client takes less than a single stream
    /// must while data waits in the socket, or while all its streams wait for it.
    pub(super) fn look_at_carrier(&mut self, running: Running, carrier: &Response) {
        if carrier.is_decided {
            return;
        }
        let now = self.now;
        self.known[carrier.index.at()].of_many.too_long = (0, Duration::ZERO);
        let Some((known, look)) = self.known(carrier) else {
            return;
        };
        let cookie = known.cookie;
        let many = &mut known.of_many;
        let Some(min) = carrier.bounds.min_rate else {
            return;
        };
        let since = carrier.blocked.map_or(0, |since| now.saturating_sub(since));
        let look = Look {
            now,
            out: carrier.data,
            // What is no body is counted when it goes out, and acknowledged later.
            acknowledged: look.taken.saturating_sub(carrier.other),
            is_full: look.waits,
            busy: look.waiting,
            waiting: carrier.carried.waiting,
            all_waited: carrier.waited + since,
        };
        let taken = many.connection.look(look, min.window.as_nanos() as u64);
        // The youngest of its streams has its time, too.
        let is_missed = |taken: &Taken| {
            min.is_missed(*taken) && is_so_old(carrier, now, min.after + min.window)
        };
        let Some(taken) = taken.filter(is_missed) else {
            return;
        };
        let holds = many.holds;
        let is_busy = running.is_busy(min.busy);
        if !is_busy && (holds == 0 || !self.workers.are_too_many(min.busy)) {
            return;
        }
        // Beside one that nobody may cut each stream is judged by itself.
        match carrier.carried.spared == 0 {
            true if is_busy => self.cut_carrier(carrier, cookie, Found::TooSlow(taken)),
            true => self.workers.may_end(carrier, taken),
            false => {}
        }
    }

    pub(super) fn cut_carrier(&mut self, carrier: &Response, cookie: u64, found: Found) {
        let (watched, index) = (self.watched(), carrier.index);
        let is_meant = || watched.decide(index, found);
        if self.cut(carrier.fd, cookie, is_meant) {
            self.workers.ended(self.known[index.at()].of_many.holds);
        }
    }

    /// Cuts a connection of whose streams none holds a worker and all last too long.
    pub(super) fn look_at_carrier_again(&mut self, carrier: &Response) {
        let known = &self.known[carrier.index.at()];
        let (number, time) = known.of_many.too_long;
        let carried = carrier.carried;
        let is_it = known.index == Some(carrier.index) && !carrier.is_decided;
        if is_it && number > 0 && number >= carried.waiting + carried.active {
            self.cut_carrier(carrier, known.cookie, Found::TooLong(time));
        }
    }

    /// Lets the worker of a stream end it.
    pub(super) fn look_at_stream(
        &mut self,
        running: Running,
        stream: &Response,
        carrier: WatchedIndex,
    ) {
        if stream.is_decided {
            self.is_due_still(stream, carrier);
            return;
        }
        if let Some(found) = self.lasts_too_long(running, stream) {
            self.end_stream(stream, carrier, found);
            if !stream.bounds.is_dry_run {
                return;
            }
        }
        let Some(taken) = self.takes(stream, carrier) else {
            return;
        };
        let is_missed = |min: &MinRate| min.is_missed(taken) && !stream.is_marked[0];
        let Some(min) = stream.bounds.min_rate.filter(is_missed) else {
            return;
        };
        let is_busy = running.is_busy(min.busy);
        if !is_busy && !self.workers.are_needed(stream, min.busy) {
            return;
        }
        let connection = self.watched().read(carrier.at());
        let all_wait = connection.is_some_and(|connection| {
            let carried = connection.carried;
            connection.index == carrier && carried.active == 0 && carried.spared == 0
        });
        let grace = &mut self.known_stream(stream).grace;
        if all_wait && *grace < GRACE {
            *grace += 1;
            return;
        }
        match is_busy || stream.bounds.is_dry_run {
            true => self.end_stream(stream, carrier, Found::TooSlow(taken)),
            false => self.workers.may_end(stream, taken),
        }
    }

    pub(super) fn end_stream(&mut self, stream: &Response, carrier: WatchedIndex, found: Found) {
        if stream.bounds.is_dry_run {
            self.watched().mark(stream.index, found);
            return;
        }
        if !self.watched().decide(stream.index, found) {
            return;
        }
        // Its worker may be out of reach, too.
        self.watched().set_due(carrier);
        if stream.is_free {
            self.known_stream(stream).grace = 0;
        } else {
            self.workers.ended(1);
        }
    }

    /// The thread that carries a connection has not looked at its input since a stream was to
    /// be ended, or could not end it yet.
    fn is_due_still(&mut self, stream: &Response, carrier: WatchedIndex) {
        self.watched().set_due(carrier);
        if !stream.is_free {
            return;
        }
        let many = self.known_stream(stream);
        if many.grace < GRACE {
            many.grace += 1;
            return;
        }
        let found = self.watched().found(stream.index);
        let known = &mut self.known[carrier.at()];
        if let Some(Found::TooLong(time)) = found
            && known.index == Some(carrier)
        {
            let (number, longest) = known.of_many.too_long;
            known.of_many.too_long = (number + 1, longest.max(time));
        }
    }

    fn known_stream(&mut self, stream: &Response) -> &mut Known {
        let known = &mut self.known[stream.index.at()];
        if known.index != Some(stream.index) {
            *known = super::Known::of(Some(stream.index));
        }
        &mut known.of_many
    }

    /// What the client of a stream took over the last window, if it was waited for.
    fn takes(&mut self, stream: &Response, carrier: WatchedIndex) -> Option<Taken> {
        let (min, now) = (stream.bounds.min_rate?, self.now);
        if !is_so_old(stream, now, min.after) {
            return None;
        }
        let connection = &self.known[carrier.at()];
        let is_known = connection.index == Some(carrier);
        let share = connection.of_many.connection.share();
        let since = stream.blocked.map_or(0, |since| now.saturating_sub(since));
        let sample = Sample {
            now,
            taken: stream.data,
            waiting: stream.waited + since,
            waits: stream.blocked.is_some(),
        };
        let window = min.window.as_nanos() as u64;
        let taken = self.known_stream(stream).stream.look(sample, share, window);
        taken.filter(|_| is_known)
    }
}
