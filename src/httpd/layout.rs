//! Whether C and Rust see the same structures: the shim says what the compiler of
//! httpd's headers sees, bindgen what libclang saw.

use std::mem::{offset_of, size_of};

use crate::sys;

/// What C and the bindings do not agree on, if anything: sizes and offsets of the
/// structures that we touch.
pub fn difference() -> Option<&'static str> {
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
        assert_eq!(super::difference(), None);
    }
}
