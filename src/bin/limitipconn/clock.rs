//! The clocks that the module has, read outside of it.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the clock of rates, which is the same in all processes.
pub fn nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let number = |number| u64::try_from(number).unwrap_or(0);
    number(time.tv_sec) * 1_000_000_000 + number(time.tv_nsec)
}

/// Seconds of the same clock.
pub fn seconds() -> u32 {
    (nanos() / 1_000_000_000) as u32
}

/// Microseconds of the wall clock, with which requests are stamped.
pub fn micros() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.map_or(0, |time| time.as_micros() as u64)
}
