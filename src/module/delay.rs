//! Waiting for a turn (`delay=`): in the worker, for seconds at most, and no longer than
//! the client is there.

use std::time::Duration;

use crate::httpd::request::Request;
use crate::httpd::state;

/// How often a stream is asked whether its client has given it up: nothing wakes us then.
const LOOK: Duration = Duration::from_millis(50);

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// It is the request's turn.
    Through,
    /// Its client is gone.
    Gone,
}

/// Waits so long, in nanoseconds, while the client is there.
pub fn wait(request: Request<'_>, time: u64) -> Waited {
    let connection = request.connection();
    let until = state::nanoseconds_up().saturating_add(time);
    loop {
        let left = until.saturating_sub(state::nanoseconds_up());
        if left == 0 {
            return Waited::Through;
        }
        let left = Duration::from_nanos(left);
        let is_gone = if connection.is_stream() {
            std::thread::sleep(left.min(LOOK));
            connection.is_aborted()
        } else {
            connection.is_closed_within(left)
        };
        if is_gone {
            return Waited::Gone;
        }
    }
}
