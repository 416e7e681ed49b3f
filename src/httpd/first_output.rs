//! Tells the status of an answer before the first byte of it goes out.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use super::boundary::guard;
use super::request::Request;
use crate::sys;

/// Somebody who wants to know the status of a request's answer.
pub trait AwaitStatus {
    /// The filter's name.
    const NAME: &'static CStr;

    /// The status is known: nothing has gone out yet.
    fn has_status(&self, status: c_int);

    /// Hears of a panic in it.
    fn on_fault(text: &str);
}

/// Makes the filter known to httpd.
pub fn register<A: AwaitStatus>() {
    // SAFETY: called while httpd loads modules, single-threaded; the name is 'static.
    unsafe {
        // Of the protocol: it stays through internal redirects to error pages.
        let kind = sys::ap_filter_type_AP_FTYPE_PROTOCOL;
        sys::ap_register_output_filter(A::NAME.as_ptr(), Some(thunk::<A>), None, kind);
    }
}

/// Lets `who` know the status of the answer that this request is, or is a part of.
///
/// A subrequest ends before the page does, and httpd would take the filter from its pool,
/// yet hang it into the page's own chain.
pub fn watch<'r, A: AwaitStatus>(request: Request<'r>, who: &'r A) {
    let request = request.whole();
    // SAFETY: the request is live, and no subrequest: its pool, which the filter is taken
    // from, ends with the request of the client, and `who` not before.
    unsafe {
        sys::ap_add_output_filter(
            A::NAME.as_ptr(),
            ptr::from_ref(who).cast_mut().cast::<c_void>(),
            request.as_ptr(),
            request.connection().as_ptr(),
        );
    }
}

unsafe extern "C" fn thunk<A: AwaitStatus>(
    filter: *mut sys::ap_filter_t,
    brigade: *mut sys::apr_bucket_brigade,
) -> sys::apr_status_t {
    // SAFETY: httpd passes a live filter that `watch` above has added with an A that lives
    // as long as the client's request, and the request that it has come to by redirects.
    unsafe {
        let (who, next) = (&*(*filter).ctx.cast::<A>(), (*filter).next);
        let request = Request::from_raw((*filter).r);
        guard((), A::on_fault, || who.has_status(request.status()));
        sys::ap_remove_output_filter(filter);
        sys::ap_pass_brigade(next, brigade)
    }
}
