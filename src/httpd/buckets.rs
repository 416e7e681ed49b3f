//! The buckets of a brigade that hold data, looked at and left as they are.

use std::ffi::{c_char, c_int};
use std::{ptr, slice};

use crate::sys;

/// The length of a bucket that is not known before it is read.
pub const UNKNOWN: usize = usize::MAX;

/// A bucket of a brigade that is being looked through.
pub struct Bucket(*mut sys::apr_bucket);

impl Bucket {
    /// Its bytes, or [`UNKNOWN`].
    pub fn length(&self) -> usize {
        // SAFETY: `all` hands it out while it is in its brigade.
        unsafe { (*self.0).length }
    }

    /// What it holds, which may have to be fetched from a file or waited for; None if that
    /// fails. Of a long one it is the beginning, and the rest is a bucket that comes next.
    pub fn read(&self) -> Option<&[u8]> {
        let (mut bytes, mut length): (*const c_char, _) = (ptr::null(), 0);
        // SAFETY: a bucket that is in its brigade, as above; what is read belongs to it until
        // it is deleted, which nobody does while `all` looks through the brigade.
        unsafe {
            let status: c_int = sys::limitipconn_bucket_read(self.0, &mut bytes, &mut length);
            (status == 0 && !bytes.is_null())
                .then(|| slice::from_raw_parts(bytes.cast::<u8>(), length))
        }
    }
}

/// Whether `see` says so of all of them, in order; it sees no more after one of which it does not.
///
/// # Safety
/// The brigade is live, and nobody takes a bucket out of it meanwhile.
pub unsafe fn all(
    brigade: *mut sys::apr_bucket_brigade,
    mut see: impl FnMut(&Bucket) -> bool,
) -> bool {
    let mut bucket = ptr::null_mut();
    loop {
        // SAFETY: a live brigade, and null or a bucket of it.
        bucket = unsafe { sys::limitipconn_bucket_after(brigade, bucket) };
        if bucket.is_null() {
            return true;
        }
        // SAFETY: a bucket of the brigade.
        let is_metadata = unsafe { sys::limitipconn_bucket_is_metadata(bucket) } != 0;
        if !is_metadata && !see(&Bucket(bucket)) {
            return false;
        }
    }
}
