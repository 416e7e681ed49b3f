//! The courier: the one thread of a child that talks to the other side.
//!
//! It takes what waits, sends all of it at once, and hands out the answers; it renews the
//! places that the child holds, gives back what was left for it, and takes back what was asked
//! for in vain. It knows what each place is for, so nobody else has to.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::Duration;

use super::Fleet;
use super::breaker::Event;
use super::inbox::Entry;
use super::load::{Known, Leaving, Load, grouped};
use super::order::{Answer, Command, Dial, Fault, Link, Order, Reply};
use super::places::PlaceIndex;

/// So many orders go out together.
const ORDERS: usize = 64;
/// So many places are renewed, or given back, together.
const PLACES: usize = 256;
/// What may have been taken without our knowing is given back again after this time: a server
/// that hung does late what it was told before.
const AGAIN: u64 = 1_000_000_000;
/// Nothing to do.
const LONG: Duration = Duration::from_secs(3600);

/// Who writes the lines of the log.
pub trait Tell: Send {
    /// Something is worth a line.
    fn event(&self, event: &Event);
    /// A panic was caught.
    fn fault(&self, text: &str);
}

/// The courier of a child.
pub struct Courier {
    fleet: &'static Fleet,
    dial: Box<dyn Dial>,
    link: Option<Box<dyn Link>>,
    tell: Box<dyn Tell>,
    /// What the names of this child's places begin with.
    name: String,
    serial: u64,
    known: Vec<Option<Known>>,
    leaving: Vec<Leaving>,
    /// Places that are to be renewed now.
    renewals: Vec<PlaceIndex>,
    renewed: u64,
}

impl Courier {
    /// A courier that is not at work yet. `name` is what the names of its places begin with,
    /// and nobody else's do.
    pub fn new(
        fleet: &'static Fleet,
        dial: Box<dyn Dial>,
        tell: Box<dyn Tell>,
        name: String,
    ) -> Courier {
        Courier {
            fleet,
            dial,
            link: None,
            tell,
            name,
            serial: 0,
            known: vec![None; fleet.places.room()],
            leaving: Vec::new(),
            renewals: Vec::new(),
            renewed: (fleet.clock)(),
        }
    }

