//! How fast the client takes one stream of HTTP/2: measured by the stream's own worker,
//! which hands the body on in pieces and counts the time for which it has to wait.
//!
//! A stream that drips ends itself. One that stands still waits in a piece, and the watch
//! sees since when.

use std::cell::Cell;
use std::ffi::CStr;
use std::time::Duration;

use super::running::{self, Running};
use crate::httpd::pieces::{self, Meter};
use crate::httpd::request::Request;
use crate::limit::slow::{Progress, Sample};
use crate::store::{Bounds, Found, WatchedIndex};

/// The meter of a stream.
pub struct StreamMeter {
    running: Running,
    index: WatchedIndex,
    begun: u64,
    /// When the piece that is on its way was handed on.
    since: Cell<u64>,
    /// The whole time for which pieces were on their way.
    waited: Cell<u64>,
    taken: Cell<u64>,
    progress: Cell<Progress>,
}

impl StreamMeter {
    /// Measures the answer to this request, whose entry in the watch this is.
    pub fn put_on(request: Request<'_>, running: Running, index: WatchedIndex) {
        let meter: &StreamMeter = request.pool().alloc(StreamMeter {
            running,
            index,
            begun: running.nanos(),
            since: Cell::new(0),
            waited: Cell::new(0),
            taken: Cell::new(0),
            progress: Cell::new(Progress::new()),
        });
        pieces::meter(request, meter);
    }

    /// Whether the stream is to be ended, now that a piece was taken.
    fn is_too_much(&self, bounds: &Bounds, now: u64) -> Option<Found> {
        let age = Duration::from_nanos(now.saturating_sub(self.begun));
        if let Some(max) = bounds.max_time
            && age >= max.time
            && self.running.is_busy(max.busy)
        {
            return Some(Found::TooLong(age));
        }
        let min = bounds.min_rate?;
        if age < min.after {
            return None;
        }
        // Only the time in which the stream waits for its client goes by.
        let mut progress = self.progress.get();
        let waited = self.waited.get();
        let taken = progress.look(
            Sample {
                now: waited,
                taken: self.taken.get(),
                waiting: waited,
                waits: true,
            },
            min.window.as_nanos() as u64,
        );
        self.progress.set(progress);
        let missed = taken.filter(|taken| min.is_missed(*taken))?;
        let is_due = min
            .busy
            .is_none_or(|percent| self.running.too_many_busy(percent) > 0);
        is_due.then_some(Found::TooSlow(missed))
    }
}

impl Meter for StreamMeter {
    const NAME: &'static CStr = c"LIMITIPCONN_PIECES";

    fn begins(&self) {
        let now = self.running.nanos();
        self.since.set(now);
        self.running.child.watched.blocks(self.index, Some(now));
    }

    fn passed(&self, bytes: usize, is_last: bool) -> bool {
        let watched = &self.running.child.watched;
        let now = self.running.nanos();
        // After the last piece it waits for nobody else any more, until all is sent.
        watched.blocks(self.index, is_last.then_some(now));
        let time = now.saturating_sub(self.since.get());
        self.waited.set(self.waited.get() + time);
        self.taken.set(self.taken.get() + bytes as u64);
        // What has been handed on whole is not taken back.
        let Some(bounds) = watched.bounds(self.index).filter(|_| !is_last) else {
            return true;
        };
        if watched.found(self.index).is_some() {
            return bounds.is_dry_run;
        }
        match self.is_too_much(&bounds, now) {
            None => true,
            Some(found) => {
                watched.decide_own(self.index, found);
                bounds.is_dry_run
            }
        }
    }

    fn on_fault(text: &str) {
        running::fault(text);
    }
}
