//! Hooks of modules that may not be loaded: httpd knows them by name, nothing is linked.

use std::ffi::{CStr, c_int};
use std::{mem, ptr};

use crate::sys;

/// A hook that is asked about a request, with flags of the module that asks.
pub type RequestHook = unsafe extern "C" fn(*mut sys::request_rec, c_int) -> c_int;

/// Has `body` called where the module that owns the hook of this name runs it.
///
/// # Safety
/// The hook of this name is declared as a RequestHook, and httpd is loading modules.
pub unsafe fn request_hook(name: &'static CStr, body: RequestHook) {
    // SAFETY: the owner of the hook casts the pointer back to what it declares, which
    // is RequestHook by the contract; lists of predecessors may be null.
    unsafe {
        let body = mem::transmute::<RequestHook, unsafe extern "C" fn()>(body);
        sys::apr_optional_hook_add(
            name.as_ptr(),
            Some(body),
            ptr::null(),
            ptr::null(),
            sys::APR_HOOK_MIDDLE,
        );
    }
}
