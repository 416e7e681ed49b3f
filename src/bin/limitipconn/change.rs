//! `limitipconn clear`, `freeze` and `unfreeze`: what is known of a key is changed by hand.
//!
//! Each change is one word in shared memory, which children see at once.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::Args;
use mod_limitipconn::gauge::NotFrozen;
use mod_limitipconn::limit::rate::LONGEST;
use mod_limitipconn::limit::units;
use mod_limitipconn::report::key::KeyRow;
use serde_json::json;

use crate::server::Which;
use crate::show::keys;
use crate::text::{print, print_json, shown, table, time};
use crate::{Answer, Outcome, clock};

/// Forgets what all rates know of a key, freezes too; what it has in flight stays
#[derive(Args)]
pub struct Clear {
    /// An address, a network as it is shown, or a zone's key as text or as zone:text, in secret
    /// zones too
    key: OsString,

    #[command(flatten)]
    which: Which,

    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Ends all freezes of a key
#[derive(Args)]
pub struct Unfreeze {
    /// An address, a network as it is shown, or a zone's key as text or as zone:text, in secret
    /// zones too
    key: OsString,

    #[command(flatten)]
    which: Which,

    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Freezes a key: MaxHitsPerIP and MaxHitsPerKey refuse it for this time
#[derive(Args)]
pub struct Freeze {
    /// An address, a network as it is shown, or a zone's key as text or as zone:text, in secret
    /// zones too
    key: OsString,

    /// How long: a number with ms, s, min, h or d, up to 366d; anew if it is frozen already
    #[arg(value_parser = freeze_time)]
    time: Duration,

    /// Only by this rule, named as in the log and in show; without it by all MaxHitsPer rules
    /// that have such keys
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,

    #[command(flatten)]
    which: Which,

    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

fn freeze_time(word: &str) -> Result<Duration, String> {
    let time = units::time(word)?;
    match (Duration::from_millis(1)..=LONGEST).contains(&time) {
        true => Ok(time),
        false => Err(format!("\"{word}\" is not from 1ms to 366d")),
    }
}

/// Forgets.
pub fn clear(arguments: Clear) -> Answer {
    let server = arguments.which.find()?;
    let by_hand = server.by_hand(arguments.key.as_bytes());
    let rows = by_hand.clear();
    tell(
        "cleared",
        &rows,
        arguments.json,
        "no rate knows anything of this key",
    )
}

/// Pardons.
pub fn unfreeze(arguments: Unfreeze) -> Answer {
    let server = arguments.which.find()?;
    let by_hand = server.by_hand(arguments.key.as_bytes());
    let rows = by_hand.unfreeze();
    tell("unfrozen", &rows, arguments.json, "this key is not frozen")
}

/// How it was before. The key itself is not repeated: it may be a secret one.
fn tell(done: &str, rows: &[KeyRow], as_json: bool, nothing: &str) -> Answer {
    if as_json {
        print_json(&json!({ done: rows }))?;
    } else if rows.is_empty() {
        crate::complain(nothing);
    } else {
        let mut lines = vec![format!("{done}; it was:")];
        lines.extend(keys(rows));
        print(&lines.join("\n"))?;
    }
    Ok(match rows.is_empty() {
        true => Outcome::Failed,
        false => Outcome::Done,
    })
}

/// Freezes.
pub fn freeze(arguments: Freeze) -> Answer {
    let server = arguments.which.find()?;
    let by_hand = server.by_hand(arguments.key.as_bytes());
    let rule = arguments.rule.as_deref();
    let frozen = by_hand
        .freeze(arguments.time, rule, clock::seconds())
        .map_err(|why| sentence(why, rule))?;
    let millis = arguments.time.as_millis() as u64;
    if arguments.json {
        let frozen: Vec<_> = frozen
            .iter()
            .map(|frozen| json!({ "rule": frozen.rule, "vhost": frozen.vhost }))
            .collect();
        let answer = json!({ "frozen_for_milliseconds": millis, "frozen": frozen });
        print_json(&answer)?;
        return Ok(Outcome::Done);
    }
    let cells: Vec<Vec<String>> = frozen
        .iter()
        .map(|frozen| {
            let vhost = frozen.vhost.as_deref().unwrap_or("-");
            vec![shown(&frozen.rule), shown(vhost)]
        })
        .collect();
    let mut lines = vec![format!("frozen for {} by:", time(millis))];
    lines.extend(table(&["RULE", "VHOST"], &cells));
    print(&lines.join("\n"))?;
    Ok(Outcome::Done)
}

fn sentence(why: NotFrozen, rule: Option<&str>) -> String {
    let rule = shown(rule.unwrap_or_default());
    match why {
        NotFrozen::NoSuchRule => {
            format!("--rule: no rule in effect is named \"{rule}\"; limitipconn show lists them")
        }
        NotFrozen::NoWindow if rule.is_empty() => String::from(
            "no rule here can freeze this key: MaxHitsPerIP and MaxHitsPerKey can, with any number",
        ),
        NotFrozen::NoWindow => {
            format!("--rule: \"{rule}\" cannot freeze this key: MaxHitsPerIP and MaxHitsPerKey can")
        }
        NotFrozen::NoSuchKeys => String::from(
            "no rule that can freeze has such keys: MaxHitsPerIP has addresses, MaxHitsPerKey what its zone says",
        ),
        NotFrozen::WhichZone(zones) => format!(
            "more than one zone could have this key; say which, for example {}:KEY (there are {})",
            shown(zones.first().map_or("", String::as_str)),
            shown(&zones.join(", "))
        ),
        NotFrozen::NoRoom(done, all) => format!(
            "this key is frozen by {done} of {all} rules only: no room was found for it in time in the table; try \
             again, or give IPLimitTable a higher number"
        ),
    }
}
