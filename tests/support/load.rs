//! Threads that ask without end while a storm passes over the server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{DEADLINE, wait_until};

/// What the asking threads and the storm know of each other.
#[derive(Default)]
pub struct Load {
    stop: AtomicBool,
    served: AtomicU64,
}

impl Load {
    /// Whether to ask again.
    pub fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Notes one more answer.
    pub fn note_answer(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    /// How many answers there were.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// Waits until so many more answers have come: the server works.
    #[track_caller]
    pub fn wait_for_more(&self, answers: u64) {
        let before = self.served();
        wait_until(DEADLINE, || {
            let more = self.served() - before;
            if more >= answers {
                Ok(())
            } else {
                Err(format!("{more} more answers"))
            }
        });
    }
}

/// Runs `ask(0, load)`, `ask(1, load)`, ... in threads, and the storm beside them; the threads
/// must end when the load no longer goes on.
pub fn under_load<T>(
    threads: usize,
    ask: impl Fn(usize, &Load) + Sync,
    storm: impl FnOnce(&Load) -> T,
) -> T {
    let load = Load::default();
    std::thread::scope(|scope| {
        for n in 0..threads {
            let (ask, load) = (&ask, &load);
            scope.spawn(move || ask(n, load));
        }
        // Also after a panic, or the scope would wait for ever.
        let _stop = StopOnDrop(&load);
        storm(&load)
    })
}

struct StopOnDrop<'a>(&'a Load);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}
