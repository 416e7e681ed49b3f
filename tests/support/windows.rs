//! The count window with a freeze as a client sees it from outside. As in the model of the
//! token bucket a request was decided at some time between its sending and its answer; what
//! may be at the edge of a window is followed both ways.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Between, Response};

/// What a window of a client is like.
#[derive(Clone, Copy, Debug)]
enum State {
    Open { began: Between, count: u32 },
    Frozen { began: Between },
}

/// So many in each period for one client, and what the one beyond costs.
#[derive(Clone, Debug)]
pub struct Windows {
    number: u32,
    period: Duration,
    freeze: Option<Duration>,
    extend: bool,
    /// All that may be; none: nothing was counted.
    states: Vec<Option<State>>,
}

impl Windows {
    /// Of a client that has not come before; the times in seconds, no freeze when 0.
    pub fn new(number: u32, period: u64, freeze: u64, extend: bool) -> Windows {
        Windows {
            number,
            period: Duration::from_secs(period),
            freeze: (freeze > 0).then(|| Duration::from_secs(freeze)),
            extend,
            states: vec![None],
        }
    }

    /// Whether a time that began then may be over, and whether it may go on.
    fn over_or_not(began: Between, length: Duration, when: Between) -> [bool; 2] {
        // The module counts in milliseconds.
        let earliest = began.0 + length - Duration::from_millis(1);
        [when.1 >= earliest, when.0 < began.1 + length]
    }

    /// The states after a request with this answer; none where it cannot be. A refusal tells
    /// the time left.
    fn after(&self, state: Option<State>, when: Between, told: Option<u64>) -> Vec<State> {
        let (began, length) = match state {
            None => return self.first(when, told),
            Some(State::Open { began, .. }) => (began, self.period),
            Some(State::Frozen { began }) => (began, self.freeze.unwrap_or_default()),
        };
        let [over, goes_on] = Self::over_or_not(began, length, when);
        let mut next = if over {
            self.first(when, told)
        } else {
            Vec::new()
        };
        if goes_on {
            next.extend(state.and_then(|state| self.within(state, when, told)));
        }
        next
    }

    /// The first of a new window is always let in.
    fn first(&self, when: Between, told: Option<u64>) -> Vec<State> {
        let one = State::Open {
            began: when,
            count: 1,
        };
        match told {
            None => vec![one],
            Some(_) => Vec::new(),
        }
    }

    fn within(&self, state: State, when: Between, told: Option<u64>) -> Option<State> {
        match (state, told) {
            (State::Open { began, count }, None) => (count < self.number).then_some(State::Open {
                began,
                count: count + 1,
            }),
            (State::Open { began, count }, Some(told)) if count >= self.number => {
                match self.freeze {
                    Some(freeze) => {
                        (told == freeze.as_secs()).then_some(State::Frozen { began: when })
                    }
                    None => when
                        .seconds_left(began, self.period)
                        .contains(&told)
                        .then_some(state),
                }
            }
            (State::Frozen { began }, Some(told)) => {
                let freeze = self.freeze.unwrap_or_default();
                if self.extend {
                    (told == freeze.as_secs()).then_some(State::Frozen { began: when })
                } else {
                    let left = when.seconds_left(began, freeze);
                    left.contains(&told).then_some(state)
                }
            }
            _ => None,
        }
    }

    /// Asks once, holds answer and `Retry-After` to the model, and returns the answer.
    #[track_caller]
    pub fn ask(&mut self, ask: impl FnOnce() -> Response) -> Response {
        let (when, answer) = Between::of(ask);
        let told = answer
            .header("retry-after")
            .map(|value| value.parse().expect("a number of seconds"));
        let status = if told.is_some() { 429 } else { 200 };
        assert_eq!(answer.status, status, "{answer:?}");
        let before = std::mem::take(&mut self.states);
        for state in &before {
            let next = self.after(*state, when, told);
            self.states.extend(next.into_iter().map(Some));
        }
        assert!(
            !self.states.is_empty(),
            "{status}, Retry-After {told:?} cannot be at {when:?} after {before:?}"
        );
        answer
    }

    /// The seconds that the client may be frozen for still, 0 where it may be free.
    pub fn frozen_at(&self, when: Between) -> BTreeSet<u64> {
        let seconds = |state: &Option<State>| match state {
            Some(State::Frozen { began }) => {
                when.seconds_left(*began, self.freeze.unwrap_or_default())
            }
            _ => 0..=0,
        };
        self.states.iter().flat_map(seconds).collect()
    }
}
