//! From reading the configuration to serving, and what the parent does meanwhile.
//!
//! Nothing here outlives its generation but the segment, which the retained data of
//! httpd carries over reloads.

use std::ptr;
use std::sync::atomic::AtomicU32;

use super::config::Site;
use super::rules::{Inventory, Placed};
use super::running::{ANY_RULE, Child, Runtime, SERVER_RULE, WIDE, flag};
use super::status::Meta;
use super::{MODULE, checks};
use crate::httpd::log::{self, LogLevel};
use crate::httpd::pool::Pool;
use crate::httpd::scoreboard::Scoreboard;
use crate::httpd::server::Server;
use crate::httpd::{boundary, layout, process, state};
use crate::limit::concurrency::count_of;
use crate::limit::key::CountId;
use crate::limit::rule::{Level, Scope};
use crate::report::message::Id;
use crate::store::{self, Holder, Parts, Segment, Size};

const DEFAULT_KEYS: u32 = 65536;

/// Under which all that survives a reload is kept.
const RETAINED: &std::ffi::CStr = c"limitipconn.segment.1";

#[derive(Clone, Copy)]
struct Retained {
    parts: Parts,
    generation: u32,
}

fn flags_of(inventory: &Inventory<'_>, rule: &Placed<'_>) -> u32 {
    let wide = WIDE
        .iter()
        .filter(|(level, scope)| *level == rule.at && inventory.may_count(&rule.terms, *scope));
    let own = match rule.at {
        Level::Server => ANY_RULE | SERVER_RULE,
        Level::Directory => ANY_RULE,
    };
    wide.fold(own, |flags, (level, scope)| flags | flag(*level, *scope))
}

/// After everything was read, in both passes and under `-t`: names are settled.
pub fn check_config(pool: Pool<'static>, main: Server<'static>) {
    let Some(main_site) = main.config(MODULE) else {
        return;
    };
    for server in main.all() {
        // A virtual host that says nothing of ours shares the main server's
        // configuration, but it is a virtual host of its own.
        if server.is_virtual()
            && server
                .config(MODULE)
                .is_none_or(|site| ptr::eq(site, main_site))
        {
            server.keep(MODULE, pool.alloc(Site::new().within(main_site, pool)));
        }
        if let Some(site) = server.config(MODULE) {
            site.settle(server, pool);
        }
    }
    for rule in Inventory::of(pool).rules() {
        rule.settle();
    }
}

/// Under `-t` only: what a start would warn about.
pub fn test_config(pool: Pool<'static>, main: Server<'static>) {
    for warning in checks::warnings(Inventory::of(pool), main) {
        log::startup(MODULE, LogLevel::Warning, main, &warning);
    }
}

/// Before children are made. `Err` is the sentence with which httpd refuses to start.
pub fn post_config(pool: Pool<'static>, main: Server<'static>) -> Result<(), String> {
    if let Some(what) = layout::difference() {
        return Err(format!(
            "{}: C and Rust do not agree on {what}; build the module anew",
            Id::SlotLayout
        ));
    }
    if state::is_dry_pass() {
        return Ok(());
    }
    let inventory = Inventory::of(pool);
    for warning in checks::warnings(inventory, main) {
        log::server(MODULE, LogLevel::Warning, main, &warning);
    }
    if inventory.rules().next().is_none() {
        let text = format!(
            "{}: no limits configured: no rule in the server's files (.htaccess may have some)",
            Id::NoRule
        );
        log::server(MODULE, LogLevel::Notice, main, &text);
    }
    let generation = state::retained::<Retained>(RETAINED).map_or(0, |kept| kept.generation) + 1;
    let segment = segment(main, size(inventory, main))?;
    state::retain(
        RETAINED,
        Retained {
            parts: segment.parts(),
            generation,
        },
    );

    let flags = inventory
        .rules()
        .fold(0, |flags, rule| flags | flags_of(inventory, rule));
    let runtime: &'static Runtime = pool.alloc(Runtime {
        segment,
        flags,
        names_variables: checks::names_variables(),
        generation,
        inventory,
        main,
    });
    for rule in inventory.rules() {
        record(runtime, rule);
    }
    record_wide_counts(runtime, flags);
    pool.on_clear(runtime);
    runtime.rise();
    Ok(())
}

fn size(inventory: &Inventory<'_>, main: Server<'_>) -> Size {
    let (children, threads) = state::most_workers();
    let slots = children * threads;
    let keys = main
        .config(MODULE)
        .and_then(|site| site.keys)
        .unwrap_or(DEFAULT_KEYS);
    // A child claims chunks of 64 leases; with two generations at once each may hold
    // one that is hardly used. Beside that, event and HTTP/2 have many more requests
    // in flight than workers, and a request may hold a few places.
    let leases = (children.saturating_mul(128))
        .saturating_add(slots.saturating_mul(32))
        .clamp(65536, 4_194_240);
    let servers = u32::try_from(main.all().count()).unwrap_or(u32::MAX);
    let rules = u32::try_from(inventory.rules().count()).unwrap_or(u32::MAX);
    let records = rules
        .saturating_add(servers.saturating_mul(2))
        .saturating_mul(2)
        .max(1024);
    Size {
        keys,
        leases,
        slots,
        rules: records,
    }
}

