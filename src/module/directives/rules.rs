//! The directives that limit, and what they take when they do not say.

use super::{level, site};
use crate::httpd::command::Command;
use crate::limit::policy::{self, Ruling};
use crate::limit::rating::Limit;
use crate::limit::rule::{Concurrency, Directive, Terms};
use crate::limit::syntax;
use crate::module::inventory::Inventory;
use crate::module::lifecycle;
use crate::module::rules::Placed;
use crate::report::message::Id;

/// The handler of a limiting directive.
pub(super) const fn of(directive: Directive) -> fn(Command<'_>, &str) -> Result<(), String> {
    match directive {
        Directive::MaxConnPerIp => |command, said| rule(command, Directive::MaxConnPerIp, said),
        Directive::MaxConnPerKey => |command, said| rule(command, Directive::MaxConnPerKey, said),
        Directive::MaxRatePerIp => |command, said| rule(command, Directive::MaxRatePerIp, said),
        Directive::MaxRatePerKey => |command, said| rule(command, Directive::MaxRatePerKey, said),
        Directive::MaxHitsPerIp => |command, said| rule(command, Directive::MaxHitsPerIp, said),
        Directive::MaxHitsPerKey => |command, said| rule(command, Directive::MaxHitsPerKey, said),
    }
}

fn rule(command: Command<'_>, directive: Directive, arguments: &str) -> Result<(), String> {
    let said = syntax::rule(directive, arguments).map_err(|fault| fault.to_string())?;
    let about_connections = said.terms.is_about_connections();
    let in_htaccess = command.htaccess_directory().is_some();
    if about_connections && (command.is_in_section() || command.server().is_virtual()) {
        return Err(format!(
            "\"{arguments}\": count=connections is counted before any request is read, so it stands \
             in the main server's configuration only, outside sections; use count=requests here"
        ));
    }
    if said.shared && in_htaccess {
        return Err(format!(
            "\"{arguments}\": shared rules ask another server, so they stand in the server's files only; \
             leave shared out here"
        ));
    }
    if let Terms::Rate(rating) = said.terms
        && let Some(Limit::Bucket(bucket)) = rating.limit
        && bucket.delay.is_some()
        && in_htaccess
    {
        return Err(format!(
            "\"{arguments}\": delay= holds a worker of the server, so it stands in the server's files only; \
             leave it out here"
        ));
    }
    // SAFETY: the only call in this handler: either of the two is made.
    let (rules, beside) = unsafe {
        if about_connections {
            let site = site(command);
            (&mut site.connections, site.level.beside)
        } else {
            let level = level(command);
            (&mut level.rules, level.beside)
        }
    };
    let rule = Placed::new(command, directive, &said, beside);
    let rival = rules
        .iter()
        .copied()
        .filter(|first| first.like(rule))
        .find_map(|first| policy::conflict(first, rule).map(|shared| (first, shared)));
    if let Some((first, shared)) = rival {
        let is_plain = |rule: &Placed<'_>| {
            rule.directive == Directive::MaxConnPerIp
                && rule.networks.is_empty()
                && rule.terms.concurrency().is_some_and(Concurrency::is_plain)
        };
        if !(is_plain(first) && is_plain(rule)) {
            let clients = match shared {
                None => String::new(),
                Some(network) => format!(" for {network}"),
            };
            let here = match command.is_in_section() {
                true => "section",
                false => "server",
            };
            return Err(format!(
                "\"{arguments}\" is the second such rule of this {here}{clients}; the first is on line {} of {}; \
                 keep one of them",
                first.line, first.file
            ));
        }
        first.supersede();
        *rules = command.pool().slice(
            rules
                .iter()
                .copied()
                .filter(|said| !std::ptr::eq(*said, first)),
        );
        if !in_htaccess {
            let text = format!(
                "{}: MaxConnPerIP {arguments} on line {} of {} replaces the one on line {}; keep one of them",
                Id::Duplicate,
                rule.line,
                rule.file,
                first.line
            );
            Inventory::of(command.pool()).warn(&text);
        }
    }
    *rules = command.pool().slice(rules.iter().copied().chain([rule]));
    if in_htaccess {
        return lifecycle::met_in_htaccess(rule, command.server());
    }
    let inventory = Inventory::of(command.pool());
    inventory.add(rule);
    if let Some(Limit::Bucket(bucket)) = rule.terms.rating().and_then(|rating| rating.limit)
        && bucket.most() < bucket.burst
    {
        inventory.warn(&format!(
            "{}: {} {arguments} on line {} of {}: of burst={} only {} can come in together, since nobody waits \
             longer than 5 s for a turn at this rate; give a higher delay=, or leave it out",
            Id::BurstOutOfReach,
            directive.name(),
            rule.line,
            rule.file,
            bucket.burst,
            bucket.most()
        ));
    }
    if command.is_limited_to_methods() {
        inventory.warn(&format!(
            "{}: {} on line {} of {} holds for all methods, whatever <Limit> is around it; \
             use <If \"%{{REQUEST_METHOD}} == 'POST'\"> to name one",
            Id::InsideLimit,
            directive.name(),
            rule.line,
            rule.file
        ));
    }
    Ok(())
}

pub(super) fn defaults(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let said = syntax::defaults(arguments).map_err(|fault| fault.to_string())?;
    // SAFETY: the only call in this handler.
    let level = unsafe { level(command) };
    let defaults = said.or(level.defaults);
    level.say(command.pool(), |beside| beside.defaults = defaults);
    Inventory::of(command.pool()).note_defaults(level.defaults, command.is_in_section());
    Ok(())
}
