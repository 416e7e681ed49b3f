//! What a start and `-t` warn about: configurations that are valid and yet hardly
//! what their author wants.

use super::MODULE;
use super::exempt;
use super::fleet;
use super::inventory::Inventory;
use super::rules::Placed;
use crate::httpd::server::Server;
use crate::httpd::tree::{self, Node};
use crate::limit::arguments;
use crate::limit::rule::{Concurrency, Level, Scope};
use crate::report::message::Id;

/// Under this many connections an ordinary browser is refused parts of a page.
const BROWSER: u16 = 6;

/// Sections that are everything.
const EVERYTHING: [&str; 6] = [
    "/",
    "LocationMatch:/",
    "LocationMatch:^/",
    "LocationMatch:.*",
    "LocationMatch:^/.*",
    "Directory:/",
];

/// All warnings, a line each.
pub fn warnings(inventory: &Inventory<'_>, main: Server<'_>) -> Vec<String> {
    let mut warnings: Vec<String> = inventory
        .warnings()
        .iter()
        .map(|text| (*text).to_owned())
        .collect();
    warnings.extend(whole_server_counted(inventory));
    warnings.extend(low_on_root(inventory));
    warnings.extend(busy_page_by_url(main));
    warnings.extend(cache_above_rules(inventory, main));
    warnings.extend(proxies_counted(inventory, main));
    warnings.extend(fleet::nameless(inventory, main));
    warnings
}

/// The rates whose buckets more than one place can share, first written first.
pub fn shared_buckets<'p>(inventory: &Inventory<'p>) -> Vec<&'p Placed<'p>> {
    let is_shared = |rule: &&Placed<'_>| {
        let rating = rule.terms.rating();
        rating.is_some_and(|rating| rating.limit.is_some() && rating.scope != Scope::Location)
    };
    let mut rates: Vec<_> = inventory.rules().filter(is_shared).collect();
    rates.reverse();
    rates
}

/// Rules that share a bucket must agree on it. `Err` says that `rule` does not with one of
/// the others.
pub fn agrees<'o, 'p: 'o>(
    rule: &Placed<'_>,
    others: impl IntoIterator<Item = &'o &'o Placed<'p>>,
) -> Result<(), String> {
    let bucket = |rule: &Placed<'_>| {
        let rating = rule.terms.rating()?;
        Some((rating.on, rating.limit?.without_delay(), rule.in_fleet))
    };
    let rival = others
        .into_iter()
        .find(|other| rule.shares_bucket_with(other) && bucket(rule) != bucket(other));
    match rival {
        None => Ok(()),
        Some(other) => Err(format!(
            "{} on line {} of {} shares its bucket with the one on line {} of {}, so both must give the same \
             number, burst=, freeze=, extend, on= and shared; or use scope=location for a bucket of its own",
            rule.name, rule.line, rule.file, other.line, other.file
        )),
    }
}

/// Whether the text LIMITIP stands anywhere in the configuration's arguments.
pub fn names_variables() -> bool {
    let mut named = false;
    tree::walk(&mut |node| {
        named |= node.arguments().to_ascii_uppercase().contains("LIMITIP_")
            || node
                .arguments()
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .any(|word| word.eq_ignore_ascii_case("LIMITIP"))
    });
    named
}

/// Whether the directive's only argument is `Off`, with quotes or without.
fn says_off(node: Node<'_>) -> bool {
    arguments::words(&node.arguments())
        .is_ok_and(|words| matches!(words.as_slice(), [word] if word.eq_ignore_ascii_case("off")))
}

/// Whether some place may enforce its rules. Too often rather than too seldom.
pub fn enforces(main: Server<'_>) -> bool {
    let all_dry = main.all().all(|server| {
        server
            .config(MODULE)
            .is_none_or(|site| site.level.settings.is_dry_run())
    });
    let mut off = false;
    tree::walk(&mut |node| {
        off |= node.name().eq_ignore_ascii_case("IPLimitDryRun") && says_off(node);
    });
    !all_dry || off
}

/// Proxies share one place for all of their clients unless they are spared.
fn proxies_counted(inventory: &Inventory<'_>, main: Server<'_>) -> Option<String> {
    let rule = inventory
        .rules()
        .find(|rule| rule.terms.is_about_connections() && rule.terms.is_on())?;
    let site = main.config(MODULE)?;
    if exempt::names_addresses(site.level.exempt) || site.client_header.is_some() {
        return None;
    }
    let mut said = None;
    tree::walk(&mut |node| {
        let name = ["RemoteIPHeader", "RemoteIPProxyProtocol"]
            .into_iter()
            .find(|name| node.name().eq_ignore_ascii_case(name));
        if !says_off(node) {
            said = said.or(name);
        }
    });
    said.map(|name| {
        format!(
            "{}: {} on line {} of {} counts connections, and {name} says that they come from a proxy: its own \
             count as one client's; spare its address with IPLimitExempt",
            Id::ProxiesCounted,
            rule.name,
            rule.line,
            rule.file
        )
    })
}

