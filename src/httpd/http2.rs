//! What mod_http2 tells of a stream.

use std::ffi::c_char;
use std::mem;

use super::request::Request;
use super::server::text;
use crate::sys;

type VarLookup = unsafe extern "C" fn(
    *mut sys::apr_pool_t,
    *mut sys::server_rec,
    *mut sys::conn_rec,
    *mut sys::request_rec,
    *mut c_char,
) -> *mut c_char;

/// mod_http2, where it is loaded.
#[derive(Clone, Copy)]
pub struct Http2(VarLookup);

impl Http2 {
    /// mod_http2, if it is loaded; known once all modules are.
    pub fn find() -> Option<Http2> {
        // SAFETY: the name is NUL-terminated; null, or the function of this name, whose
        // type mod_http2.h declares.
        unsafe {
            let found = sys::apr_dynamic_fn_retrieve(c"http2_var_lookup".as_ptr());
            found.map(|found| Http2(mem::transmute::<unsafe extern "C" fn(), VarLookup>(found)))
        }
    }

    /// The number of the stream that carries this request.
    pub fn stream(self, request: Request<'_>) -> Option<u32> {
        let mut name = *b"H2_STREAM_ID\0";
        // SAFETY: all are live; mod_http2 only reads the name.
        unsafe {
            let value = (self.0)(
                request.pool().as_ptr(),
                request.server().as_ptr(),
                request.connection().as_ptr(),
                request.as_ptr(),
                name.as_mut_ptr().cast(),
            );
            text(value)?.parse().ok().filter(|stream| *stream != 0)
        }
    }
}
