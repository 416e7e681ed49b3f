//! Servers that count together: what `IPLimitRedis` says, and the part that a child and a
//! request have in it. The counts themselves are behind [`store::fleet`](crate::store::fleet).

mod away;
mod settings;
mod start;

pub use away::{Away, Missed};
pub use settings::Redis;
pub use start::{Started, check, child_init, nameless, started};

use crate::limit::key::Secret;

/// The key of the digests in shared counts: the same on all servers, so no secret. Whoever could
/// make two keys meet would only share a limit that is his own.
pub const FLEET: Secret = Secret([0x6c69_6d69_7469_7063, 0x6f6e_6e5f_666c_6565]);
