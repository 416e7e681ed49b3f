//! The insert lock: a robust mutex that processes share, with a time limit.
//!
//! Only inserts take it. Whoever dies with it leaves it to the next, who hears of it:
//! each step of an insert is one word, and a half-made cell is dead. Whoever
//! waits too long goes without: the request is admitted untracked.

use std::cell::UnsafeCell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::cell::NONCE;
use super::step;

/// One lock in shared memory.
#[repr(C, align(64))]
pub struct Lock {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    nonce: AtomicU32,
}

// SAFETY: the mutex is touched by pthread calls only, which are made for sharing
// between threads (and, being PROCESS_SHARED, between processes).
unsafe impl Sync for Lock {}

/// The lock is held; dropping gives it back. Stays on its thread, as robust
/// mutexes want it (the PhantomData takes Send away).
#[must_use]
pub struct Guard<'a> {
    lock: &'a Lock,
    /// Whether its last owner died with it.
    pub owner_died: bool,
    thread: PhantomData<*const ()>,
}

impl Lock {
    /// Makes the mutex.
    ///
    /// # Safety
    /// Nobody else uses it yet.
    pub unsafe fn init(&self) -> io::Result<()> {
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let attr = attributes.as_mut_ptr();
        // SAFETY: `attr` is initialised by the first call and destroyed by the
        // last; the mutex is memory of ours that nobody else uses yet.
        unsafe {
            check(libc::pthread_mutexattr_init(attr))?;
            let made = check(libc::pthread_mutexattr_setpshared(
                attr,
                libc::PTHREAD_PROCESS_SHARED,
            ))
            .and_then(|()| {
                check(libc::pthread_mutexattr_setrobust(
                    attr,
                    libc::PTHREAD_MUTEX_ROBUST,
                ))
            })
            .and_then(|()| check(libc::pthread_mutex_init(self.mutex.get(), attr)));
            libc::pthread_mutexattr_destroy(attr);
            made
        }
    }

    /// Waits for the lock, but no longer than `patience`.
    pub fn lock(&self, patience: Duration) -> Option<Guard<'_>> {
        let mutex = self.mutex.get();
        // SAFETY: initialised by `init` before anybody else had this memory.
        let mut result = unsafe { libc::pthread_mutex_trylock(mutex) };
        if result == libc::EBUSY {
            let until = deadline(patience)?;
            // SAFETY: as above; `until` is a whole timespec.
            result = unsafe { libc::pthread_mutex_timedlock(mutex, &until) };
        }
        let owner_died = result == libc::EOWNERDEAD;
        if owner_died {
            // Its owner died. What that may have left half done is the table's to finish.
            // SAFETY: EOWNERDEAD says that this thread holds the mutex.
            result = unsafe { libc::pthread_mutex_consistent(mutex) };
        }
        // A closure: a Guard that is only built to be dropped would unlock.
        (result == 0).then(|| Guard {
            lock: self,
            owner_died,
            thread: PhantomData,
        })
    }
}

impl Guard<'_> {
    /// A nonce that no state of this stripe has had for 2^24 of them. An insert takes two,
    /// and two more for each cell that it gives back.
    pub fn nonce(&self) -> u32 {
        let next = self.lock.nonce.load(Relaxed).wrapping_add(1) & NONCE;
        // Stored before it is used, so that who dies here spends one.
        self.lock.nonce.store(next, Relaxed);
        step();
        next
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // SAFETY: a Guard exists only while its thread holds the mutex.
        unsafe { libc::pthread_mutex_unlock(self.lock.mutex.get()) };
    }
}

/// `patience` from now, on the clock that pthread_mutex_timedlock knows. A step
/// of the wall clock can only change how long one insert waits.
fn deadline(patience: Duration) -> Option<libc::timespec> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: writes one timespec.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, time.as_mut_ptr()) } != 0;
    if failed {
        return None;
    }
    // SAFETY: the call succeeded, so it was written.
    let mut time = unsafe { time.assume_init() };
    let nanos = i64::from(patience.subsec_nanos()) + time.tv_nsec;
    time.tv_sec += patience.as_secs() as libc::time_t + (nanos / 1_000_000_000) as libc::time_t;
    time.tv_nsec = nanos % 1_000_000_000;
    Some(time)
}

fn check(code: libc::c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
