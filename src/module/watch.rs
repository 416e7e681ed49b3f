//! The watch of a child: a thread that looks at the responses under way and ends those
//! whose clients take them too slowly, or that last too long.
//!
//! It allocates when it starts and never after, takes no lock, and writes no line: what
//! it finds it notes in the response's entry, and the worker that finds its connection
//! closed tells. Nobody waits for it; it ends with its process.

use std::time::Duration;

use super::running::{Child, Running};
use crate::httpd::scoreboard::Slot;
use crate::httpd::socket::{Cut, Knife};
use crate::httpd::{process, socket, state};
use crate::limit::slow::{Progress, Sample, Taken};
use crate::store::{Counter, Found, Kind, Response, Watched, WatchedIndex};

mod streams;
mod workers;

/// How often it looks.
const TICK: Duration = Duration::from_millis(500);
/// Its stack.
const STACK: usize = 128 * 1024;

/// What it knows of an entry.
#[derive(Clone)]
struct Known {
    /// In which use of it.
    index: Option<WatchedIndex>,
    cookie: u64,
    /// What the client had taken of the connection before.
    before: u64,
    progress: Progress,
    of_many: streams::Known,
}

/// A response that is too slow, as far as its client goes.
#[derive(Clone, Copy)]
struct Candidate {
    index: WatchedIndex,
    started: u64,
    taken: Taken,
}

impl Candidate {
    fn of(response: &Response, taken: Taken) -> Candidate {
        Candidate {
            index: response.index,
            started: response.started,
            taken,
        }
    }

    /// The slowest first; of equals the oldest, whose bytes come first on a connection.
    fn sort(candidates: &mut [Candidate]) {
        candidates.sort_unstable_by_key(|candidate| (candidate.taken.rate(), candidate.started));
    }

    /// What it is about, if that is under way still.
    fn response(&self, watched: &Watched) -> Option<Response> {
        let response = watched.read(self.index.at())?;
        (response.index == self.index && !response.is_decided).then_some(response)
    }
}

impl Known {
    /// Nothing, of this use of an entry.
    fn of(index: Option<WatchedIndex>) -> Known {
        Known {
            index,
            cookie: 0,
            before: 0,
            progress: Progress::new(),
            of_many: streams::Known::new(),
        }
    }
}

struct Watch {
    child: &'static Child,
    knife: Knife,
    known: Box<[Known]>,
    candidates: Vec<Candidate>,
    workers: workers::Workers,
    /// When the present look began.
    now: u64,
}

/// Starts the watch of this child. `Err` is why there is none.
pub fn start(child: &'static Child) -> std::io::Result<()> {
    let room = child.watched.room();
    let watch = Watch {
        child,
        knife: Knife::new(),
        known: vec![Known::of(None); room].into_boxed_slice(),
        candidates: Vec::with_capacity(room),
        workers: workers::Workers::new(child.http2_workers, room),
        now: 0,
    };
    process::thread("limitipconn", STACK, move || watch.run())
}

/// Whether a response is so old.
fn is_so_old(response: &Response, now: u64, age: Duration) -> bool {
    u128::from(now.saturating_sub(response.started)) >= age.as_nanos()
}

