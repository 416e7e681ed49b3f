//! httpd's error log. Every line of ours is one text that is already whole; httpd
//! adds time, module and client, and escapes control characters.

use std::ffi::{CStr, CString, c_int};

use super::record::{Module, Slots};
use super::request::Request;
use super::server::Server;
use crate::sys;

/// The levels that we use.
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum LogLevel {
    /// Refuses to start.
    Emergency = sys::APLOG_EMERG,
    /// A fault.
    Error = sys::APLOG_ERR,
    /// An administrator should look.
    Warning = sys::APLOG_WARNING,
    /// Worth knowing at each start.
    Notice = sys::APLOG_NOTICE,
    /// Worth knowing when one looks for it.
    Info = sys::APLOG_INFO,
}

/// httpd shows file and line at its debug levels only, and then these serve.
const FILE: &CStr = c"mod_limitipconn.c";
const TEXT: &CStr = c"%s";

/// A line about a request.
pub fn request<S: Slots>(module: &Module<S>, level: LogLevel, request: Request<'_>, text: &str) {
    let text = request.pool().c_text(text);
    // SAFETY: the request is live; %s takes the one NUL-terminated argument.
    unsafe {
        sys::ap_log_rerror_(
            FILE.as_ptr(),
            line!() as c_int,
            module.index(),
            level as c_int,
            0,
            request.as_ptr(),
            TEXT.as_ptr(),
            text,
        );
    }
}

/// A line about a server, or about the whole httpd.
pub fn server<S: Slots>(module: &Module<S>, level: LogLevel, about: Server<'_>, text: &str) {
    line(module, level as c_int, about, text);
}

/// A line on the console: for `-t` and for a start that ends before a log is open.
pub fn startup<S: Slots>(module: &Module<S>, level: LogLevel, about: Server<'_>, text: &str) {
    line(
        module,
        level as c_int | sys::APLOG_STARTUP as c_int,
        about,
        text,
    );
}

fn line<S: Slots>(module: &Module<S>, level: c_int, about: Server<'_>, text: &str) {
    let bytes: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
    let text = CString::new(bytes).unwrap_or_default();
    // SAFETY: the server is live; %s takes the one NUL-terminated argument.
    unsafe {
        sys::ap_log_error_(
            FILE.as_ptr(),
            line!() as c_int,
            module.index(),
            level,
            0,
            about.as_ptr(),
            TEXT.as_ptr(),
            text.as_ptr(),
        );
    }
}
