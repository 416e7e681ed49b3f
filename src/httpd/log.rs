//! httpd's error log. Every line of ours is one text that is already whole; httpd
//! adds time, module and client, and escapes control characters.

use std::ffi::{CStr, CString, c_int};

use super::connection::Connection;
use super::record::{Module, Slots};
use super::request::Request;
use super::server::Server;
use crate::sys;

/// A level of the error log.
#[derive(Clone, Copy)]
pub struct LogLevel(c_int);

impl LogLevel {
    /// Refuses to start.
    pub const EMERGENCY: LogLevel = LogLevel(sys::APLOG_EMERG);
    /// A fault.
    pub const ERROR: LogLevel = LogLevel(sys::APLOG_ERR);
    /// An administrator should look.
    pub const WARNING: LogLevel = LogLevel(sys::APLOG_WARNING);
    /// Worth knowing at each start.
    pub const NOTICE: LogLevel = LogLevel(sys::APLOG_NOTICE);
    /// Worth knowing when one looks for it.
    pub const INFO: LogLevel = LogLevel(sys::APLOG_INFO);

    /// The level with httpd's own number: 0 (`emerg`) to 15 (`trace8`).
    pub fn numbered(number: u8) -> LogLevel {
        LogLevel(number.into())
    }
}

/// Whether a line about this request at this level would be written.
pub fn shows<S: Slots>(module: &Module<S>, level: LogLevel, request: Request<'_>) -> bool {
    // SAFETY: the request is live.
    level.0 <= unsafe { sys::ap_get_request_module_loglevel(request.as_ptr(), module.index()) }
}

/// Whether a line about this connection at this level would be written.
pub fn shows_connection<S: Slots>(
    module: &Module<S>,
    level: LogLevel,
    connection: Connection<'_>,
) -> bool {
    // SAFETY: the connection is live.
    level.0 <= unsafe { sys::ap_get_conn_module_loglevel(connection.as_ptr(), module.index()) }
}

/// Up to which level, by httpd's number, lines about this server are written.
pub fn level_of_server<S: Slots>(module: &Module<S>, server: Server<'_>) -> u8 {
    // SAFETY: the server is live.
    let level = unsafe { sys::ap_get_server_module_loglevel(server.as_ptr(), module.index()) };
    u8::try_from(level).unwrap_or(0)
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
            level.0,
            0,
            request.as_ptr(),
            TEXT.as_ptr(),
            text,
        );
    }
}

/// A line about a connection.
pub fn connection<S: Slots>(
    module: &Module<S>,
    level: LogLevel,
    connection: Connection<'_>,
    text: &str,
) {
    let text = connection.pool().c_text(text);
    // SAFETY: the connection is live; %s takes the one NUL-terminated argument.
    unsafe {
        sys::ap_log_cerror_(
            FILE.as_ptr(),
            line!() as c_int,
            module.index(),
            level.0,
            0,
            connection.as_ptr(),
            TEXT.as_ptr(),
            text,
        );
    }
}

/// A line about a server, or about the whole httpd.
pub fn server<S: Slots>(module: &Module<S>, level: LogLevel, about: Server<'_>, text: &str) {
    line(module, level.0, about, text);
}

/// A line on the console: for `-t` and for a start that ends before a log is open.
pub fn startup<S: Slots>(module: &Module<S>, level: LogLevel, about: Server<'_>, text: &str) {
    line(module, level.0 | sys::APLOG_STARTUP as c_int, about, text);
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
