//! Takes requests as they come from the logs, puts them in order, plays them again, and says
//! in the end what was found.

use super::batch::{Batch, UNKNOWN};
use super::candidates::Candidates;
use super::clients::Clients;
use super::clock::SECOND;
use super::order::{Began, Order, WINDOW};
use super::simulation::Simulation;

/// A log that goes back by more than this is another log: by so much a line may be late where
/// the end of its request is known, and where it is not.
const BACK: i64 = 3600 * SECOND;
const FAR_BACK: i64 = 86_400 * SECOND;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub clients: usize,
    pub window: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            clients: 1_000_000,
            window: WINDOW,
        }
    }
}

/// What is known so far.
pub struct Study {
    pub candidates: Candidates,
    pub clients: Clients,
    pub simulation: Simulation,
    order: Order,
    most_clients: usize,
    /// The latest request since the log last went back.
    newest: i64,
    /// When the first began and the last ended, in microseconds since 1970.
    pub span: Option<(i64, i64)>,
    pub requests: u64,
    /// Requests whose duration is known.
    pub timed: u64,
    /// All durations together.
    pub held: u128,
    /// How often the log went back.
    pub jumps: u64,
}

impl Study {
    /// `slack` is that of the [`Simulation`].
    pub fn new(candidates: Candidates, bounds: Bounds, slack: i64) -> Study {
        Study {
            clients: Clients::new(bounds.clients, &candidates),
            simulation: Simulation::new(candidates.clone(), slack),
            order: Order::new(bounds.window),
            most_clients: bounds.clients,
            candidates,
            newest: i64::MIN,
            span: None,
            requests: 0,
            timed: 0,
            held: 0,
            jumps: 0,
        }
    }

    /// The next requests.
    pub fn take(&mut self, batch: &Batch) {
        for request in &batch.requests {
            let is_timed = request.duration != UNKNOWN;
            let back = if is_timed { BACK } else { FAR_BACK };
            if request.time < self.newest.saturating_sub(back) {
                self.jumps += 1;
                self.catch_up();
            }
            self.newest = self.newest.max(request.time);
            let mut began = request.time;
            if is_timed {
                began -= request.duration as i64;
                self.timed += 1;
                self.held += u128::from(request.duration);
            }
            self.requests += 1;
            let (first, last) = self.span.unwrap_or((began, request.time));
            self.span = Some((first.min(began), last.max(request.time)));
            let (now, era) = self.simulation.clock();
            let mut place = self.clients.add(request, batch, now, era);
            if place.is_none() && self.order.narrow(self.most_clients / 4) {
                self.give();
                self.clients.make_room();
                let (now, era) = self.simulation.clock();
                place = self.clients.add(request, batch, now, era);
            }
            let Some(client) = place else {
                self.clients.untracked += 1;
                continue;
            };
            let is_time = self.order.take(Began {
                at: began,
                duration: request.duration,
                client,
            });
            if is_time {
                self.give();
            }
        }
    }

    fn give(&mut self) {
        let (clients, simulation) = (&mut self.clients, &mut self.simulation);
        self.order.give(|began| {
            clients.ordered(began.client);
            simulation.begin(began, clients);
        });
    }

    /// Plays all that is there to its end.
    pub fn catch_up(&mut self) {
        let (clients, simulation) = (&mut self.clients, &mut self.simulation);
        self.order.give_all(|began| {
            clients.ordered(began.client);
            simulation.begin(began, clients);
        });
        self.simulation.end(&mut self.clients);
        self.newest = i64::MIN;
    }

    /// Requests that outlasted the window.
    pub fn late(&self) -> u64 {
        self.order.late
    }
}

#[cfg(test)]
#[path = "study/tests.rs"]
mod tests;
