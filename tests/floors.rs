//! Keeps the floors of docs/design.md by reading the sources: who may name whom,
//! where unsafe may stand, and that each file says what it is for and stays readable.
//!
//! The reader knows tokens and paths, not types: enough to see every
//! `crate::`, `super::` and `std::` path, in and out of `use` lists.

use std::fs;
use std::path::Path;

use reader::{paths, tokens};

#[path = "floors/reader.rs"]
mod reader;

/// A floor, and the floors below it that it may name (itself always).
const FLOORS: [(&str, &[&str]); 8] = [
    ("limit", &[]),
    ("report", &["limit"]),
    ("store", &["limit"]),
    ("sys", &[]),
    ("httpd", &["sys"]),
    ("gauge", &["report", "store", "limit"]),
    (
        "module",
        &["gauge", "httpd", "report", "store", "sys", "limit"],
    ),
    ("bin", &["gauge", "report", "store", "limit"]),
];

/// Where the word `unsafe` may stand: files, or whole directories ending in `/`.
const UNSAFE: [&str; 7] = [
    "src/sys.rs",
    "src/httpd/",
    "src/module/",
    "src/store/segment.rs",
    "src/store/lock.rs",
    "src/store/memfd.rs",
    // Forks children and maps a segment twice.
    "src/store/tests/",
];

/// What the pure floors may not touch: input and output, clocks, threads, the process.
const IMPURE: [&str; 14] = [
    "fs",
    "io",
    "thread",
    "process",
    "env",
    "os",
    "Instant",
    "SystemTime",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "libc",
    "memmap2",
];

/// Files that are longer than 400 lines for a reason: each holds many short whole
/// conversations with a server, which a split would only spread.
const LONG: [&str; 3] = ["tests/directives.rs", "tests/field.rs", "tests/levels.rs"];

const MAX_LINES: usize = 400;

#[test]
fn the_sources_keep_their_floors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec!["build.rs".to_string()];
    for directory in ["src", "tests", "benches", "examples"] {
        collect(root, directory, &mut files);
    }
    assert!(files.len() > 10, "found only {files:?}");
    let faults: Vec<String> = files
        .iter()
        .filter_map(|file| Some((file, fs::read_to_string(root.join(file)).ok()?)))
        .flat_map(|(file, text)| faults(file, &text))
        .collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn pure_floors_forbid_unsafe() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for floor in ["limit", "report", "gauge"] {
        let text = fs::read_to_string(root.join(format!("src/{floor}/mod.rs"))).unwrap();
        assert!(
            text.contains("\n#![forbid(unsafe_code)]\n"),
            "src/{floor}/mod.rs lacks #![forbid(unsafe_code)]"
        );
    }
}

#[test]
fn the_reader_finds_what_is_planted() {
    let planted = [
        (
            "src/limit/a.rs",
            "use crate::store::cell;",
            "limit may not name store",
        ),
        (
            "src/limit/a.rs",
            "use crate::{limit::key, report::json as j};",
            "limit may not name report",
        ),
        (
            "src/limit/a.rs",
            "mod tests { use super::super::super::store::x; }",
            "limit may not name store",
        ),
        (
            "src/limit/mod.rs",
            "fn f() { super::httpd::log::warn(1) }",
            "limit may not name httpd",
        ),
        (
            "src/limit/a.rs",
            "fn f() -> std::time::Instant { todo!() }",
            "limit may not use Instant",
        ),
        (
            "src/limit/a.rs",
            "use std::{fmt, fs::File};",
            "limit may not use fs",
        ),
        (
            "src/limit/a.rs",
            "fn f() { libc::abort() }",
            "limit may not use libc",
        ),
        ("src/limit/a.rs", "fn f() { unsafe { g() } }", "unsafe"),
        (
            "src/report/a.rs",
            "fn f(x: &crate::store::Table) {}",
            "report may not name store",
        ),
        (
            "src/bin/limitipconn/main.rs",
            "use crate::args; use mod_limitipconn::{store, sys};",
            "bin may not name sys",
        ),
        (
            "src/store/a.rs",
            "use crate::module::x;",
            "store may not name module",
        ),
        ("src/store/cell.rs", "unsafe impl Send for X {}", "unsafe"),
        (
            "src/httpd/log.rs",
            "use crate::report::message::Id;",
            "httpd may not name report",
        ),
        (
            "src/bin/limitipconn/main.rs",
            "use mod_limitipconn::httpd::pool;",
            "bin may not name httpd",
        ),
        ("src/store/a.rs", "use crate::*;", "names everything"),
        ("src/store/a.rs", "use crate as ours;", "names everything"),
        ("src/store/a.rs", "use crate::record;", "record is no floor"),
        ("src/store/a.rs", &"\n".repeat(MAX_LINES + 1), "lines"),
    ];
    for (file, text, expected) in planted {
        let found = faults(file, &format!("//! For a test.\n{text}"));
        assert_eq!(found.len(), 1, "{file}: {text}: {found:?}");
        assert!(found[0].contains(expected), "{file}: {text}: {found:?}");
    }
    assert_eq!(
        faults("src/store/a.rs", "use std::fmt;").len(),
        1,
        "no opening comment"
    );
}

