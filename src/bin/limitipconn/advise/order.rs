//! Requests in the order in which they began, made from the order in which they ended.
//!
//! httpd writes a line when a request ends, so its beginning lies before those of many lines
//! above it. A window of the last [`WINDOW`] requests is kept, and what leaves it is in order,
//! unless a request lasted longer than all of the window took: such a one is *late*, and is
//! taken as if it had begun when the last one before it did.
//!
//! Where a log has whole seconds only, each is taken to have begun with its second: what that
//! leaves open is for the [`Simulation`](super::simulation::Simulation) to allow for.

/// So many later requests are waited for.
pub const WINDOW: usize = 1 << 20;

/// A request that waits for its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Began {
    /// In microseconds since 1970.
    pub at: i64,
    /// In microseconds, or [`UNKNOWN`](super::batch::UNKNOWN).
    pub duration: u64,
    pub client: u32,
}

/// The window.
pub struct Order {
    waiting: Vec<Began>,
    /// When the last that was given out began.
    given: i64,
    window: usize,
    /// How many were late.
    pub late: u64,
}

impl Order {
    pub fn new(window: usize) -> Order {
        Order {
            waiting: Vec::new(),
            given: i64::MIN,
            window: window.max(1),
            late: 0,
        }
    }

    /// Takes one; true when it is time for [`Order::give`].
    #[inline]
    #[must_use]
    pub fn take(&mut self, began: Began) -> bool {
        self.waiting.push(began);
        self.waiting.len() >= 2 * self.window
    }

    /// Makes the window narrower; false where it is not wider than that. Clients do not rest
    /// while requests of theirs wait, so it must be narrow where there is place for few.
    pub fn narrow(&mut self, window: usize) -> bool {
        let is_wider = self.window > window.max(1);
        if is_wider {
            self.window = window.max(1);
        }
        is_wider
    }

    /// Gives out, in order, what has left the window.
    pub fn give(&mut self, each: impl FnMut(Began)) {
        let ripe = self.waiting.len().saturating_sub(self.window);
        self.give_first(ripe, each);
    }

    /// Gives out all, in order, and begins anew.
    pub fn give_all(&mut self, each: impl FnMut(Began)) {
        self.give_first(self.waiting.len(), each);
        self.given = i64::MIN;
    }

    fn give_first(&mut self, count: usize, mut each: impl FnMut(Began)) {
        // Stable, so that of those that began at once the line above goes first; and it
        // finds that the front is in order already.
        self.waiting.sort_by_key(|began| began.at);
        for mut began in self.waiting.drain(..count) {
            if began.at < self.given {
                self.late += 1;
                let missed = began.at.abs_diff(self.given);
                if began.duration != super::batch::UNKNOWN {
                    began.duration = began.duration.saturating_sub(missed);
                }
                began.at = self.given;
            }
            self.given = began.at;
            each(began);
        }
    }
}

#[cfg(test)]
#[path = "order/tests.rs"]
mod tests;
