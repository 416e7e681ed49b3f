//! The places that one process holds: made in the child, used by all its threads.
//!
//! It knows which leases of the segment are this process's and which of those
//! are free; it allocates when it is made and never after. Taking a place for a
//! known key and giving one back use neither locks nor system calls, so that a
//! signal handler may give places back whatever it interrupted.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use super::cell::MAX_COUNT;
use super::count::Up;
use super::header::Counter;
use super::layout::CHUNK;
use super::lease::LeaseIndex;
use super::segment::Segment;
use super::step;
use super::table::{Found, Keyed, Table, When};
use super::words;
use crate::limit::key::Digest;

/// How long an insert waits for another one. Who has the lock has it for microseconds, but on
/// a machine with many more threads than processors, or a virtual one, it may be off its
/// processor for hundreds of milliseconds meanwhile, and whoever gives up is admitted uncounted.
const PATIENCE: Duration = Duration::from_secs(1);

/// The leases of this process.
pub struct Holder {
    pub(super) table: Table,
    /// Who owns each chunk, in the segment.
    owners: &'static [AtomicU32],
    /// Free leases of each chunk, a bit each; 0 for chunks of others.
    free: Box<[AtomicU64]>,
    pid: u32,
    /// The chunk that was used last: most likely it has a free lease.
    recent: AtomicU32,
    /// Where the search for a chunk without an owner starts.
    turn: AtomicU32,
    /// A chunk that became wholly free, plus 1: kept, so that a process at the
    /// edge of a chunk does not claim and return it all the time.
    spare: AtomicU32,
    /// The time of the latest acquire, for releases, which have no clock.
    now: AtomicU32,
    pub(super) patience: Duration,
    /// Nanoseconds of a clock that never goes back, the same in all processes: it tells
    /// which rates are over, where room is needed.
    clock: fn() -> u64,
}

/// What became of a request for a place.
#[derive(Debug)]
pub enum Acquired<'h> {
    /// The place is taken until the lease is dropped or released.
    Held(Lease<'h>),
    /// The limit is reached: so many held a place (at least the limit).
    Refused {
        /// Held when this was decided.
        count: u32,
    },
    /// Not countable now: no lease or no cell is free. To be admitted; the
    /// segment's counter has it.
    Untracked,
}

/// A place in one count. Dropping gives it back.
#[must_use = "dropping a lease gives its place back at once"]
pub struct Lease<'h> {
    holder: &'h Holder,
    index: LeaseIndex,
}

impl Holder {
    /// The holder of a process that has none yet. `pid` must be the one that the
    /// parent will reap, and not 0; `clock` gives nanoseconds that never go back, the same
    /// in all processes.
    pub fn new(segment: &Segment, pid: u32, clock: fn() -> u64) -> Holder {
        let owners = segment.owners;
        Holder {
            table: segment.table,
            owners,
            free: owners.iter().map(|_| AtomicU64::new(0)).collect(),
            pid,
            recent: AtomicU32::new(0),
            // Fibonacci hashing: neighbours in pid start far apart.
            turn: AtomicU32::new(pid.wrapping_mul(0x9E37_79B9)),
            spare: AtomicU32::new(0),
            now: AtomicU32::new(0),
            patience: PATIENCE,
            clock,
        }
    }

    /// Another time limit for inserts.
    #[cfg(test)]
    pub(super) fn with_patience(self, patience: Duration) -> Holder {
        Holder { patience, ..self }
    }

