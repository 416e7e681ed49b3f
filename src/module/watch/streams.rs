//! Of HTTP/2: connections of which nothing goes on, and single streams that their client
//! takes too slowly.
//!
//! Two things hold a stream back. Its client may withhold the window of the stream: then
//! nothing waits in the socket, and what went out of the stream tells how fast it is taken.
//! Or the connection is full, and data waits in the socket: then the kernel takes more in
//! lumps, seconds apart, and only what the client's machine acknowledged tells anything. So
//! a stream's time stands still while its connection is full, unless that is too slow itself.

use super::Watch;
use crate::limit::slow::{MinRate, Progress, Sample, Taken};
use crate::module::running::Running;
use crate::store::{Found, Response, WatchedIndex};

/// For so many looks a stream is left to its connection, which may be about to be cut.
const GRACE: u8 = 4;

/// What the watch knows of an entry besides.
#[derive(Clone)]
pub struct Known {
    /// When it looked last.
    last: u64,
    /// Of a connection and a stream: time that counted.
    clock: u64,
    /// Of a connection: what its client took of it, apart from all that is no body.
    taken: u64,
    /// Whether data waits in the socket.
    is_full: bool,
    /// What each of its streams gets while it does, in bytes a second.
    share: u64,
    /// How its bodies go out.
    still: Progress,
    /// Of a stream: for how long it had waited, in all and in the time that counted.
    waited: u64,
    waited_in_clock: u64,
    /// For how many looks it was left to its connection.
    grace: u8,
}

impl Known {
    pub const fn new() -> Known {
        Known {
            last: 0,
            clock: 0,
            taken: 0,
            is_full: false,
            share: u64::MAX,
            still: Progress::new(),
            waited: 0,
            waited_in_clock: 0,
            grace: 0,
        }
    }

    /// The time since the last look; 0 at the first.
    fn elapsed(&mut self, now: u64) -> u64 {
        match std::mem::replace(&mut self.last, now) {
            0 => 0,
            last => now.saturating_sub(last),
        }
    }
}

/// The minimum of what is not new any more.
fn min_rate(response: &Response, now: u64) -> Option<MinRate> {
    let age = now.saturating_sub(response.started);
    let min_rate = response.bounds.min_rate;
    min_rate.filter(|min| u128::from(age) >= min.after.as_nanos())
}

impl Watch {
    /// Cuts a connection with all its streams: if data waits in the socket and its client
    /// takes less of it than a single stream must, or if all its streams wait for its client
    /// and hardly anything goes out.
    pub(super) fn look_at_carrier(&mut self, running: Running, carrier: &Response, now: u64) {
        if carrier.is_decided {
            return;
        }
        let Some((known, look)) = self.known(carrier) else {
            return;
        };
        let cookie = known.cookie;
        let many = &mut known.of_many;
        let elapsed = many.elapsed(now);
        many.is_full = look.waits;
        many.share = u64::MAX;
        // What is no body is counted when it goes out, and acknowledged later.
        let bodies = look.taken.saturating_sub(carrier.other);
        many.taken = many.taken.max(bodies);
        let Some(min) = min_rate(carrier, now) else {
            return;
        };
        let window = min.window.as_nanos() as u64;
        let full = known.progress.look(
            Sample {
                now,
                taken: many.taken,
                waiting: look.waiting,
                waits: look.waits && carrier.carried.waiting > 0,
            },
            window,
        );
        if let Some(taken) = full {
            many.share = taken.rate() / u64::from(carrier.carried.waiting.max(1));
        }
        let mut still = None;
        if !look.waits {
            many.clock += elapsed;
            let sample = Sample {
                now: many.clock,
                taken: carrier.data,
                waiting: many.clock,
                waits: carrier.carried.waiting > 0 && carrier.carried.active == 0,
            };
            still = many.still.look(sample, window);
        }
        let is_missed = |taken: &Taken| min.is_missed(*taken);
        let missed = full.filter(is_missed).or(still.filter(is_missed));
        // Beside one that nobody may cut each stream is judged by itself.
        if let Some(taken) = missed
            && carrier.carried.spared == 0
            && running.is_busy(min.busy)
        {
            let (watched, index) = (self.watched(), carrier.index);
            let is_meant = || watched.decide(index, Found::TooSlow(taken));
            self.cut(carrier.fd, cookie, is_meant);
        }
    }

    /// Lets the worker of a stream end it.
    pub(super) fn look_at_stream(
        &mut self,
        running: Running,
        stream: &Response,
        carrier: WatchedIndex,
        now: u64,
    ) {
        if stream.is_decided {
            return;
        }
        if let Some(found) = self.lasts_too_long(running, stream, now) {
            self.end_stream(stream, found);
            if !stream.bounds.is_dry_run {
                return;
            }
        }
        let Some(taken) = self.takes(stream, carrier, now) else {
            return;
        };
        let is_due = |min: MinRate| {
            min.is_missed(taken)
                && !stream.is_marked[0]
                && min
                    .busy
                    .is_none_or(|percent| running.too_many_busy(percent) > 0)
        };
        if !stream.bounds.min_rate.is_some_and(is_due) {
            return;
        }
        let connection = self.watched().read(carrier.at());
        let all_wait = connection.is_some_and(|connection| {
            let carried = connection.carried;
            connection.index == carrier && carried.active == 0 && carried.spared == 0
        });
        let grace = &mut self.known[stream.index.at()].of_many.grace;
        if all_wait && *grace < GRACE {
            *grace += 1;
            return;
        }
        self.end_stream(stream, Found::TooSlow(taken));
    }

    fn end_stream(&self, stream: &Response, found: Found) {
        match stream.bounds.is_dry_run {
            true => self.watched().mark(stream.index, found),
            false => self.watched().decide(stream.index, found),
        };
    }

    /// What the client of a stream took over the last window, if it was waited for.
    fn takes(&mut self, stream: &Response, carrier: WatchedIndex, now: u64) -> Option<Taken> {
        let min = min_rate(stream, now)?;
        let connection = &self.known[carrier.at()];
        let is_known = connection.index == Some(carrier);
        let (is_full, share) = (connection.of_many.is_full, connection.of_many.share);
        let known = &mut self.known[stream.index.at()];
        if known.index != Some(stream.index) {
            known.index = Some(stream.index);
            known.progress = Progress::new();
            known.of_many = Known::new();
        }
        let many = &mut known.of_many;
        let elapsed = many.elapsed(now);
        let since = stream.blocked.map_or(0, |since| now.saturating_sub(since));
        let waited = stream.waited + since;
        let new = waited.saturating_sub(std::mem::replace(&mut many.waited, waited));
        if !is_known || (is_full && share >= min.bytes) {
            return None;
        }
        many.clock += elapsed;
        many.waited_in_clock += new.min(elapsed);
        let sample = Sample {
            now: many.clock,
            taken: stream.data,
            waiting: many.waited_in_clock,
            waits: stream.blocked.is_some(),
        };
        known.progress.look(sample, min.window.as_nanos() as u64)
    }
}
