//! What must be seen before a time that runs while the machine stands still: a token that grows
//! back, a turn that comes, a second that something may take. Who comes too late for it tries
//! again; who is late by himself is so each time.

use std::time::{Duration, Instant};

use super::{A_SECOND, Gauge, Httpd};

/// Does it until it was in time, which it says by `Some`, and not more often than five times.
#[track_caller]
pub fn in_time<T>(work: impl FnMut() -> Option<T>) -> T {
    let found = std::iter::repeat_with(work).take(5).find_map(|done| done);
    found.expect("it was too late five times")
}

/// Nothing from this time on.
pub fn before(time: Instant) -> Option<()> {
    (Instant::now() < time).then_some(())
}

/// Looks until it is so; nothing, if it is not until this time.
pub fn so_by(time: Instant, mut is_so: impl FnMut() -> bool) -> Option<()> {
    while !is_so() {
        before(time)?;
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(())
}

impl Httpd {
    /// Reads the gauge until it is so; nothing, if that took longer than a second.
    #[track_caller]
    pub fn within_a_second(&self, so: impl Fn(&Gauge) -> bool) -> Option<()> {
        let seen = so_by(Instant::now() + A_SECOND, || so(&self.gauge()));
        self.wait_for(so);
        seen
    }
}