/// The segment of the generations before, or at the first start a new one.
fn segment(main: Server<'_>, wanted: Size) -> Result<Segment, String> {
    if let Some(Retained { parts, .. }) = state::retained(RETAINED) {
        // SAFETY: stored by this process, which never unmaps a segment.
        match unsafe { Segment::from_parts(parts) } {
            Ok(kept) => {
                let has = kept.size();
                let slots = if has.slots < wanted.slots {
                    " and ServerLimit or ThreadLimit"
                } else {
                    ""
                };
                if has.keys != wanted.keys.next_multiple_of(8) || !slots.is_empty() {
                    let text = format!(
                        "{}: IPLimitTable{slots} changed: the table of {} keys stays until httpd is stopped and started",
                        Id::NeedsRestart,
                        has.keys
                    );
                    log::server(MODULE, LogLevel::Warning, main, &text);
                }
                return Ok(kept);
            }
            Err(error) => {
                let text = format!(
                    "{}: the module has changed ({error}): counts begin anew; stop and start httpd after an update",
                    Id::NeedsRestart
                );
                log::server(MODULE, LogLevel::Warning, main, &text);
            }
        }
    }
    Segment::create(wanted).map_err(|error| {
        format!(
            "{}: IPLimitTable keys={}: the shared memory cannot be made ({error}); give a smaller number",
            Id::NoSharedMemory,
            wanted.keys
        )
    })
}

/// Gives a rule its record, under which it is counted and shown.
fn record(runtime: &Runtime, rule: &Placed<'_>) {
    if rule.terms.limit.is_none() {
        return;
    }
    let ledger = runtime.segment.ledger();
    let meta = Meta::of_rule(&rule.terms, rule.meaning_at_home()).pack();
    let index = ledger.register(rule.id.get().0, meta, rule.name, rule.vhost());
    rule.record.set(index);
    if let Some(index) = index {
        ledger.touch(index, runtime.generation);
    }
}

/// Counts that belong to no single rule get records too, so that they have names.
fn record_wide_counts(runtime: &Runtime, flags: u32) {
    let ledger = runtime.segment.ledger();
    for (level, scope) in WIDE {
        if flags & flag(level, scope) == 0 {
            continue;
        }
        let name = wide_name(level, scope);
        for server in runtime.main.all() {
            let Some(site) = server.config(MODULE) else {
                continue;
            };
            let CountId(id) = count_of(scope, level, CountId(0), site.id.get());
            let vhost = (scope == Scope::Vhost && server.is_virtual()).then(|| site.label.get());
            ledger.register(id, Meta::WIDE, &name, vhost);
            if scope == Scope::Server {
                break;
            }
        }
    }
}

/// What a count over a whole server or virtual host is called.
pub fn wide_name(level: Level, scope: Scope) -> String {
    let level = match level {
        Level::Server => "server",
        Level::Directory => "directory",
    };
    format!("requests@{} ({level} level)", scope.word())
}

/// After the scoreboard was made. `Err` is the sentence with which httpd refuses to run.
pub fn pre_mpm() -> Result<(), String> {
    let Some(runtime) = Runtime::current() else {
        return Ok(());
    };
    match Scoreboard::find(runtime.segment.size().slots) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{}: {error}", Id::SlotLayout)),
    }
}

/// A child begins.
pub fn child_init() {
    let Some(runtime) = Runtime::current() else {
        return;
    };
    boundary::keep_panic_text();
    process::mark_copies();
    let segment = &runtime.segment;
    segment.close_fd();
    match Scoreboard::find(segment.size().slots) {
        Ok(scoreboard) => {
            let pid = std::process::id();
            Child {
                holder: Holder::new(segment, pid),
                scoreboard,
                identity: segment.identity(),
                pid,
                serial: AtomicU32::new(1),
            }
            .rise();
        }
        Err(error) => runtime.log(LogLevel::Error, &format!("{}: {error}", Id::SlotLayout)),
    }
}

/// httpd has waited for a child that ended, however it ended.
pub fn child_exited(pid: u32) {
    let Some(runtime) = Runtime::current() else {
        return;
    };
    let reaped = store::reap(&runtime.segment, pid);
    runtime.segment.identity().vacate_process(pid);
    if reaped.total() > 0 {
        let text = format!(
            "{}: child {pid} ended with requests in flight; places given back: {}",
            Id::Reaped,
            reaped.total()
        );
        runtime.log(LogLevel::Info, &text);
    }
}

/// Now and then in the parent.
pub fn monitor() {
    let Some(runtime) = Runtime::current() else {
        return;
    };
    store::reconcile(&runtime.segment, process::is_child_of_ours);
    let mismatches = store::audit(&runtime.segment);
    if mismatches > 0 {
        let text = format!(
            "{}: {mismatches} counts are not the sum of their leases; please report this",
            Id::AuditMismatch
        );
        runtime.log(LogLevel::Error, &text);
    }
}

/// A rule was met in a .htaccess file: it needs a name, a record, and the hooks' attention.
pub fn met_in_htaccess(rule: &Placed<'_>) {
    let Some(runtime) = Runtime::current() else {
        return;
    };
    rule.settle();
    record(runtime, rule);
    let bits = flags_of(runtime.inventory, rule);
    if runtime.segment.flags() & bits != bits {
        record_wide_counts(runtime, bits);
        runtime.segment.raise(bits);
    }
}
