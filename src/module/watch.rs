//! The watch of a child: a thread that looks at the responses under way and ends those
//! whose clients take them too slowly, or that last too long.
//!
//! It allocates when it starts and never after, takes no lock, and writes no line: what
//! it finds it notes in the response's entry, and the worker that finds its connection
//! closed tells. Nobody waits for it; it ends with its process.

use std::time::Duration;

use super::running::{Child, Running};
use crate::httpd::scoreboard::Slot;
use crate::httpd::{process, socket, state};
use crate::limit::slow::{MinRate, Progress, Sample, Taken};
use crate::store::{Found, Response, Watched};

/// How often it looks.
const TICK: Duration = Duration::from_millis(500);
/// Its stack.
const STACK: usize = 128 * 1024;

/// What it knows of an entry.
#[derive(Clone)]
struct Known {
    generation: u64,
    cookie: u64,
    /// What the client had taken of the connection before.
    before: u64,
    progress: Progress,
}

/// A response that is too slow, as far as its client goes.
#[derive(Clone, Copy)]
struct Candidate {
    at: usize,
    generation: u64,
    taken: Taken,
}

/// What it knows of a connection of HTTP/2.
#[derive(Clone, Copy)]
struct Carrier {
    fd: i32,
    cookie: u64,
    progress: Progress,
    /// Whether it was there at the present look.
    is_there: bool,
}

/// Under so many bytes a second a connection of HTTP/2 stands still, whatever it says about
/// pings and settings.
const STILL: u64 = 64;

struct Watch {
    child: &'static Child,
    known: Box<[Known]>,
    candidates: Vec<Candidate>,
    /// Streams of HTTP/2 by descriptor: which entry.
    streams: Vec<(i32, usize)>,
    carriers: Vec<Carrier>,
}

