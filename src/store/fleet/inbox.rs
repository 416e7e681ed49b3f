//! The orders that wait for the courier: a queue of bounded length.
//!
//! It allocates when it is made and never after. Who must not wait for a lock, since he is a
//! signal handler, tries, and may fail.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::order::Order;
use super::ticket::Ticket;

/// An order, and who waits for its answer.
pub struct Entry {
    pub order: Order,
    pub ticket: Option<Ticket>,
}

/// The queue.
pub struct Inbox {
    entries: Mutex<VecDeque<Entry>>,
    room: usize,
}

impl Inbox {
    /// A queue for so many orders.
    pub fn new(room: usize) -> Inbox {
        let room = room.max(1);
        Inbox {
            entries: Mutex::new(VecDeque::with_capacity(room)),
            room,
        }
    }

    /// Puts an order at the end; false where it is full.
    pub fn put(&self, entry: Entry) -> bool {
        self.put_last(&mut self.lock(), entry)
    }

    /// As [`Inbox::put`], but false also where somebody else is at it and the caller must not
    /// wait: a signal handler may have interrupted just him. Whether one may wait is asked then.
    pub fn try_put(&self, entry: Entry, may_wait: impl FnOnce() -> bool) -> bool {
        let mut entries = match self.entries.try_lock() {
            Ok(entries) => entries,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if may_wait() => self.lock(),
            Err(TryLockError::WouldBlock) => return false,
        };
        self.put_last(&mut entries, entry)
    }

    fn put_last(&self, entries: &mut VecDeque<Entry>, entry: Entry) -> bool {
        let has_room = entries.len() < self.room;
        if has_room {
            entries.push_back(entry);
        }
        has_room
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up to so many from the front.
    pub fn take(&self, most: usize, into: &mut Vec<Entry>) {
        let mut entries = self.lock();
        let number = entries.len().min(most);
        into.extend(entries.drain(..number));
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}
