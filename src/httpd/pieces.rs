//! Hands the body of a stream of HTTP/2 on in small pieces, each when somebody lets it go:
//! nobody outside can tell how fast a client takes one of many streams, nor end one. What
//! mod_http2 takes whole without making anybody wait, which is files, goes on whole.

use std::ffi::{CStr, c_void};
use std::ptr;

use super::boundary::guard;
use super::request::Request;
use crate::sys;

/// Bytes of a piece.
const PIECE: usize = 16 * 1024;

/// Somebody who measures.
pub trait Meter {
    /// The filter's name.
    const NAME: &'static CStr;

    /// A piece is there: waits until it may go. False: the stream is to be ended. httpd may
    /// give it up meanwhile.
    fn waits(&self, piece: Piece, is_given_up: impl Fn() -> bool) -> bool;

    /// It was handed on, and somebody took it or not. False: the stream is to be ended.
    fn passed(&self, piece: Piece, is_taken: bool) -> bool;

    /// Hears of a panic in one of these.
    fn on_fault(text: &str);
}

/// A piece of a body.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Bytes of the body.
    pub bytes: usize,
    /// Whether it is the last.
    pub is_last: bool,
    /// Whether mod_http2 takes it without making the worker wait, however long it is.
    pub is_whole: bool,
}

/// Makes the filter known to httpd.
pub fn register<M: Meter>() {
    // SAFETY: called while httpd loads modules, single-threaded; the name is 'static.
    unsafe {
        let kind = sys::ap_filter_type_AP_FTYPE_PROTOCOL;
        sys::ap_register_output_filter(M::NAME.as_ptr(), Some(thunk::<M>), None, kind);
    }
}

/// What the filter of one answer has.
struct Pieces<'r, M> {
    who: &'r M,
    /// The piece that is on its way, the same for all of them: each brigade would take
    /// memory until the request ends.
    piece: *mut sys::apr_bucket_brigade,
}

/// Lets `who` measure the answer to this request.
pub fn meter<'r, M: Meter>(request: Request<'r>, who: &'r M) {
    let connection = request.connection().as_ptr();
    // SAFETY: request and connection are live, and so are the request's pool and the
    // connection's buckets; what is made in the pool lives as long as `who`, and the filter
    // is gone with it.
    unsafe {
        let pool = request.pool();
        let piece = sys::apr_brigade_create(pool.as_ptr(), (*connection).bucket_alloc);
        let pieces = ptr::from_mut(pool.alloc(Pieces { who, piece }));
        let context = pieces.cast::<c_void>();
        sys::ap_add_output_filter(M::NAME.as_ptr(), context, request.as_ptr(), connection);
    }
}

unsafe extern "C" fn thunk<M: Meter>(
    filter: *mut sys::ap_filter_t,
    brigade: *mut sys::apr_bucket_brigade,
) -> sys::apr_status_t {
    // SAFETY: httpd passes a live filter that `meter` above has added with its Pieces, which
    // live as long as the client's request, and a live brigade. Only the thread that serves
    // the request comes here.
    unsafe {
        let pieces = &*(*filter).ctx.cast::<Pieces<'_, M>>();
        let (who, brigade_of_piece) = (pieces.who, pieces.piece);
        // Somebody below answers with an error while a piece is on its way.
        if sys::limitipconn_brigade_is_empty(brigade_of_piece) == 0 {
            return sys::ap_pass_brigade((*filter).next, brigade);
        }
        loop {
            let (mut is_last, mut is_whole) = (0, 0);
            let bytes = sys::limitipconn_brigade_move(
                brigade,
                brigade_of_piece,
                PIECE,
                &mut is_last,
                &mut is_whole,
            );
            let piece = Piece {
                bytes,
                is_last: is_last != 0,
                is_whole: is_whole != 0,
            };
            // Written by the thread of the connection at any time: hence volatile.
            let is_given_up = || ptr::read_volatile(&raw const (*(*filter).c).aborted) != 0;
            let mut status = 0;
            let mut goes_on = guard(true, M::on_fault, || who.waits(piece, is_given_up));
            if goes_on {
                status = sys::ap_pass_brigade((*filter).next, brigade_of_piece);
                goes_on = guard(true, M::on_fault, || who.passed(piece, status == 0));
            }
            sys::apr_brigade_cleanup(brigade_of_piece.cast());
            if status != 0 {
                return status;
            }
            if !goes_on {
                // So that the stream is reset and does not end as if it were whole.
                (*(*filter).c).aborted = 1;
                return sys::limitipconn_aborted();
            }
            if sys::limitipconn_brigade_is_empty(brigade) != 0 {
                return 0;
            }
        }
    }
}
