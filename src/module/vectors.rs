//! What httpd calls to make and merge what we keep in its configuration vectors: thunks,
//! as in [`hooks`](super::hooks).

use std::ffi::{c_char, c_void};
use std::ptr;

use super::config::{Level, Site};
use super::hooks::guarded;
use crate::httpd::pool::Pool;
use crate::sys;

/// # Safety
/// httpd passes a live pool of the configuration that is being read.
pub unsafe extern "C" fn create_directory(
    pool: *mut sys::apr_pool_t,
    path: *mut c_char,
) -> *mut c_void {
    // What stands outside sections is the server's. httpd merges on every request: what
    // is not there costs nothing.
    if path.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: by this function's contract.
    let pool = unsafe { Pool::from_raw(pool) };
    guarded(ptr::null_mut(), || {
        ptr::from_mut(pool.alloc(Level::default())).cast()
    })
}

/// # Safety
/// httpd passes a live pool and two results of create_directory or of this function,
/// either of which may be null.
pub unsafe extern "C" fn merge_directory(
    pool: *mut sys::apr_pool_t,
    base: *mut c_void,
    add: *mut c_void,
) -> *mut c_void {
    // SAFETY: by this function's contract.
    let (around, own) = unsafe {
        (
            base.cast::<Level<'_>>().as_ref(),
            add.cast::<Level<'_>>().as_ref(),
        )
    };
    // httpd merges on every request: mostly to choose one of two.
    match (around, own) {
        (None, _) => add,
        (_, None) => base,
        (Some(around), _) if around.is_empty() => add,
        (_, Some(own)) if own.is_empty() => base,
        (Some(around), Some(own)) if own.replaces(around) => add,
        // SAFETY: by this function's contract.
        (Some(around), Some(own)) => unsafe { merge_levels(pool, around, own) },
    }
}

/// # Safety
/// As merge_directory.
#[cold]
unsafe fn merge_levels<'p>(
    pool: *mut sys::apr_pool_t,
    around: &Level<'p>,
    own: &Level<'p>,
) -> *mut c_void {
    guarded(ptr::from_ref(own).cast_mut().cast(), || {
        // SAFETY: by this function's contract.
        let pool = unsafe { Pool::from_raw(pool) };
        ptr::from_mut(pool.alloc(own.within(around, pool))).cast()
    })
}

/// # Safety
/// httpd passes a live pool of the configuration that is being read.
pub unsafe extern "C" fn create_server(
    pool: *mut sys::apr_pool_t,
    _server: *mut sys::server_rec,
) -> *mut c_void {
    // SAFETY: by this function's contract.
    let pool = unsafe { Pool::from_raw(pool) };
    guarded(ptr::null_mut(), || {
        ptr::from_mut(pool.alloc(Site::new())).cast()
    })
}

/// # Safety
/// httpd passes a live pool and two results of create_server.
pub unsafe extern "C" fn merge_server(
    pool: *mut sys::apr_pool_t,
    base: *mut c_void,
    add: *mut c_void,
) -> *mut c_void {
    // SAFETY: by this function's contract.
    let (pool, main, own) = unsafe {
        (
            Pool::from_raw(pool),
            &*base.cast::<Site<'_>>(),
            &*add.cast::<Site<'_>>(),
        )
    };
    guarded(add, || {
        ptr::from_mut(pool.alloc(own.within(main, pool))).cast()
    })
}