/// Starts the watch of this child. `Err` is why there is none.
pub fn start(child: &'static Child) -> std::io::Result<()> {
    let room = child.watched.room();
    let watch = Watch {
        child,
        known: vec![
            Known {
                generation: 0,
                cookie: 0,
                before: 0,
                progress: Progress::new(),
            };
            room
        ]
        .into_boxed_slice(),
        candidates: Vec::with_capacity(room),
        streams: Vec::with_capacity(room),
        // Those of the look before are there until the end of a look.
        carriers: Vec::with_capacity(2 * room),
    };
    // Signals are for the threads of httpd.
    process::without_signals(|| {
        std::thread::Builder::new()
            .name(String::from("limitipconn"))
            .stack_size(STACK)
            .spawn(move || watch.run())
    })
    .map(drop)
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
        self.streams.clear();
        let now = state::nanoseconds_up();
        for at in 0..self.known.len() {
            let Some(response) = self.watched().read(at) else {
                continue;
            };
            if response.is_stream {
                self.streams.push((response.fd, at));
            }
            if response.is_decided {
                // A look later its worker is free, or will not be by this.
                if let Some(slot) = response.slot {
                    self.child.desks.mark_slow(slot, None);
                }
                continue;
            }
            let age = Duration::from_nanos(now.saturating_sub(response.started));
            if let Some(max) = response.bounds.max_time
                && age >= max.time
                && self.is_due(running, &response, max.busy)
            {
                self.end(at, &response, Found::TooLong(age));
            } else if !response.is_stream {
                self.look_at(at, &response, now);
            }
        }
        self.end_slowest(running);
        self.end_stalled_connections(running, now);
    }

    /// What the client of a response took lately; a candidate if that is too little.
    fn look_at(&mut self, at: usize, response: &Response, now: u64) {
        let bounds = &response.bounds;
        if bounds.min_rate.is_none() && bounds.max_time.is_none() {
            return;
        }
        let Some(look) = socket::look(response.fd) else {
            return;
        };
        if !self.watched().is_still(at, response.generation) {
            return;
        }
        let known = &mut self.known[at];
        if known.generation != response.generation {
            *known = Known {
                generation: response.generation,
                cookie: look.cookie,
                before: look.taken,
                progress: Progress::new(),
            };
        }
        if known.cookie != look.cookie {
            return;
        }
        let age = now.saturating_sub(response.started);
        if let Some(slot) = response.slot {
            let taken = look.taken.saturating_sub(known.before);
            self.child.desks.measure(slot, taken, age / 1_000_000);
        }
        let Some(min) = bounds.min_rate else {
            return;
        };
        if u128::from(age) < min.after.as_nanos() {
            return;
        }
        let known = &mut self.known[at];
        let sample = Sample {
            now,
            taken: look.taken,
            waiting: look.waiting,
            waits: look.waits,
        };
        let taken = known.progress.look(sample, min.window.as_nanos() as u64);
        let missed = taken.filter(|taken| min.is_missed(*taken));
        if let Some(slot) = response.slot {
            // Who is not to be ended stands in nobody's way.
            let is_ranked = !bounds.is_dry_run;
            let rate = missed.filter(|_| is_ranked).map(|taken| taken.rate());
            self.child.desks.mark_slow(slot, rate);
        }
        let generation = response.generation;
        self.candidates.extend(missed.map(|taken| Candidate {
            at,
            generation,
            taken,
        }));
    }

    /// Ends candidates: all that need no pressure, and of the others the slowest, as many
    /// as there are too many workers busy.
    fn end_slowest(&mut self, running: Running) {
        self.candidates
            .sort_unstable_by_key(|candidate| candidate.taken.rate());
        for candidate in &self.candidates {
            let is_it = |response: &Response| response.generation == candidate.generation;
            let Some(response) = self.watched().read(candidate.at).filter(is_it) else {
                continue;
            };
            let Some(min) = response.bounds.min_rate else {
                continue;
            };
            let is_due = match min.busy {
                None => true,
                Some(percent) => response.slot.is_some_and(|slot| {
                    let is_busy = |slot| self.child.scoreboard.is_busy(Slot(slot));
                    let rate = candidate.taken.rate();
                    let rank = self.child.desks.slower_than(slot, rate, is_busy);
                    rank < running.too_many_busy(percent)
                }),
            };
            if is_due {
                self.end(candidate.at, &response, Found::TooSlow(candidate.taken));
            }
        }
    }

    /// Ends connections of HTTP/2 of which no stream has moved for the whole window: all
    /// of them wait for the client, and it takes nothing. A stream that stands still among
    /// others that go on, or come and go, is left to H2StreamTimeout.
    fn end_stalled_connections(&mut self, running: Running, now: u64) {
        self.streams.sort_unstable();
        for carrier in &mut self.carriers {
            carrier.is_there = false;
        }
        let watched = self.watched();
        for streams in self.streams.chunk_by(|one, other| one.0 == other.0) {
            let fd = streams[0].0;
            let Some(look) = socket::look(fd) else {
                continue;
            };
            // One that has gone on to other streams is the same as long as it is there.
            let known = self
                .carriers
                .iter()
                .position(|carrier| carrier.fd == fd && carrier.cookie == look.cookie);
            let at = known.unwrap_or_else(|| {
                self.carriers.push(Carrier {
                    fd,
                    cookie: look.cookie,
                    progress: Progress::new(),
                    is_there: true,
                });
                self.carriers.len() - 1
            });
            let carrier = &mut self.carriers[at];
            carrier.is_there = true;
            let group = Group {
                watched,
                streams,
                now,
            };
            let Some(bounds) = group.bounds(running) else {
                carrier.progress = Progress::new();
                continue;
            };
            let sample = Sample {
                now,
                taken: look.taken,
                waiting: now,
                waits: group.waits(),
            };
            let taken = carrier
                .progress
                .look(sample, bounds.window.as_nanos() as u64);
            let is_still = |taken: &Taken| taken.rate() < bounds.still && bounds.is_due;
            let Some(taken) = taken.filter(is_still) else {
                continue;
            };
            let is_meant = || {
                let is_meant = group.waits();
                if is_meant {
                    group.decide(Found::TooSlow(taken), bounds.is_dry_run);
                }
                is_meant
            };
            if bounds.is_dry_run {
                is_meant();
            } else {
                socket::cut(fd, look.cookie, is_meant);
            }
        }
        self.carriers.retain(|carrier| carrier.is_there);
    }

    /// Whether a response is to be ended at this mark of busy workers: under pressure only
    /// one whose worker becomes free by it. A stream of HTTP/2 looks to that itself.
    fn is_due(&self, running: Running, response: &Response, busy: Option<u8>) -> bool {
        let frees_a_worker = busy.is_none() || response.slot.is_some();
        let is_told_only = response.bounds.is_dry_run;
        running.is_busy(busy)
            && (frees_a_worker || is_told_only)
            && (!response.is_stream || is_told_only)
    }

    /// Ends a response, and notes why.
    fn end(&self, at: usize, response: &Response, found: Found) {
        let (watched, generation) = (self.watched(), response.generation);
        // Noted before the worker can find its connection closed, and for this response only.
        let is_meant = || watched.decide(at, generation, found);
        if response.bounds.is_dry_run {
            is_meant();
            return;
        }
        let known = &self.known[at];
        let cookie = match known.generation == generation {
            true => Some(known.cookie),
            // Never looked at: it is still the entry's if nothing has ended after this.
            false => socket::look(response.fd).map(|look| look.cookie),
        };
        if let Some(cookie) = cookie {
            socket::cut(response.fd, cookie, is_meant);
        }
    }
}

