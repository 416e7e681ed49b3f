//! The token bucket, as GCRA: the generic cell rate algorithm (ITU-T I.371),
//! in the form of virtual scheduling.
//!
//! All there is of a bucket is the theoretical arrival time (TAT): when it will be full
//! again. Times are nanoseconds of a clock that never goes back; 0 is a full bucket.

use super::rate::{Rate, nanoseconds};
use super::rating::{Decision, Over, Pass};
use std::time::Duration;

/// How long a request may wait for its turn.
pub const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A token that is put back within this time is put back whole. Who is refused is refused at
/// once; who could make it take longer could have more than the bucket gives.
pub const AT_ONCE: Duration = Duration::from_millis(100);

/// A bucket that is filled at a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// How fast it is filled.
    pub rate: Rate,
    /// How many it holds: how many may come at once.
    pub burst: u32,
    /// So many of a burst pass at once and the others wait; none: nobody waits. Who finds
    /// a full bucket never waits, whatever this says.
    pub delay: Option<u32>,
    interval: u64,
    /// How long it takes to fill.
    depth: u64,
    /// The longest backlog with which nobody waits.
    at_once: u64,
    /// The longest backlog that is let in.
    longest: u64,
}

impl Bucket {
    /// A bucket; none where it would take more than 146 years to fill.
    pub fn new(rate: Rate, burst: u32, delay: Option<u32>) -> Option<Bucket> {
        let burst = burst.max(1);
        let interval = rate.interval();
        let depth = interval
            .checked_mul(u64::from(burst))
            .filter(|depth| *depth <= 1 << 62)?;
        let at_once = interval * u64::from(delay.unwrap_or(burst).clamp(1, burst));
        Some(Bucket {
            rate,
            burst,
            delay,
            interval,
            depth,
            at_once,
            longest: depth.min(at_once + nanoseconds(LONGEST_WAIT)),
        })
    }

    /// How many tokens are gone from it, the one that grows back included; never more than
    /// it holds.
    pub fn used(&self, word: u64, now: u64) -> u32 {
        let gone = word.saturating_sub(now).div_ceil(self.interval.max(1));
        gone.min(self.burst.into()) as u32
    }

    /// What decides, in nanoseconds: the interval, how long it takes to fill, and the longest
    /// backlog that is let in.
    pub fn terms(&self) -> [u64; 3] {
        [self.interval, self.depth, self.longest]
    }

    /// How many may come at once when it is full: fewer than it holds where the last of
    /// them would wait too long.
    pub fn most(&self) -> u32 {
        (self.longest / self.interval) as u32
    }

    /// How long until it is full. It cannot be emptier than empty, though a greater one
    /// that had this name before may have been.
    #[inline]
    fn missing(&self, tat: u64, now: u64) -> u64 {
        tat.saturating_sub(now).min(self.depth)
    }

    /// What becomes of a request that takes a token.
    #[inline]
    pub fn decide(&self, tat: u64, now: u64) -> Decision {
        let backlog = self.missing(tat, now) + self.interval;
        if backlog > self.longest {
            // What was emptier than empty has to be remembered as empty, or it would be
            // found so again and again.
            let empty = now + self.depth;
            return Decision::Over(Over {
                next: (tat > empty).then_some(empty),
                wait: backlog - self.longest,
                frozen: false,
            });
        }
        Decision::Pass(Pass {
            next: now + backlog,
            wait: backlog.saturating_sub(self.at_once),
            left: ((self.longest - backlog) / self.interval) as u32,
            resets_in: backlog,
        })
    }

    /// What becomes of a request that takes its token later, if at all.
    #[inline]
    pub fn check(&self, tat: u64, now: u64) -> Decision {
        match self.decide(tat, now) {
            Decision::Pass(pass) => Decision::Pass(Pass {
                next: tat,
                left: pass.left + 1,
                resets_in: pass.resets_in - self.interval,
                ..pass
            }),
            over => over,
        }
    }

    /// The bucket after a token was taken that nobody asked for before.
    #[inline]
    pub fn charge(&self, tat: u64, now: u64) -> u64 {
        now + (self.missing(tat, now) + self.interval).min(self.depth)
    }

    /// The bucket with a token put back that left it at `taken` when it was taken; none where
    /// it has grown back by itself meanwhile.
    ///
    /// Only that part is put back that has not grown back yet: a request in between may
    /// have had the rest. The bucket does not know how often it was full since, so a token
    /// that was out for longer than [`AT_ONCE`] counts as growing back from the first moment.
    #[inline]
    pub fn refund(&self, tat: u64, now: u64, taken: u64, at: u64) -> Option<u64> {
        let missing = self.missing(tat, now);
        let out = now.saturating_sub(at);
        let left = match out <= nanoseconds(AT_ONCE) {
            true => self.interval,
            false => self.interval.saturating_sub(out),
        };
        let owed = taken.saturating_sub(now).min(left).min(missing);
        (owed > 0).then(|| now + missing - owed)
    }
}

#[cfg(test)]
mod tests;
