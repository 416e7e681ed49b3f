//! The generation that serves and this child's part in it: what the hooks reach for.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use once_cell::race::OnceBox;

use super::MODULE;
use super::client::Client;
use super::fleet;
use super::rules::Placed;
use super::zones::Zone;
use crate::httpd::http2::Http2;
use crate::httpd::log::{self, LogLevel};
use crate::httpd::pool::OnClear;
use crate::httpd::process;
use crate::httpd::scoreboard::Scoreboard;
use crate::httpd::server::Server;
use crate::httpd::state;
use crate::limit::address::{Address, Prefix};
use crate::limit::key::Secret;
use crate::limit::rule::{Defaults, Level, Scope};
use crate::limit::slow;
use crate::limit::syntax::{Alarm, Who};
use crate::report::message::Id;
use crate::report::refusal::Verdict;
use crate::store::Watched;
use crate::store::fleet::Fleet;
use crate::store::{Acquired, Counter, Desks, Fate, Holder, Identity, Keyed, LeaseIndex, Segment};

/// Some rule exists, so the hooks have work.
pub use crate::gauge::ANY_RULE;

/// This generation; null while httpd reads its configuration.
static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());

/// This process's own part, from child_init on.
static CHILD: OnceBox<Child> = OnceBox::new();

/// Some rule stands outside sections.
pub const SERVER_RULE: u32 = 32;

/// Some rule is about connections.
pub const CONNECTION_RULE: u32 = 64;

/// Some rule outside sections is about keys.
pub const SERVER_KEY_RULE: u32 = 128;

/// Some place says how slow a client may be, or how long a response may last.
pub const WATCH: u32 = 256;

/// Some rule is a rate.
pub const RATES: u32 = 1024;

/// Some rule counts over several servers.
pub const FLEET: u32 = 2048;

/// Some rule charges by what becomes of the request.
pub const LATE_CHARGES: u32 = 512;

/// What one generation of the server has decided at its start.
pub struct Runtime {
    /// The shared memory.
    pub segment: Segment,
    /// What the server's files need of the hooks: [`ANY_RULE`] and [`flag`]s.
    pub flags: u32,
    /// Whether the configuration mentions the LIMITIP variables.
    pub names_variables: bool,
    /// Whether some place may enforce its rules: not all of it is a dry run.
    pub enforces: bool,
    /// `IPLimitAddress`
    pub who: Who,
    /// `IPLimitPrefix`
    pub prefix: Prefix,
    /// How often the configuration was read.
    pub generation: u32,
    /// What some place says for rules that do not say.
    pub defaults: &'static [Defaults],
    /// `IPLimitAlarm`
    pub alarm: Option<Alarm>,
    /// `IPLimitHeartbeat`
    pub heartbeat: Option<Duration>,
    /// The zones that were declared.
    pub zones: &'static [&'static Zone<'static>],
    /// The rates whose buckets a rule of a .htaccess file may share.
    pub shared_buckets: &'static [&'static Placed<'static>],
    /// The rules that are for some clients only, and those beside them.
    pub narrow: &'static [&'static Placed<'static>],
    /// The server that counts for all, where some rule is shared.
    pub fleet: Option<fleet::Started>,
    /// The main server.
    pub main: Server<'static>,
}

/// What one child has made for itself.
pub struct Child {
    /// Its places.
    pub holder: Holder,
    /// The status of all slots.
    pub scoreboard: Scoreboard,
    /// Who sits in them.
    pub identity: Identity<'static>,
    /// What they are at.
    pub desks: Desks,
    /// The responses that are watched for slow clients.
    pub watched: Watched,
    /// This process.
    pub pid: u32,
    /// How many connections it has had.
    pub serial: AtomicU32,
    /// mod_http2, where it is loaded.
    pub http2: Option<Http2>,
    /// How many workers of its own mod_http2 has in this child at most, if it tells.
    pub http2_workers: Option<u32>,
    /// MaxRequestWorkers.
    pub max_workers: u32,
    /// Whether the MPM gives a child threads. Where not, its signal handler is run by the
    /// thread that serves requests.
    pub is_threaded: bool,
    /// How many requests were looked at for a proxy's address.
    pub looked_at: AtomicU32,
    /// Its part in counts of several servers, where some rule has one.
    pub fleet: Option<&'static Fleet>,
}

