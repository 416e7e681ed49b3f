//! The workers that mod_http2 has of its own in this child, which the scoreboard does not
//! show: how many of them are held by streams, and whom to end while these are too many.
//!
//! Only streams with bounds are seen, and of one connection no more than it has entries: so
//! never more are counted than are held.

use super::{Candidate, Known, Watch};
use crate::limit::slow::{Taken, too_many};
use crate::store::{Found, Kind, Response, WatchedIndex};

/// For so many looks a worker that was told to leave its stream is not counted: it may be
/// about to do so.
const TO_LEAVE: u8 = 4;

/// What one look finds of them.
pub struct Workers {
    /// How many there are at most; None where nobody tells.
    all: Option<u32>,
    /// How many streams hold one.
    held: u32,
    /// How many of these were ended in this look.
    ended: u32,
    /// Streams and connections that are too slow and hold some.
    candidates: Vec<Candidate>,
}

impl Workers {
    pub fn new(all: Option<u32>, room: usize) -> Workers {
        Workers {
            all,
            held: 0,
            ended: 0,
            candidates: Vec::with_capacity(room),
        }
    }

    /// How many too many were held when this look began.
    fn too_many(&self, percent: Option<u8>) -> u32 {
        match (self.all, percent) {
            (Some(all), Some(percent)) => too_many(self.held, all, percent),
            _ => 0,
        }
    }

    /// Whether so many percent of them were held when this look began.
    pub fn are_too_many(&self, percent: Option<u8>) -> bool {
        self.too_many(percent) > 0
    }

    /// Whether this is a stream that holds one while so many percent are held.
    pub fn are_needed(&self, response: &Response, percent: Option<u8>) -> bool {
        let holds_one = matches!(response.kind, Kind::Stream(_)) && !response.is_free;
        holds_one && self.are_too_many(percent)
    }

    /// A stream or a connection is too slow, and workers are short.
    pub fn may_end(&mut self, response: &Response, taken: Taken) {
        self.candidates.push(Candidate::of(response, taken));
    }

    /// So many that held one were ended.
    pub fn ended(&mut self, number: u32) {
        self.ended += number;
    }
}

impl Watch {
    /// Begins a look: counts the streams that hold a worker.
    pub(super) fn count_workers(&mut self) {
        (self.workers.held, self.workers.ended) = (0, 0);
        self.workers.candidates.clear();
        if self.workers.all.is_none() {
            return;
        }
        for known in &mut self.known {
            known.of_many.holds = 0;
        }
        for at in 0..self.known.len() {
            if let Some(stream) = self.watched().read(at)
                && let Kind::Stream(carrier) = stream.kind
                && !stream.is_free
                && !self.is_leaving(&stream, carrier)
            {
                self.workers.held += 1;
                self.known[carrier.at()].of_many.holds += 1;
            }
        }
    }

    /// Whether a stream was ended just now, by itself or with its connection.
    fn is_leaving(&mut self, stream: &Response, carrier: WatchedIndex) -> bool {
        if !stream.is_decided && !self.is_cut(carrier) {
            return false;
        }
        let known = &mut self.known[stream.index.at()];
        if known.index != Some(stream.index) {
            *known = Known::of(Some(stream.index));
        }
        known.of_many.leaves = known.of_many.leaves.saturating_add(1);
        known.of_many.leaves <= TO_LEAVE
    }

    /// Whether a connection was cut.
    fn is_cut(&self, carrier: WatchedIndex) -> bool {
        let connection = self.watched().read(carrier.at());
        connection.is_some_and(|connection| connection.index == carrier && connection.is_decided)
    }

    /// Ends the slowest of those that are too slow, until as many workers will be free as
    /// there are too many held.
    pub(super) fn end_for_workers(&mut self) {
        Candidate::sort(&mut self.workers.candidates);
        for n in 0..self.workers.candidates.len() {
            let candidate = self.workers.candidates[n];
            let Some(response) = candidate.response(self.watched()) else {
                continue;
            };
            let percent = response.bounds.min_rate.and_then(|min| min.busy);
            if self.workers.ended >= self.workers.too_many(percent) {
                continue;
            }
            let found = Found::TooSlow(candidate.taken);
            match response.kind {
                Kind::Carrier => {
                    let cookie = self.known[response.index.at()].cookie;
                    self.cut_carrier(&response, cookie, found);
                }
                Kind::Stream(carrier) if !self.is_cut(carrier) => {
                    self.end_stream(&response, carrier, found);
                }
                _ => {}
            }
        }
    }
}
