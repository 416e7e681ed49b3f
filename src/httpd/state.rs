//! httpd as a whole: in which pass it is, what survives a reload, what the MPM is.

use std::ffi::{CStr, c_int};
use std::mem::size_of;

use crate::sys;

/// Whether this is the first of the two passes that httpd makes at a start.
pub fn is_dry_pass() -> bool {
    // SAFETY: only reads httpd's own state.
    unsafe { sys::ap_state_query(sys::AP_SQ_MAIN_STATE) == sys::AP_SQ_MS_CREATE_PRE_CONFIG }
}

/// The most children and threads a child that the scoreboard has room for.
pub fn most_workers() -> (u32, u32) {
    (
        ask_mpm(sys::AP_MPMQ_HARD_LIMIT_DAEMONS),
        ask_mpm(sys::AP_MPMQ_HARD_LIMIT_THREADS),
    )
}

fn ask_mpm(question: c_int) -> u32 {
    let mut answer = 0;
    // SAFETY: writes one int, and does so only when it knows the question.
    unsafe { sys::ap_mpm_query(question, &mut answer) };
    // Prefork says 0 threads.
    u32::try_from(answer).unwrap_or(1).max(1)
}

/// httpd's name and version with what ServerTokens hides.
pub fn description() -> &'static str {
    // SAFETY: a text of httpd's that is made at start.
    unsafe { super::server::text(sys::ap_get_server_description()) }.unwrap_or("Apache")
}

/// Whether a process is a child of this httpd: alive, and in its process group.
pub fn is_child_of_ours(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else {
        return false;
    };
    // SAFETY: both only read.
    unsafe { libc::getpgid(pid) == libc::getpgrp() }
}

/// What was stored under this key, over all reloads of this httpd.
pub fn retained<T: Copy>(key: &CStr) -> Option<T> {
    // SAFETY: null, or what retain() made under this key.
    let stored: *const T = unsafe { sys::ap_retained_data_get(key.as_ptr()) }.cast();
    // SAFETY: retain() stored a T of this size; pool memory is aligned to 8.
    unsafe { stored.as_ref() }.copied()
}

/// Stores plain data under this key for the life of this httpd.
pub fn retain<T: Copy>(key: &CStr, value: T) {
    // SAFETY: the key is 'static in effect (httpd copies it); a key is made once.
    unsafe {
        let mut stored = sys::ap_retained_data_get(key.as_ptr());
        if stored.is_null() {
            stored = sys::ap_retained_data_create(key.as_ptr(), size_of::<T>() as sys::apr_size_t);
        }
        stored.cast::<T>().write(value);
    }
}

/// What C and the bindings do not agree on, if anything: sizes and offsets of the
/// structures that we touch.
pub fn layout_difference() -> Option<&'static str> {
    use std::mem::offset_of;
    // SAFETY: a constant of our own shim.
    let seen = unsafe { &sys::limitipconn_layout };
    let pairs = [
        (
            "request_rec",
            seen.request_size,
            size_of::<sys::request_rec>(),
        ),
        (
            "request_rec.pool",
            seen.request_pool,
            offset_of!(sys::request_rec, pool),
        ),
        (
            "request_rec.connection",
            seen.request_connection,
            offset_of!(sys::request_rec, connection),
        ),
        (
            "request_rec.server",
            seen.request_server,
            offset_of!(sys::request_rec, server),
        ),
        (
            "request_rec.main",
            seen.request_main,
            offset_of!(sys::request_rec, main),
        ),
        (
            "request_rec.prev",
            seen.request_prev,
            offset_of!(sys::request_rec, prev),
        ),
        (
            "request_rec.err_headers_out",
            seen.request_err_headers_out,
            offset_of!(sys::request_rec, err_headers_out),
        ),
        (
            "request_rec.subprocess_env",
            seen.request_subprocess_env,
            offset_of!(sys::request_rec, subprocess_env),
        ),
        (
            "request_rec.content_type",
            seen.request_content_type,
            offset_of!(sys::request_rec, content_type),
        ),
        (
            "request_rec.uri",
            seen.request_uri,
            offset_of!(sys::request_rec, uri),
        ),
        (
            "request_rec.useragent_addr",
            seen.request_useragent_addr,
            offset_of!(sys::request_rec, useragent_addr),
        ),
        (
            "request_rec.per_dir_config",
            seen.request_per_dir_config,
            offset_of!(sys::request_rec, per_dir_config),
        ),
        (
            "request_rec.request_config",
            seen.request_config,
            offset_of!(sys::request_rec, request_config),
        ),
        ("conn_rec", seen.conn_size, size_of::<sys::conn_rec>()),
        (
            "conn_rec.client_addr",
            seen.conn_client_addr,
            offset_of!(sys::conn_rec, client_addr),
        ),
        (
            "conn_rec.conn_config",
            seen.conn_config,
            offset_of!(sys::conn_rec, conn_config),
        ),
        (
            "conn_rec.sbh",
            seen.conn_sbh,
            offset_of!(sys::conn_rec, sbh),
        ),
        (
            "conn_rec.master",
            seen.conn_master,
            offset_of!(sys::conn_rec, master),
        ),
        ("server_rec", seen.server_size, size_of::<sys::server_rec>()),
        (
            "server_rec.module_config",
            seen.server_module_config,
            offset_of!(sys::server_rec, module_config),
        ),
        (
            "server_rec.lookup_defaults",
            seen.server_lookup_defaults,
            offset_of!(sys::server_rec, lookup_defaults),
        ),
        (
            "worker_score",
            seen.worker_size,
            size_of::<sys::worker_score>(),
        ),
        (
            "worker_score.status",
            seen.worker_status,
            offset_of!(sys::worker_score, status),
        ),
        (
            "apr_sockaddr_t.family",
            seen.sockaddr_family,
            offset_of!(sys::apr_sockaddr_t, family),
        ),
        (
            "apr_sockaddr_t.sa",
            seen.sockaddr_sin,
            offset_of!(sys::apr_sockaddr_t, sa),
        ),
        ("module", seen.module_size, size_of::<sys::module>()),
        (
            "command_rec",
            seen.command_size,
            size_of::<sys::command_rec>(),
        ),
        (
            "ap_directive_t",
            seen.directive_size,
            size_of::<sys::ap_directive_t>(),
        ),
        (
            "cmd_parms",
            seen.cmd_parms_size,
            size_of::<sys::cmd_parms>(),
        ),
    ];
    pairs
        .into_iter()
        .find(|(_, c, rust)| *c != *rust)
        .map(|(what, ..)| what)
}

#[cfg(test)]
mod tests {
    #[test]
    fn c_and_the_bindings_agree() {
        assert_eq!(super::layout_difference(), None);
    }
}
