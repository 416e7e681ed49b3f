//! Watches what goes out on a connection, without changing it.

use std::ffi::{CStr, c_void};
use std::ptr;

use super::boundary::guard;
use super::buckets::{self, Bucket};
use super::connection::Connection;
use crate::sys;

/// Somebody who watches the output of one connection.
pub trait Watch {
    /// The filter's name.
    const NAME: &CStr;

    /// How many bytes to come need not be seen.
    fn unseen(&self) -> usize;

    /// So many bytes go out, of those that need not be seen.
    fn skips(&self, bytes: usize);

    /// These bytes go out. False: this is nothing to watch any more.
    fn sees(&self, bytes: &[u8]) -> bool;

    /// All that was seen has been handed on.
    fn passed(&self);

    /// Hears of a panic in one of these.
    fn on_fault(text: &str);
}

/// Makes the filter known to httpd.
pub fn register<W: Watch>() {
    // SAFETY: called while httpd loads modules, single-threaded; the name is 'static.
    unsafe {
        // Above mod_ssl, which is at 5 more.
        let kind = sys::ap_filter_type_AP_FTYPE_CONNECTION;
        sys::ap_register_output_filter(W::NAME.as_ptr(), Some(thunk::<W>), None, kind);
    }
}

/// Lets `watch` see the output of this connection. Called on the thread that carries it.
pub fn watch<'c, W: Watch>(connection: Connection<'c>, watch: &'c W) {
    // SAFETY: the connection is live; `watch` lives as long.
    unsafe {
        sys::ap_add_output_filter(
            W::NAME.as_ptr(),
            ptr::from_ref(watch).cast_mut().cast::<c_void>(),
            ptr::null_mut(),
            connection.as_ptr(),
        );
    }
}

unsafe extern "C" fn thunk<W: Watch>(
    filter: *mut sys::ap_filter_t,
    brigade: *mut sys::apr_bucket_brigade,
) -> sys::apr_status_t {
    // SAFETY: httpd passes a live filter that `watch` above has added with a W that the
    // connection keeps, and a live brigade.
    unsafe {
        let (watch, next) = (&*(*filter).ctx.cast::<W>(), (*filter).next);
        let goes_on = guard(false, W::on_fault, || look(watch, brigade));
        if !goes_on {
            sys::ap_remove_output_filter(filter);
        }
        let status = sys::ap_pass_brigade(next, brigade);
        if goes_on {
            guard((), W::on_fault, || watch.passed());
        }
        status
    }
}

/// # Safety
/// The brigade is live.
unsafe fn look<W: Watch>(watch: &W, brigade: *mut sys::apr_bucket_brigade) -> bool {
    let see = |bucket: &Bucket| {
        // A file is not read for this, unless a header should begin in it. A length that
        // is not known is the highest number there is.
        let length = bucket.length();
        if length <= watch.unseen() {
            watch.skips(length);
            return true;
        }
        bucket.read().is_some_and(|bytes| watch.sees(bytes))
    };
    // SAFETY: a live brigade; those who watch take nothing out of it.
    unsafe { buckets::all(brigade, see) }
}
