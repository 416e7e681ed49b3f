//! A request's places in counts that several servers share, and its questions to them.

use std::thread;
use std::time::{Duration, Instant};

use crate::limit::key::Digest;
use crate::module::running::Child;
use crate::module::trip::{Trip, suffices};
use crate::store::fleet::{Answer, Order, PlaceIndex};

/// After this time a count that is full is asked a second time.
const SECOND_LOOK: Duration = Duration::from_millis(2);

/// A place in a count of several servers.
#[derive(Clone, Copy)]
pub struct Away {
    key: Digest,
    limit: Option<u16>,
    place: PlaceIndex,
    /// Whether it stays taken when a dry run marks the request.
    outlives_mark: bool,
}

/// Why there is no place.
pub enum Missed {
    /// With this request there would be so many.
    Full(u32),
    /// Nobody answered in time.
    NoAnswer,
}

impl Away {
    /// Gives it back. Callable from a signal handler.
    pub fn give_back(self, child: &Child) {
        if let Some(fleet) = child.fleet {
            fleet.release(self.place);
        }
    }
}

impl Trip<'_> {
    /// Takes a place in a count of several servers: how many there are with this one; none where
    /// the request has one already.
    pub fn take_away(
        &self,
        key: Digest,
        limit: Option<u16>,
        outlives_mark: bool,
    ) -> Result<Option<u32>, Missed> {
        let is_this = |away: &Away| away.key == key;
        let kept = self.with_away(|away| away.iter().find(is_this));
        if kept.is_some_and(|kept| suffices(kept.limit, limit)) {
            return Ok(None);
        }
        // As in take_place: the courier gives it back before it asks.
        for trip in self.chain() {
            if let Some(away) = trip.with_away(|away| away.take(is_this)) {
                away.give_back(self.running.child);
            }
        }
        let taken = self.ask_for_place(key, limit, outlives_mark);
        if taken.is_err() && kept.is_some() {
            // A refused include must not take the page's own place away.
            let _ = self.ask_for_place(key, None, outlives_mark);
        }
        taken.map(Some)
    }

    fn ask_for_place(
        &self,
        key: Digest,
        limit: Option<u16>,
        outlives_mark: bool,
    ) -> Result<u32, Missed> {
        let mut taken = self.waits_away(|fleet, wait| fleet.take(key, limit, wait));
        // The client's last request may have ended a moment ago in another child or server, whose
        // courier is about to say so.
        if let Some((Answer::Full(_), _)) = taken {
            self.waits_away(|_, left| thread::sleep(SECOND_LOOK.min(left)));
            taken = self
                .waits_away(|fleet, wait| fleet.take(key, limit, wait))
                .filter(|(answer, _)| *answer != Answer::Missed)
                .or(taken);
        }
        match taken {
            Some((Answer::Held(count), Some(place))) => {
                let away = Away {
                    key,
                    limit,
                    place,
                    outlives_mark,
                };
                self.with_away(|all| all.push(away));
                Ok(count)
            }
            Some((Answer::Full(count), _)) => Err(Missed::Full(count + 1)),
            _ => {
                self.missed_away();
                Err(Missed::NoAnswer)
            }
        }
    }

    /// Asks about a rate.
    pub fn ask_away(&self, order: Order) -> Answer {
        let answer = self.waits_away(|fleet, wait| fleet.rate(order, wait));
        let answer = answer.unwrap_or(Answer::Missed);
        if answer == Answer::Missed {
            self.missed_away();
        }
        answer
    }

    /// Gives back what a request that was refused would not hold.
    pub fn give_back_marked_away(&self) {
        let is_short = |away: &Away| !away.outlives_mark;
        while let Some(away) = self.with_away(|all| all.take(is_short)) {
            away.give_back(self.running.child);
        }
    }

    fn missed_away(&self) {
        self.running.runtime.segment.breaker().tally_missed();
    }

    /// All that a request asks together waits no longer than the configuration says.
    fn waits_away<T>(
        &self,
        ask: impl FnOnce(&'static crate::store::fleet::Fleet, Duration) -> T,
    ) -> Option<T> {
        let fleet = self.running.child.fleet?;
        let spent = Duration::from_nanos(self.asked_away.get());
        let left = fleet.longest_wait().saturating_sub(spent);
        if left.is_zero() {
            return None;
        }
        let start = Instant::now();
        let answer = ask(fleet, left);
        let spent = spent.saturating_add(start.elapsed());
        self.asked_away.set(spent.as_nanos() as u64);
        Some(answer)
    }
}
