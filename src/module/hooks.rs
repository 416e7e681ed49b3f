//! The callbacks that httpd calls. Each is a thunk: it guards against panics, says
//! what httpd gets after one, and calls a typed function.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::running::{self, Running, Runtime};
use super::stream_meter::StreamMeter;
use super::trip::Trip;
use super::variable::ClientVariable;
use super::visitor::Visitor;
use super::{MODULE, admission, connections, lifecycle, server_status, status};
use crate::httpd::boundary::guard;
use crate::httpd::connection::Connection;
use crate::httpd::expression;
use crate::httpd::first_output;
use crate::httpd::input;
use crate::httpd::log::{self, LogLevel};
use crate::httpd::optional;
use crate::httpd::output;
use crate::httpd::pieces;
use crate::httpd::pool::Pool;
use crate::httpd::request::Request;
use crate::httpd::server::Server;
use crate::sys::{self, DECLINED, HTTP_INTERNAL_SERVER_ERROR, HTTP_SERVICE_UNAVAILABLE, OK};

/// Names of modules in the form in which httpd wants them. It keeps the pointer.
struct Modules([*const c_char; 2]);

// SAFETY: the names are constants, and all only read them.
unsafe impl Sync for Modules {}

static AFTER_REMOTEIP: Modules = Modules([c"mod_remoteip.c".as_ptr(), ptr::null()]);

/// Registers all hooks.
pub unsafe extern "C" fn register(_pool: *mut sys::apr_pool_t) {
    output::register::<Visitor>();
    input::register::<Visitor>();
    first_output::register::<Trip<'static>>();
    pieces::register::<StreamMeter>();
    expression::register::<ClientVariable>();
    const EARLIEST: c_int = sys::APR_HOOK_REALLY_FIRST;
    const LAST: c_int = sys::APR_HOOK_REALLY_LAST;
    let none = ptr::null();
    // SAFETY: httpd is single-threaded while it loads modules; the lists of
    // predecessors and successors may be null.
    unsafe {
        sys::ap_hook_check_config(Some(check_config), none, none, sys::APR_HOOK_MIDDLE);
        sys::ap_hook_test_config(Some(test_config), none, none, sys::APR_HOOK_MIDDLE);
        sys::ap_hook_post_config(Some(post_config), none, none, sys::APR_HOOK_MIDDLE);
        // After httpd's own, which makes the scoreboard.
        sys::ap_hook_pre_mpm(Some(pre_mpm), none, none, LAST);
        sys::ap_hook_child_init(Some(child_init), none, none, sys::APR_HOOK_MIDDLE);
        sys::ap_hook_child_status(Some(child_status), none, none, sys::APR_HOOK_MIDDLE);
        sys::ap_hook_monitor(Some(monitor), none, none, sys::APR_HOOK_MIDDLE);

        // Before mod_ssl makes its own of the connection; after mod_remoteip has said
        // whether it waits for a PROXY protocol header.
        sys::ap_hook_pre_connection(
            Some(pre_connection),
            AFTER_REMOTEIP.0.as_ptr(),
            none,
            sys::APR_HOOK_FIRST,
        );
        sys::ap_hook_suspend_connection(Some(suspend_connection), none, none, sys::APR_HOOK_MIDDLE);
        sys::ap_hook_resume_connection(Some(resume_connection), none, none, sys::APR_HOOK_MIDDLE);

        // Before mod_cache and mod_lua, which answer at FIRST.
        sys::ap_hook_quick_handler(Some(quick_handler), none, none, EARLIEST);
        sys::ap_hook_post_perdir_config(Some(post_perdir_config), none, none, EARLIEST);
        sys::ap_hook_access_checker(Some(access_checker), none, none, EARLIEST);
        // After mod_dir and mod_negotiation, which lead to other places here.
        sys::ap_hook_fixups(Some(fixups), none, none, LAST);
        sys::ap_hook_handler(Some(handler), none, none, EARLIEST);
        sys::ap_hook_protocol_switch(Some(protocol_switch), none, none, EARLIEST);
        sys::ap_hook_log_transaction(Some(log_transaction), none, none, EARLIEST);
        // mod_status' own, by name: it need not be loaded.
        optional::request_hook(server_status::HOOK, server_status_section);
    }
}

/// The body of a callback; after a panic httpd gets `fallback`.
pub fn guarded<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    guard(fallback, running::fault, body)
}

