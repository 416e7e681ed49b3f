//! Ends the process at a chosen step, in a forked child that asked for it; in
//! the test program itself all of this stays at 0 and does nothing.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU32};

use super::super::{Holder, LeaseIndex};

/// At which step to die; 0 is never.
static DIE_AT: AtomicU32 = AtomicU32::new(0);
static COUNTED: AtomicU32 = AtomicU32::new(0);
/// What a signal handler would release when it comes at that step, and at which
/// of its own steps it dies.
static HANDLER: AtomicPtr<Holder> = AtomicPtr::new(std::ptr::null_mut());
static HANDLER_LEASE: AtomicU32 = AtomicU32::new(0);
static HANDLER_DIES_AT: AtomicU32 = AtomicU32::new(0);

/// Between any two steps on shared memory.
pub fn step() {
    let die_at = DIE_AT.load(Relaxed);
    if die_at == 0 || COUNTED.fetch_add(1, Relaxed) + 1 != die_at {
        return;
    }
    let handler = HANDLER.swap(std::ptr::null_mut(), Relaxed);
    if !handler.is_null() {
        COUNTED.store(0, Relaxed);
        DIE_AT.store(HANDLER_DIES_AT.load(Relaxed), Relaxed);
        // SAFETY: `interrupt` took a reference that outlives the child's work,
        // and this is the child's only thread.
        unsafe { &*handler }.release(LeaseIndex(HANDLER_LEASE.load(Relaxed)));
    }
    die();
}

/// In a forked child: die at the `k`-th step from here.
pub fn die_at(k: u32) {
    DIE_AT.store(k, Relaxed);
}

/// In a forked child: at that step first release a lease, as httpd's signal
/// handler does, and die at the `j`-th step of that, or after it.
pub fn interrupt(holder: &Holder, lease: LeaseIndex, j: u32) {
    HANDLER_LEASE.store(lease.0, Relaxed);
    HANDLER_DIES_AT.store(j, Relaxed);
    HANDLER.store(std::ptr::from_ref(holder).cast_mut(), Relaxed);
}

fn die() -> ! {
    // SAFETY: a signal to this process, which no handler can catch.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL);
        libc::_exit(99) // Not reached: SIGKILL to oneself comes before kill returns.
    }
}
