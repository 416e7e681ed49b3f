//! The log played again in the order in which requests began: who has how many in flight at
//! each moment, and which candidate would have refused whom.
//!
//! A request is in flight from its beginning up to, and without, its end. One that a
//! candidate refuses is not there for that candidate.
//!
//! Where times or durations are whole seconds, a request is in flight for as long as it can
//! have been: from the beginning of its second to the latest end that the log allows. Counts are
//! then the most that is possible, never less than the truth: a number that would have refused
//! nobody by them would have refused nobody.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use mod_limitipconn::limit::concurrency;
use mod_limitipconn::limit::rating::{Decision, Limit};

use super::batch::UNKNOWN;
use super::candidates::{Candidates, MOST};
use super::clients::Clients;
use super::clock::SECOND;
use super::order::Began;
use super::weights::Weights;

/// So many may be in flight at once.
pub const MOST_IN_FLIGHT: usize = 1 << 20;

/// The clock of the rates begins anew after such a gap, which no rate outlasts, and after such
/// a time, which is the longest that their words can hold.
const GAP: i64 = 400 * 86_400 * SECOND;
const ERA: i64 = 30 * 365 * 86_400 * SECOND;

/// A request in flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    end: i64,
    client: u32,
    /// The concurrency candidates that admitted it, a bit each.
    admitted: u32,
}

/// What is kept of the whole server.
pub struct Simulation {
    candidates: Candidates,
    /// Those of concurrency, and 0 where there is none.
    numbers: [u16; MOST],
    flights: BinaryHeap<Reverse<Flight>>,
    /// How many clients have so many in flight.
    clients_with: Vec<u32>,
    /// The most that one client has.
    busiest: u32,
    /// Up to when the times below were added up.
    now: i64,
    /// When the rates' clock began.
    era_began: i64,
    last_began: i64,
    era: u32,
    /// For how long the server, and whichever client had most, had so many in flight.
    pub server: Weights,
    pub busiest_client: Weights,
    /// Requests that each candidate would have refused.
    pub refused: Vec<u64>,
    /// Requests that were beyond [`MOST_IN_FLIGHT`].
    pub beyond: u64,
    /// By so much a request can have ended later than its times say.
    slack: i64,
}

impl Simulation {
    /// `slack` is by how much requests can have ended later than their times say, in microseconds.
    pub fn new(candidates: Candidates, slack: i64) -> Simulation {
        let mut numbers = [0; MOST];
        numbers[..candidates.concurrency.len()].copy_from_slice(&candidates.concurrency);
        Simulation {
            numbers,
            refused: vec![0; candidates.len()],
            candidates,
            flights: BinaryHeap::new(),
            clients_with: vec![0; 2],
            busiest: 0,
            now: i64::MIN,
            era_began: 0,
            last_began: i64::MIN,
            era: 0,
            server: Weights::default(),
            busiest_client: Weights::default(),
            beyond: 0,
            slack,
        }
    }

    /// The clock of the rates, and which beginning it counts from.
    pub fn clock(&self) -> (u64, u32) {
        let since = self.last_began.saturating_sub(self.era_began).max(0);
        (nanoseconds(since), self.era)
    }

    /// The next request; none began after it that came before.
    #[inline]
    pub fn begin(&mut self, request: Began, clients: &mut Clients) {
        if self.last_began == i64::MIN
            || request.at - self.last_began > GAP
            || request.at - self.era_began > ERA
        {
            self.begin_era(request.at, clients);
        }
        self.last_began = request.at;
        self.end_until(request.at, clients);
        self.rate(request, clients);
        if request.duration == UNKNOWN {
            return;
        }
        if self.flights.len() >= MOST_IN_FLIGHT {
            self.beyond += 1;
            return;
        }
        let client = clients.client(request.client);
        let mut refused = 0;
        // Without branches, for all that there is place for.
        for (at, (count, number)) in client.admitted.iter_mut().zip(self.numbers).enumerate() {
            let over = concurrency::over(u32::from(*count) + 1, number);
            *count += u16::from(!over);
            refused |= u32::from(over) << at;
        }
        let admitted = !refused;
        let mut refusing = refused & ((1 << self.candidates.concurrency.len()) - 1);
        client.refused |= refusing;
        while refusing != 0 {
            self.refused[refusing.trailing_zeros() as usize] += 1;
            refusing &= refusing - 1;
        }
        client.active += 1;
        let active = client.active;
        client.peak = client.peak.max(active);
        self.shift(active - 1, active);
        self.flights.push(Reverse(Flight {
            end: request.at + request.duration as i64 + self.slack,
            client: request.client,
            admitted,
        }));
    }

    /// A client has another number in flight.
    #[inline]
    fn shift(&mut self, from: u32, to: u32) {
        if to as usize >= self.clients_with.len() {
            self.clients_with.resize(to as usize + 1, 0);
        }
        if from > 0 {
            self.clients_with[from as usize] -= 1;
        }
        if to > 0 {
            self.clients_with[to as usize] += 1;
        }
        self.busiest = self.busiest.max(to);
        if from == self.busiest && self.clients_with[from as usize] == 0 {
            self.busiest = to;
        }
    }

    /// Adds up the time until then.
    #[inline]
    fn pass(&mut self, until: i64) {
        if self.now < until {
            if !self.flights.is_empty() {
                let time = until.abs_diff(self.now);
                self.server.add(self.flights.len() as u32, time);
                self.busiest_client.add(self.busiest, time);
            }
            self.now = until;
        }
    }

    /// Ends what ends until then.
    #[inline]
    fn end_until(&mut self, until: i64, clients: &mut Clients) {
        while let Some(Reverse(flight)) = self.flights.peek().copied() {
            if flight.end > until {
                break;
            }
            self.pass(flight.end);
            self.flights.pop();
            let client = clients.client(flight.client);
            client.active -= 1;
            let active = client.active;
            for (at, count) in client.admitted.iter_mut().enumerate() {
                *count -= (flight.admitted >> at & 1) as u16;
            }
            self.shift(active + 1, active);
        }
        self.pass(until);
    }

    #[inline]
    fn rate(&mut self, request: Began, clients: &mut Clients) {
        let now = nanoseconds(request.at - self.era_began);
        let first = self.candidates.concurrency.len();
        let (client, words) = clients.rated(request.client);
        if client.era != self.era {
            client.era = self.era;
            words.fill(0);
        }
        for (at, (limit, word)) in self.candidates.rates.iter().zip(words).enumerate() {
            match Limit::decide(limit, *word, now) {
                Decision::Pass(pass) => *word = pass.next,
                Decision::Over(over) => {
                    *word = over.next.unwrap_or(*word);
                    self.refused[first + at] += 1;
                    client.refused |= 1 << (first + at);
                }
            }
        }
    }

    /// Ends all that is in flight: the log is over, or begins anew.
    pub fn end(&mut self, clients: &mut Clients) {
        self.end_until(i64::MAX, clients);
        (self.now, self.last_began) = (i64::MIN, i64::MIN);
    }

    fn begin_era(&mut self, at: i64, clients: &mut Clients) {
        self.end_until(at, clients);
        self.era += 1;
        self.era_began = at;
        self.now = at;
    }
}

/// Of the rates' clock, which begins at a second.
fn nanoseconds(micros: i64) -> u64 {
    (micros as u64 + SECOND as u64) * 1000
}
