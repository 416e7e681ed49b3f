//! What root may do, given up as soon as it is not needed any more.
//!
//! The insert locks lie in memory that httpd's workers write to. A robust mutex holds addresses
//! that its owner follows: a worker that somebody has taken over could make a root of us write
//! where he wants.

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

/// The user and the group that nothing belongs to.
const NOBODY: u32 = 65534;

/// Becomes nobody, if we are root. The command has one thread when it does this. Where we are not
/// allowed to, as in a container without the capability, httpd has not changed its user either.
pub fn give_up() {
    if !geteuid().is_root() {
        return;
    }
    let _ = set_thread_groups(&[])
        .and_then(|()| set_thread_gid(Gid::from_raw(NOBODY)))
        .and_then(|()| set_thread_uid(Uid::from_raw(NOBODY)));
}
