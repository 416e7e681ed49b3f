//! Who loads the module: the file that is mapped, and the line of the configuration that says so
//! where httpd itself can tell it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Finding, Verdict};
use crate::server::{Process, Server, identity};
use crate::text::shown;

/// How long httpd may read its files.
const PATIENCE: Duration = Duration::from_secs(15);
/// What the name of the module is in `LoadModule`.
const MODULE: &str = "limitipconn_module";

/// Who loads it.
pub fn look(server: &Server) -> Finding {
    let finding = |verdict, text: String| Finding::new("module", verdict, text);
    let process = server.process;
    let Some((mapped, path)) = process.mapped_at(server.about.code) else {
        return finding(
            Verdict::Doubt,
            "which file it was loaded from cannot be seen in the memory map of the process".into(),
        );
    };
    let by = match line_of(process) {
        Some((file, line)) => format!("loaded by line {line} of {}", shown(&file)),
        None => "loaded (by which line of the configuration is not known)".into(),
    };
    let name = shown(path.trim_end_matches(" (deleted)"));
    let now = fs::metadata(process.file(path.trim_end_matches(" (deleted)")));
    let is_same = now.as_ref().is_ok_and(|now| identity(now) == mapped);
    match now {
        // Overlays name another device in the map than in the file's status.
        Ok(now) if is_same || mapped.ends_with(&format!(" {}", now.ino())) => {
            finding(Verdict::Good, format!("{name}, {by}"))
        }
        Ok(_) => finding(
            Verdict::Doubt,
            format!(
                "{name}, {by}; the file was replaced since: the new one needs a full restart, a reload keeps the old"
            ),
        ),
        Err(_) => finding(
            Verdict::Wrong,
            format!("{name}, {by}; the file is gone: the next restart of httpd will fail"),
        ),
    }
}

/// The file and line of `LoadModule`, as the files say now: httpd is asked which files it
/// reads. None where that cannot be told, or must not be asked.
fn line_of(process: Process) -> Option<(String, usize)> {
    let files = included(process)?;
    files.iter().find_map(|file| {
        let text = fs::read(process.file(file)).ok()?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let line = text.lines().position(is_load_line)?;
        Some((file.clone(), line + 1))
    })
}

/// Whether a line loads the module.
fn is_load_line(line: &str) -> bool {
    let mut words = line.split_whitespace().map(|word| word.trim_matches('"'));
    words
        .next()
        .is_some_and(|word| word.eq_ignore_ascii_case("LoadModule"))
        && words.next() == Some(MODULE)
}

/// The files of the configuration, as this very program with the same arguments and the same
/// environment says: `-t -D DUMP_INCLUDES`.
fn included(process: Process) -> Option<Vec<String>> {
    // Its files could be others than ours: in a container we do not start its program.
    let own = fs::metadata("/proc/self/root/").ok()?;
    let its = fs::metadata(process.file("/")).ok()?;
    if (own.dev(), own.ino()) != (its.dev(), its.ino()) {
        return None;
    }
    let program = process
        .program()
        .ok()
        .filter(|program| is_trusted(process, program))?;
    let arguments: Vec<_> = process.arguments().into_iter().skip(1).collect();
    let is_action = |word: &std::ffi::OsString| word == "-k" || word == "-X";
    let mut arguments = arguments.into_iter();
    let mut kept = Vec::new();
    while let Some(word) = arguments.next() {
        match is_action(&word) {
            // `-k start`
            true if word == "-k" => _ = arguments.next(),
            true => {}
            false => kept.push(word),
        }
    }
    let mut child = Command::new(program)
        .args(kept)
        .args(["-t", "-D", "DUMP_INCLUDES"])
        .env_clear()
        .envs(process.environment())
        .current_dir(process.directory())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut out = child.stdout.take()?;
    let (to, said) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        if out.read_to_end(&mut text).is_ok() {
            // Where nobody waits any more it is not needed.
            let _ = to.send(text);
        }
    });
    let start = Instant::now();
    while child.try_wait().is_ok_and(|ended| ended.is_none()) {
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    }
    // A program that httpd has started may hold its output open.
    let text = said
        .recv_timeout(PATIENCE.saturating_sub(start.elapsed()))
        .ok()?;
    Some(files_of(&String::from_utf8_lossy(&text)))
}

/// The files in what httpd says: `(*) /etc/x.conf` and `(12)   /etc/y.conf`.
fn files_of(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_start);
    lines
        .filter_map(|line| {
            let (_, file) = line.strip_prefix('(')?.split_once(')')?;
            Some(file.trim().to_owned())
        })
        .filter(|file| file.starts_with('/'))
        .collect()
}

/// Whether we may start a program: the process is root's or ours, and nobody else can have
/// changed what it runs.
fn is_trusted(process: Process, program: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let ours = |user: u32| user == 0 || user == own;
    let mut places = program.ancestors().map(PathBuf::from);
    process.user() == Some(own)
        && places.all(|place| {
            fs::symlink_metadata(&place).is_ok_and(|status| {
                let is_sticky = status.mode() & 0o1000 != 0;
                ours(status.uid()) && (status.mode() & 0o022 == 0 || is_sticky)
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn httpd_tells_its_files() {
        let said = "Included configuration files:\n  (*) /etc/apache2/apache2.conf\n    (146) \
                    /etc/apache2/mods-enabled/a b.load\nSyntax OK\n";
        assert_eq!(
            files_of(said),
            [
                "/etc/apache2/apache2.conf",
                "/etc/apache2/mods-enabled/a b.load"
            ]
        );
    }

    #[test]
    fn a_line_that_loads_it_is_known() {
        for (line, expected) in [
            ("LoadModule limitipconn_module modules/x.so", true),
            ("  loadmodule \"limitipconn_module\" /a.so", true),
            ("#LoadModule limitipconn_module a.so", false),
            ("LoadModule other_module mod_limitipconn.so", false),
            ("", false),
        ] {
            assert_eq!(is_load_line(line), expected, "{line}");
        }
    }
}
