//! What the gauge shows, as plain values: copied out of shared memory once,
//! then written by [`json`](super::json) or another writer of this floor.
//!
//! Field names and their order are the document that users read: a field may be
//! added, none is renamed. A number is a count of things, unless its field names a unit.

use serde::Serialize;

use super::holder::Holder;

/// The state of the module at one moment. Parts are read one after the other,
/// so they agree with each other exactly only while nothing moves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Version of this module, as in Cargo.toml.
    pub version: String,
    /// What httpd calls itself, for example `Apache/2.4.71 (Debian)`.
    pub httpd: String,
    /// When this is, in milliseconds since 1970.
    pub unix_milliseconds: u64,
    /// The workers of the server.
    pub pool: Pool,
    /// What acts beside the rules: who is cut, and when the log tells who holds the workers.
    pub guards: Vec<GuardRow>,
    /// Who holds the busy workers, the one that holds one longest first, at most [`MOST`];
    /// nobody while there is no rule and no response is watched.
    pub holders: Vec<Holder>,
    /// Holders beyond those.
    pub holders_left_out: u64,
    /// Every rule of the configuration, and those met in .htaccess files, by virtual host and
    /// name.
    pub rules: Vec<RuleRow>,
    /// The counts of requests that are above 0, the highest first, at most [`MOST`].
    pub counts: Vec<CountRow>,
    /// Counts beyond those.
    pub counts_left_out: u64,
    /// The keys that are frozen, the longest first, at most [`MOST`].
    pub frozen: Vec<FrozenRow>,
    /// Frozen keys beyond those.
    pub frozen_left_out: u64,
    /// The leases: one for each place that a request holds.
    pub leases: Leases,
    /// The cells of the table: one for each client and count.
    pub keys: Keys,
    /// Keys with count 0 that made room for others, since start.
    pub evictions: u64,
    /// Requests admitted without being counted, since start: no lease was
    /// free, or no key could make room.
    pub untracked: u64,
    /// Requests that an exemption spared, since start.
    pub exempt: u64,
    /// Refusals, dry or not, that have no line of their own in the log, since start.
    pub log_lines_left_out: u64,
    /// How often the counts were compared with the leases, since start.
    pub audits: u64,
    /// Audits, since start, in which a count was not the sum of its leases.
    pub audit_mismatches: u64,
    /// Responses that were cut because their clients took them too slowly, since start; in
    /// a dry run those that would have been.
    pub cut_too_slow: u64,
    /// Responses that were cut because they lasted too long, since start; likewise.
    pub cut_too_long: u64,
    /// Responses that were not watched for want of room, since start.
    pub unwatched: u64,
    /// Looks at which a cut had to wait for a descriptor, since start.
    pub cuts_put_off: u64,
    /// Faults of the module itself that were caught, since start.
    pub faults: u64,
    /// What was found when places of dead children were given back, since start.
    pub reaped: Reaped,
    /// The last ten minutes, a sample about every ten seconds, the oldest first.
    pub history: Vec<SampleRow>,
    /// The counts that servers share; none where no rule is shared.
    pub shared: Option<Shared>,
}

/// How it is with the counts that servers share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shared {
    /// Whether they are out of reach now, so that shared rules do what `on-failure=` says.
    pub degraded: bool,
    /// For how long already, in whole seconds; 0 while they are within reach.
    pub degraded_seconds: u64,
    /// The last failure in one word, over or not; none since the configuration was read.
    pub failure: Option<String>,
    /// `local`, `open` or `closed`
    pub on_failure: String,
    /// Questions asked, since start.
    pub asked: u64,
    /// Questions of requests that went on without an answer, since start; also those that were
    /// not asked, since the counts were known to be out of reach.
    pub missed: u64,
    /// How often they went out of reach, since start.
    pub outages: u64,
    /// Questions and notes for which a child had no room, since start.
    pub uncounted: u64,
}

/// How many holders, counts and frozen keys are told.
pub const MOST: usize = 1000;
/// How many of a rule's keys are told.
pub const BUSIEST: usize = 5;

impl Pool {
    /// Whether at least so many percent of the workers are busy.
    pub fn reaches(&self, percent: u8) -> bool {
        self.busy * 100 >= u64::from(percent) * self.max_workers
    }

    /// The states of workers that are there, with their numbers: those that are busy first.
    pub fn states(&self) -> [(&'static str, u64); 10] {
        [
            ("reading", self.reading),
            ("writing", self.writing),
            ("keepalive", self.keepalive),
            ("logging", self.logging),
            ("dns", self.dns),
            ("closing", self.closing),
            ("gracefully_finishing", self.gracefully_finishing),
            ("idle", self.idle),
            ("starting", self.starting),
            ("idle_cleanup", self.idle_cleanup),
        ]
    }
}

/// Workers of the whole server, by what they do now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// Workers that serve a connection.
    pub busy: u64,
    /// Workers that wait for one.
    pub idle: u64,
    /// MaxRequestWorkers: how many there can be.
    pub max_workers: u64,
    /// Workers that come up.
    pub starting: u64,
    /// Busy: reading a request.
    pub reading: u64,
    /// Busy: making or writing a response.
    pub writing: u64,
    /// Busy: waiting for another request on a connection.
    pub keepalive: u64,
    /// Busy: writing the access log.
    pub logging: u64,
    /// Busy: looking a name up.
    pub dns: u64,
    /// Busy: closing a connection.
    pub closing: u64,
    /// Busy: finishing what an earlier generation began.
    pub gracefully_finishing: u64,
    /// Workers that go away, since too many are idle.
    pub idle_cleanup: u64,
}

