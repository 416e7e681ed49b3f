//! The directives, a row each, in the manual's order.

use super::config::{Level, Site};
use super::rules::{Inventory, Placed};
use super::{MODULE, lifecycle};
use crate::httpd::command::{Command, Context, Row};
use crate::limit::arguments;
use crate::limit::mime::{self, Pattern};
use crate::limit::policy::Ruling;
use crate::limit::rule::Directive;
use crate::limit::syntax::{self, Fault};
use crate::report::message::Id;

/// The table that httpd reads.
pub static ROWS: [Row; 6] = [
    Row {
        name: c"MaxConnPerIP",
        context: Context::Htaccess,
        set: max_conn_per_ip,
        help: c"how many connections one client may have: a number or off, then scope= and count=",
    },
    Row {
        name: c"NoIPLimit",
        context: Context::Htaccess,
        set: no_ip_limit,
        help: c"MIME types that are never limited, or off",
    },
    Row {
        name: c"OnlyIPLimit",
        context: Context::Htaccess,
        set: only_ip_limit,
        help: c"the only MIME types that are limited, or off",
    },
    Row {
        name: c"IPLimitDefaults",
        context: Context::Sections,
        set: defaults,
        help: c"scope= and count= of the rules that do not say them",
    },
    Row {
        name: c"IPLimitTable",
        context: Context::Main,
        set: table,
        help: c"keys=N: how many keys are counted at a time",
    },
    Row {
        name: c"IPLimitStatusPage",
        context: Context::Main,
        set: status_page,
        help: c"On or Off: whether SetHandler limitipconn-status shows anything",
    },
];

const KEYS: std::ops::RangeInclusive<u32> = 16..=16_000_000;

/// The level that a directive speaks to.
///
/// # Safety
/// As [`site`].
unsafe fn level<'c>(command: Command<'c>) -> &'c mut Level<'c> {
    // SAFETY: handed through.
    unsafe {
        if command.is_in_section() {
            command.directory(MODULE)
        } else {
            &mut site(command).level
        }
    }
}

/// The server that a directive speaks to.
///
/// # Safety
/// Called once by a directive's handler: httpd reads one directive at a time, so nobody
/// else has a reference then.
unsafe fn site<'c>(command: Command<'c>) -> &'c mut Site<'c> {
    // SAFETY: handed through.
    unsafe { command.server_config(MODULE) }
}

