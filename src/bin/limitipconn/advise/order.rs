//! Requests in the order in which they began, made from the order in which they ended.
//!
//! httpd writes a line when a request ends, so its beginning lies before those of many lines
//! above it. A window of the last [`WINDOW`] requests is kept, and what leaves it is in order,
//! unless a request lasted longer than all of the window took: such a one is *late*, and is
//! taken as if it had begun when the last one before it did.
//!
//! Where a log has whole seconds only, requests that ended in the same second are spread over
//! it in the order of their lines, as far as the seconds they began in allow.

use super::clock::SECOND;

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
    /// From here on they stand in the order of their lines.
    fresh: usize,
    /// The latest end so far, of those that were spread.
    latest: i64,
    /// When the last that was given out began.
    given: i64,
    window: usize,
    /// Whether times are whole seconds.
    is_coarse: bool,
    /// How many were late.
    pub late: u64,
}

impl Order {
    pub fn new(window: usize, is_coarse: bool) -> Order {
        Order {
            waiting: Vec::new(),
            fresh: 0,
            latest: i64::MIN,
            given: i64::MIN,
            window: window.max(1),
            is_coarse,
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
        (self.latest, self.given) = (i64::MIN, i64::MIN);
    }

    fn give_first(&mut self, count: usize, mut each: impl FnMut(Began)) {
        if self.is_coarse {
            spread(&mut self.waiting[self.fresh..], &mut self.latest);
        }
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
        self.fresh = self.waiting.len();
    }
}

/// Spreads what ended in the same second over it.
fn spread(requests: &mut [Began], latest: &mut i64) {
    let end = |request: &Began| match request.duration {
        super::batch::UNKNOWN => request.at,
        duration => request.at + duration as i64,
    };
    let mut rest = requests;
    while let Some(first) = rest.first() {
        let second = end(first).max(*latest).div_euclid(SECOND);
        let length = rest
            .iter()
            .take_while(|request| end(request).div_euclid(SECOND) <= second)
            .count();
        let (together, later) = std::mem::take(&mut rest).split_at_mut(length);
        rest = later;
        for (rank, request) in together.iter_mut().enumerate() {
            let earliest = end(request);
            *latest = (*latest).max(earliest);
            let even = second * SECOND + SECOND * (rank as i64 + 1) / (length as i64 + 1);
            let latest_possible = earliest + SECOND - 1;
            let shift = match even.max(*latest) {
                // Not in order: all that is known is its second.
                late if late > latest_possible + SECOND => SECOND * (rank as i64 % 100) / 100,
                estimated => estimated.min(latest_possible) - earliest,
            };
            request.at += shift;
        }
    }
}

#[cfg(test)]
#[path = "order/tests.rs"]
mod tests;
