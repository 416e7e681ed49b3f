//! Processes: which are children of this httpd, and whether this one is a copy of one.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use memmap2::MmapMut;

/// Whether a process may be a child of this httpd that lives, or that nobody has waited
/// for yet. Only what is surely not one is none.
pub fn may_be_a_child_of_ours(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else {
        return false;
    };
    // SAFETY: both only read.
    match unsafe { (libc::getpgid(pid), libc::getpgrp()) } {
        (-1, _) => std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH),
        (group, ours) => group == ours,
    }
}

/// A byte that is 1 in the process that called mark_copies, and 0 in its copies.
static MARK: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());

/// From now on copies of this process know that they are some: a child forks to become
/// a CGI script, and until the copy is another program httpd's signal handlers are its
/// own too, and destroy pools.
///
/// The kernel wipes the page at the fork itself; a handler of pthread_atfork would come
/// too late for a signal that waits for the copy's first step.
pub fn mark_copies() {
    let Ok(page) = MmapMut::map_anon(1) else {
        return;
    };
    let page = ManuallyDrop::new(page);
    let mark = page.as_ptr().cast_mut();
    // SAFETY: one private anonymous mapping that is ours and never unmapped.
    let failed = unsafe { libc::madvise(mark.cast(), page.len(), libc::MADV_WIPEONFORK) } != 0;
    // Before Linux 4.14 there is no such advice, and copies are not told apart.
    if failed {
        return;
    }
    let mark = mark.cast::<AtomicU8>();
    // SAFETY: a byte of the same page.
    unsafe { (*mark).store(1, Ordering::Relaxed) };
    MARK.store(mark, Ordering::Relaxed);
}

/// Whether what httpd tears down here is only a copy.
#[inline]
pub fn is_copy() -> bool {
    // SAFETY: null, or the byte of mark_copies.
    let mark = unsafe { MARK.load(Ordering::Relaxed).as_ref() };
    mark.is_some_and(|mark| mark.load(Ordering::Relaxed) == 0)
}

/// Whether this thread is in a handler of the signals by which httpd ends a child, on a
/// thread that gets them: while a handler runs its own signal is blocked.
pub fn is_in_handler() -> bool {
    let mut blocked = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: changes nothing, and writes the set that is then read.
    unsafe {
        let failed =
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), blocked.as_mut_ptr()) != 0;
        let is_blocked = |signal| libc::sigismember(blocked.as_ptr(), signal) == 1;
        !failed && [libc::SIGTERM, libc::SIGHUP].into_iter().any(is_blocked)
    }
}

/// Starts a thread with so large a stack, which gets no signal: those are for the threads of
/// httpd. `Err` is why there is none.
pub fn thread(
    name: &str,
    stack: usize,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    without_signals(|| builder.stack_size(stack).spawn(body)).map(drop)
}

fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both are written before they are read; a thread inherits the mask of the one
    // that starts it.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = start();
    // SAFETY: written above.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
    started
}
