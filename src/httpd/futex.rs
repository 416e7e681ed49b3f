//! Waiting for a word in memory to change, for a bounded time: a thread that waits holds
//! nothing, so it may be killed or never woken.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Waits until somebody wakes those who wait for this word, or for so long; not at all if it
/// is not `seen` any more.
pub fn wait(word: &AtomicU32, seen: u32, time: Duration) {
    let time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel reads the word, which is borrowed, and the time, which is ours.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            seen,
            &raw const time,
        );
    }
}

/// Wakes whoever waits for this word in this process.
pub fn wake(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel only looks who waits at this address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn who_waits_is_woken_or_gives_up() {
        let word = AtomicU32::new(0);
        wait(&word, 1, Duration::from_secs(60));
        wait(&word, 0, Duration::from_millis(1));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(SeqCst) == 0 {
                    wait(&word, 0, Duration::from_secs(60));
                }
            });
            word.store(1, SeqCst);
            wake(&word);
        });
    }
}