/// A generation that serves, in a child of it.
#[derive(Clone, Copy)]
pub struct Running {
    /// What the generation decided.
    pub runtime: &'static Runtime,
    /// What the child made.
    pub child: &'static Child,
}

impl Runtime {
    /// The generation that is up, in parent and children.
    #[inline]
    pub fn current() -> Option<&'static Runtime> {
        // SAFETY: null, or a Runtime in the configuration's pool, whose cleanup makes
        // it null again. Hooks run between the two.
        unsafe { RUNTIME.load(Ordering::Relaxed).as_ref() }
    }

    /// Writes a line that is about no request.
    pub fn log(&self, level: LogLevel, text: &str) {
        log::server(MODULE, level, self.main, text);
    }
}

impl Runtime {
    /// Makes this the generation that is up, until its configuration's pool is cleared.
    pub fn rise(&'static self) {
        RUNTIME.store(ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
    }
}

impl OnClear for Runtime {
    fn on_clear(&self) {
        RUNTIME.store(ptr::null_mut(), Ordering::Relaxed);
    }
    fn on_fault(text: &str) {
        fault(text);
    }
}

impl Child {
    /// Makes this the child's part. A second child_init in one process changes nothing.
    pub fn rise(self) {
        let _ = CHILD.set(Box::new(self));
    }

    /// Whether this is prefork's signal handler, which ends the process and clears all pools
    /// amid whatever was going on: nothing may be allocated or written.
    pub fn is_interrupted(&self) -> bool {
        !self.is_threaded && process::is_in_handler()
    }

    /// A name for a connection that no other connection of this server ever had,
    /// short of 2^32 connections in one child.
    pub fn next_owner(&self) -> u64 {
        u64::from(self.pid) << 32 | u64::from(self.serial.fetch_add(1, Ordering::Relaxed))
    }
}

impl Running {
    /// The generation and the child that serve here; None in the parent.
    #[inline]
    pub fn get() -> Option<Running> {
        Some(Running {
            runtime: Runtime::current()?,
            child: CHILD.get()?,
        })
    }

    /// Whether there is any rule: what the hook of every request asks first.
    #[inline]
    pub fn rules_anywhere() -> bool {
        Runtime::current()
            .is_some_and(|runtime| (runtime.flags | runtime.segment.flags()) & ANY_RULE != 0)
    }

    /// Whether some rule is a rate.
    #[inline]
    pub fn has_rates() -> bool {
        Runtime::current()
            .is_some_and(|runtime| (runtime.flags | runtime.segment.flags()) & RATES != 0)
    }

    /// Whether there is anything to do at the end of a request.
    #[inline]
    pub fn ends_matter() -> bool {
        Runtime::current().is_some_and(|runtime| {
            (runtime.flags | runtime.segment.flags()) & (LATE_CHARGES | WATCH) != 0
        })
    }

    #[inline]
    fn flags(self) -> u32 {
        self.runtime.flags | self.runtime.segment.flags()
    }

    /// Whether anything is asked before the walk: a rule outside sections, or a count
    /// that one of them looks at.
    #[inline]
    pub fn asks_on_arrival(self) -> bool {
        self.flags()
            & (SERVER_RULE | flag(Level::Server, Scope::Server) | flag(Level::Server, Scope::Vhost))
            != 0
    }

    /// Whether some rule outside sections is about keys, which are known after the walk.
    #[inline]
    pub fn has_server_keys(self) -> bool {
        self.flags() & SERVER_KEY_RULE != 0
    }

    /// Whether some rule of this level counts requests beyond its own place.
    #[inline]
    pub fn counts_wide(self, level: Level) -> bool {
        self.flags() & (flag(level, Scope::Server) | flag(level, Scope::Vhost)) != 0
    }

    /// Whether requests that no rule governs are counted over this scope too, since
    /// some rule of the level looks that far.
    pub fn counts_all(self, level: Level, scope: Scope) -> bool {
        self.flags() & flag(level, scope) != 0
    }

    /// Whether some rule is about connections.
    #[inline]
    pub fn has_connection_rules(self) -> bool {
        self.flags() & CONNECTION_RULE != 0
    }

