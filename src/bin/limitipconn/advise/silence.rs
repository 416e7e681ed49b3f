//! Connections on which no request came: `"-" 408` in the log. They are in no limit's numbers,
//! but who holds the server by them should be known. The table is bounded; when it is full, those
//! that have held least go.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use mod_limitipconn::limit::address::Address;

use super::batch::Keys;
use super::line::Line;

/// So many clients are kept.
const MOST: usize = 1 << 16;

/// The silent connections of a client.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Silent {
    pub connections: u64,
    /// In microseconds.
    pub held: u64,
    /// Where it is no address.
    pub name: Option<Box<[u8]>>,
}

/// Those of all clients.
#[derive(Clone, Default, Debug)]
pub struct Silence {
    pub connections: u64,
    /// In microseconds.
    pub held: u128,
    of: HashMap<Address, Silent, RandomState>,
}

impl Silence {
    pub fn add(&mut self, line: &Line, keys: &Keys) {
        let held = line.duration.unwrap_or(0);
        self.connections += 1;
        self.held += u128::from(held);
        let (key, is_name) = keys.of(line.client);
        if self.of.len() >= MOST && !self.of.contains_key(&key) {
            self.forget();
        }
        let client = self.of.entry(key).or_default();
        client.connections += 1;
        client.held = client.held.saturating_add(held);
        if is_name && client.name.is_none() {
            client.name = Some(line.client[..line.client.len().min(super::batch::TEXT)].into());
        }
    }

    /// Who has held longest by them, of equals who has most.
    pub fn worst(&self) -> Option<(Address, &Silent)> {
        let clients = self.of.iter().map(|(key, client)| (*key, client));
        clients.max_by(|(key, client), (other_key, other)| {
            let weights = (client.held, client.connections).cmp(&(other.held, other.connections));
            // The same one in each run.
            weights.then_with(|| key.to_string().cmp(&other_key.to_string()))
        })
    }

    /// The lesser half.
    fn forget(&mut self) {
        let weight = |client: &Silent| (client.held, client.connections);
        let mut weights: Vec<_> = self.of.values().map(weight).collect();
        let middle = weights.len() / 2;
        let (_, median, _) = weights.select_nth_unstable(middle);
        let (median, mut left) = (*median, middle);
        // Of equals some must go too.
        self.of.retain(|_, client| {
            let goes = weight(client) < median || weight(client) == median && left > 0;
            left -= usize::from(goes && left > 0);
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use mod_limitipconn::limit::address::Prefix;
    use mod_limitipconn::limit::key::Secret;

    use super::*;

    #[test]
    fn the_worst_is_known_however_many_there_are() {
        let keys = Keys {
            prefix: Prefix::default(),
            secret: Secret([1, 2]),
        };
        let mut silence = Silence::default();
        let mut add = |client: &str, duration| {
            let line = Line {
                client: client.as_bytes(),
                duration: Some(duration),
                ..Line::default()
            };
            silence.add(&line, &keys);
        };
        for nth in 0..200_000u32 {
            let [_, a, b, c] = nth.to_be_bytes();
            add(&format!("10.{a}.{b}.{c}"), 5);
            if nth % 10_000 == 0 {
                add("192.0.2.7", 1000);
            }
        }
        assert!(silence.of.len() <= MOST);
        let (key, worst) = silence.worst().unwrap();
        assert_eq!(
            (key.to_string().as_str(), worst.connections, worst.held),
            ("192.0.2.7", 20, 20_000)
        );
        assert_eq!((silence.connections, silence.held), (200_020, 1_020_000));
    }
}
