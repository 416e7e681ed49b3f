//! The shared memory of this httpd: made at the first start, kept over every reload.

use std::ffi::CStr;

use super::MODULE;
use super::inventory::Inventory;
use super::rules::Placed;
use crate::httpd::log::{self, LogLevel};
use crate::httpd::server::Server;
use crate::httpd::state;
use crate::limit::rule::{Scope, Terms};
use crate::report::message::Id;
use crate::store::{Parts, Segment, Size};

const DEFAULT_KEYS: u32 = 65536;

/// Under which all that survives a reload is kept. Another layout takes another name.
const RETAINED: &CStr = c"limitipconn.segment.5";

#[derive(Clone, Copy)]
struct Retained {
    parts: Parts,
    generation: u32,
}

/// The segment, and how often the configuration was read with it. `Err` is the sentence
/// with which httpd refuses to start.
pub fn of_this_generation(
    inventory: &Inventory<'_>,
    main: Server<'_>,
) -> Result<(Segment, u32), String> {
    // SAFETY: only this function stores under the key, always a Retained.
    let before = unsafe { state::retained::<Retained>(RETAINED) };
    let generation = before.map_or(0, |before| before.generation) + 1;
    let segment = match before.and_then(|before| kept(before.parts, main, wanted(inventory, main)))
    {
        Some(kept) => kept,
        None => made(wanted(inventory, main))?,
    };
    let parts = segment.parts();
    // SAFETY: as above.
    unsafe { state::retain(RETAINED, Retained { parts, generation }) };
    Ok((segment, generation))
}

fn wanted(inventory: &Inventory<'_>, main: Server<'_>) -> Size {
    let (children, threads) = state::most_workers();
    let slots = children.saturating_mul(threads);
    let keys = main
        .config(MODULE)
        .and_then(|site| site.keys)
        .unwrap_or(DEFAULT_KEYS);
    // A child claims chunks of 64 leases; with two generations at once each may hold
    // one that is hardly used. Beside that, event and HTTP/2 have many more requests
    // in flight than workers, and a request may hold a few places.
    let leases = (children.saturating_mul(128)).saturating_add(slots.saturating_mul(32));
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    // Room for as many again: reloads add rules, and .htaccess files have some.
    let rules = number(inventory.rules().count())
        .saturating_add(number(inventory.guards().count()).saturating_add(1))
        .saturating_add(number(main.all().count()).saturating_mul(2))
        .saturating_add(names_of_vhosts(inventory, main));
    Size {
        keys,
        leases: leases.clamp(65536, 4_194_240),
        slots,
        rules: rules.saturating_mul(2).clamp(4096, 1 << 20),
    }
}

/// Rules about keys or rates that count by virtual host have a count with a name of its own
/// on each.
fn names_of_vhosts(inventory: &Inventory<'_>, main: Server<'_>) -> u32 {
    let all = u32::try_from(main.all().count()).unwrap_or(u32::MAX);
    let of = |rule: &Placed<'_>| {
        let counts_by_vhost = match &rule.terms {
            Terms::Rate(rating) => rating.scope == Scope::Vhost,
            Terms::Concurrency(terms) => {
                rule.directive.is_per_key() && terms.scope == Some(Scope::Vhost)
            }
        };
        match (counts_by_vhost, rule.server) {
            (false, _) => 0,
            (true, Some(server)) if server.is_virtual() => 1,
            (true, _) => all,
        }
    };
    inventory
        .rules()
        .fold(0, |sum, rule| u32::saturating_add(sum, of(rule)))
}

fn kept(parts: Parts, main: Server<'_>, wanted: Size) -> Option<Segment> {
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
                log::server(MODULE, LogLevel::WARNING, main, &text);
            }
            Some(kept)
        }
        Err(error) => {
            let text = format!(
                "{}: the module has changed ({error}): counts begin anew; stop and start httpd after an update",
                Id::NeedsRestart
            );
            log::server(MODULE, LogLevel::WARNING, main, &text);
            None
        }
    }
}

fn made(size: Size) -> Result<Segment, String> {
    Segment::create(size).map_err(|error| {
        format!(
            "{}: IPLimitTable keys={}: the shared memory cannot be made ({error}); give a smaller number",
            Id::NoSharedMemory,
            size.keys
        )
    })
}
