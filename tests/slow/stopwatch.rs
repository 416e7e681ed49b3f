//! A stopwatch for deadlines that are promised. It stands while the machine has no time for
//! us: a thread on each CPU sleeps for a moment, again and again, and what it oversleeps beyond
//! the usual is not counted.

use std::fmt::Debug;
use std::mem::{MaybeUninit, size_of};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::super::support::wait_by;

/// How long they sleep.
const MOMENT: Duration = Duration::from_millis(20);
/// Somebody else may always be served first for so long.
const USUAL: Duration = Duration::from_millis(100);

/// What the threads know.
struct Lost {
    /// All that was lost, but for what comes after `until`.
    total: Duration,
    until: Instant,
    /// When each thread wants to wake.
    due: Vec<Instant>,
}

impl Lost {
    /// The thread of a CPU wakes, and goes to sleep again.
    fn woke(&mut self, cpu: usize, now: Instant) {
        let new = self.new_since(self.due[cpu], now);
        if new > Duration::ZERO {
            (self.total, self.until) = (self.total + new, now);
        }
        self.due[cpu] = now + MOMENT;
    }

    /// What was lost by now, told or not, if somebody should have woken at that moment.
    fn new_since(&self, due: Instant, now: Instant) -> Duration {
        now.saturating_duration_since(self.until.max(due + USUAL))
    }

    /// What was lost by now.
    fn by(&self, now: Instant) -> Duration {
        let first = self.due.iter().min();
        self.total + first.map_or(Duration::ZERO, |due| self.new_since(*due, now))
    }
}

/// The CPUs that we may use.
fn cpus() -> Vec<usize> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: all zero is an empty set; the kernel writes no more than its size.
    let set = unsafe {
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr());
        set.assume_init()
    };
    // SAFETY: the set has room for so many.
    let may_use = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(may_use).collect()
}

/// This thread runs nowhere else from now on.
fn stay_on(cpu: usize) {
    // SAFETY: all zero is an empty set; it has room for each CPU that it told of.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

fn lost() -> MutexGuard<'static, Lost> {
    static LOST: OnceLock<Mutex<Lost>> = OnceLock::new();
    let lost = LOST.get_or_init(|| {
        let (now, cpus) = (Instant::now(), cpus());
        for (n, cpu) in cpus.iter().copied().enumerate() {
            std::thread::spawn(move || {
                stay_on(cpu);
                loop {
                    lost().woke(n, Instant::now());
                    std::thread::sleep(MOMENT);
                }
            });
        }
        Mutex::new(Lost {
            total: Duration::ZERO,
            until: now,
            due: vec![now; cpus.len()],
        })
    });
    lost.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was lost since the first who asked.
fn lost_so_far() -> (Instant, Duration) {
    let lost = lost();
    let now = Instant::now();
    (now, lost.by(now))
}

/// It runs from its start on.
pub struct Stopwatch {
    start: Instant,
    lost: Duration,
}

impl Stopwatch {
    pub fn start() -> Stopwatch {
        let (start, lost) = lost_so_far();
        Stopwatch { start, lost }
    }

    /// How long it ran.
    pub fn elapsed(&self) -> Duration {
        let (now, lost) = lost_so_far();
        let stood = lost.saturating_sub(self.lost);
        now.duration_since(self.start).saturating_sub(stood)
    }

    /// Whether it stood for a while.
    pub fn has_stood(&self) -> bool {
        lost_so_far().1 > self.lost
    }
}

/// As `wait_until`, by a stopwatch.
#[track_caller]
pub fn wait_in_time<T, E: Debug>(limit: Duration, ask: impl FnMut() -> Result<T, E>) -> T {
    let time = Stopwatch::start();
    wait_by(|| time.elapsed(), limit, ask)
}
