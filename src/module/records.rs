//! The records of rules in shared memory, under which they are counted and shown; and the
//! names of counts that are no single rule's.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::MODULE;
use super::inventory::Inventory;
use super::rules::{Placed, family_of};
use super::running::{Runtime, WIDE, flag};
use super::zones::Source;
use crate::gauge::{Guard, Keys, Made, Meta, Rate, What};
use crate::httpd::log::LogLevel;
use crate::httpd::server::Server;
use crate::limit::concurrency::count_of;
use crate::limit::key::CountId;
use crate::limit::rule::{Defaults, Directive, Level, Scope, Terms};
use crate::report::message::Id;
use crate::store::RecordIndex;

/// Gives a rule its record, under which it is counted and shown; one of .htaccess for the
/// server that it was met on, since it is read on every request.
pub fn record(runtime: &Runtime, rule: &Placed<'_>, met_on: Option<Server<'_>>) {
    let Some(meta) = meta_of(rule) else {
        return;
    };
    let ledger = runtime.segment.ledger();
    let index = ledger.register(rule.id.get().0, meta.pack(), rule.name, rule.vhost());
    rule.record.set(index);
    match index {
        Some(index) => {
            ledger.touch(index, runtime.generation);
            // What a rate says is known here, and may have been edited in a .htaccess file.
            if rule.directive.is_rate() {
                ledger.redefine(index, meta.pack());
            }
        }
        None => no_record(runtime, rule),
    }
    record_shared_count(runtime, rule, &meta, met_on);
    if !rule.networks.is_empty() {
        // Like rules of one place share their count, which then is no single one's.
        let scope = scope_of(&meta).unwrap_or(Scope::Location);
        let shared = Meta::shared(rule.family(scope));
        let index = ledger.register(rule.count.get().0, shared.pack(), rule.place, rule.vhost());
        if let Some(index) = index.filter(|_| counts_here(rule)) {
            describe_shared(runtime, index, rule, numberless(meta), met_on);
        }
    }
}

/// Says what the count of a rule is about that shares it with nobody, or is the one for everybody
/// of those that share it: its number is then the count's.
pub fn describe_own(runtime: &Runtime, rule: &Placed<'_>) {
    if !rule.networks.is_empty() || !counts_here(rule) {
        return;
    }
    if let (Some(index), Some(meta)) = (rule.record.get(), meta_of(rule)) {
        let ledger = runtime.segment.ledger();
        ledger.describe(index, keys_of(rule).pack(), meta.pack());
    }
}

/// Whether what a rule counts has the id of the rule.
fn counts_here(rule: &Placed<'_>) -> bool {
    let rating = rule.terms.rating();
    rating.is_none_or(|rating| rating.scope == Scope::Location)
}

/// The same, where rules of several numbers share the count.
fn numberless(meta: Meta) -> Meta {
    let what = match meta.what {
        What::Rate(rate) => What::Rate(Rate { number: 0, ..rate }),
        _ => What::Shared,
    };
    Meta { what, ..meta }
}

/// Says what a count that rules share is about. What rules of the server's files say of it
/// stays when one is met in a .htaccess file.
fn describe_shared(
    runtime: &Runtime,
    index: RecordIndex,
    rule: &Placed<'_>,
    of: Meta,
    met_on: Option<Server<'_>>,
) {
    let ledger = runtime.segment.ledger();
    ledger.touch(index, runtime.generation);
    if met_on.is_none() || !ledger.is_described(index) {
        ledger.describe(index, keys_of(rule).pack(), of.pack());
    }
}

/// What the keys of a rule are.
fn keys_of(rule: &Placed<'_>) -> Keys {
    let Some(zone) = rule.zone.get() else {
        return Keys {
            made: Made::Client,
            is_secret: false,
        };
    };
    Keys {
        made: match zone.source {
            Source::All => Made::All,
            Source::Client(None) => Made::Client,
            Source::Client(Some(prefix)) => Made::Network(prefix),
            Source::Expression(_) => Made::Text,
        },
        is_secret: zone.is_secret,
    }
}