fn whole_server_counted(inventory: &Inventory<'_>) -> Option<String> {
    // What a section around another gives it is not known before a request comes.
    if inventory.sections_give_scope() {
        return None;
    }
    let wide = inventory.rules().filter(|rule| {
        let says_scope = |terms: &Concurrency| terms.scope.is_some();
        rule.at == Level::Directory
            && rule.terms.is_on()
            && !rule.terms.concurrency().is_none_or(says_scope)
            && rule.meaning_at_home().map(|meaning| meaning.scope) == Some(Scope::Server)
    });
    let (number, first) = wide.fold((0, None), |(number, _), rule| (number + 1, Some(rule)));
    let first = first?;
    let others = match number {
        1 => String::new(),
        2 => String::from(" (and one more rule)"),
        _ => format!(" (and {} more rules)", number - 1),
    };
    Some(format!(
        "{}: {} on line {} of {}{others} counts what a client has on the whole server, not in this section; \
         say scope=location for this section only, or scope=server to keep it so without this warning",
        Id::CountsWholeServer,
        first.name,
        first.line,
        first.file
    ))
}

fn low_on_root(inventory: &Inventory<'_>) -> Option<String> {
    let number = |rule: &Placed<'_>| {
        let of_addresses = !rule.directive.is_per_key();
        rule.terms.concurrency().filter(|_| of_addresses)?.limit
    };
    let (low, limit) = inventory.rules().find_map(|rule| {
        let is_root = rule
            .name
            .split_once('@')
            .is_some_and(|(_, place)| EVERYTHING.contains(&place));
        let limit = number(rule).filter(|limit| is_root && *limit < BROWSER)?;
        Some((rule, limit))
    })?;
    Some(format!(
        "{}: {} {limit} on line {} of {}: browsers open up to {BROWSER} connections for one page; \
         give a higher number, or limit a narrower place",
        Id::LowOnRoot,
        low.name,
        low.line,
        low.file
    ))
}

fn busy_page_by_url(main: Server<'_>) -> Vec<String> {
    // The statuses that refusals may have here or there.
    let mut statuses = vec![String::from("503"), String::from("429")];
    tree::walk(&mut |node| {
        if node.name().eq_ignore_ascii_case("IPLimitErrorStatus") {
            statuses.extend(arguments::words(&node.arguments()).unwrap_or_default());
        }
    });
    let mut found = Vec::new();
    tree::walk(&mut |node| {
        if !node.name().eq_ignore_ascii_case("ErrorDocument") {
            return;
        }
        let Ok(words) = arguments::words(&node.arguments()) else {
            return;
        };
        let [status, target] = words.as_slice() else {
            return;
        };
        let rest = target
            .strip_prefix("http://")
            .or_else(|| target.strip_prefix("https://"));
        let Some(host) = rest.and_then(|rest| rest.split(['/', ':']).next()) else {
            return;
        };
        if statuses.contains(status)
            && main
                .all()
                .any(|server| server.name().eq_ignore_ascii_case(host))
        {
            found.push(format!(
                "{}: ErrorDocument {status} \"{target}\" on line {} of {}: a full URL of this host sends the refused \
                 client back as a new request, which can be refused again; give the path only, such as /busy.html",
                Id::ErrorDocumentUrl,
                node.line(),
                node.file()
            ));
        }
    });
    found
}

fn cache_above_rules(inventory: &Inventory<'_>, main: Server<'_>) -> Option<String> {
    let mut caches = false;
    let mut quick = true;
    tree::walk(&mut |node: Node<'_>| {
        caches |= node.name().eq_ignore_ascii_case("CacheEnable");
        if node.name().eq_ignore_ascii_case("CacheQuickHandler") {
            quick = !says_off(node);
        }
    });
    if !(caches && quick) {
        return None;
    }
    let waits_for_type = |rule: &Placed<'_>| {
        main.all().any(|server| {
            server.config(MODULE).is_some_and(|site| {
                !site.level.types.is_empty()
                    && site.level.rules.iter().any(|said| said.id == rule.id)
            })
        })
    };
    let is_late = |rule: &&Placed<'_>| {
        rule.at == Level::Directory || rule.directive.is_per_key() || waits_for_type(rule)
    };
    let rule = inventory
        .rules()
        .filter(|rule| rule.terms.is_on() && !rule.terms.is_about_connections())
        .find(is_late)?;
    Some(format!(
        "{}: {} on line {} of {}: what mod_cache answers from its cache is not seen by rules in sections, \
         about keys or under a list of MIME types; set CacheQuickHandler off, or put a rule outside sections",
        Id::CacheAboveRule,
        rule.name,
        rule.line,
        rule.file
    ))
}
