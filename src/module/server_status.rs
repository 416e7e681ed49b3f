//! The section in mod_status' page: a hook of that module, which need not be loaded.

use std::ffi::{CStr, c_int};

use super::running::Running;
use super::status;
use crate::httpd::request::Request;
use crate::report::server_status;
use crate::sys;

/// The hook's name.
pub const HOOK: &CStr = c"status_hook";

/// Adds the section to the answer that mod_status is writing.
pub fn show(running: Running, request: Request<'_>, flags: c_int) -> c_int {
    let snapshot = status::snapshot(running);
    let text = if flags & sys::AP_STATUS_SHORT != 0 {
        server_status::auto(&snapshot)
    } else {
        server_status::html(&snapshot, flags & sys::AP_STATUS_NOTABLE == 0)
    };
    request.write(&text);
    sys::OK
}
