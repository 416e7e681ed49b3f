//! The lists of MIME types: `NoIPLimit` and `OnlyIPLimit`.

use super::level;
use crate::httpd::command::Command;
use crate::limit::arguments;
use crate::limit::mime::{self, Pattern};
use crate::limit::syntax::Fault;
use crate::module::inventory::Inventory;
use crate::report::message::Id;

pub(super) fn no_ip_limit(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let words = types(arguments)?;
    // SAFETY: the only call in this handler.
    let level = unsafe { level(command) };
    let patterns = added(command, level.types.no, &words);
    level.say(command.pool(), |beside| beside.types.no = Some(patterns));
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

pub(super) fn only_ip_limit(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let words = types(arguments)?;
    // SAFETY: the only call in this handler.
    let level = unsafe { level(command) };
    let patterns = added(command, level.types.only, &words);
    level.say(command.pool(), |beside| beside.types.only = Some(patterns));
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