    /// Takes a place for `key` unless `limit` hold one already; without a limit
    /// it only counts. `now` is in seconds of any steady clock, the same in all
    /// processes: it decides who makes room for new keys, nothing else.
    ///
    /// Decision and increment are one step: N arrivals at limit L without a
    /// release between them admit exactly L, whatever the processes do. A new key
    /// may wait for an insert lock, up to a second: not for signal handlers.
    #[inline]
    pub fn acquire(&self, key: &Keyed<'_>, limit: Option<u16>, now: u32) -> Acquired<'_> {
        let cap = limit.map_or(MAX_COUNT, u32::from);
        if self.now.load(Relaxed) != now {
            self.now.store(now, Relaxed);
        }
        match self.table.find_at_once(key.digest) {
            Some(found) => self.acquire_in(found, key, cap),
            None => self.acquire_anywhere(key, cap),
        }
    }

    #[inline(never)]
    fn acquire_anywhere(&self, key: &Keyed<'_>, cap: u32) -> Acquired<'_> {
        match self.table.find(key.digest) {
            Some(found) => self.acquire_in(found, key, cap),
            None => self.acquire_new(key, cap),
        }
    }

    /// Takes a place in a cell that is the key's.
    #[inline]
    fn acquire_in(&self, found: Found, key: &Keyed<'_>, cap: u32) -> Acquired<'_> {
        // A refusal by looking alone: it costs no lease.
        if found.state.count() >= cap {
            return self.refused(cap, found.state.count());
        }
        let Some(lease) = self.take() else {
            return self.untracked();
        };
        match self.table.up(found, key.digest.tag, cap, lease) {
            Up::Held => {
                found.cell.touch(self.now.load(Relaxed));
                self.held(lease)
            }
            Up::Full(count) => {
                self.give(lease);
                self.refused(cap, count)
            }
            // Evicted between the look and the step: it is a new key now.
            Up::Gone | Up::NoRoom => {
                self.give(lease);
                self.acquire_new(key, cap)
            }
        }
    }

    /// Takes a place for a key that has no cell.
    #[cold]
    fn acquire_new(&self, key: &Keyed<'_>, cap: u32) -> Acquired<'_> {
        if cap == 0 {
            return self.refused(cap, 0);
        }
        let Some(lease) = self.take() else {
            return self.untracked();
        };
        let when = self.when(self.now.load(Relaxed));
        match self.table.insert_up(key, cap, lease, when, self.patience) {
            Up::Held => self.held(lease),
            Up::Full(count) => {
                self.give(lease);
                self.refused(cap, count)
            }
            // Never Gone: nobody evicts while the lock is held.
            Up::Gone | Up::NoRoom => {
                self.give(lease);
                self.untracked()
            }
        }
    }

    pub(super) fn when(&self, seconds: u32) -> When {
        When {
            seconds,
            nanos: (self.clock)(),
        }
    }

    #[inline]
    fn held(&self, lease: u32) -> Acquired<'_> {
        Acquired::Held(Lease {
            holder: self,
            index: LeaseIndex(lease),
        })
    }

    /// How many hold a place for this key now. Looks only.
    #[inline]
    pub fn count(&self, digest: Digest) -> u32 {
        let table = &self.table;
        let found = table.find_at_once(digest).or_else(|| table.find(digest));
        found.map_or(0, |found| found.state.count())
    }

    /// Gives back what [`Lease::keep`] handed over; once. Callable from a signal
    /// handler. A lease that holds nothing is a fault: counted, not obeyed.
    #[inline]
    pub fn release(&self, lease: LeaseIndex) {
        if self.table.down(lease.0, self.now.load(Relaxed)) {
            self.give(lease.0);
        } else {
            self.table.tally.add(Counter::Faults, 1);
        }
    }

    fn refused(&self, cap: u32, count: u32) -> Acquired<'_> {
        if cap == MAX_COUNT {
            return self.untracked(); // No limit, but the word has no room for more.
        }
        Acquired::Refused { count }
    }

    #[cold]
    fn untracked(&self) -> Acquired<'_> {
        self.table.tally.add(Counter::Untracked, 1);
        Acquired::Untracked
    }

    /// Takes a free lease of this process, or claims more.
    #[inline]
    fn take(&self) -> Option<u32> {
        match self.take_from(self.recent.load(Relaxed)) {
            Some(lease) => Some(lease),
            None => self.take_elsewhere(),
        }
    }

    #[inline]
    fn take_from(&self, chunk: u32) -> Option<u32> {
        let free = self.free.get(chunk as usize)?;
        // Its Acquire pairs with the Release of `give`: the lease's word is free.
        words::take_bit(free).map(|bit| chunk * CHUNK as u32 + bit)
    }

    #[cold]
    fn take_elsewhere(&self) -> Option<u32> {
        let mine = (0..self.free.len() as u32).find_map(|chunk| {
            let lease = self.take_from(chunk)?;
            self.recent.store(chunk, Relaxed);
            Some(lease)
        });
        mine.or_else(|| self.claim())
    }

    /// Makes a chunk without an owner ours and takes its first lease.
    fn claim(&self) -> Option<u32> {
        let chunks = self.owners.len() as u32;
        let start = self.turn.load(Relaxed);
        for i in 0..chunks {
            let chunk = start.wrapping_add(i) % chunks;
            let owner = &self.owners[chunk as usize];
            // Acquire: pairs with the Release of who gave it up, so that its
            // words are seen free.
            if owner.load(Relaxed) == 0
                && owner
                    .compare_exchange(0, self.pid, Acquire, Relaxed)
                    .is_ok()
            {
                step();
                self.turn.store(chunk.wrapping_add(1), Relaxed);
                self.free[chunk as usize].store(!1, Release);
                self.recent.store(chunk, Relaxed);
                return Some(chunk * CHUNK as u32);
            }
        }
        None
    }

    /// Marks a lease free that is taken and whose word is free.
    #[inline]
    fn give(&self, lease: u32) {
        let (chunk, bit) = (lease / CHUNK as u32, 1u64 << (lease % CHUNK as u32));
        let Some(free) = self.free.get(chunk as usize) else {
            return;
        };
        // The bit is 0: this lease was taken, and is given once. So adding sets it.
        // Release: pairs with the Acquire of `take_from`.
        let others = free.fetch_add(bit, Release);
        if self.recent.load(Relaxed) != chunk {
            self.recent.store(chunk, Relaxed);
        }
        if others | bit == u64::MAX {
            self.retire(chunk);
        }
    }

    /// Keeps the chunk that became wholly free, and returns the one kept before.
    fn retire(&self, chunk: u32) {
        let before = self.spare.load(Relaxed);
        if before == chunk + 1 {
            return;
        }
        let before = self.spare.swap(chunk + 1, Relaxed); // The bits below decide.
        let Some(chunk) = before.checked_sub(1).filter(|other| *other != chunk) else {
            return;
        };
        let free = &self.free[chunk as usize];
        // All bits taken at once: nobody in this process holds a lease of it.
        if free.compare_exchange(u64::MAX, 0, Acquire, Relaxed).is_ok() {
            step();
            // Release: pairs with the Acquire of the next owner's claim.
            self.owners[chunk as usize].store(0, Release);
        }
    }
}

impl Lease<'_> {
    /// Hands the duty to give the place back to the caller, who owes one
    /// [`Holder::release`].
    pub fn keep(self) -> LeaseIndex {
        ManuallyDrop::new(self).index
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.holder.release(self.index);
    }
}

impl fmt::Debug for Lease<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.index.0).finish()
    }
}
