//! The directives that say how refusals are answered and told.

use super::{level, site};
use crate::gauge::Guard;
use crate::httpd::command::Command;
use crate::limit::settings::Settings;
use crate::limit::syntax::{self, Fault};
use crate::module::inventory::Inventory;

/// Puts one setting in its place; of several lines in one section the last counts, as
/// with httpd's own settings.
fn set<T>(
    command: Command<'_>,
    said: Result<T, Fault>,
    set: impl FnOnce(&mut Settings, T),
) -> Result<(), String> {
    let value = said.map_err(|fault| fault.to_string())?;
    // SAFETY: the only call in each of the handlers below.
    let level = unsafe { level(command) };
    level.say(command.pool(), |beside| set(&mut beside.settings, value));
    Ok(())
}

pub(super) fn dry_run(command: Command<'_>, arguments: &str) -> Result<(), String> {
    set(command, syntax::on_or_off(arguments), |settings, on| {
        settings.dry_run = Some(on);
    })
}

pub(super) fn headers(command: Command<'_>, arguments: &str) -> Result<(), String> {
    set(command, syntax::on_or_off(arguments), |settings, on| {
        settings.headers = Some(on);
    })
}

pub(super) fn retry_after(command: Command<'_>, arguments: &str) -> Result<(), String> {
    set(
        command,
        syntax::retry_after(arguments),
        |settings, seconds| {
            settings.retry_after = Some(seconds);
        },
    )
}

pub(super) fn error_status(command: Command<'_>, arguments: &str) -> Result<(), String> {
    set(
        command,
        syntax::error_status(arguments),
        |settings, (concurrency, rate)| {
            settings.concurrency_status = Some(concurrency);
            settings.rate_status = rate.or(settings.rate_status);
        },
    )
}

pub(super) fn min_rate(command: Command<'_>, arguments: &str) -> Result<(), String> {
    set(command, syntax::min_rate(arguments), |settings, rate| {
        settings.min_rate = Some(rate);
        let guard = rate.map(Guard::MinRate);
        Inventory::of(command.pool()).note_guard(command, "IPLimitMinRate", guard);
    })
}

pub(super) fn max_time(command: Command<'_>, arguments: &str) -> Result<(), String> {
    set(command, syntax::max_time(arguments), |settings, time| {
        settings.max_time = Some(time);
        let guard = time.map(Guard::MaxTime);
        Inventory::of(command.pool()).note_guard(command, "IPLimitMaxTime", guard);
    })
}

pub(super) fn alarm(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let said = syntax::alarm(arguments).map_err(|fault| fault.to_string())?;
    // SAFETY: the only call in this handler.
    unsafe { site(command) }.alarm = Some(said);
    Ok(())
}

pub(super) fn heartbeat(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let said = syntax::heartbeat(arguments).map_err(|fault| fault.to_string())?;
    // SAFETY: the only call in this handler.
    unsafe { site(command) }.heartbeat = Some(said);
    Ok(())
}

pub(super) fn log_level(command: Command<'_>, arguments: &str) -> Result<(), String> {
    set(command, syntax::log_level(arguments), |settings, level| {
        settings.log_level = Some(level);
    })
}
