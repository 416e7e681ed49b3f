//! Lets something happen between two steps of the store: an end, or somebody
//! else's work. Only for the thread that asks, and for what it forks.

use std::cell::Cell;

/// How many steps are left, and what happens then.
type Plan = (u32, &'static dyn Fn());

thread_local! {
    static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
}

/// Between any two steps on shared memory.
pub fn step() {
    match PLAN.get() {
        None => {}
        Some((1, then)) => {
            PLAN.set(None);
            then();
        }
        Some((left, then)) => PLAN.set(Some((left - 1, then))),
    }
}

/// Does `work`, and in the middle of it, at its `k`-th step, `then`; which may
/// plan for the steps that follow with [`after`].
pub fn at<R>(k: u32, then: &dyn Fn(), work: impl FnOnce() -> R) -> R {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            PLAN.set(None);
        }
    }
    let _end = End;
    // SAFETY: `_end` forgets the reference before it ends, however `work` ends.
    let forever = unsafe { std::mem::transmute::<&dyn Fn(), &'static dyn Fn()>(then) };
    after(k, forever);
    work()
}

/// Runs `work` with `then` at its k-th step; false when it has no such step.
pub fn interleaved(k: u32, then: impl Fn(), work: impl FnOnce()) -> bool {
    let came = Cell::new(false);
    let then = || {
        came.set(true);
        then();
    };
    at(k, &then, work);
    came.get()
}

/// In what [`at`] does: plans the next thing, `k` steps later.
pub fn after(k: u32, then: &'static dyn Fn()) {
    assert!(k > 0 && PLAN.get().is_none());
    PLAN.set(Some((k, then)));
}

/// Ends the process as kill -9 does.
pub fn die() {
    // SAFETY: a signal to this process, which no handler can catch.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL);
        libc::_exit(99) // Not reached: SIGKILL to oneself comes before kill returns.
    }
}

/// How many steps `work` has.
pub fn taken(work: impl FnOnce()) -> u32 {
    after(u32::MAX, &|| ());
    work();
    match PLAN.take() {
        Some((left, _)) => u32::MAX - left,
        None => u32::MAX,
    }
}
