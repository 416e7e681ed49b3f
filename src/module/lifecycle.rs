//! From reading the configuration to serving, and what the parent does meanwhile.
//!
//! Nothing here outlives its generation but the segment, which the retained data of
//! httpd carries over reloads.

use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::audience;
use super::config::Site;
use super::inventory::{Inventory, zone_named};
use super::rules::{Placed, may_count};
use super::running::{
    ANY_RULE, CONNECTION_RULE, Child, FLEET, LATE_CHARGES, RATES, Running, Runtime,
    SERVER_KEY_RULE, SERVER_RULE, WATCH, WIDE, flag,
};
use super::zones::Zone;
use super::{MODULE, alarm, checks, dump, fleet, memory, records, shortage, watch};
use crate::httpd::http2::Http2;
use crate::httpd::log::{self, LogLevel};
use crate::httpd::pool::Pool;
use crate::httpd::scoreboard::Scoreboard;
use crate::httpd::server::Server;
use crate::httpd::{boundary, layout, process, state};
use crate::limit::rule::{Defaults, Directive, Level, Terms};
use crate::limit::syntax::{Alarm, Who};
use crate::report::message::Id;
use crate::report::refusal::LeftOut;
use crate::store::Watched;
use crate::store::{self, About, Board, Counter, Holder};

fn flags_of(rule: &Placed<'_>, anywhere: &[Defaults]) -> u32 {
    if rule.terms.is_about_connections() {
        return ANY_RULE | CONNECTION_RULE;
    }
    let own = match rule.at {
        Level::Server if rule.directive.is_per_key() => ANY_RULE | SERVER_KEY_RULE,
        Level::Server => ANY_RULE | SERVER_RULE,
        Level::Directory => ANY_RULE,
    };
    let own = own | if rule.in_fleet { FLEET } else { 0 };
    let own = match rule.terms.rating() {
        Some(rating) if rating.on.is_empty() => own | RATES,
        Some(_) => own | RATES | LATE_CHARGES,
        None => own,
    };
    let (Directive::MaxConnPerIp, Terms::Concurrency(terms)) = (rule.directive, &rule.terms) else {
        return own;
    };
    let wide = WIDE
        .iter()
        .filter(|(level, scope)| *level == rule.at && may_count(terms, *scope, anywhere));
    wide.fold(own, |flags, (level, scope)| flags | flag(*level, *scope))
}

/// After everything was read, in both passes and under `-t`: names are settled.
/// `Err` is the sentence with which httpd ends.
pub fn check_config(pool: Pool<'static>, main: Server<'static>) -> Result<(), String> {
    if let Some(what) = layout::difference() {
        return Err(format!(
            "{}: C and Rust do not agree on {what}; build the module anew",
            Id::SlotLayout
        ));
    }
    if state::has_module(c"mpm_itk.c") || state::has_module(c"itk.c") {
        return Err(format!(
            "{}: mpm-itk makes a process for each connection, in which no count can be kept; \
             use mpm_prefork, mpm_worker or mpm_event, or do not load this module",
            Id::UnknownMpm
        ));
    }
    let Some(main_site) = main.config(MODULE) else {
        return Ok(());
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
    let inventory = Inventory::of(pool);
    for rule in inventory.rules() {
        rule.settle();
        let zone = zone_of(rule, inventory.zones());
        rule.zone
            .set(zone.map_err(|why| format!("{} {why}", rule.directive.name()))?);
    }
    fleet::check(inventory, main_site)?;
    let shared = checks::shared_buckets(inventory);
    for (at, rule) in shared.iter().enumerate() {
        checks::agrees(rule, &shared[..at])?;
    }
    Ok(())
}

/// The zone of a rule about keys. `Err` says that there is none of its name.
fn zone_of<'p>(rule: &Placed<'_>, zones: &[&'p Zone<'p>]) -> Result<Option<&'p Zone<'p>>, String> {
    let Some(name) = rule.zone_name else {
        return Ok(None);
    };
    match zone_named(zones, name) {
        Some(zone) => Ok(Some(zone)),
        None => {
            let known: Vec<&str> = zones.iter().map(|zone| zone.name).collect();
            let known = match known.as_slice() {
                [] => String::from("there is none"),
                known => format!("there are {}", known.join(", ")),
            };
            Err(format!(
                "on line {} of {}: no zone is named \"{name}\" ({known}); declare it in the main server, for example \
                 IPLimitZone {name} key=%{{HTTP:X-Api-Key}}",
                rule.line, rule.file
            ))
        }
    }
}

/// Under `-t` only: what a start would warn about, and the rules if they are asked for.
pub fn test_config(pool: Pool<'static>, main: Server<'static>) {
    for warning in checks::warnings(Inventory::of(pool), main) {
        log::startup(MODULE, LogLevel::WARNING, main, &warning);
    }
    dump::print_if_asked(pool, main);
}

