//! The oracle: the same promises kept by a HashMap, one process, no atomics.
//!
//! It knows the rules (limit, room, who may make room), not the mechanism.

use std::collections::HashMap;

use super::layout::BUCKET;
use crate::limit::key::Digest;

/// What the oracle says to an acquire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Held,
    Refused { count: u32 },
    Untracked,
}

/// One key's count and the time of its last use.
#[derive(Clone, Copy, Debug)]
struct Entry {
    count: u32,
    seen: u32,
}

/// A table of the same size, seen from outside.
#[derive(Debug, Default)]
pub struct Memory {
    leases: u32,
    held: u32,
    /// Keys that have a cell, by bucket.
    buckets: HashMap<u64, HashMap<u64, Entry>>,
    pub evictions: u64,
    pub untracked: u64,
}

impl Memory {
    pub fn new(leases: u32) -> Self {
        Memory {
            leases,
            ..Memory::default()
        }
    }

    /// Takes a place; `bucket` is where the table would look for the key.
    pub fn acquire(&mut self, bucket: u64, key: Digest, limit: Option<u16>, now: u32) -> Answer {
        let count = self.count(bucket, key);
        if limit.is_some_and(|limit| count >= u32::from(limit)) {
            return Answer::Refused { count };
        }
        let entries = self.buckets.entry(bucket).or_default();
        let others = entries.len() - usize::from(entries.contains_key(&key.tag));
        let in_flight = entries
            .iter()
            .filter(|(tag, entry)| **tag != key.tag && entry.count > 0);
        if self.held == self.leases || in_flight.count() == BUCKET {
            self.untracked += 1;
            return Answer::Untracked;
        }
        if others == BUCKET {
            self.evictions += 1; // Who goes is told by `evict`.
        }
        let entry = entries.entry(key.tag).or_insert(Entry {
            count: 0,
            seen: now,
        });
        entry.count += 1;
        entry.seen = entry.seen.max(now);
        self.held += 1;
        Answer::Held
    }

    /// Gives one back, at the latest time that the holder knew.
    pub fn release(&mut self, bucket: u64, key: Digest, now: u32) {
        let entry = self.buckets.get_mut(&bucket).unwrap().get_mut(&key.tag);
        let entry = entry.expect("a key in flight is never evicted");
        entry.count -= 1;
        entry.seen = entry.seen.max(now);
        self.held -= 1;
    }

    pub fn count(&self, bucket: u64, key: Digest) -> u32 {
        let entry = self.buckets.get(&bucket).and_then(|b| b.get(&key.tag));
        entry.map_or(0, |entry| entry.count)
    }

    /// The table let this key go while `newcomer` came: was that right?
    pub fn evict(&mut self, bucket: u64, key: Digest, newcomer: Digest) -> Result<(), String> {
        let entries = self.buckets.get_mut(&bucket).ok_or("no such bucket")?;
        let gone = entries.remove(&key.tag).ok_or("it had no cell")?;
        let idle = entries
            .iter()
            .filter(|(tag, entry)| **tag != newcomer.tag && entry.count == 0);
        let stalest = idle.map(|(_, entry)| entry.seen).min();
        match gone {
            Entry { count: 1.., .. } => Err(format!("{key:?} was in flight: {gone:?}")),
            Entry { seen, .. } if stalest.is_some_and(|stalest| stalest < seen) => Err(format!(
                "{key:?} was not the stalest: {gone:?}, {stalest:?}"
            )),
            _ => Ok(()),
        }
    }

    /// Every key above 0, by tag.
    pub fn counts(&self) -> HashMap<u64, u32> {
        let all = self.buckets.values().flatten();
        all.filter(|(_, entry)| entry.count > 0)
            .map(|(tag, entry)| (*tag, entry.count))
            .collect()
    }

    /// Keys that have a cell.
    pub fn used(&self) -> usize {
        self.buckets.values().map(HashMap::len).sum()
    }
}
