//! What ran out while slow clients were watched, told by the parent: a child's watch writes
//! no line, and its workers have better things to do.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::alarm;
use super::running::Runtime;
use crate::httpd::log::LogLevel;
use crate::report::message::Id;
use crate::store::Counter;

const HOUR: u64 = 3600;

/// What has run out how often, and what was told of it.
struct Shortage {
    counter: Counter,
    /// The number that was told last.
    told: AtomicU64,
    /// When, in seconds since the machine was started; 0 for never.
    when: AtomicU32,
}

impl Shortage {
    const fn of(counter: Counter) -> Shortage {
        Shortage {
            counter,
            told: AtomicU64::new(0),
            when: AtomicU32::new(0),
        }
    }

    /// How many are new, once an hour.
    fn news(&self, runtime: &Runtime) -> Option<u64> {
        let all = runtime.segment.read(self.counter);
        let new = all.saturating_sub(self.told.load(Ordering::Relaxed));
        if new == 0 || !alarm::is_due(&self.when, HOUR) {
            return None;
        }
        self.told.store(all, Ordering::Relaxed);
        Some(new)
    }
}

/// In statics of the parent, which the library keeps over reloads: it is never unloaded.
static UNWATCHED: Shortage = Shortage::of(Counter::Unwatched);
static PUT_OFF: Shortage = Shortage::of(Counter::CutsPutOff);

/// Now and then in the parent.
pub fn look(runtime: &Runtime) {
    if let Some(number) = UNWATCHED.news(runtime) {
        let text = format!(
            "{}: {number} responses found nobody to watch them for a slow client, because a child watches \
             so many at a time; they are served as if IPLimitMinRate and IPLimitMaxTime were off; \
             a higher ThreadLimit makes more room",
            Id::Unwatched
        );
        runtime.log(LogLevel::WARNING, &text);
    }
    if let Some(number) = PUT_OFF.news(runtime) {
        let text = format!(
            "{}: {number} times a response could not be cut at once, because the child has no file \
             descriptor left; it is tried again twice a second; raise the limit of open files of httpd",
            Id::CutPutOff
        );
        runtime.log(LogLevel::WARNING, &text);
    }
}
