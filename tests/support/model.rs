//! The token bucket as a client sees it from outside: when a request was decided is only
//! known to lie between its sending and its answer, so the model knows bounds, and says what
//! the module may have done and what it must have done.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use super::{Response, at_once};

/// What rounding may cost, in tokens.
const ROUNDING: f64 = 1e-6;

/// When something has happened: not before the first, not after the second.
#[derive(Clone, Copy, Debug)]
pub struct Between(pub Instant, pub Instant);

impl Between {
    /// Does it, and tells when.
    pub fn of<T>(work: impl FnOnce() -> T) -> (Between, T) {
        let sent = Instant::now();
        let done = work();
        (Between(sent, Instant::now()), done)
    }

    /// The whole seconds, rounded up, that may have been left until `time` after `start`; the
    /// module counts windows in milliseconds.
    pub fn seconds_left(self, start: Between, time: Duration) -> RangeInclusive<u64> {
        let left = |passed: Duration| time.saturating_sub(passed).as_nanos();
        let least = left(self.1.duration_since(start.0) + Duration::from_millis(1));
        let most = left(self.0.saturating_duration_since(start.1)) + 1_000_000;
        let rounded = |nanos: u128| nanos.div_ceil(1_000_000_000) as u64;
        rounded(least)..=rounded(most)
    }
}

/// A bucket of a client that has not come before.
#[derive(Clone, Debug)]
pub struct Tokens {
    rate: f64,
    burst: f64,
    least: f64,
    most: f64,
    known: Option<Instant>,
}

impl Tokens {
    /// Filled at so many in a time.
    pub fn new(number: u32, period: Duration, burst: u32) -> Tokens {
        let burst = f64::from(burst);
        Tokens {
            rate: f64::from(number) / period.as_secs_f64(),
            burst,
            least: burst,
            most: burst,
            known: None,
        }
    }

    fn grow(&mut self, until: Instant) {
        let passed = self
            .known
            .map_or(Duration::ZERO, |known| until.duration_since(known));
        let grown = passed.as_secs_f64() * self.rate;
        self.least = self.burst.min(self.least + grown);
        self.most = self.burst.min(self.most + grown);
        self.known = Some(until);
    }

    /// So many came within this time, in any order: how many of them may have been admitted.
    pub fn allows(&mut self, asked: usize, when: Between) -> RangeInclusive<usize> {
        self.grow(when.0);
        let during = when.1.duration_since(when.0).as_secs_f64() * self.rate;
        let least = (self.least - ROUNDING).max(0.0) as usize;
        let most = (self.most + during + ROUNDING) as usize;
        least.min(asked)..=most.min(asked)
    }

    /// So many of those were admitted; fails where the model does not allow it.
    #[track_caller]
    pub fn admitted(&mut self, admitted: usize, asked: usize, when: Between) {
        let allowed = self.allows(asked, when);
        assert!(
            allowed.contains(&admitted),
            "{admitted} of {asked} were admitted, not {allowed:?}: {self:?} {when:?}"
        );
        let during = when.1.duration_since(when.0).as_secs_f64() * self.rate;
        self.least = (self.least - admitted as f64).max(0.0);
        self.most = self.burst.min(self.most + during - admitted as f64);
        if admitted < asked {
            // Who was refused found less than one.
            self.most = self.most.min(1.0 + during);
        }
        self.most = self.most.max(self.least);
        self.known = Some(when.1);
    }

    /// Asks so many times at once, holds the answers to the model, and returns them.
    #[track_caller]
    pub fn ask_at_once(
        &mut self,
        asked: usize,
        ask: impl Fn() -> Response + Sync,
    ) -> Vec<Response> {
        let (when, answers) = Between::of(|| at_once(asked, |_| ask()));
        assert!(
            answers
                .iter()
                .all(|answer| matches!(answer.status, 200 | 429)),
            "{answers:?}"
        );
        let admitted = answers.iter().filter(|answer| answer.status == 200);
        self.admitted(admitted.count(), asked, when);
        answers
    }

    /// Asks once, holds the answer to the model, and returns it.
    #[track_caller]
    pub fn ask(&mut self, ask: impl FnOnce() -> Response) -> Response {
        let (when, answer) = Between::of(ask);
        assert!(matches!(answer.status, 200 | 429), "{answer:?}");
        self.admitted(usize::from(answer.status == 200), 1, when);
        answer
    }
}

/// Waits for a moment.
pub fn sleep_until(moment: Instant) {
    std::thread::sleep(moment.saturating_duration_since(Instant::now()));
}