impl Watch {
    fn run(mut self) {
        loop {
            std::thread::sleep(TICK);
            let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.look()));
            if looked.is_err() {
                super::running::fault("the watch of slow clients");
            }
        }
    }

    fn watched(&self) -> &'static Watched {
        &self.child.watched
    }

    fn look(&mut self) {
        let Some(running) = Running::get() else {
            return;
        };
        self.candidates.clear();
        self.now = state::nanoseconds_up();
        self.count_workers();
        for at in 0..self.known.len() {
            match self.watched().read(at) {
                Some(response) if response.kind == Kind::Response => {
                    self.look_at_response(running, &response);
                }
                Some(carrier) if carrier.kind == Kind::Carrier => {
                    self.look_at_carrier(running, &carrier);
                }
                _ => {}
            }
        }
        // What was found of its connection matters to a stream, and the other way round.
        for at in 0..self.known.len() {
            if let Some(stream) = self.watched().read(at)
                && let Kind::Stream(carrier) = stream.kind
            {
                self.look_at_stream(running, &stream, carrier);
            }
        }
        for at in 0..self.known.len() {
            let carrier = self.watched().read(at);
            if let Some(carrier) = carrier.filter(|carrier| carrier.kind == Kind::Carrier) {
                self.look_at_carrier_again(&carrier);
            }
        }
        self.end_slowest(running);
        self.end_for_workers();
    }

    fn look_at_response(&mut self, running: Running, response: &Response) {
        if response.is_decided {
            // A look later its worker is free, or will not be by this.
            if let Some(seat) = response.seat {
                self.child.desks.mark_slow(seat, None);
            }
            return;
        }
        if let Some(found) = self.lasts_too_long(running, response) {
            self.end(response, found);
            // In a dry run it goes on, and so does the looking.
            if !response.bounds.is_dry_run {
                return;
            }
        }
        self.measure(response);
    }

    /// Whether a response has held its place for too long, and is to be ended for it.
    fn lasts_too_long(&self, running: Running, response: &Response) -> Option<Found> {
        let max = response.bounds.max_time?;
        let age = Duration::from_nanos(self.now.saturating_sub(response.started));
        let frees_a_worker =
            max.busy.is_none() || response.seat.is_some() || response.kind != Kind::Response;
        let is_due = age >= max.time
            && !response.is_marked[1]
            && (running.is_busy(max.busy) || self.workers.are_needed(response, max.busy))
            && (frees_a_worker || response.bounds.is_dry_run);
        is_due.then_some(Found::TooLong(age))
    }

    /// What is known of this use of an entry, by a look at its socket; None where that is
    /// another's, or gone.
    fn known(&mut self, response: &Response) -> Option<(&mut Known, socket::Look)> {
        let look = socket::look(response.fd)?;
        let index = response.index;
        if !self.watched().is_still(index) {
            return None;
        }
        let known = &mut self.known[index.at()];
        if known.index != Some(index) {
            *known = Known {
                cookie: look.cookie,
                before: look.taken,
                ..Known::of(Some(index))
            };
        }
        (known.cookie == look.cookie).then_some((known, look))
    }

    /// What the client of a response took lately; a candidate if that is too little.
    fn measure(&mut self, response: &Response) {
        let bounds = &response.bounds;
        if bounds.is_idle() {
            return;
        }
        let (child, now) = (self.child, self.now);
        let Some((known, look)) = self.known(response) else {
            return;
        };
        if let Some(seat) = response.seat {
            let taken = look.taken.saturating_sub(known.before);
            let age = now.saturating_sub(response.started);
            child.desks.measure(seat, taken, age / 1_000_000);
        }
        let Some(min) = bounds.min_rate else {
            return;
        };
        if !is_so_old(response, now, min.after) {
            return;
        }
        let sample = Sample {
            // The kernel's count of what waited goes up to here, however long this look has been.
            now: state::nanoseconds_up(),
            taken: look.taken,
            waiting: look.waiting,
            waits: look.waits,
        };
        let taken = known.progress.look(sample, min.window.as_nanos() as u64);
        let missed = taken.filter(|taken| min.is_missed(*taken));
        if let Some(seat) = response.seat {
            // Who is not to be ended stands in nobody's way.
            let is_ranked = !bounds.is_dry_run;
            let rate = missed.filter(|_| is_ranked).map(|taken| taken.rate());
            child.desks.mark_slow(seat, rate);
        }
        let missed = missed.filter(|_| !response.is_marked[0]);
        let candidate = missed.map(|taken| Candidate::of(response, taken));
        self.candidates.extend(candidate);
    }

    /// Ends candidates: all that need no pressure, and of the others the slowest, as many
    /// as there are too many workers busy.
    fn end_slowest(&mut self, running: Running) {
        Candidate::sort(&mut self.candidates);
        for n in 0..self.candidates.len() {
            let candidate = self.candidates[n];
            let Some(response) = candidate.response(self.watched()) else {
                continue;
            };
            let Some(min) = response.bounds.min_rate else {
                continue;
            };
            let is_due = match min.busy {
                None => true,
                Some(percent) => response.seat.is_some_and(|(slot, _)| {
                    let is_busy = |slot| self.child.scoreboard.is_busy(Slot(slot));
                    let rate = candidate.taken.rate();
                    let rank = self.child.desks.slower_than(slot, rate, is_busy);
                    rank < running.too_many_busy(percent)
                }),
            };
            if is_due {
                self.end(&response, Found::TooSlow(candidate.taken));
            }
        }
    }

    /// Ends a response that has its connection for itself, and notes why.
    fn end(&mut self, response: &Response, found: Found) {
        let (watched, index) = (self.watched(), response.index);
        if response.bounds.is_dry_run {
            watched.mark(index, found);
            return;
        }
        let known = &self.known[index.at()];
        let cookie = match known.index == Some(index) {
            true => Some(known.cookie),
            // Never looked at: it is still the entry's if nothing has ended after this.
            false => socket::look(response.fd).map(|look| look.cookie),
        };
        // Noted before the worker can find its connection closed, and for this response only.
        let is_meant = || watched.decide(index, found);
        if let Some(cookie) = cookie
            && self.cut(response.fd, cookie, is_meant)
        {
            self.spare_others(response);
        }
    }

    /// Cuts a connection; whether it did. Without a descriptor that is for the next look.
    fn cut(&mut self, fd: i32, cookie: u64, is_meant: impl FnOnce() -> bool) -> bool {
        let cut = self.knife.cut(fd, cookie, is_meant);
        if cut == Cut::NoDescriptor
            && let Some(running) = Running::get()
        {
            running.runtime.segment.add(Counter::CutsPutOff, 1);
        }
        cut == Cut::Done
    }

    /// What else was asked for on a connection that was cut ends with it: one cut is one.
    fn spare_others(&self, cut: &Response) {
        for at in 0..self.known.len() {
            if let Some(other) = self.watched().read(at)
                && other.fd == cut.fd
                && other.index != cut.index
                // Later ones may be of a next connection that has the number.
                && other.started <= self.now
            {
                self.watched().spare(other.index);
            }
        }
    }
}