/// Before children are made. `Err` is the sentence with which httpd refuses to start.
pub fn post_config(pool: Pool<'static>, main: Server<'static>) -> Result<(), String> {
    if state::is_dry_pass() {
        return Ok(());
    }
    let inventory = Inventory::of(pool);
    for warning in checks::warnings(inventory, main) {
        log::server(MODULE, LogLevel::WARNING, main, &warning);
    }
    if inventory.rules().next().is_none() && !inventory.watches() {
        let text = format!(
            "{}: no limits configured: no rule in the server's files (.htaccess may have some)",
            Id::NoRule
        );
        log::server(MODULE, LogLevel::NOTICE, main, &text);
    }
    let (segment, generation) = memory::of_this_generation(inventory, main)?;
    let watches = if inventory.watches() {
        ANY_RULE | WATCH
    } else {
        0
    };
    let flags = inventory.rules().fold(watches, |flags, rule| {
        flags | flags_of(rule, inventory.defaults())
    });
    let site = main.config(MODULE);
    // Nobody asks where no rule does.
    let redis = site
        .and_then(|site| site.redis)
        .filter(|_| flags & FLEET != 0);
    let runtime: &'static Runtime = pool.alloc(Runtime {
        segment,
        flags,
        names_variables: checks::names_variables(),
        enforces: checks::enforces(main),
        who: site.and_then(|site| site.address).unwrap_or(Who::Client),
        prefix: site.and_then(|site| site.prefix).unwrap_or_default(),
        generation,
        defaults: inventory.defaults(),
        alarm: site.map_or_else(|| Some(Alarm::default()), |site| site.alarm()),
        heartbeat: site.and_then(|site| site.heartbeat.flatten()),
        zones: inventory.zones(),
        shared_buckets: pool.slice(checks::shared_buckets(inventory).iter().copied()),
        narrow: pool.slice(audience::narrow(inventory).iter().copied()),
        fleet: redis.map(|redis| fleet::started(pool, redis, main)),
        main,
    });
    // It may be another server now.
    let mode = redis.map(|redis| redis.on_failure);
    runtime.segment.begin_breaker(mode);
    for rule in inventory.rules() {
        records::record(runtime, rule, None);
    }
    // After all: counts that rules share are described by then.
    for rule in inventory.rules() {
        if let (Some(index), Some(meta)) = (rule.record.get(), records::meta_of(rule)) {
            runtime.segment.ledger().redefine(index, meta.pack());
        }
        records::describe_own(runtime, rule);
    }
    records::record_wide_counts(runtime, flags);
    records::record_guards(runtime, inventory);
    pool.on_clear(runtime);
    runtime.rise();
    // A graceful restart keeps the scoreboard and never comes to pre_mpm.
    if let Ok(scoreboard) = Scoreboard::find(runtime.segment.size().slots) {
        runtime.segment.say(&about(runtime, scoreboard));
    }
    let rules = inventory.rules().filter(|rule| rule.terms.is_on());
    alarm::started(runtime, rules.count());
    Ok(())
}

/// After the scoreboard was made: at a start, and a restart that is not graceful. `Err` is the sentence with which httpd refuses to run.
pub fn pre_mpm() -> Result<(), String> {
    let Some(runtime) = Runtime::current() else {
        return Ok(());
    };
    match Scoreboard::find(runtime.segment.size().slots) {
        Ok(scoreboard) => {
            runtime.segment.say(&about(runtime, scoreboard));
            Ok(())
        }
        Err(error) => Err(format!("{}: {error}", Id::SlotLayout)),
    }
}

/// What a reader outside of httpd must know.
fn about(runtime: &Runtime, scoreboard: Scoreboard) -> About {
    let [address, stride, status] = scoreboard.bearings().map(|number| number as u64);
    About {
        generation: runtime.generation,
        max_workers: state::max_request_workers(),
        prefix: runtime.prefix,
        has_rules: runtime.flags & ANY_RULE != 0,
        board: Board {
            address,
            stride,
            status,
        },
        httpd: state::description().into(),
        pid: std::process::id(),
        started: state::seconds_up(),
        enforces: runtime.enforces,
        has_remoteip: state::has_module(c"mod_remoteip.c"),
        has_client_header: runtime.main.all().any(|server| {
            let site = server.config(MODULE);
            site.is_some_and(|site| site.client_header.is_some())
        }),
        is_by_peer: runtime.who == Who::Connection,
        log_level: log::level_of_server(MODULE, runtime.main),
        code: monitor as fn() as usize as u64,
        other_logs: other_logs(runtime.main),
        error_log: runtime.main.error_log().into(),
        module: env!("CARGO_PKG_VERSION").into(),
    }
}