/// The streams of a connection that are watched.
struct Group<'w> {
    watched: &'static Watched,
    streams: &'w [(i32, usize)],
    now: u64,
}

impl Group<'_> {
    fn responses(&self) -> impl Iterator<Item = (usize, Response)> {
        self.streams.iter().filter_map(|(fd, at)| {
            let response = self.watched.read(*at)?;
            (response.fd == *fd).then_some((*at, response))
        })
    }

    /// Whether all of them wait for the client.
    fn waits(&self) -> bool {
        let mut responses = self.responses().peekable();
        responses.peek().is_some() && responses.all(|(_, response)| response.blocked.is_some())
    }

    /// What holds for them together, if some are bounded and not new.
    fn bounds(&self, running: Running) -> Option<GroupBounds> {
        let mut all: Option<GroupBounds> = None;
        for min in self
            .responses()
            .filter_map(|(_, response)| self.min_rate(&response))
        {
            let all = all.get_or_insert(GroupBounds {
                window: min.window,
                still: STILL,
                is_due: false,
                is_dry_run: false,
            });
            all.window = all.window.max(min.window);
            all.still = all.still.min(min.bytes);
            all.is_due |= running.is_busy(min.busy);
        }
        let is_dry_run = |(_, response): (usize, Response)| response.bounds.is_dry_run;
        Some(GroupBounds {
            is_dry_run: self.responses().all(is_dry_run),
            ..all?
        })
    }

    /// Notes for those that are bounded, and are in a dry run or not, what was found of all
    /// of them.
    fn decide(&self, found: Found, is_dry_run: bool) {
        for (at, response) in self.responses() {
            let is_told = response.bounds.is_dry_run == is_dry_run;
            if self.min_rate(&response).is_some() && is_told {
                self.watched.decide(at, response.generation, found);
            }
        }
    }

    /// The bound of a stream that is not new.
    fn min_rate(&self, response: &Response) -> Option<MinRate> {
        let age = Duration::from_nanos(self.now.saturating_sub(response.started));
        response.bounds.min_rate.filter(|min| age >= min.after)
    }
}

/// What holds for the streams of a connection together.
struct GroupBounds {
    /// The longest of their windows.
    window: Duration,
    /// Under so many bytes a second the connection stands still.
    still: u64,
    /// Whether so many workers are busy as one of them says.
    is_due: bool,
    /// Whether it is a dry run for all.
    is_dry_run: bool,
}
