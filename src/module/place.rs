//! What a place is called: the part after the `@` of a rule's name.
//!
//! A place is known by what is written, so it keeps its counts over reloads. Its name
//! is printable ASCII without quotes, the same in log, variable and JSON.

use crate::httpd::command::Command;
use crate::httpd::tree::Node;
use crate::limit::arguments;
use crate::report::printable::printable;

/// The name of the place where a directive stands.
pub fn name(command: Command<'_>) -> String {
    let mut sections = command.node().map_or_else(Vec::new, sections_around);
    if let Some(directory) = command.htaccess_directory() {
        sections.insert(0, format!(".htaccess:{directory}"));
    }
    match (sections.is_empty(), command.server().is_virtual()) {
        (false, _) => printable(&sections.join(">")),
        (true, true) => String::from("vhost"),
        (true, false) => String::from("server"),
    }
}

/// The names of the sections around a directive, the outermost first.
pub fn sections_around(node: Node<'_>) -> Vec<String> {
    let parents = std::iter::successors(node.parent(), |node| node.parent());
    let mut sections: Vec<String> = parents.filter_map(section).collect();
    sections.reverse();
    sections
}

/// The name of a section that is a place; None for `<VirtualHost>`, `<IfModule>` and
/// the like, which only stand around.
pub fn section(node: Node<'_>) -> Option<String> {
    let kind = node.name().strip_prefix('<')?;
    let arguments = node.arguments();
    let raw = arguments.trim().trim_end_matches('>').trim();
    let is = |name: &str| kind.eq_ignore_ascii_case(name);
    if is("If") || is("ElseIf") {
        return Some(format!("{}:{}", canonical(kind)?, unquoted(raw)));
    }
    if is("Else") {
        return Some(format!("Else:{}", condition_before(node)));
    }
    let kind = canonical(kind)?;
    let words = arguments::words(raw).unwrap_or_else(|_| vec![raw.to_owned()]);
    match (kind, words.as_slice()) {
        // `<Location ~ "regex">` is the old way to write LocationMatch.
        (_, [tilde, regex]) if tilde == "~" => Some(format!("{kind}Match:{regex}")),
        ("Location", [path]) => Some(path.clone()),
        _ => Some(format!("{kind}:{}", words.join(" "))),
    }
}

/// The condition that an `<Else>` is the other side of.
fn condition_before(node: Node<'_>) -> String {
    let Some(earlier) = node.earlier_siblings() else {
        return format!("line {}", node.line());
    };
    let is_condition = |node: &Node<'_>| {
        ["<If", "<ElseIf"]
            .iter()
            .any(|name| node.name().eq_ignore_ascii_case(name))
    };
    match earlier.into_iter().rfind(is_condition) {
        Some(condition) => unquoted(condition.arguments().trim().trim_end_matches('>').trim()),
        None => String::new(),
    }
}

fn canonical(kind: &str) -> Option<&'static str> {
    const PLACES: [&str; 11] = [
        "Location",
        "LocationMatch",
        "Directory",
        "DirectoryMatch",
        "Files",
        "FilesMatch",
        "If",
        "ElseIf",
        "Else",
        "Proxy",
        "ProxyMatch",
    ];
    PLACES
        .into_iter()
        .find(|place| place.eq_ignore_ascii_case(kind))
}

/// An expression without the quotes around the whole of it.
fn unquoted(expression: &str) -> String {
    let inner = expression
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(expression).to_owned()
}
