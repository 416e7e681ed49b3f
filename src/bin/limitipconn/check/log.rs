//! Whether the error log arrives: the parent of httpd is asked for a line with a number, and
//! the number is looked for where its log leads.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::sinks::{STDERR, Sink, Watched, readers};
use super::{Finding, Verdict};
use crate::clock;
use crate::server::{Process, Server};
use crate::text::{many, shown};

/// The parent looks about every ten seconds.
const PATIENCE: Duration = Duration::from_secs(25);
/// So long a program at the other end of a pipe may keep a line.
const DELAY: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(20);
/// httpd's number of the level at which refusals are told.
const WARN: u8 = 4;

/// Asks, waits and looks.
pub fn look(server: &Server) -> Result<Vec<Finding>, String> {
    let mut findings = vec![arrival(server)?];
    let about = &server.about;
    if about.log_level < WARN {
        findings.push(Finding::new(
            "log level",
            Verdict::Doubt,
            "LogLevel hides warnings: refusals, which are told at warn unless IPLimitLogLevel says otherwise, leave no \
             line; LogLevel limitipconn:warn shows them",
        ));
    }
    if about.other_logs > 0 {
        findings.push(Finding::new(
            "other logs",
            Verdict::Good,
            format!(
                "{} with an ErrorLog of {} own: refusals there are told in it, which is not checked",
                many(about.other_logs.into(), "virtual host"),
                if about.other_logs == 1 { "its" } else { "their" }
            ),
        ));
    }
    Ok(findings)
}

fn finding(verdict: Verdict, text: String) -> Finding {
    Finding::new("error log", verdict, text)
}

fn arrival(server: &Server) -> Result<Finding, String> {
    let process = server.process;
    let logger = Logger::of(server);
    let mut watched = logger.files(process, &[], false);
    // Any number that is no other's will do.
    let number = (clock::nanos() ^ u64::from(std::process::id()) << 40).max(1);
    let mailbox = server.segment.mailbox();
    let asked = number;
    let number = mailbox.ask(asked);
    if number != asked {
        // Somebody else's line, which may have come just before we looked.
        watched = logger.files(process, &[], true);
    }
    let sign = format!("{number:016x}");
    let start = Instant::now();
    while mailbox.answered() != number {
        if !server.is_alive() {
            return Err(server.has_ended());
        }
        if start.elapsed() > PATIENCE {
            let text = format!(
                "the parent of httpd did not write the line it was asked for within {} s: is it stopped, or just \
                 restarting?",
                PATIENCE.as_secs()
            );
            return Ok(finding(Verdict::Wrong, text));
        }
        thread::sleep(STEP);
    }
    // A reload opened another file, or rotatelogs did.
    let late = logger.files(process, &watched, true);
    watched.extend(late);
    let written = Instant::now();
    let found = loop {
        let mut files = watched.iter_mut();
        if let Some(name) =
            files.find_map(|file| file.has(sign.as_bytes()).then(|| file.name.clone()))
        {
            break Some(name);
        }
        if written.elapsed() > DELAY || watched.is_empty() {
            break None;
        }
        thread::sleep(STEP);
        let late = logger.files(process, &watched, true);
        watched.extend(late);
    };
    Ok(logger.tell(server, found, &sign))
}

/// What the main server logs to.
enum Logger {
    /// The system's log, with the words of the directive.
    Syslog(String),
    /// A descriptor of the parent.
    Sink(Sink),
    /// That cannot be seen.
    Unknown(String),
}

impl Logger {
    fn of(server: &Server) -> Logger {
        let log = &server.about.error_log;
        let word = log.split(':').next().unwrap_or_default();
        if ["syslog", "journald", "systemd"]
            .iter()
            .any(|name| word.eq_ignore_ascii_case(name))
        {
            return Logger::Syslog(shown(log));
        }
        match Sink::of(server.process, STDERR) {
            Ok(sink) => Logger::Sink(sink),
            Err(error) => Logger::Unknown(error.to_string()),
        }
    }