#[test]
fn the_reader_is_not_fooled_by_comments_strings_and_lifetimes() {
    let text = r###"//! crate::store, unsafe.
        // crate::store
        /* crate::store /* unsafe */ crate::httpd */
        const A: &str = "crate::store \" unsafe";
        const B: &str = r#"crate::store" unsafe"#;
        const C: &[u8] = b"unsafe";
        const D: (char, char, char) = ('"', '\'', '\\');
        fn f<'a>(x: &'a str) -> &'a str { x }
        fn g(io: u8) -> std::time::Duration { let env = io; self::h(env) }
        pub(crate) fn h(_: u8) -> std::time::Duration { super::key::K.into() }
        use super::{address::Address, key::*};
        fn i() -> u32 { <u32 as From<u8>>::from(1) + Vec::<u32>::new().len() as u32 }
        const E: &str = "";
    "###;
    assert_eq!(faults("src/limit/a.rs", text), Vec::<String>::new());
}

fn collect(root: &Path, directory: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(directory)).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = format!("{directory}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(root, &name, files);
        } else if name.ends_with(".rs") {
            files.push(name);
        }
    }
}

/// Everything that is wrong with one file.
fn faults(file: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !text.starts_with("//!") {
        faults.push(format!(
            "{file}: does not begin by saying what it is for (//!)"
        ));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES && !LONG.contains(&file) {
        faults.push(format!(
            "{file}: {lines} lines; split it by noun, or list it with the reason"
        ));
    }
    let Some(inside) = file
        .strip_prefix("src/")
        .filter(|inside| *inside != "lib.rs")
    else {
        return faults;
    };
    let tokens = tokens(text);
    let module: Vec<&str> = inside
        .trim_end_matches(".rs")
        .split('/')
        .filter(|part| *part != "mod")
        .collect();
    let Some((floor, below)) = FLOORS.iter().find(|(floor, _)| *floor == module[0]) else {
        faults.push(format!("{file}: {} is no floor", module[0]));
        return faults;
    };
    let may_be_unsafe = UNSAFE
        .iter()
        .any(|place| *place == file || place.ends_with('/') && file.starts_with(place));
    if !may_be_unsafe && let Some((_, line)) = tokens.iter().find(|(token, _)| *token == "unsafe") {
        faults.push(format!("{file}:{line}: unsafe may not stand here"));
    }
    for (path, line) in paths(&tokens, &module) {
        let fault = match path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["crate"] | ["crate", "*", ..] => Some("names everything; name what is needed".into()),
            ["crate", other, ..] if other == *floor || below.contains(&other) => None,
            ["crate", other, ..] if FLOORS.iter().any(|(floor, _)| *floor == other) => {
                Some(format!("{floor} may not name {other}"))
            }
            ["crate", other, ..] => Some(format!("{other} is no floor")),
            ref foreign => (*floor == "limit")
                .then(|| foreign.iter().find(|part| IMPURE.contains(part)))
                .flatten()
                .map(|part| format!("limit may not use {part}")),
        };
        faults.extend(fault.map(|fault| format!("{file}:{line}: {fault}")));
    }
    faults
}