/// One rule and what it decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleRow {
    /// Its name, `MaxConnPerIP@/hoge`.
    pub rule: String,
    /// `name:port` of the virtual host that says it; none for the main server.
    pub vhost: Option<String>,
    /// How many there may be: at a time 0..=65535, where 0 is no limit; or in a period.
    pub limit: u64,
    /// `server`, `vhost`, `location` or `zone`.
    pub scope: String,
    /// `workers`, `requests` or `connections`; `rate` or `hits` where it is in a period.
    pub count: String,
    /// From how many percent of busy workers on it refuses, 1..=100; none: always.
    pub busy: Option<u8>,
    /// Whether so many are busy now; none without `busy`.
    pub busy_reached: Option<bool>,
    /// Whether it only marks what it would refuse.
    pub dry_run: bool,
    /// The period of a rate in milliseconds; none for what is counted at a time.
    pub period_milliseconds: Option<u64>,
    /// How many may come at once from a full bucket; none but for a `rate`.
    pub burst: Option<u32>,
    /// So many of a burst pass at once and the others wait; none: nobody waits.
    pub delay: Option<u32>,
    /// Whether a rate is charged by what became of a request (`on=`).
    pub charged_by_status: bool,
    /// How long one hit too many freezes its key, in milliseconds; none: until its window
    /// ends.
    pub freeze_milliseconds: Option<u64>,
    /// Requests that it let through, since start.
    pub passed: u64,
    /// Requests that it refused, since start.
    pub refused: u64,
    /// Requests that it would have refused, were it not a dry run, since start.
    pub refused_dry_run: u64,
    /// Requests that waited for their turn, since start.
    pub delayed: u64,
    /// Requests that would have waited, were it not a dry run, since start.
    pub delayed_dry_run: u64,
    /// Requests that an exemption spared of this rule, since start.
    pub exempt: u64,
    /// The keys that are nearest to its limit, the nearest first, at most [`BUSIEST`].
    pub busiest: Vec<BusyKey>,
}

/// How near a key is to the limit of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BusyKey {
    /// The key, as in [`CountRow`].
    pub key: String,
    /// What it has in flight, or has used of its burst or of its window's number.
    pub count: u64,
    /// How much of that it may have.
    pub limit: u64,
}

/// What acts beside the rules, perhaps only while many workers are busy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GuardRow {
    /// Its name, `IPLimitMinRate@/hoge`.
    pub guard: String,
    /// `name:port` of the virtual host that says it; none for the main server.
    pub vhost: Option<String>,
    /// From how many percent of busy workers on it acts, 1..=100; none: always.
    pub busy: Option<u8>,
    /// Whether so many are busy now; none without `busy`.
    pub busy_reached: Option<bool>,
    /// `IPLimitMinRate`: what a client has to take.
    pub bytes_per_second: Option<u64>,
    /// `IPLimitMinRate`: how old a response is before it is judged.
    pub after_milliseconds: Option<u64>,
    /// `IPLimitMinRate`: over which time that is measured.
    pub window_milliseconds: Option<u64>,
    /// `IPLimitMaxTime`: how long a response may last.
    pub longest_milliseconds: Option<u64>,
}

/// One look of the parent at it all; its counters count from the start, and go on over
/// reloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SampleRow {
    /// When, in milliseconds since 1970.
    pub unix_milliseconds: u64,
    /// Busy workers.
    pub busy: u64,
    /// What all rules had passed.
    pub passed: u64,
    /// What all rules had refused.
    pub refused: u64,
    /// What all rules would have refused, were it not a dry run.
    pub refused_dry_run: u64,
    /// Responses that had been cut.
    pub cut: u64,
}

/// One client's requests in flight in one count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CountRow {
    /// The rule's name, or `requests@server (server level)` and its like for
    /// counts that several rules compare with.
    pub rule: String,
    /// `name:port` of the virtual host that it belongs to, if to one.
    pub vhost: Option<String>,
    /// The key: an IPv4 address, an IPv6 network as `2001:db8:0:1::/64`, or what a zone
    /// makes of a request; of a secret one a part of its digest.
    pub key: String,
    /// Requests in flight, 1..=131071.
    pub count: u64,
}

/// One key that is frozen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FrozenRow {
    /// The rule's name.
    pub rule: String,
    /// `name:port` of the virtual host that it belongs to, if to one.
    pub vhost: Option<String>,
    /// The key, as in [`CountRow`].
    pub key: String,
    /// For how long still, in whole seconds, rounded up.
    pub seconds_left: u64,
}

/// The leases by state, now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Leases {
    /// How many there are, used or not.
    pub capacity: u64,
    /// About to be counted.
    pub pending: u64,
    /// Counted.
    pub held: u64,
    /// About to be given back.
    pub releasing: u64,
    /// Given back, not yet free again.
    pub released: u64,
}

/// The cells of the table, now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Keys {
    /// How many there are, used or not.
    pub capacity: u64,
    /// Those that have an owner.
    pub used: u64,
    /// Those with a count above 0: they are never evicted.
    pub held: u64,
    /// Those that are known to a rate: their bucket is not full, or their window open.
    pub rated: u64,
    /// Those that are frozen: they are never evicted.
    pub frozen: u64,
}

/// Leases of dead children, by the state in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reaped {
    /// Died between asking for a place and knowing that it had it.
    pub pending: u64,
    /// Died holding a place.
    pub held: u64,
    /// Died between giving a place back and knowing that it was gone.
    pub releasing: u64,
    /// Died after the place was given back.
    pub released: u64,
}