/// A count or bucket that rules about keys or rates share gets a record, so that it has a
/// name: `MaxConnPerKey:api@zone`, or `...@vhost` on each virtual host.
fn record_shared_count(
    runtime: &Runtime,
    rule: &Placed<'_>,
    of: &Meta,
    met_on: Option<Server<'_>>,
) {
    let scope = match &rule.terms {
        Terms::Rate(rating) => rating.scope,
        Terms::Concurrency(terms) => match rule.directive {
            Directive::MaxConnPerIp => return,
            _ => terms.meaning_for_keys(&Defaults::default()).scope,
        },
    };
    if scope == Scope::Location {
        return;
    }
    // As the zone was declared: each rule may spell it in its own way.
    let zone = rule.zone.get().map(|zone| format!(":{}", zone.name));
    // Those of addresses are never shared by levels.
    let level = match (&zone, rule.at) {
        (Some(_), _) => "",
        (None, Level::Server) => " (server level)",
        (None, Level::Directory) => " (directory level)",
    };
    let name = format!(
        "{}{}@{}{level}",
        rule.directive.name(),
        zone.unwrap_or_default(),
        scope.word()
    );
    let ledger = runtime.segment.ledger();
    let meta = Meta::shared(rule.family(scope)).pack();
    let of = match of.what {
        What::Rate(_) => *of,
        _ => numberless(*of),
    };
    let register = |id: CountId, vhost| {
        if let Some(index) = ledger.register(id.0, meta, &name, vhost) {
            describe_shared(runtime, index, rule, of, met_on);
        }
    };
    if scope == Scope::Zone {
        register(rule.count_of(scope, rule.at, CountId(0)), None);
        return;
    }
    // A rule of the main server is in effect on all of them, one of a virtual host there.
    let home = rule.server.filter(|server| server.is_virtual()).or(met_on);
    for server in runtime.main.all() {
        if home.is_some_and(|home| home != server) {
            continue;
        }
        if let Some(site) = server.config(MODULE) {
            let vhost = server.is_virtual().then(|| site.label.get());
            register(rule.count_of(scope, rule.at, site.id.get()), vhost);
        }
    }
}

/// What a record says of the rule; None for `off`.
pub fn meta_of(rule: &Placed<'_>) -> Option<Meta> {
    let (what, scope) = match (&rule.terms, rule.meaning_at_home()) {
        (Terms::Rate(rating), _) => (What::of_rate(rating)?, rating.scope),
        (Terms::Concurrency(terms), Some(meaning)) if terms.limit.is_some() => {
            (What::of_places(&rule.terms, meaning), meaning.scope)
        }
        _ => return None,
    };
    Some(Meta {
        what,
        family: rule.family(scope),
        dry_run: rule.is_dry_run_at_home(),
    })
}

fn scope_of(meta: &Meta) -> Option<Scope> {
    match meta.what {
        What::Places { meaning, .. } => Some(meaning.scope),
        What::Rate(rate) => Some(rate.scope),
        What::Guard(_) | What::Shared => None,
    }
}

/// What is watched beside the rules gets records too, so that all that acts under pressure
/// can be shown with its mark.
pub fn record_guards(runtime: &Runtime, inventory: &Inventory<'_>) {
    let ledger = runtime.segment.ledger();
    let record = |guard: Guard, place: &str, server: Option<Server<'_>>| {
        let site = server.and_then(|server| server.config(MODULE));
        let name = format!("{}@{place}", guard.directive());
        let own = site.map_or(0, |site| site.id.get().0);
        let id = CountId::named(&["guard", &name]).0 ^ own.rotate_left(1);
        let is_virtual = server.is_some_and(Server::is_virtual);
        let vhost = site.filter(|_| is_virtual).map(|site| site.label.get());
        let meta = Meta::guard(guard).pack();
        if let Some(index) = ledger.register(id, meta, &name, vhost) {
            ledger.redefine(index, meta);
            ledger.touch(index, runtime.generation);
        }
    };
    let mut told = HashSet::new();
    for said in inventory.guards() {
        let is_last = told.insert((said.directive, said.place, said.server));
        if let Some(guard) = said.guard.filter(|_| is_last) {
            record(guard, said.place, Some(said.server));
        }
    }
    if let Some(alarm) = runtime.alarm {
        record(Guard::Alarm(alarm.busy), "server", None);
    }
}

/// Tells once per process that there is no room for the counters of more rules.
#[cold]
fn no_record(runtime: &Runtime, rule: &Placed<'_>) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        let text = format!(
            "{}: {} on line {} of {} limits, but is not shown by limitipconn-status: there are {} records of rules, \
             made at the start; stop and start httpd for more",
            Id::NoRecord,
            rule.name,
            rule.line,
            rule.file,
            runtime.segment.size().rules
        );
        runtime.log(LogLevel::WARNING, &text);
    }
}

/// Counts that belong to no single rule get records too, so that they have names.
pub fn record_wide_counts(runtime: &Runtime, flags: u32) {
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
            let family = count_of(scope, level, CountId(0), CountId(0));
            let meta = Meta::shared(family_of(scope, family));
            ledger.register(id, meta.pack(), &name, vhost);
            if scope == Scope::Server {
                break;
            }
        }
    }
}

/// What a count over a whole server or virtual host is called.
fn wide_name(level: Level, scope: Scope) -> String {
    let level = match level {
        Level::Server => "server",
        Level::Directory => "directory",
    };
    format!("requests@{} ({level} level)", scope.word())
}