    /// The files where a line may come.
    fn files(&self, process: Process, before: &[Watched], is_late: bool) -> Vec<Watched> {
        match self {
            Logger::Sink(Sink::File { .. }) => Watched::of(process, Some(STDERR), before, is_late),
            Logger::Sink(Sink::Pipe(pipe)) => readers(pipe, process)
                .into_iter()
                .flat_map(|reader| Watched::of(reader, None, before, is_late))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The line was written: `found` is where it came.
    fn tell(&self, server: &Server, found: Option<String>, sign: &str) -> Finding {
        let said = shown(&server.about.error_log);
        match (self, found) {
            (Logger::Sink(Sink::File { path, is_deleted }), Some(file)) => {
                match (is_deleted, is_elsewhere(server)) {
                    (true, _) => finding(
                        Verdict::Wrong,
                        format!(
                            "lines go to a file that was deleted, {}: reload httpd, so that it opens a new one",
                            shown(path)
                        ),
                    ),
                    (false, true) => finding(
                        Verdict::Doubt,
                        format!(
                            "ErrorLog is {said}, but lines go to {file}: it was moved and httpd not reloaded since"
                        ),
                    ),
                    (false, false) => finding(
                        Verdict::Good,
                        format!("the line that was asked for came in {file}"),
                    ),
                }
            }
            (Logger::Sink(Sink::File { path, .. }), None) => finding(
                Verdict::Wrong,
                format!(
                    "httpd wrote a line, but it is not in {}: is the disk full?",
                    shown(path)
                ),
            ),
            (Logger::Sink(Sink::Pipe(_)), Some(file)) => finding(
                Verdict::Good,
                format!("the line that was asked for came through the pipe ({said}) in {file}"),
            ),
            (Logger::Sink(Sink::Pipe(pipe)), None) => piped(server.process, pipe, &said, sign),
            (Logger::Sink(Sink::Null), _) => finding(
                Verdict::Wrong,
                format!("lines go to /dev/null (ErrorLog {said}): nobody sees them"),
            ),
            (Logger::Sink(Sink::Device(name) | Sink::Other(name)), _) => finding(
                Verdict::Doubt,
                format!(
                    "a line with the number {sign} was written to {}: look for it there",
                    shown(name)
                ),
            ),
            (Logger::Syslog(name), _) if server.about.log_level <= WARN => finding(
                Verdict::Doubt,
                format!(
                    "lines go to {name}, where LogLevel shows no notices, so no line could be tried; limitipconn's \
                     warnings come: look for them with journalctl or in /var/log/syslog"
                ),
            ),
            (Logger::Syslog(name), _) => finding(
                Verdict::Doubt,
                format!(
                    "a line was written to {name}; see whether it came: journalctl --since -5min | grep {sign}, or grep \
                     {sign} /var/log/syslog /var/log/messages"
                ),
            ),
            (Logger::Unknown(why), _) => finding(
                Verdict::Doubt,
                format!(
                    "where lines go cannot be seen ({why}); look for {sign} where ErrorLog {said} leads"
                ),
            ),
        }
    }
}

/// A pipe, and nothing that was written into it was seen to come out.
fn piped(httpd: Process, pipe: &str, said: &str, sign: &str) -> Finding {
    let readers: Vec<String> = readers(pipe, httpd)
        .into_iter()
        .map(|reader| format!("{} ({})", reader.0, reader.command_line()))
        .collect();
    match readers.is_empty() {
        true => finding(
            Verdict::Doubt,
            format!(
                "a line with the number {sign} was written into a pipe (ErrorLog {said}), and nobody that can be seen \
                 from here reads it: in a container its logs should have it, for example docker logs NAME | grep {sign}"
            ),
        ),
        false => finding(
            Verdict::Doubt,
            format!(
                "a line with the number {sign} was written into a pipe (ErrorLog {said}) which process {} reads; it did \
                 not come in a file that this has open within {} s: look for it where the program puts its lines",
                readers.join(", "),
                DELAY.as_secs()
            ),
        ),
    }
}

/// Whether the file that is written to is not the one that the configuration names.
fn is_elsewhere(server: &Server) -> bool {
    let named = Path::new(&server.about.error_log);
    let descriptor = server.process.descriptor(STDERR);
    let (Ok(open), Ok(link)) = (fs::metadata(&descriptor), fs::read_link(&descriptor)) else {
        return false;
    };
    match named.is_absolute() {
        true => {
            let there = fs::metadata(server.process.file(&server.about.error_log));
            !there.is_ok_and(|there| (there.dev(), there.ino()) == (open.dev(), open.ino()))
        }
        // Below ServerRoot, which is not known here.
        false => link.file_name() != named.file_name(),
    }
}
