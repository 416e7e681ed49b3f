//! httpd as a whole: in which pass it is, what survives a reload, what the MPM is.

use std::ffi::{CStr, c_int};
use std::mem::size_of;

use crate::sys;

/// Whether this is the first of the two passes that httpd makes at a start.
pub fn is_dry_pass() -> bool {
    // SAFETY: only reads httpd's own state.
    unsafe { sys::ap_state_query(sys::AP_SQ_MAIN_STATE) == sys::AP_SQ_MS_CREATE_PRE_CONFIG }
}

/// The wall clock in seconds, as requests are stamped with it.
pub fn seconds() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    (unsafe { sys::apr_time_now() } / 1_000_000) as u32
}

/// Seconds since the machine was started; never goes back.
pub fn seconds_up() -> u32 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes one timespec; this clock is there on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_sec as u32
}

/// The wall clock in microseconds, as requests are stamped with it.
pub fn microseconds() -> u64 {
    // SAFETY: takes nothing and cannot fail.
    (unsafe { sys::apr_time_now() }) as u64
}

/// Nanoseconds since the machine was started; never goes back, and is the same in all
/// processes.
#[inline]
pub fn nanoseconds_up() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes one timespec; this clock is there on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// MaxRequestWorkers: how many workers there can be at once.
pub fn max_request_workers() -> u32 {
    // Threads of a child: prefork says 0 or 1.
    ask_mpm(sys::AP_MPMQ_MAX_DAEMONS).saturating_mul(ask_mpm(sys::AP_MPMQ_MAX_THREADS))
}

/// The most children and threads a child that the scoreboard has room for.
pub fn most_workers() -> (u32, u32) {
    (
        ask_mpm(sys::AP_MPMQ_HARD_LIMIT_DAEMONS),
        ask_mpm(sys::AP_MPMQ_HARD_LIMIT_THREADS),
    )
}

/// Whether the MPM gives a child threads.
pub fn is_threaded() -> bool {
    let mut answer = 0;
    // SAFETY: writes one int; 0 where it does not know the question.
    unsafe { sys::ap_mpm_query(sys::AP_MPMQ_IS_THREADED, &mut answer) };
    answer != 0
}

fn ask_mpm(question: c_int) -> u32 {
    let mut answer = 0;
    // SAFETY: writes one int, and does so only when it knows the question.
    unsafe { sys::ap_mpm_query(question, &mut answer) };
    // An MPM that does not know says nothing.
    u32::try_from(answer).unwrap_or(1).max(1)
}

/// Whether a module of this name (`mod_NAME.c`) is loaded.
pub fn has_module(name: &CStr) -> bool {
    // SAFETY: only reads httpd's list of modules.
    !unsafe { sys::ap_find_linked_module(name.as_ptr()) }.is_null()
}

/// Whether httpd was started with `-D` and this word.
pub fn is_defined(name: &CStr) -> bool {
    // SAFETY: only reads httpd's list of such words.
    unsafe { sys::ap_exists_config_define(name.as_ptr()) != 0 }
}

/// httpd's name and version with what ServerTokens hides.
pub fn description() -> &'static str {
    // SAFETY: a text of httpd's that is made at start.
    unsafe { super::server::text(sys::ap_get_server_description()) }.unwrap_or("Apache")
}

/// What was stored under this key, over all reloads of this httpd.
///
/// # Safety
/// What retain() stored under this key, perhaps in an older build of this module, has
/// the layout of T: the key changes with the layout.
pub unsafe fn retained<T: Copy>(key: &CStr) -> Option<T> {
    // SAFETY: null, or what retain() made under this key; pool memory is aligned to 8.
    unsafe { sys::ap_retained_data_get(key.as_ptr()).cast::<T>().as_ref() }.copied()
}

/// Stores plain data under this key for the life of this httpd.
///
/// # Safety
/// As [`retained`].
pub unsafe fn retain<T: Copy>(key: &CStr, value: T) {
    // SAFETY: httpd copies the key; room that is there already is a T's, by the contract.
    unsafe {
        let mut stored = sys::ap_retained_data_get(key.as_ptr());
        if stored.is_null() {
            stored = sys::ap_retained_data_create(key.as_ptr(), size_of::<T>() as sys::apr_size_t);
        }
        stored.cast::<T>().write(value);
    }
}