    /// Goes to work, in the thread that calls this; until all was given back at the end.
    pub fn run(mut self) {
        let _ = self.fleet.courier.set(thread::current());
        while !self.fleet.is_closed.load(Acquire) {
            let round = catch_unwind(AssertUnwindSafe(|| self.round()));
            match round {
                Ok(pause) if pause > Duration::ZERO && !self.fleet.is_closed.load(Acquire) => {
                    thread::park_timeout(pause);
                }
                Ok(_) => {}
                Err(_) => {
                    self.link = None;
                    self.tell.fault("the courier of shared counts");
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Does what there is to do now; how long there is nothing more.
    pub(super) fn round(&mut self) -> Duration {
        // Acquire: pairs with the Release of `close`: what was left before it is seen below.
        let is_closing = self.fleet.is_closing.load(Acquire);
        let now = self.now();
        self.collect_returned(is_closing, now);
        if !self.fleet.breaker.is_up() && !self.probe(now) {
            self.miss_all();
            self.end_if(is_closing);
            return self.pause();
        }
        let load = self.load(now);
        if !load.is_empty() {
            self.send(load, now);
        }
        // A request that ends with the process may have been given a place just now.
        let is_rid = self.known.iter().all(Option::is_none) && self.fleet.inbox.is_empty();
        if is_closing && !is_rid {
            return Duration::ZERO;
        }
        self.end_if(is_closing && self.leaving.iter().all(|leaving| leaving.due > now));
        self.pause()
    }

    /// Takes what was left for us; at the end all there is.
    fn collect_returned(&mut self, is_closing: bool, now: u64) {
        let mut returned = Vec::new();
        self.fleet.places.returned(|place| returned.push(place));
        if is_closing {
            returned.extend((0..self.known.len() as u32).map(PlaceIndex));
        }
        for place in returned {
            self.gives_back(place, now);
        }
    }

    /// Has a place given back that it holds, from now on.
    fn gives_back(&mut self, place: PlaceIndex, now: u64) {
        if let Some(known) = self.known[place.0 as usize].take() {
            self.leaves(place, known, 1, now);
        }
    }

    /// Has a place given back so many times, the first time now.
    fn leaves(&mut self, place: PlaceIndex, known: Known, times: u8, now: u64) {
        self.leaving.push(Leaving {
            place,
            known,
            times,
            due: now,
        });
    }

    fn end_if(&self, all_is_done: bool) {
        if all_is_done {
            // Release: pairs with the Acquire of `close`.
            self.fleet.is_closed.store(true, Release);
        }
    }

    /// Nobody can be asked: those who wait hear it at once.
    fn miss_all(&mut self) {
        let mut orders = Vec::new();
        self.fleet.inbox.take(usize::MAX, &mut orders);
        for entry in orders {
            self.miss(entry);
        }
    }

    /// An order that was not sent.
    fn miss(&self, entry: Entry) {
        if let Order::Take { place, .. } = entry.order {
            self.fleet.places.give(place);
        }
        if let Some(ticket) = entry.ticket {
            ticket.answer(Answer::Missed);
        }
    }

    /// Collects what is to be sent.
    fn load(&mut self, now: u64) -> Load {
        let mut load = Load::default();
        let (due, later) = std::mem::take(&mut self.leaving)
            .into_iter()
            .partition(|leaving| leaving.due <= now);
        (load.leaving, self.leaving) = (due, later);
        if load.leaving.len() > PLACES {
            self.leaving.extend(load.leaving.drain(PLACES..));
        }
        load.removals = grouped(load.leaving.iter().map(|leaving| &leaving.known));

        let mut orders = Vec::new();
        self.fleet.inbox.take(ORDERS, &mut orders);
        for entry in orders {
            let is_wanted = entry
                .ticket
                .as_ref()
                .is_none_or(|ticket| ticket.is_awaited());
            if !is_wanted {
                self.miss(entry);
                continue;
            }
            if let Order::Take { .. } = entry.order {
                self.serial += 1;
                load.members.push(format!("{}{}", self.name, self.serial));
            } else {
                load.members.push(String::new());
            }
            load.orders.push(entry);
        }

        if now.saturating_sub(self.renewed) >= self.third() {
            self.renew_all(now);
        }
        let rest = self.renewals.len().saturating_sub(PLACES);
        // Those that were given back since are no longer known.
        let due = self.renewals.split_off(rest);
        let due = due
            .iter()
            .filter_map(|place| self.known[place.0 as usize].as_ref());
        load.renewals = grouped(due);
        load
    }

    /// After so long places are renewed: a third of the time that they last.
    fn third(&self) -> u64 {
        self.fleet.patience.lease.as_nanos() as u64 / 3
    }

    fn renew_all(&mut self, now: u64) {
        self.renewed = now;
        self.renewals = (0..self.known.len() as u32)
            .map(PlaceIndex)
            .filter(|place| self.known[place.0 as usize].is_some())
            .collect();
    }

    fn send(&mut self, load: Load, now: u64) {
        let commands = load.commands();
        match self.run_commands(&commands, now) {
            Ok(replies) => self.answered(load, replies, now),
            Err(fault) => {
                self.link = None;
                // Before those who wait hear of it: whoever comes after them finds it so.
                self.told(self.fleet.breaker.down(&fault, now));
                self.failed(load, now);
            }
        }
    }

    /// Has the commands done; on a new connection, if the one that was there has ended idle.
    fn run_commands(&mut self, commands: &[Command<'_>], now: u64) -> Result<Vec<Reply>, Fault> {
        if let Some(link) = &mut self.link {
            match link.run(commands) {
                Err(fault) if fault.was_closed => self.link = None,
                done => return done,
            }
        }
        let link = self.link.insert(self.dial.dial()?);
        // Whoever ended the connection may have forgotten what we hold.
        self.renewed = now.saturating_sub(self.fleet.patience.lease.as_nanos() as u64);
        link.run(commands)
    }

    fn answered(&mut self, load: Load, replies: Vec<Reply>, now: u64) {
        let mut replies = replies.into_iter().skip(load.removals.len());
        for leaving in load.leaving {
            match leaving.times {
                0 | 1 => self.fleet.places.give(leaving.place),
                times => self.leaving.push(Leaving {
                    times: times - 1,
                    due: now + AGAIN,
                    ..leaving
                }),
            }
        }
        for (entry, member) in load.orders.into_iter().zip(load.members) {
            let reply = replies.next().unwrap_or(Reply::Done);
            self.hand_out(entry, member, reply, now);
        }
    }

    /// Gives the one who waits his answer.
    fn hand_out(&mut self, entry: Entry, member: String, reply: Reply, now: u64) {
        let answer = match (reply, entry.order) {
            (Reply::Place { taken: true, count }, Order::Take { place, key, .. }) => {
                self.known[place.0 as usize] = Some(Known { key, member });
                Answer::Held(count)
            }
            (Reply::Place { count, .. }, Order::Take { place, .. }) => {
                self.fleet.places.give(place);
                Answer::Full(count)
            }
            (Reply::Rated { word, now }, Order::Rate { .. }) => Answer::Rated { word, now },
            (_, Order::Take { place, .. }) => {
                self.fleet.places.give(place);
                Answer::Missed
            }
            (_, Order::Rate { .. }) => Answer::Missed,
        };
        let is_heard = entry.ticket.is_none_or(|ticket| ticket.answer(answer));
        // Taken for somebody who has gone.
        if !is_heard && let (Answer::Held(_), Order::Take { place, .. }) = (answer, entry.order) {
            self.gives_back(place, now);
        }
    }

    /// Nobody knows what of it was done.
    fn failed(&mut self, load: Load, now: u64) {
        self.leaving.extend(load.leaving);
        for (entry, member) in load.orders.into_iter().zip(load.members) {
            if let Order::Take { place, key, .. } = entry.order {
                self.leaves(place, Known { key, member }, 2, now);
            }
            if let Some(ticket) = entry.ticket {
                ticket.answer(Answer::Missed);
            }
        }
    }

    /// Whether the other side is there again, if it is this courier who is to find out.
    fn probe(&mut self, now: u64) -> bool {
        let patience = &self.fleet.patience;
        let breaker = self.fleet.breaker;
        if !breaker.claims_probe(now, patience.connect + patience.timeout) {
            return false;
        }
        self.link = None;
        let probed = self.dial.dial().and_then(|mut link| {
            link.probe()?;
            Ok(link)
        });
        let now = self.now();
        match probed {
            Ok(link) => {
                self.link = Some(link);
                self.renew_all(now);
                self.told(breaker.up(now));
                true
            }
            Err(fault) => {
                self.told(breaker.is_still_down(&fault, now));
                false
            }
        }
    }

    fn now(&self) -> u64 {
        (self.fleet.clock)()
    }

    fn told(&self, event: Option<Event>) {
        if let Some(event) = event {
            self.tell.event(&event);
        }
    }

    /// How long there is nothing to do, if nobody comes.
    fn pause(&self) -> Duration {
        let now = self.now();
        if !self.fleet.breaker.is_up() {
            return self
                .fleet
                .breaker
                .until_probe(now)
                .max(Duration::from_millis(1));
        }
        if !self.fleet.inbox.is_empty() || !self.renewals.is_empty() {
            return Duration::ZERO;
        }
        let renewal = self
            .known
            .iter()
            .any(Option::is_some)
            .then_some(self.renewed + self.third());
        let leaving = self.leaving.iter().map(|leaving| leaving.due).min();
        match renewal.into_iter().chain(leaving).min() {
            Some(due) => Duration::from_nanos(due.saturating_sub(now)),
            None => LONG,
        }
    }
}
