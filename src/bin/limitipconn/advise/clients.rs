//! What is kept of each client: a fixed number of bytes, for a bounded number of clients.
//!
//! When the table is full, half of the clients that are at rest *retire*: those that have held
//! the server least, and of equals those that have asked least. Nothing that decides about them is lost, since they hold no place and
//! their rates are as at the beginning; but one who comes again is counted as a new client.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use mod_limitipconn::limit::address::Address;
use mod_limitipconn::limit::rating;

use super::batch::{Batch, Request, TEXT, UNKNOWN};
use super::candidates::{Candidates, MOST};
use super::weights::Weights;

/// A client.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub key: Address,
    pub requests: u64,
    /// All its durations together, in microseconds.
    pub held: u64,
    /// The longest of them.
    pub longest: u64,
    /// Requests that wait to be put in order.
    waiting: u32,
    /// Requests in flight.
    pub active: u32,
    /// The most that were in flight.
    pub peak: u32,
    /// Since which beginning its rates count.
    pub era: u32,
    /// Candidates that would have refused it, a bit each.
    pub refused: u32,
    pub is_name: bool,
    is_known: bool,
    /// Requests in flight that each candidate would have admitted.
    pub admitted: [u16; MOST],
}

/// The beginning of a path.
#[derive(Clone, Copy)]
struct Path {
    text: [u8; TEXT],
    length: u8,
}

/// Clients that were forgotten.
#[derive(Clone, Default, Debug)]
pub struct Retired {
    pub clients: u64,
    pub peaks: Weights,
    /// How many each candidate would have refused.
    pub refused: Vec<u64>,
}

/// All clients.
pub struct Clients {
    at: HashMap<Address, u32, RandomState>,
    list: Vec<Client>,
    /// The state of each rate candidate, for each client.
    words: Vec<u64>,
    rates: usize,
    /// The path that took longest.
    paths: Vec<Path>,
    names: HashMap<u32, Box<[u8]>>,
    free: Vec<u32>,
    most: usize,
    /// So many newcomers may come before retirement is tried again.
    patience: usize,
    pub retired: Retired,
    /// Requests of clients for whom there was no place.
    pub untracked: u64,
}

impl Clients {
    pub fn new(most: usize, candidates: &Candidates) -> Clients {
        Clients {
            at: HashMap::default(),
            list: Vec::new(),
            words: Vec::new(),
            rates: candidates.rates.len(),
            paths: Vec::new(),
            names: HashMap::new(),
            free: Vec::new(),
            most: most.clamp(1, u32::MAX as usize),
            patience: 0,
            retired: Retired {
                refused: vec![0; candidates.len()],
                ..Retired::default()
            },
            untracked: 0,
        }
    }

    #[inline]
    pub fn client(&mut self, at: u32) -> &mut Client {
        &mut self.list[at as usize]
    }

    /// The client and the words of its rates.
    #[inline]
    pub fn rated(&mut self, at: u32) -> (&mut Client, &mut [u64]) {
        let from = at as usize * self.rates;
        (
            &mut self.list[at as usize],
            &mut self.words[from..from + self.rates],
        )
    }

    /// Adds a request to its client's sums; none where there is no place for the client.
    /// `now` and `era` are those of the rates' clock.
    #[inline]
    pub fn add(&mut self, request: &Request, batch: &Batch, now: u64, era: u32) -> Option<u32> {
        let at = match self.at.get(&request.client) {
            Some(at) => *at,
            None => self.newcomer(request, batch, now, era)?,
        };
        let client = &mut self.list[at as usize];
        client.requests += 1;
        client.waiting += 1;
        if request.duration != UNKNOWN {
            // Half a million requests of a year each are beyond 64 bits.
            client.held = client.held.saturating_add(request.duration);
            if request.duration > client.longest {
                client.longest = request.duration;
                let (_, text) = batch.texts(request);
                let path = &mut self.paths[at as usize];
                path.text[..text.len()].copy_from_slice(text);
                path.length = text.len() as u8;
            }
        }
        Some(at)
    }

    /// One of its requests was put in order.
    #[inline]
    pub fn ordered(&mut self, at: u32) {
        self.list[at as usize].waiting -= 1;
    }

    fn newcomer(&mut self, request: &Request, batch: &Batch, now: u64, era: u32) -> Option<u32> {
        if self.list.len() >= self.most && self.free.is_empty() {
            self.patience = self.patience.saturating_sub(1);
            if self.patience == 0 {
                self.retire(now, era);
                // It looks at all, so it may not be for each few.
                self.patience = (self.most / 8).saturating_sub(self.free.len());
            }
        }
        let client = Client {
            key: request.client,
            requests: 0,
            held: 0,
            longest: 0,
            waiting: 0,
            active: 0,
            peak: 0,
            era,
            refused: 0,
            is_name: !batch.texts(request).0.is_empty(),
            is_known: true,
            admitted: [0; MOST],
        };
        let path = Path {
            text: [0; TEXT],
            length: 0,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.list[at as usize] = client;
                self.paths[at as usize] = path;
                let from = at as usize * self.rates;
                self.words[from..from + self.rates].fill(0);
                at
            }
            None if self.list.len() < self.most => {
                self.list.push(client);
                self.paths.push(path);
                self.words.resize(self.list.len() * self.rates, 0);
                (self.list.len() - 1) as u32
            }
            None => return None,
        };
        self.at.insert(request.client, at);
        if client.is_name {
            self.names.insert(at, batch.texts(request).0.into());
        }
        Some(at)
    }

    /// Some may have come to rest: the next newcomer need not be patient.
    pub fn make_room(&mut self) {
        self.patience = 0;
    }

    /// Forgets half of those that are at rest.
    fn retire(&mut self, now: u64, era: u32) {
        let mut resting: Vec<u32> = (0..self.list.len() as u32)
            .filter(|at| self.is_resting(*at, now, era))
            .collect();
        let half = resting.len().div_ceil(2);
        if half < resting.len() {
            // Without durations nobody has held anything.
            resting.select_nth_unstable_by_key(half, |at| {
                let client = &self.list[*at as usize];
                (client.held, client.requests)
            });
        }
        for &at in &resting[..half] {
            let client = &mut self.list[at as usize];
            client.is_known = false;
            self.retired.clients += 1;
            self.retired.peaks.add(client.peak, 1);
            for (bit, refused) in self.retired.refused.iter_mut().enumerate() {
                *refused += u64::from(client.refused >> bit & 1);
            }
            self.at.remove(&client.key);
            self.names.remove(&at);
            self.free.push(at);
        }
    }

    /// Whether nothing is lost with it but its sums.
    fn is_resting(&self, at: u32, now: u64, era: u32) -> bool {
        let client = &self.list[at as usize];
        let from = at as usize * self.rates;
        let words = &self.words[from..from + self.rates];
        client.is_known
            && client.waiting == 0
            && client.active == 0
            && (client.era != era || words.iter().all(|word| rating::is_spent(*word, now)))
    }

    /// Those that are known at the end, each with its number.
    pub fn known(&self) -> impl Iterator<Item = (u32, &Client)> {
        let clients = (0..).zip(&self.list);
        clients.filter(|(_, client)| client.is_known)
    }

    /// What took longest, as it stood in the log.
    pub fn path(&self, at: u32) -> &[u8] {
        let path = &self.paths[at as usize];
        &path.text[..usize::from(path.length)]
    }

    /// The name of a client that has no address.
    pub fn name(&self, at: u32) -> Option<&[u8]> {
        self.names.get(&at).map(|name| &**name)
    }
}
