//! Counts that several servers share: what one child of a server asks and tells, and whether
//! there is anybody to ask.
//!
//! A request never talks to the other side itself: it gives its order to the child's *courier*,
//! a thread that has the one connection, and waits for a bounded time. What is given back
//! when a request ends is left for the courier without a lock, so that a signal handler may do
//! it. Whether the other side is there is known to all children ([`Breaker`]).

mod breaker;
mod courier;
mod inbox;
mod load;
mod order;
mod places;
mod ticket;

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

pub use breaker::{Breaker, Breakers, Event, Health};
pub use courier::{Courier, Tell};
pub use order::{Answer, Command, Dial, Fault, Link, Order, Reply, Step};
pub use places::PlaceIndex;

use self::inbox::{Entry, Inbox};
use self::places::Places;
use self::ticket::Ticket;
use crate::limit::fleet::Patience;
use crate::limit::key::Digest;

/// A child's part in the counts that servers share.
pub struct Fleet {
    patience: Patience,
    breaker: Breaker,
    /// Nanoseconds, as the segment has them.
    clock: fn() -> u64,
    inbox: Inbox,
    places: Places,
    /// The courier, once it runs.
    courier: OnceLock<Thread>,
    /// Whether all is to be given back, since the process ends.
    is_closing: AtomicBool,
    is_closed: AtomicBool,
}

impl Fleet {
    /// The part of a child that can hold so many places; `clock` gives nanoseconds as the segment
    /// has them.
    pub fn new(patience: Patience, breaker: Breaker, clock: fn() -> u64, places: usize) -> Fleet {
        Fleet {
            patience,
            breaker,
            clock,
            inbox: Inbox::new(places),
            places: Places::new(places),
            courier: OnceLock::new(),
            is_closing: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Whether the other side is there, as far as is known.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.breaker.is_up()
    }

    /// The longest that one request waits in all.
    pub fn longest_wait(&self) -> Duration {
        self.patience.connect + self.patience.timeout
    }

    /// Asks for a place, and waits for the answer so long. [`Answer::Held`] comes with a place,
    /// of which the caller owes one [`Fleet::release`].
    pub fn take(
        &self,
        key: Digest,
        limit: Option<u16>,
        wait: Duration,
    ) -> (Answer, Option<PlaceIndex>) {
        if !self.is_up_or_wakes() {
            return (Answer::Missed, None);
        }
        let Some(place) = self.places.take() else {
            self.breaker.tally_uncounted();
            return (Answer::Missed, None);
        };
        match self.ask(Order::Take { place, key, limit }, wait) {
            // From here on the courier answers for the place, unless it is ours.
            Some(Answer::Held(count)) => (Answer::Held(count), Some(place)),
            Some(answer) => (answer, None),
            None => {
                self.places.give(place);
                (Answer::Missed, None)
            }
        }
    }

    /// Asks for a step of a rate, and waits for the answer so long.
    pub fn rate(&self, order: Order, wait: Duration) -> Answer {
        match self.is_up_or_wakes() {
            true => self.ask(order, wait).unwrap_or(Answer::Missed),
            false => Answer::Missed,
        }
    }

    /// Tells of a step of a rate without waiting for an answer; nor for the queue, where
    /// somebody is at it and the caller, a signal handler then, may not wait.
    pub fn tell(&self, order: Order, may_wait: impl FnOnce() -> bool) {
        if !self.is_up() {
            return;
        }
        let entry = Entry {
            order,
            ticket: None,
        };
        match self.inbox.try_put(entry, may_wait) {
            true => self.wake(),
            false => self.breaker.tally_uncounted(),
        }
    }

    /// Gives a place back; once. Callable from a signal handler.
    #[inline]
    pub fn release(&self, place: PlaceIndex) {
        self.places.release(place);
        self.wake();
    }

    /// Gives everything back, since the process ends, and waits for that so long. Callable from
    /// a signal handler.
    pub fn close(&self, patience: Duration) {
        self.is_closing.store(true, Release);
        self.wake();
        let start = Instant::now();
        // Acquire: nothing depends on it, but it costs nothing here.
        while self.courier.get().is_some()
            && !self.is_closed.load(Acquire)
            && start.elapsed() < patience
        {
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// None where there is no room for the order.
    fn ask(&self, order: Order, wait: Duration) -> Option<Answer> {
        self.breaker.tally_asked();
        let ticket = Ticket::new();
        let entry = Entry {
            order,
            ticket: Some(ticket.clone()),
        };
        if !self.inbox.put(entry) {
            self.breaker.tally_uncounted();
            return None;
        }
        self.wake();
        let answer = ticket.wait(wait);
        // A courier at work has an answer by then, be it that there is none.
        if answer.is_none() && wait >= self.longest_wait() {
            self.breaker.suspect((self.clock)());
        }
        Some(answer.unwrap_or(Answer::Missed))
    }

    /// Where the other side is not there somebody has to look again: the child that found it so
    /// may have ended, and the couriers of the others may sleep.
    fn is_up_or_wakes(&self) -> bool {
        let is_up = self.is_up();
        if !is_up && self.breaker.until_probe((self.clock)()).is_zero() {
            self.wake();
        }
        is_up
    }

    #[inline]
    fn wake(&self) {
        if let Some(courier) = self.courier.get() {
            courier.unpark();
        }
    }
}

#[cfg(test)]
mod tests;