unsafe extern "C" fn check_config(
    pool: *mut sys::apr_pool_t,
    _log: *mut sys::apr_pool_t,
    _temp: *mut sys::apr_pool_t,
    server: *mut sys::server_rec,
) -> c_int {
    // SAFETY: httpd passes the configuration's pool and the main server, which live
    // until the configuration is read anew; by then Runtime is gone too.
    let (pool, main) = unsafe { (Pool::from_raw(pool), Server::from_raw(server)) };
    guarded(HTTP_INTERNAL_SERVER_ERROR, || {
        started(lifecycle::check_config(pool, main), main)
    })
}

unsafe extern "C" fn test_config(pool: *mut sys::apr_pool_t, server: *mut sys::server_rec) {
    // SAFETY: as in check_config.
    let (pool, main) = unsafe { (Pool::from_raw(pool), Server::from_raw(server)) };
    guarded((), || lifecycle::test_config(pool, main));
}

unsafe extern "C" fn post_config(
    pool: *mut sys::apr_pool_t,
    _log: *mut sys::apr_pool_t,
    _temp: *mut sys::apr_pool_t,
    server: *mut sys::server_rec,
) -> c_int {
    // SAFETY: as in check_config.
    let (pool, main) = unsafe { (Pool::from_raw(pool), Server::from_raw(server)) };
    guarded(HTTP_INTERNAL_SERVER_ERROR, || {
        started(lifecycle::post_config(pool, main), main)
    })
}

/// What a hook of the start returns; a refusal to start is told.
fn started(result: Result<(), String>, main: Server<'_>) -> c_int {
    match result {
        Ok(()) => OK,
        Err(sentence) => {
            log::startup(MODULE, LogLevel::EMERGENCY, main, &sentence);
            HTTP_INTERNAL_SERVER_ERROR
        }
    }
}

unsafe extern "C" fn pre_mpm(_pool: *mut sys::apr_pool_t, _kind: sys::ap_scoreboard_e) -> c_int {
    guarded(HTTP_INTERNAL_SERVER_ERROR, || match lifecycle::pre_mpm() {
        Ok(()) => OK,
        Err(sentence) => {
            if let Some(runtime) = Runtime::current() {
                runtime.log(LogLevel::EMERGENCY, &sentence);
            }
            HTTP_INTERNAL_SERVER_ERROR
        }
    })
}

unsafe extern "C" fn child_init(pool: *mut sys::apr_pool_t, _server: *mut sys::server_rec) {
    // SAFETY: httpd passes the child's own pool, which lives as long as the child serves.
    let pool = unsafe { Pool::from_raw(pool) };
    guarded((), || lifecycle::child_init(pool));
}

unsafe extern "C" fn child_status(
    _server: *mut sys::server_rec,
    pid: sys::pid_t,
    _generation: sys::ap_generation_t,
    _slot: c_int,
    state: sys::mpm_child_status,
) {
    if state == sys::mpm_child_status_MPM_CHILD_EXITED {
        guarded((), || lifecycle::child_exited(pid.unsigned_abs()));
    }
}

unsafe extern "C" fn monitor(_pool: *mut sys::apr_pool_t, _server: *mut sys::server_rec) -> c_int {
    guarded(DECLINED, || {
        lifecycle::monitor();
        DECLINED
    })
}

unsafe extern "C" fn pre_connection(connection: *mut sys::conn_rec, socket: *mut c_void) -> c_int {
    let Some(running) = Running::get() else {
        return OK;
    };
    // SAFETY: httpd passes a live connection.
    let connection = unsafe { Connection::from_raw(connection) };
    guarded(OK, || {
        if connection.is_stream() || connection.is_outgoing() || !connection.came_to_a_listener() {
            return OK;
        }
        let visitor = Visitor::welcome(running, connection);
        if !running.has_connection_rules() {
            return OK;
        }
        // SAFETY: the second argument of this hook is the connection's socket.
        let is_dummy = || unsafe { connection.is_dummy(socket) };
        match visitor {
            Some(visitor)
                if !is_dummy() && !connections::on_arrival(running, visitor, connection) =>
            {
                // httpd closes it without a byte, as one that could not be set up.
                HTTP_SERVICE_UNAVAILABLE
            }
            _ => OK,
        }
    })
}

