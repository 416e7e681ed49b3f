//! Whether the counts that servers share are within reach, as all children of this server know
//! it: a few words of the segment.
//!
//! The first fault that a courier meets says *down*. From then on nobody asks but one prober for
//! the whole server, whoever claims the next probe first; when it gets through it says *up*.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use super::super::header::{Counter, Header, Tally};
use super::order::Fault;
use crate::limit::fleet::{Failure, OnFailure};

const MILLI: u64 = 1_000_000;
/// How soon after a fault the first probe comes: a hiccup shall cost no more than that.
const FIRST_PROBE: u64 = 100 * MILLI;
/// How far apart probes are at last.
const LAST_PROBE: u64 = 1000 * MILLI;
/// How often an outage is told while it lasts.
const TELL_EVERY: u64 = 60_000 * MILLI;

/// So many generations of children have words of their own.
const GENERATIONS: usize = 4;

/// The words of the generations that may still serve. The children of an earlier one may ask
/// another server, and what they find is nothing to those of this one.
#[repr(C)]
pub struct Breakers {
    /// How many generations there were.
    begun: AtomicU32,
    words: [BreakerWords; GENERATIONS],
}

/// Its words. Times are nanoseconds of the segment's clock.
#[repr(C)]
pub struct BreakerWords {
    /// Since when it is down; 0: it is up.
    down_since: AtomicU64,
    /// When somebody may probe.
    next_probe: AtomicU64,
    /// When the outage was told last.
    told: AtomicU64,
    /// The last [`Failure`]; 0: there was none.
    failure: AtomicU32,
    /// One more than the [`OnFailure`] that holds; 0: no rule is shared.
    mode: AtomicU32,
}

/// The words, and the counters beside them.
#[derive(Clone, Copy)]
pub struct Breaker {
    words: &'static BreakerWords,
    tally: Tally,
}

/// What is worth a line of the log.
#[derive(Clone, Debug)]
pub enum Event {
    /// It is down, or still is: once in a minute.
    Down {
        /// Why.
        fault: Fault,
        /// For how long already.
        since: Duration,
    },
    /// It is up again, after so long.
    Up(Duration),
}

/// What there is to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Health {
    /// What happens while it is down.
    pub on_failure: OnFailure,
    /// For how long it has been down, if it is.
    pub down_for: Option<Duration>,
    /// The last failure, over or not.
    pub failure: Option<Failure>,
    /// Questions asked.
    pub asked: u64,
    /// Questions that got no answer, for whatever reason.
    pub missed: u64,
    /// How often it went down.
    pub outages: u64,
    /// What found no room to be asked or told.
    pub uncounted: u64,
}

impl Breaker {
    /// That of the generation that began last.
    pub(in crate::store) fn new(header: &'static Header) -> Breaker {
        let Breakers { begun, words } = &header.breakers;
        Breaker {
            words: &words[begun.load(Relaxed) as usize % GENERATIONS],
            tally: Tally::new(header),
        }
    }

    /// That of a generation that begins, by the parent, before it has children; no mode where no
    /// rule is shared.
    pub(in crate::store) fn begin(header: &'static Header, mode: Option<OnFailure>) -> Breaker {
        header.breakers.begun.fetch_add(1, Relaxed);
        let breaker = Breaker::new(header);
        breaker.reset(mode);
        breaker
    }

    /// Whether the other side is there, as far as is known.
    #[inline]
    pub fn is_up(self) -> bool {
        self.words.down_since.load(Relaxed) == 0
    }

    fn reset(self, mode: Option<OnFailure>) {
        let mode = mode.map_or(0, |mode| mode as u32 + 1);
        self.words.mode.store(mode, Relaxed);
        self.words.failure.store(0, Relaxed);
        self.words.down_since.store(0, Relaxed);
        self.words.told.store(0, Relaxed);
    }

    /// Somebody waited in vain for a courier, which may itself be held up, in a look-up of a name
    /// for example. Nobody else is to wait then; the courier tells, if there is something to tell.
    pub fn suspect(self, now: u64) {
        self.goes_down(Failure::Hung, now.max(1));
    }

