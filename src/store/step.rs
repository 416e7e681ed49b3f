//! A place between two steps on shared memory, where a test may end the process.
//! In a release build of the module there is nothing here.

#[cfg(test)]
pub use super::tests::steps::step;

/// Nothing, outside of tests.
#[cfg(not(any(test, debug_assertions)))]
#[inline(always)]
pub fn step() {}

#[cfg(all(not(test), debug_assertions))]
pub use slow::{slow_steps, step};

/// Debug builds can take their time between steps, so that a kill -9 from outside, by
/// a test with a real httpd, meets a process there.
#[cfg(all(not(test), debug_assertions))]
mod slow {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Duration;

    static MICROS: AtomicU64 = AtomicU64::new(0);

    /// From now on each step of this process takes so long.
    pub fn slow_steps(micros: u64) {
        MICROS.store(micros, Relaxed);
    }

    /// Waits, if it was told to.
    #[inline]
    pub fn step() {
        match MICROS.load(Relaxed) {
            0 => {}
            micros => std::thread::sleep(Duration::from_micros(micros)),
        }
    }
}
