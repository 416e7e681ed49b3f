//! What mod_http2 tells of a stream, and of its own workers.

use std::ffi::{c_char, c_int};
use std::mem;

use super::request::Request;
use super::server::{Server, text};
use crate::sys;

type VarLookup = unsafe extern "C" fn(
    *mut sys::apr_pool_t,
    *mut sys::server_rec,
    *mut sys::conn_rec,
    *mut sys::request_rec,
    *mut c_char,
) -> *mut c_char;

type GetNumWorkers = unsafe extern "C" fn(*mut sys::server_rec, *mut c_int, *mut c_int);

/// mod_http2, where it is loaded.
#[derive(Clone, Copy)]
pub struct Http2 {
    var_lookup: VarLookup,
    get_num_workers: Option<GetNumWorkers>,
}

impl Http2 {
    /// mod_http2, if it is loaded; known once all modules are.
    pub fn find() -> Option<Http2> {
        // SAFETY: the names are NUL-terminated; null, or the function of this name, whose
        // type mod_http2.h declares.
        unsafe {
            let var_lookup = sys::apr_dynamic_fn_retrieve(c"http2_var_lookup".as_ptr())?;
            let get_num_workers = sys::apr_dynamic_fn_retrieve(c"http2_get_num_workers".as_ptr());
            Some(Http2 {
                var_lookup: mem::transmute::<unsafe extern "C" fn(), VarLookup>(var_lookup),
                get_num_workers: get_num_workers
                    .map(|found| mem::transmute::<unsafe extern "C" fn(), GetNumWorkers>(found)),
            })
        }
    }

    /// How many workers mod_http2 has in a child at most, if it tells: those of the main
    /// server, from which it makes them.
    pub fn most_workers(self, main: Server<'_>) -> Option<u32> {
        let (mut least, mut most): (c_int, c_int) = (0, 0);
        // SAFETY: the server is live; mod_http2 reads its configuration, which is complete,
        // and writes the two numbers.
        unsafe { (self.get_num_workers?)(main.as_ptr(), &mut least, &mut most) };
        u32::try_from(most).ok().filter(|most| *most > 0)
    }

    /// The number of the stream that carries this request.
    pub fn stream(self, request: Request<'_>) -> Option<u32> {
        let mut name = *b"H2_STREAM_ID\0";
        // SAFETY: all are live; mod_http2 only reads the name.
        unsafe {
            let value = (self.var_lookup)(
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
