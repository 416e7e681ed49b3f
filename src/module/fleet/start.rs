//! Servers that count together, from the configuration to a child's courier.

use std::net::SocketAddr;

use super::Redis;
use crate::httpd::log::{self, LogLevel};
use crate::httpd::pool::{OnClear, Pool};
use crate::httpd::server::Server;
use crate::httpd::{process, state, tree};
use crate::module::MODULE;
use crate::module::config::Site;
use crate::module::inventory::Inventory;
use crate::module::rules::Placed;
use crate::module::running::{Runtime, fault};
use crate::report::fleet::{Down, Up};
use crate::report::message::Id;
use crate::store::fleet::{Event, Fleet, Tell};

/// How long a child that ends waits until its places are given back, at most.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(250);

/// The server that counts for all, and what was found out about it at the start.
pub struct Started {
    /// `IPLimitRedis`
    pub redis: &'static Redis<'static>,
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "nobody connects"))]
    addresses: &'static [SocketAddr],
}

/// Shared rules need somebody to share with. `Err` is the sentence with which httpd ends.
pub fn check(inventory: &Inventory<'_>, main: &Site<'_>) -> Result<(), String> {
    // The first one that is written.
    match inventory.rules().filter(|rule| rule.in_fleet).last() {
        Some(rule) if main.redis.is_none() => Err(format!(
            "{} on line {} of {}: \"shared\" counts over several servers, and no server says where; \
             add IPLimitRedis redis://HOST:6379 to the main server, or leave shared out",
            rule.name, rule.line, rule.file
        )),
        _ => Ok(()),
    }
}

/// A shared rule of a server without ServerName: httpd then takes the name of the machine, which
/// no other server has.
pub fn nameless(inventory: &Inventory<'_>, main: Server<'_>) -> Option<String> {
    let is_of_main = |rule: &Placed<'_>| rule.server.is_none_or(|server| server == main);
    let rule = inventory
        .rules()
        .filter(|rule| rule.in_fleet && is_of_main(rule))
        .last()?;
    let mut is_named = false;
    tree::walk(&mut |node| {
        let is_main = node.parent().is_none_or(|parent| {
            ["<VirtualHost", "<Location", "<Directory"]
                .iter()
                .all(|name| !parent.name().eq_ignore_ascii_case(name))
        });
        is_named |= is_main && node.name().eq_ignore_ascii_case("ServerName");
    });
    (!is_named).then(|| {
        format!(
            "{}: {} on line {} of {} is shared, and its server has no ServerName: httpd takes the name of the machine, \
             so other servers have another rule; write the same ServerName on all of them",
            Id::SharedNameless,
            rule.name,
            rule.line,
            rule.file
        )
    })
}

/// Before children are made: what the name means, so that no request waits for the DNS.
pub fn started(
    pool: Pool<'static>,
    redis: &'static Redis<'static>,
    main: Server<'static>,
) -> Started {
    let addresses = redis.resolve(pool).unwrap_or_else(|why| {
        let text = format!(
            "{}: IPLimitRedis: {} has a name without an address now ({why}); children look again",
            Id::RedisDown,
            redis.shown
        );
        log::server(MODULE, LogLevel::WARNING, main, &text);
        &[]
    });
    Started { redis, addresses }
}

/// A child begins: its part, if some rule needs one. Its courier runs from here on, and connects
/// when there is something to ask.
pub fn child_init(
    runtime: &'static Runtime,
    pool: Pool<'static>,
    places: usize,
) -> Option<&'static Fleet> {
    let started = runtime.fleet.as_ref()?;
    let breaker = runtime.segment.breaker();
    // Never freed: the courier may outlive what httpd tears down.
    let fleet: &'static Fleet = Box::leak(Box::new(Fleet::new(
        started.redis.patience,
        breaker,
        state::nanoseconds_up,
        places,
    )));
    if let Err(error) = start_courier(runtime, fleet, started) {
        let text = format!("{}: shared counts are not asked: {error}", Id::Fault);
        runtime.log(LogLevel::ERROR, &text);
        return None;
    }
    pool.on_clear(pool.alloc(Closing(fleet)));
    Some(fleet)
}

/// Gives everything back when the child's pool is cleared, after those of its requests were.
struct Closing(&'static Fleet);

impl OnClear for Closing {
    fn on_clear(&self) {
        // A copy on its way to become a script has no courier.
        if !process::is_copy() {
            self.0.close(LAST_WORDS);
        }
    }

    fn on_fault(text: &str) {
        fault(text);
    }
}

#[cfg(not(feature = "redis"))]
fn start_courier(_: &'static Runtime, _: &'static Fleet, _: &Started) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(feature = "redis")]
fn start_courier(
    runtime: &'static Runtime,
    fleet: &'static Fleet,
    &Started { redis, addresses }: &Started,
) -> std::io::Result<()> {
    use crate::store::fleet::Courier;

    /// The courier's stack: TLS wants some.
    const STACK: usize = 512 * 1024;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().take(32).collect();
    // What only this start of httpd has, and tells nothing of its secret.
    let boot = runtime.segment.secret().digest_of(b"boot").tag;
    let name = format!("{host}:{boot:016x}:{}:", std::process::id());
    let dial = Box::new(redis.dialer(addresses));
    let tell = Box::new(Log {
        shown: redis.shown.to_owned(),
        consequence: redis.on_failure.consequence(),
    });
    process::thread("limitipconn-sh", STACK, move || {
        Courier::new(fleet, dial, tell, name).run()
    })
}

/// Writes the courier's lines.
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "nobody connects"))]
struct Log {
    shown: String,
    consequence: &'static str,
}

impl Tell for Log {
    fn event(&self, event: &Event) {
        let Some(runtime) = Runtime::current() else {
            return;
        };
        match event {
            Event::Down { fault, since } => {
                let line = Down {
                    server: &self.shown,
                    failure: fault.failure,
                    detail: &fault.detail,
                    since: *since,
                    consequence: self.consequence,
                };
                runtime.log(LogLevel::WARNING, &line.to_string());
            }
            Event::Up(lasted) => {
                let line = Up {
                    server: &self.shown,
                    lasted: *lasted,
                };
                runtime.log(LogLevel::NOTICE, &line.to_string());
            }
        }
    }

    fn fault(&self, text: &str) {
        fault(text);
    }
}
