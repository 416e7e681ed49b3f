//! One question's answer, on its way from the courier to the request that waits for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::order::Answer;

/// What has become of it.
enum State {
    Awaited,
    Answered(Answer),
    /// Nobody waits any more.
    Abandoned,
}

/// An answer that is awaited. Each side has one.
#[derive(Clone)]
pub struct Ticket(Arc<(Mutex<State>, Condvar)>);

impl Ticket {
    pub fn new() -> Ticket {
        Ticket(Arc::new((Mutex::new(State::Awaited), Condvar::new())))
    }

    /// Waits for the answer, so long; none once that time is over, and whoever answers hears
    /// then that nobody waits.
    pub fn wait(&self, time: Duration) -> Option<Answer> {
        let till = Instant::now() + time;
        let mut state = self.state();
        loop {
            if let State::Answered(answer) = *state {
                return Some(answer);
            }
            let left = till.saturating_duration_since(Instant::now());
            if left.is_zero() {
                *state = State::Abandoned;
                return None;
            }
            let answered = &self.0.1;
            let (woken, _) = answered
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
        }
    }

    /// Whether somebody still waits.
    pub fn is_awaited(&self) -> bool {
        matches!(*self.state(), State::Awaited)
    }

    /// Answers. False where nobody waits any more: then the answer was given to nobody.
    pub fn answer(&self, answer: Answer) -> bool {
        let mut state = self.state();
        let is_awaited = matches!(*state, State::Awaited);
        if is_awaited {
            *state = State::Answered(answer);
            self.0.1.notify_one();
        }
        is_awaited
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
