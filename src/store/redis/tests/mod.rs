//! The scripts against the functions that decide on this side, and the connection against a
//! real redis-server.

#[allow(dead_code, reason = "the integration tests use the rest")]
#[path = "../../../../tests/support/redis.rs"]
mod server;

mod faults;
mod places;
mod rates;

use redis::Connection;

use self::server::Redis;
use super::scripts::{Caller, Script, reply};
use crate::store::fleet::{Command, Reply};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);

/// A server and a connection to it, for scripts by a clock of our own.
struct Scripts {
    redis: Redis,
    connection: Connection,
    loaded: Vec<String>,
}

impl Scripts {
    fn new() -> Scripts {
        let redis = Redis::start();
        let client = redis::Client::open(redis.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let load = |script: Script| {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script.text());
            load.query(&mut connection).unwrap()
        };
        let loaded = Script::ALL.map(load).to_vec();
        Scripts {
            redis,
            connection,
            loaded,
        }
    }

    /// What the script answers at this time, in nanoseconds since its epoch.
    fn run(&mut self, command: &Command<'_>, clock: Option<u64>) -> Reply {
        let caller = Caller {
            prefix: "test:",
            lease: LEASE,
            loaded: &self.loaded,
            clock,
        };
        let value = caller.cmd(command).query(&mut self.connection).unwrap();
        reply(command, &value).unwrap_or_else(|| panic!("{command:?}: {value:?}"))
    }
}