unsafe extern "C" fn suspend_connection(
    connection: *mut sys::conn_rec,
    _request: *mut sys::request_rec,
) {
    // SAFETY: httpd passes a live connection.
    let connection = unsafe { Connection::from_raw(connection) };
    guarded((), || {
        if let Some(visitor) = connection.state(MODULE) {
            visitor.get_up();
        }
    });
}

unsafe extern "C" fn resume_connection(
    connection: *mut sys::conn_rec,
    _request: *mut sys::request_rec,
) {
    // SAFETY: httpd passes a live connection.
    let connection = unsafe { Connection::from_raw(connection) };
    guarded((), || {
        if let Some(visitor) = connection.state(MODULE) {
            visitor.sit_down(connection);
        }
    });
}

unsafe extern "C" fn quick_handler(request: *mut sys::request_rec, lookup: c_int) -> c_int {
    if Running::rules_anywhere() && lookup == 0 {
        asked(request, admission::on_arrival)
    } else {
        DECLINED
    }
}

unsafe extern "C" fn post_perdir_config(request: *mut sys::request_rec) -> c_int {
    if Running::rules_anywhere() {
        asked(request, admission::after_walk)
    } else {
        DECLINED
    }
}

unsafe extern "C" fn access_checker(request: *mut sys::request_rec) -> c_int {
    // SAFETY: httpd passes a live request and keeps it until the hook returns.
    let is_settled = || unsafe { admission::is_settled(Request::from_raw(request)) };
    if Running::rules_anywhere() && !is_settled() {
        asked(request, admission::after_walk)
    } else {
        DECLINED
    }
}

unsafe extern "C" fn fixups(request: *mut sys::request_rec) -> c_int {
    if Running::rules_anywhere() {
        asked(request, admission::when_all_is_known)
    } else {
        DECLINED
    }
}

unsafe extern "C" fn handler(request: *mut sys::request_rec) -> c_int {
    // SAFETY: httpd passes a live request and keeps it until the hook returns.
    let (is_sub, is_ours) = unsafe {
        let request = Request::from_raw(request);
        (request.is_sub(), request.has_handler(status::HANDLER))
    };
    if !is_sub && Running::has_rates() {
        asked(request, |_, request| {
            admission::before_work(request);
            DECLINED
        });
    }
    if is_sub && Running::rules_anywhere() {
        let status = asked(request, admission::before_subrequest);
        if status != DECLINED {
            return status;
        }
    }
    if is_ours {
        asked(request, status::serve)
    } else {
        DECLINED
    }
}

/// The body of a request's hook. Kept out of the hooks themselves, which mostly have
/// nothing to do and then cost a handful of instructions.
#[inline(never)]
fn asked(request: *mut sys::request_rec, body: impl Fn(Running, Request<'_>) -> c_int) -> c_int {
    let Some(running) = Running::get() else {
        return DECLINED;
    };
    // SAFETY: httpd passes a live request and keeps it until the hook returns.
    let request = unsafe { Request::from_raw(request) };
    guarded(DECLINED, || {
        running::planted_fault();
        body(running, request)
    })
}

unsafe extern "C" fn protocol_switch(
    connection: *mut sys::conn_rec,
    request: *mut sys::request_rec,
    _server: *mut sys::server_rec,
    _protocol: *const c_char,
) -> c_int {
    if !request.is_null() {
        // SAFETY: httpd passes a live request and keeps it until the hook returns.
        let request = unsafe { Request::from_raw(request) };
        guarded((), || admission::before_upgrade(request));
        // SAFETY: httpd passes the live connection that changes its protocol.
        let connection = unsafe { Connection::from_raw(connection) };
        guarded((), || {
            if let (Some(running), Some(visitor)) = (Running::get(), connection.state(MODULE))
                && running.child.http2.is_some()
            {
                visitor.watch_streams(connection);
            }
        });
    }
    DECLINED
}

unsafe extern "C" fn log_transaction(request: *mut sys::request_rec) -> c_int {
    if Running::ends_matter() {
        asked(request, |running, request| {
            admission::at_the_end(running, request);
            DECLINED
        })
    } else {
        DECLINED
    }
}

unsafe extern "C" fn server_status_section(request: *mut sys::request_rec, flags: c_int) -> c_int {
    asked(request, |running, request| {
        server_status::show(running, request, flags)
    })
}