fn max_conn_per_ip(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let terms = syntax::max_conn(arguments).map_err(|fault| fault.to_string())?;
    // SAFETY: the only call in this handler.
    let level = unsafe { level(command) };
    let rule = Placed::new(command, Directive::MaxConnPerIp, terms, level.defaults);
    let first = level.rules.iter().copied().find(|said| said.like(rule));
    let in_htaccess = command.htaccess_directory().is_some();
    if let Some(first) = first {
        if !(first.terms.is_plain() && terms.is_plain()) {
            return Err(format!(
                "\"{arguments}\" is the second such rule of this section; the first is on line {} of {}; \
                 keep one of them",
                first.line, first.file
            ));
        }
        first.supersede();
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
    let others = level.rules.iter().copied().filter(|said| !said.like(rule));
    level.rules = command.pool().slice(others.chain([rule]));
    if in_htaccess {
        lifecycle::met_in_htaccess(rule);
        return Ok(());
    }
    let inventory = Inventory::of(command.pool());
    inventory.add(rule);
    if command.is_limited_to_methods() {
        inventory.warn(&format!(
            "{}: MaxConnPerIP on line {} of {} holds for all methods, whatever <Limit> is around it; \
             use <If \"%{{REQUEST_METHOD}} == 'POST'\"> to name one",
            Id::InsideLimit,
            rule.line,
            rule.file
        ));
    }
    Ok(())
}

fn no_ip_limit(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let words = types(arguments)?;
    // SAFETY: the only call in this handler.
    let level = unsafe { level(command) };
    let patterns = added(command, level.types.no, &words);
    level.types.no = Some(patterns);
    if let (Some(suspicious), None) = (mime::is_suspicious(&words), command.htaccess_directory()) {
        let at = command
            .node()
            .map(|node| (node.line(), node.file()))
            .unwrap_or_default();
        Inventory::of(command.pool()).warn(&format!(
            "{}: NoIPLimit on line {} of {}: the pattern \"{suspicious}\" of \"{arguments}\" looks like a slip; \
             types are written like image/* or video, without blanks, and comments on a line of their own",
            Id::SuspiciousPattern,
            at.0,
            at.1
        ));
    }
    Ok(())
}

fn only_ip_limit(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let words = types(arguments)?;
    // SAFETY: the only call in this handler.
    let level = unsafe { level(command) };
    let patterns = added(command, level.types.only, &words);
    level.types.only = Some(patterns);
    Ok(())
}

fn types(arguments: &str) -> Result<Vec<String>, String> {
    let words = arguments::words(arguments).map_err(|error| Fault::from(error).to_string())?;
    if words.is_empty() {
        return Err(String::from(
            "needs MIME types such as image/* or video, or \"off\"",
        ));
    }
    if words.iter().any(String::is_empty) {
        return Err(format!(
            "\"{arguments}\": an empty type matches nothing; write types such as image/* or video"
        ));
    }
    let off = words.iter().any(|word| word.eq_ignore_ascii_case("off"));
    match words.as_slice() {
        [_] if off => Ok(Vec::new()),
        _ if off => Err(format!(
            "\"{arguments}\": \"off\" stands alone; write the types without it, or only \"off\""
        )),
        _ => Ok(words),
    }
}

/// Lines in one section add up; `off` empties the list.
fn added<'c>(
    command: Command<'c>,
    said: Option<&'c [Pattern<'c>]>,
    words: &[String],
) -> &'c [Pattern<'c>] {
    if words.is_empty() {
        return &[];
    }
    let pool = command.pool();
    let more: Vec<Pattern<'_>> = words
        .iter()
        .map(|word| Pattern::new(pool.text(word)))
        .collect();
    pool.slice(
        said.unwrap_or(&[])
            .iter()
            .copied()
            .chain(more.iter().copied()),
    )
}

fn defaults(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let said = syntax::defaults(arguments).map_err(|fault| fault.to_string())?;
    // SAFETY: the only call in this handler.
    let level = unsafe { level(command) };
    level.defaults = said.or(level.defaults);
    for rule in level.rules {
        rule.beside.set(level.defaults);
    }
    Inventory::of(command.pool()).note_defaults(level.defaults, command.is_in_section());
    Ok(())
}

fn table(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let wrong = || {
        format!(
            "\"{arguments}\" is not understood; use keys=N with N from {} to {}",
            KEYS.start(),
            KEYS.end()
        )
    };
    let words = arguments::words(arguments).map_err(|error| error.to_string())?;
    let [word] = words.as_slice() else {
        return Err(wrong());
    };
    let (name, value) = word.split_once('=').ok_or_else(wrong)?;
    let digits =
        name.eq_ignore_ascii_case("keys") && value.bytes().all(|byte| byte.is_ascii_digit());
    let keys = value
        .parse()
        .ok()
        .filter(|keys| digits && KEYS.contains(keys))
        .ok_or_else(wrong)?;
    // SAFETY: the only call in this handler.
    let said = unsafe { site(command) }.keys.replace(keys);
    match said {
        Some(before) => Err(format!(
            "\"{arguments}\" is the second; keys={before} was said before; keep one of them"
        )),
        None => Ok(()),
    }
}

fn status_page(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let words = arguments::words(arguments).map_err(|error| error.to_string())?;
    let shown = match words.as_slice() {
        [word] if word.eq_ignore_ascii_case("on") => true,
        [word] if word.eq_ignore_ascii_case("off") => false,
        _ => return Err(format!("\"{arguments}\" is not understood; use On or Off")),
    };
    // SAFETY: the only call in this handler.
    unsafe { site(command) }.status_page = Some(shown);
    Ok(())
}