    /// The key of the digests.
    pub fn secret(self) -> Secret {
        self.runtime.segment.secret()
    }

    /// The client at this address.
    #[inline]
    pub fn client_at(self, address: Address) -> Client {
        Client::at(address, self.runtime.prefix, self.secret())
    }

    /// Whether at least so many percent of the workers are busy; without a number, always.
    pub fn is_busy(self, percent: Option<u8>) -> bool {
        percent.is_none_or(|percent| self.too_many_busy(percent) > 0)
    }

    /// How many workers too many are busy where so many percent are the mark; none below
    /// it, and at least one at it.
    pub fn too_many_busy(self, percent: u8) -> usize {
        let (busy, _) = self.child.scoreboard.pool();
        slow::too_many(busy, self.child.max_workers, percent) as usize
    }

    /// Whether responses are watched for slow clients.
    #[inline]
    pub fn watches(self) -> bool {
        self.runtime.flags & WATCH != 0
    }

    /// Now, by the clock of rates.
    #[inline]
    pub fn nanos(self) -> u64 {
        state::nanoseconds_up()
    }

    /// Takes a place in a count for a key; none where it cannot be counted now.
    /// `Err` is the count that it would have been. `now` as for [`Holder::acquire`].
    ///
    /// Looks twice before it refuses: a client that has read its last answer to the end
    /// may be back before the worker that wrote it has given the place back.
    #[inline]
    pub fn take_place(
        self,
        key: &Keyed<'_>,
        limit: Option<u16>,
        now: u32,
    ) -> Result<Option<LeaseIndex>, u32> {
        let acquire = || match self.child.holder.acquire(key, limit, now) {
            Acquired::Held(lease) => Ok(Some(lease.keep())),
            Acquired::Untracked => Ok(None),
            Acquired::Refused { count } => Err(count + 1),
        };
        acquire().or_else(|_| {
            std::thread::yield_now();
            acquire()
        })
    }

    /// Counts in the rule's own counters, if it has some, what became of a request.
    #[inline]
    pub fn count(self, rule: &Placed<'_>, fate: Fate) {
        if let Some(index) = rule.record.get() {
            self.runtime.segment.ledger().count(index, fate);
        }
    }

    /// Counts what the rule made of one that was over its number.
    pub fn count_refusal(self, rule: &Placed<'_>, verdict: Verdict) {
        self.count(
            rule,
            match verdict {
                Verdict::Refused => Fate::Refused,
                Verdict::RefusedDryRun => Fate::RefusedDryRun,
                Verdict::DelayedDryRun => Fate::DelayedDryRun,
            },
        );
    }
}

/// The bit that says: some rule of this level counts requests over this scope.
pub const fn flag(level: Level, scope: Scope) -> u32 {
    match (level, scope) {
        (_, Scope::Location | Scope::Zone) => 0,
        (Level::Server, Scope::Server) => 2,
        (Level::Server, Scope::Vhost) => 4,
        (Level::Directory, Scope::Server) => 8,
        (Level::Directory, Scope::Vhost) => 16,
    }
}

/// The counts that more than one rule can share.
pub const WIDE: [(Level, Scope); 4] = [
    (Level::Server, Scope::Server),
    (Level::Server, Scope::Vhost),
    (Level::Directory, Scope::Server),
    (Level::Directory, Scope::Vhost),
];

/// A panic of ours was caught: counted always, told once per process.
pub fn fault(text: &str) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let Some(runtime) = Runtime::current() else {
        return;
    };
    runtime.segment.add(Counter::Faults, 1);
    // Not in the parent: its children would inherit that it was told.
    if CHILD.get().is_some() && TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    {
        let text = format!(
            "{}: a fault of the module was caught, the request is served: {text}; please report this",
            Id::Fault
        );
        runtime.log(LogLevel::ERROR, &text);
    }
}

/// Debug builds only: panics while the environment has LIMITIPCONN_PLANTED_FAULT, so
/// that a test can watch what httpd makes of a fault of ours.
#[inline]
pub fn planted_fault() {
    #[cfg(debug_assertions)]
    if std::env::var_os("LIMITIPCONN_PLANTED_FAULT").is_some() {
        panic!("planted");
    }
}
