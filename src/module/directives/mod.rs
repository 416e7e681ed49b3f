//! The directives, a row each, in the manual's order.

mod clients;
mod rules;
mod settings;
mod types;
mod zones;

use super::MODULE;
use super::config::{Level, Site};
use super::fleet::Redis;
use crate::httpd::command::{Command, Context, Row};
use crate::limit::arguments;
use crate::limit::rule::Directive;
use crate::limit::syntax;

/// The table that httpd reads.
pub static ROWS: [Row; 27] = [
    Row {
        name: c"MaxConnPerIP",
        context: Context::Htaccess,
        set: rules::of(Directive::MaxConnPerIp),
        help: c"how many connections one client may have: a number or off, then scope=, count=, for=, busy= and shared",
    },
    Row {
        name: c"MaxConnPerKey",
        context: Context::Htaccess,
        set: rules::of(Directive::MaxConnPerKey),
        help: c"how many requests one key of a zone may have in flight: the zone, a number or off, then scope=, for=, busy= and shared",
    },
    Row {
        name: c"MaxRatePerIP",
        context: Context::Htaccess,
        set: rules::of(Directive::MaxRatePerIp),
        help: c"how fast one client may ask: a number/time or off, then burst=, delay=, scope=, for=, on= and shared",
    },
    Row {
        name: c"MaxRatePerKey",
        context: Context::Htaccess,
        set: rules::of(Directive::MaxRatePerKey),
        help: c"how fast one key of a zone may ask: the zone, a number/time or off, then burst=, delay=, scope=, for=, on= and shared",
    },
    Row {
        name: c"MaxHitsPerIP",
        context: Context::Htaccess,
        set: rules::of(Directive::MaxHitsPerIp),
        help: c"how often one client may ask in a time: a number/time or off, then freeze=, extend, scope=, for=, on= and shared",
    },
    Row {
        name: c"MaxHitsPerKey",
        context: Context::Htaccess,
        set: rules::of(Directive::MaxHitsPerKey),
        help: c"how often one key of a zone may ask in a time: the zone, a number/time or off, then freeze=, extend, scope=, for=, on= and shared",
    },
    Row {
        name: c"IPLimitZone",
        context: Context::Main,
        set: zones::zone,
        help: c"a zone: its name, then key=client, key=all or key=EXPRESSION, and perhaps secret",
    },
    Row {
        name: c"NoIPLimit",
        context: Context::Htaccess,
        set: types::no_ip_limit,
        help: c"MIME types that are never limited, or off",
    },
    Row {
        name: c"OnlyIPLimit",
        context: Context::Htaccess,
        set: types::only_ip_limit,
        help: c"the only MIME types that are limited, or off",
    },
    Row {
        name: c"IPLimitDefaults",
        context: Context::Sections,
        set: rules::defaults,
        help: c"scope=, count= and busy= of the rules that do not say them",
    },
    Row {
        name: c"IPLimitExempt",
        context: Context::Sections,
        set: clients::exempt,
        help: c"who is never refused: all, preflight, addresses, method=NAME,... or expr=EXPRESSION",
    },
    Row {
        name: c"LocalIP",
        context: Context::Sections,
        set: clients::local_ip,
        help: c"addresses that are never refused; the same as IPLimitExempt with addresses",
    },
    Row {
        name: c"IPLimitAddress",
        context: Context::Main,
        set: clients::address,
        help: c"client or connection: whose address is counted",
    },
    Row {
        name: c"IPLimitPrefix",
        context: Context::Main,
        set: clients::prefix,
        help: c"how many bits of an IPv4 and of an IPv6 address make one client",
    },
    Row {
        name: c"IPLimitClientHeader",
        context: Context::Server,
        set: clients::client_header,
        help: c"the header by which trusted=ADDRESSES tell the client",
    },
    Row {
        name: c"IPLimitErrorStatus",
        context: Context::Sections,
        set: settings::error_status,
        help: c"the status of refusals by concurrency rules, and perhaps that of rates",
    },
    Row {
        name: c"IPLimitRetryAfter",
        context: Context::Sections,
        set: settings::retry_after,
        help: c"how long a client that was refused shall wait",
    },
    Row {
        name: c"IPLimitHeaders",
        context: Context::Sections,
        set: settings::headers,
        help: c"On or Off: whether answers tell their limits in RateLimit and RateLimit-Policy",
    },
    Row {
        name: c"IPLimitDryRun",
        context: Context::Sections,
        set: settings::dry_run,
        help: c"On or Off: whether refusals are only marked, and everything is served",
    },
    Row {
        name: c"IPLimitLogLevel",
        context: Context::Sections,
        set: settings::log_level,
        help: c"the level of the error log at which refusals are told",
    },
    Row {
        name: c"IPLimitMinRate",
        context: Context::Sections,
        set: settings::min_rate,
        help: c"how slowly a client may take a response: bytes a second or off, then after=, window= and busy=",
    },
    Row {
        name: c"IPLimitMaxTime",
        context: Context::Sections,
        set: settings::max_time,
        help: c"how long a response may last: a time or off, then busy=",
    },
    Row {
        name: c"IPLimitAlarm",
        context: Context::Main,
        set: settings::alarm,
        help: c"from how many percent of busy workers on the log says who holds them: busy=N%, every=, or off",
    },
    Row {
        name: c"IPLimitHeartbeat",
        context: Context::Main,
        set: settings::heartbeat,
        help: c"how often the log gets a sign of life: a time or off",
    },
    Row {
        name: c"IPLimitTable",
        context: Context::Main,
        set: table,
        help: c"keys=N: how many keys are counted at a time",
    },
    Row {
        name: c"IPLimitRedis",
        context: Context::Main,
        set: redis,
        help: c"the Redis or Valkey in which shared rules count: its URL, then prefix=, password-file=, timeout=, connect=, lease= and on-failure=",
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
    let shown = syntax::on_or_off(arguments).map_err(|fault| fault.to_string())?;
    // SAFETY: the only call in this handler.
    unsafe { site(command) }.status_page = Some(shown);
    Ok(())
}

fn redis(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let said = Redis::read(command, arguments)?;
    // SAFETY: the only call in this handler.
    match unsafe { site(command) }.redis.replace(said) {
        None => Ok(()),
        Some(first) => Err(format!(
            "\"{}\" is the second; {} was said on line {} of {}; keep one of them",
            said.shown, first.shown, first.line, first.file
        )),
    }
}