/// How many virtual hosts write their lines elsewhere.
fn other_logs(main: Server<'_>) -> u32 {
    let others = main
        .all()
        .filter(|server| server.is_virtual() && server.error_log() != main.error_log());
    others.count() as u32
}

/// A child begins.
pub fn child_init(pool: Pool<'static>) {
    let Some(runtime) = Runtime::current() else {
        return;
    };
    boundary::keep_panic_text();
    process::mark_copies();
    #[cfg(all(debug_assertions, not(test)))]
    slow_steps_for_tests();
    let segment = &runtime.segment;
    segment.close_fd();
    let watches = runtime.flags & WATCH != 0;
    match Scoreboard::find(segment.size().slots) {
        Ok(scoreboard) => {
            let (pid, http2) = (std::process::id(), Http2::find());
            Child {
                holder: Holder::new(segment, pid, state::nanoseconds_up),
                scoreboard,
                identity: segment.identity(),
                desks: segment.desks(),
                watched: Watched::new(if watches { responses() } else { 0 }),
                pid,
                serial: AtomicU32::new(1),
                http2,
                http2_workers: http2.and_then(|http2| http2.most_workers(runtime.main)),
                max_workers: state::max_request_workers(),
                is_threaded: state::is_threaded(),
                looked_at: AtomicU32::new(0),
                fleet: fleet::child_init(runtime, pool, responses()),
            }
            .rise();
            if let (true, Some(running)) = (watches, Running::get())
                && let Err(error) = watch::start(running.child)
            {
                let text = format!("{}: slow clients are not watched for: {error}", Id::Fault);
                runtime.log(LogLevel::ERROR, &text);
            }
        }
        Err(error) => runtime.log(LogLevel::ERROR, &format!("{}: {error}", Id::SlotLayout)),
    }
}

/// How many responses a child can have under way: HTTP/2 and event have more than threads.
fn responses() -> usize {
    let (_, threads) = state::most_workers();
    threads as usize * 16 + 64
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
        runtime.log(LogLevel::INFO, &text);
    }
}

/// Now and then in the parent.
pub fn monitor() {
    let Some(runtime) = Runtime::current() else {
        return;
    };
    store::reconcile(&runtime.segment, process::may_be_a_child_of_ours);
    let mismatches = store::audit(&runtime.segment);
    if mismatches > 0 {
        let text = format!(
            "{}: {mismatches} counts are not the sum of their leases; please report this",
            Id::AuditMismatch
        );
        runtime.log(LogLevel::ERROR, &text);
    }
    report_untracked(runtime);
    shortage::look(runtime);
    alarm::answer(runtime);
    alarm::look(runtime);
    // While refusals go on their own lines tell; this is for the last of them.
    let left_out = runtime.segment.flood().take_left_out();
    if left_out > 0 {
        runtime.log(LogLevel::WARNING, &LeftOut(left_out).to_string());
    }
}

/// Tells how many requests were admitted without being counted since the last look.
fn report_untracked(runtime: &Runtime) {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    let all = runtime.segment.read(Counter::Untracked);
    let new = all.saturating_sub(TOLD.swap(all, Ordering::Relaxed));
    if new > 0 {
        let text = format!(
            "{}: {new} requests were admitted without being counted, because no room was found for them in time \
             in the table of {} keys; if this goes on, give IPLimitTable a higher number",
            Id::Untracked,
            runtime.segment.size().keys
        );
        runtime.log(LogLevel::WARNING, &text);
    }
}

/// A rule was met in a .htaccess file by a request of this server: it needs a name, a
/// record, and the hooks' attention. `Err` is the sentence with which the request ends.
pub fn met_in_htaccess(rule: &Placed<'_>, met_on: Server<'_>) -> Result<(), String> {
    let Some(runtime) = Runtime::current() else {
        return Ok(());
    };
    rule.settle();
    rule.zone.set(zone_of(rule, runtime.zones)?);
    let is_near = |other: &&&Placed<'_>| {
        let home = other.server.filter(|server| server.is_virtual());
        other.shares_all_servers() || home.is_none_or(|home| home == met_on)
    };
    checks::agrees(rule, runtime.shared_buckets.iter().filter(is_near))?;
    records::record(runtime, rule, Some(met_on));
    records::describe_own(runtime, rule);
    let bits = flags_of(rule, runtime.defaults);
    if runtime.segment.flags() & bits != bits {
        records::record_wide_counts(runtime, bits);
        runtime.segment.raise(bits);
    }
    Ok(())
}

/// Debug builds only: widens the steps of the store while the environment says by how
/// many microseconds, so that a test's kill -9 meets a child in the middle of one.
#[cfg(all(debug_assertions, not(test)))]
fn slow_steps_for_tests() {
    let micros = std::env::var("LIMITIPCONN_SLOW_STEPS")
        .ok()
        .and_then(|text| text.parse().ok());
    if let Some(micros) = micros {
        store::slow_steps(micros);
    }
}
