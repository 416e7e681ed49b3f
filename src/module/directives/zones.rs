//! `IPLimitZone`: what the keys of a zone are made of.

use crate::httpd::command::Command;
use crate::limit::syntax::{self, KeySource};
use crate::module::MODULE;
use crate::module::inventory::Inventory;
use crate::module::zones::{Source, Zone};

pub(super) fn zone(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let said = syntax::zone(arguments).map_err(|fault| fault.to_string())?;
    let pool = command.pool();
    let is_late = match &said.key {
        KeySource::Expression(text) => syntax::is_complete_late(text),
        _ => false,
    };
    let source = match said.key {
        KeySource::All => Source::All,
        KeySource::Client(prefix) => Source::Client(prefix),
        KeySource::Expression(text) => {
            let parsed = command.text_expression(&text, MODULE);
            Source::Expression(parsed.map_err(|why| {
                format!(
                    "key=\"{text}\" is no expression of httpd's: {why}; for example key=%{{HTTP:X-Api-Key}}"
                )
            })?)
        }
    };
    let node = command.node();
    let zone: &Zone<'_> = pool.alloc(Zone {
        name: pool.text(&said.name),
        source,
        is_late,
        is_secret: said.secret,
        file: node.map_or("", |node| pool.text(&node.file())),
        line: node.map_or(0, |node| node.line()),
    });
    Inventory::of(pool).declare(zone).map_err(|first| {
        format!(
            "\"{}\" is declared twice; the first is on line {} of {}; give this one another name",
            zone.name, first.line, first.file
        )
    })
}