    fn goes_down(self, failure: Failure, now: u64) {
        self.words.failure.store(failure as u32, Relaxed);
        let since = &self.words.down_since;
        if since.compare_exchange(0, now, Relaxed, Relaxed).is_ok() {
            self.tally.add(Counter::FleetOutages, 1);
            self.words.next_probe.store(now + FIRST_PROBE, Relaxed);
        }
    }

    /// A fault was met. What comes back is to be told.
    #[must_use]
    pub fn down(self, fault: &Fault, now: u64) -> Option<Event> {
        let now = now.max(1);
        let words = self.words;
        self.goes_down(fault.failure, now);
        // Somebody who waited in vain may have said so after the courier looked at its clock.
        let now = now.max(words.down_since.load(Relaxed));
        let told = words.told.load(Relaxed);
        let is_due = told == 0 || now.saturating_sub(told) >= TELL_EVERY;
        let tells = is_due
            && words
                .told
                .compare_exchange(told, now, Relaxed, Relaxed)
                .is_ok();
        tells.then(|| Event::Down {
            fault: fault.clone(),
            since: self.down_for(now).unwrap_or_default(),
        })
    }

    /// Whether the caller is to probe. Until it is through, or for so long as a probe may take,
    /// nobody else does.
    pub fn claims_probe(self, now: u64, probe_takes: Duration) -> bool {
        let next = self.words.next_probe.load(Relaxed);
        let takes = probe_takes.as_nanos() as u64 + LAST_PROBE;
        now >= next
            && self
                .words
                .next_probe
                .compare_exchange(next, now + takes, Relaxed, Relaxed)
                .is_ok()
    }

    /// How long until somebody may probe.
    pub fn until_probe(self, now: u64) -> Duration {
        Duration::from_nanos(self.words.next_probe.load(Relaxed).saturating_sub(now))
    }

    /// The probe did not get through.
    #[must_use]
    pub fn is_still_down(self, fault: &Fault, now: u64) -> Option<Event> {
        let since = self.words.down_since.load(Relaxed);
        // As long again as it has lasted, within bounds.
        let pause = now.saturating_sub(since).clamp(FIRST_PROBE, LAST_PROBE);
        self.words.next_probe.store(now + pause, Relaxed);
        self.down(fault, now)
    }

    /// The probe got through.
    #[must_use]
    pub fn up(self, now: u64) -> Option<Event> {
        let lasted = self.down_for(now)?;
        let since = self.words.down_since.swap(0, Relaxed);
        // An outage that nobody heard of needs no end.
        (self.words.told.load(Relaxed) >= since).then_some(Event::Up(lasted))
    }

    fn down_for(self, now: u64) -> Option<Duration> {
        match self.words.down_since.load(Relaxed) {
            0 => None,
            since => Some(Duration::from_nanos(now.saturating_sub(since))),
        }
    }

    pub(super) fn tally_asked(self) {
        self.tally.add(Counter::FleetAsked, 1);
    }

    /// A request went on without an answer.
    pub fn tally_missed(self) {
        self.tally.add(Counter::FleetMissed, 1);
    }

    pub(super) fn tally_uncounted(self) {
        self.tally.add(Counter::FleetUncounted, 1);
    }

    /// What there is to see; none where no rule is shared.
    pub fn health(self, now: u64) -> Option<Health> {
        let mode = self.words.mode.load(Relaxed).checked_sub(1)?;
        let failure = u8::try_from(self.words.failure.load(Relaxed)).unwrap_or(0);
        Some(Health {
            on_failure: OnFailure::numbered(mode),
            down_for: self.down_for(now),
            failure: Failure::numbered(failure),
            asked: self.tally.read(Counter::FleetAsked),
            missed: self.tally.read(Counter::FleetMissed),
            outages: self.tally.read(Counter::FleetOutages),
            uncounted: self.tally.read(Counter::FleetUncounted),
        })
    }
}
