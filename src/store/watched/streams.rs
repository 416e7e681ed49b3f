//! What is said of streams of HTTP/2 and of the connections that carry them.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{Carried, Watched, WatchedIndex};

/// Streams that hold no worker have one of so many entries: they harm their own connection
/// only.
const FREE: usize = 4;

impl Watched {
    /// A stream begins to wait for its client.
    pub fn blocks(&self, index: WatchedIndex, now: u64) {
        if let Some(entry) = self.of(index) {
            entry.blocked.store(now.max(1), Release);
        }
    }

    /// It has waited.
    pub fn goes_on(&self, index: WatchedIndex, now: u64) {
        if let Some(entry) = self.of(index) {
            let since = entry.blocked.load(Relaxed);
            let time = if since == 0 {
                0
            } else {
                now.saturating_sub(since)
            };
            entry.waited.fetch_add(time, Relaxed);
            // Release: whoever sees that it does not wait sees for how long it did.
            entry.blocked.store(0, Release);
        }
    }

    /// So many bytes of bodies went out, of a stream or on a connection, and so many others.
    pub fn went_out(&self, index: WatchedIndex, data: u64, other: u64) {
        if let Some(entry) = self.of(index) {
            entry.data.fetch_add(data, Relaxed);
            entry.other.fetch_add(other, Relaxed);
        }
    }

    /// What a connection carries from now on.
    pub fn carries(&self, index: WatchedIndex, carried: Carried) {
        if let Some(entry) = self.of(index) {
            entry.carry(carried);
        }
    }

    /// When it began, which is what has to be so old before it is judged.
    pub fn began(&self, index: WatchedIndex, now: u64) {
        if let Some(entry) = self.of(index) {
            entry.started.store(now, Relaxed);
        }
    }

    /// The worker of a stream is done with it. False: there are too many such entries, and
    /// this is to be given back.
    pub fn set_free(&self, index: WatchedIndex) -> bool {
        let Some(entry) = self.of(index) else {
            return false;
        };
        let most = (self.room() / FREE) as u32;
        if self.free_streams.fetch_add(1, Relaxed) >= most {
            self.free_streams.fetch_sub(1, Relaxed);
            return false;
        }
        entry.is_free.store(true, Relaxed);
        true
    }

    /// Streams of a connection are to be ended by the thread that carries it.
    pub fn set_due(&self, carrier: WatchedIndex) {
        let entry = self.entries.get(carrier.at());
        // Release: pairs with the Acquire of `take_due`. One that comes too late makes the
        // next connection look for nothing.
        let _ = entry.map(|entry| entry.is_due.store(true, Release));
    }

    /// Whether they are, once.
    pub fn take_due(&self, carrier: WatchedIndex) -> bool {
        let entry = self.of(carrier);
        // Acquire: what was found of the streams is seen.
        entry.is_some_and(|entry| entry.is_due.load(Relaxed) && entry.is_due.swap(false, Acquire))
    }
}
