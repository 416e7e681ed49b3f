//! Follows what a client sends on a connection, and adds to it: what is added comes to the
//! protocol above as if the client had sent it.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use super::boundary::guard;
use super::buckets::{self, Bucket};
use super::connection::Connection;
use crate::sys;

/// Somebody who follows the input of one connection.
pub trait Follow {
    /// The filter's name.
    const NAME: &CStr;

    /// More input is asked for: adds to the output. What was handed to the protocol before,
    /// it has dealt with, and what it had to say has gone out.
    fn answers(&self, add: impl FnMut(&[u8]));

    /// Whether there is something to follow.
    fn follows(&self) -> bool;

    /// There is no more.
    fn stops(&self);

    /// These bytes have come. False: this is nothing to follow any more.
    fn sees(&self, bytes: &[u8]) -> bool;

    /// Nothing more comes at present: adds to it.
    fn adds(&self, add: impl FnMut(&[u8]));

    /// Hears of a panic in one of these.
    fn on_fault(text: &str);
}

/// What the filter of one connection has.
struct Followed<'c, F> {
    who: &'c F,
    /// What is added to the output, the same brigade for all of it; null until needed.
    output: Cell<*mut sys::apr_bucket_brigade>,
}

/// Makes the filter known to httpd.
pub fn register<F: Follow>() {
    // SAFETY: called while httpd loads modules, single-threaded; the name is 'static.
    unsafe {
        // Above mod_ssl, which is at 5 more.
        let kind = sys::ap_filter_type_AP_FTYPE_CONNECTION;
        sys::ap_register_input_filter(F::NAME.as_ptr(), Some(thunk::<F>), None, kind);
    }
}

/// Lets `who` follow the input of this connection. Called on the thread that carries it.
pub fn follow<'c, F: Follow>(connection: Connection<'c>, who: &'c F) {
    let followed = ptr::from_mut(connection.pool().alloc(Followed {
        who,
        output: Cell::new(ptr::null_mut()),
    }));
    // SAFETY: the connection is live; what is in its pool and `who` live as long.
    unsafe {
        sys::ap_add_input_filter(
            F::NAME.as_ptr(),
            followed.cast::<c_void>(),
            ptr::null_mut(),
            connection.as_ptr(),
        );
    }
}

unsafe extern "C" fn thunk<F: Follow>(
    filter: *mut sys::ap_filter_t,
    brigade: *mut sys::apr_bucket_brigade,
    mode: sys::ap_input_mode_t,
    block: sys::apr_read_type_e,
    bytes: sys::apr_off_t,
) -> sys::apr_status_t {
    // SAFETY: httpd passes a live filter that `follow` above has added with its Followed,
    // which lives as long as the connection, and a live brigade of it. Only the thread that
    // carries the connection comes here.
    unsafe {
        let (followed, next) = (&*(*filter).ctx.cast::<Followed<'_, F>>(), (*filter).next);
        let who = followed.who;
        let is_followed = match mode {
            sys::ap_input_mode_t_AP_MODE_READBYTES => who.follows(),
            // Nothing is taken from the input by these.
            sys::ap_input_mode_t_AP_MODE_SPECULATIVE | sys::ap_input_mode_t_AP_MODE_INIT => false,
            // HTTP/1 reads by lines. The request keeps the filter, so it stays where it is.
            _ => {
                who.stops();
                false
            }
        };
        if !is_followed {
            return sys::ap_get_brigade(next, brigade, mode, block, bytes);
        }
        answer(followed, (*filter).c);
        let status = sys::ap_get_brigade(next, brigade, mode, block, bytes);
        let is_nothing_yet = status == libc::EAGAIN;
        if status != 0 && !is_nothing_yet {
            return status;
        }
        if status == 0 && !guard(false, F::on_fault, || look(who, brigade)) {
            who.stops();
            return status;
        }
        let mut is_added = false;
        guard((), F::on_fault, || {
            who.adds(|bytes| {
                add(brigade, bytes);
                is_added = true;
            });
        });
        if is_added { 0 } else { status }
    }
}

/// Sends what is to be added to the output.
///
/// # Safety
/// The connection is live and the one that is followed, and carried by this thread.
unsafe fn answer<F: Follow>(followed: &Followed<'_, F>, connection: *mut sys::conn_rec) {
    // SAFETY: the brigade is made of the connection's own pool and buckets, and so lives as
    // long as the Followed that keeps it, which is in that pool, too.
    unsafe {
        let mut output = followed.output.get();
        guard((), F::on_fault, || {
            followed.who.answers(|bytes| {
                if output.is_null() {
                    output =
                        sys::apr_brigade_create((*connection).pool, (*connection).bucket_alloc);
                    followed.output.set(output);
                }
                add(output, bytes);
            });
        });
        if !output.is_null() && sys::limitipconn_brigade_is_empty(output) == 0 {
            sys::limitipconn_brigade_flush(output);
            // Where this fails, so will whoever writes next, and says so.
            sys::ap_pass_brigade((*connection).output_filters, output);
            sys::apr_brigade_cleanup(output.cast());
        }
    }
}

/// Adds a copy of these bytes.
///
/// # Safety
/// The brigade is live.
unsafe fn add(brigade: *mut sys::apr_bucket_brigade, bytes: &[u8]) {
    // SAFETY: a live brigade; the bytes are copied.
    unsafe {
        sys::limitipconn_brigade_add(brigade, bytes.as_ptr().cast::<c_char>(), bytes.len());
    }
}

/// # Safety
/// The brigade is live.
unsafe fn look<F: Follow>(who: &F, brigade: *mut sys::apr_bucket_brigade) -> bool {
    let see = |bucket: &Bucket| {
        // To read one whose length is not known could mean to wait.
        let is_there = bucket.length() != buckets::UNKNOWN;
        let bytes = if is_there { bucket.read() } else { None };
        bytes.is_some_and(|bytes| who.sees(bytes))
    };
    // SAFETY: a live brigade; those who follow take nothing out of it.
    unsafe { buckets::all(brigade, see) }
}
