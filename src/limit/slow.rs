//! Whether a client takes its response too slowly.
//!
//! Pure arithmetic over looks at a response: what its client took while data waited for
//! it. While nothing waits the server is the slow one, and nobody is judged.

use std::time::Duration;

pub mod shared;

/// `IPLimitMinRate`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MinRate {
    /// What a client has to take, in bytes per second, at least 1.
    pub bytes: u64,
    /// A response is not judged before it is so old.
    pub after: Duration,
    /// Over which time it is measured, 1 s to 1 h.
    pub window: Duration,
    /// Cuts only while so many percent of the workers are busy, 1..=100.
    pub busy: Option<u8>,
}

/// `IPLimitMaxTime`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxTime {
    /// How long a response may hold its place, 1 s to 30 days.
    pub time: Duration,
    /// Cuts only while so many percent of the workers are busy, 1..=100.
    pub busy: Option<u8>,
}

/// One look at a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When it was, in nanoseconds of a clock that never goes back.
    pub now: u64,
    /// Bytes that the client has taken so far; only grows.
    pub taken: u64,
    /// How long so far data waited for the client, in nanoseconds; only grows. Linux tells
    /// it as `tcpi_busy_time`.
    pub waiting: u64,
    /// Whether data waits for it at this moment.
    pub waits: bool,
}

/// What a client took in a time in which data waited for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// So many bytes.
    pub bytes: u64,
    /// In so many nanoseconds.
    pub time: u64,
}

/// The last looks at one response, few enough to be kept for each.
///
/// The window begins anew with a look that finds nothing waiting, with one before which
/// data waited for less than nine tenths of the time since the look before, and with one
/// that goes back: it is of another socket.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Where a window may begin, the oldest first, at least a twelfth of a window apart.
    starts: [Start; MOST],
    /// How many of them there are.
    len: usize,
    last: Option<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    now: u64,
    taken: u64,
}

/// How many starts there are in a window.
const PARTS: u64 = 12;
/// Those within the window, and the one at which it begins.
const MOST: usize = PARTS as usize + 1;
/// The kernel counts waiting in ticks of up to 10 ms; over less than this they are too
/// coarse to tell nine tenths.
const TOO_SOON: u64 = 50_000_000;
const SECOND: u128 = 1_000_000_000;

/// How many workers too many are busy where so many percent of all are the mark: none below
/// it, and at least one at it.
pub fn too_many(busy: u32, all: u32, percent: u8) -> u32 {
    let mark = u64::from(percent) * u64::from(all);
    match (u64::from(busy) * 100).checked_sub(mark) {
        None => 0,
        Some(over) => (over / 100).max(1) as u32,
    }
}

impl Taken {
    /// Bytes per second, rounded down.
    pub fn rate(&self) -> u64 {
        let rate = u128::from(self.bytes) * SECOND / u128::from(self.time.max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

impl MinRate {
    /// Whether so much in that time is under the minimum.
    pub fn is_missed(&self, taken: Taken) -> bool {
        u128::from(taken.bytes) * SECOND < u128::from(self.bytes) * u128::from(taken.time)
    }

    /// What holds for two responses together: the lower minimum over the longer time, and
    /// where either needs pressure, the higher mark.
    pub fn with(self, other: MinRate) -> MinRate {
        MinRate {
            bytes: self.bytes.min(other.bytes),
            after: self.after.max(other.after),
            window: self.window.max(other.window),
            busy: self.busy.max(other.busy),
        }
    }
}

impl Sample {
    /// How long after another look this one is, if data waited nearly all the time between
    /// them.
    fn waited_since(&self, last: &Sample) -> Option<u64> {
        let time = self.now.checked_sub(last.now)?;
        let waited = self.waiting.checked_sub(last.waiting)?;
        self.taken.checked_sub(last.taken)?;
        let is_waiting = time < TOO_SOON || u128::from(waited) * 10 >= u128::from(time) * 9;
        (self.waits && is_waiting).then_some(time)
    }
}

impl Progress {
    /// Of a response that nobody has looked at.
    pub const fn new() -> Self {
        Progress {
            starts: [Start { now: 0, taken: 0 }; MOST],
            len: 0,
            last: None,
        }
    }

    /// Adds a look. What the client took over the last window, in nanoseconds, if data
    /// waited for it during the whole of it.
    ///
    /// The time that this is about is at least a window, and longer by no more than a
    /// twelfth of it and the time between two looks. A look less than 50 ms after the one
    /// before says nothing.
    pub fn look(&mut self, sample: Sample, window: u64) -> Option<Taken> {
        match self.last.and_then(|last| sample.waited_since(&last)) {
            Some(time) if time < TOO_SOON => return None,
            Some(_) => {}
            None => self.len = 0,
        }
        self.last = Some(sample);
        let age = |start: &Start| sample.now - start.now;
        let is_old = |start: &&Start| age(start) >= window;
        let old = self.starts().iter().take_while(is_old).count();
        self.forget(old.saturating_sub(1));
        let taken = self.starts().first().filter(is_old).map(|start| Taken {
            bytes: sample.taken - start.taken,
            time: age(start),
        });
        let newest = self.starts().last();
        if newest.is_none_or(|start| age(start) >= window.div_ceil(PARTS)) {
            self.start_at(sample);
        }
        taken
    }

    fn starts(&self) -> &[Start] {
        &self.starts[..self.len]
    }

    /// Forgets so many of the oldest starts.
    fn forget(&mut self, number: usize) {
        self.starts.copy_within(number..self.len, 0);
        self.len -= number;
    }

    fn start_at(&mut self, sample: Sample) {
        // They are too many only where the window has become longer.
        if self.len == MOST {
            self.forget(1);
        }
        self.starts[self.len] = Start {
            now: sample.now,
            taken: sample.taken,
        };
        self.len += 1;
    }
}

impl Default for Progress {
    fn default() -> Self {
        Progress::new()
    }
}

#[cfg(test)]
mod tests;
