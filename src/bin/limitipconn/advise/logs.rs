//! The logs as one stream of requests in the order in which they ended: rotated ones in any
//! order on the command line, and those of several virtual hosts side by side. Only logs of
//! the same time are open at once; the more logs there are, the smaller are their buffers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::os::unix::fs::MetadataExt;

use indicatif::ProgressBar;
use rustix::io::Errno;

use super::batch::{Batch, Keys};
use super::blocks::{BLOCK, Blocks, Place, Progress};
use super::format::Format;
use super::line::{Kind, Reader};
use super::recognize::{Recognized, recognize};
use super::tally::{GoesOn, Tally};

/// So many requests are handed on at a time, or somewhat more.
const HANDFUL: usize = 4096;

/// The buffers of so many bytes together, and the least for one.
const BUFFERS: usize = 64 << 20;
const BUFFER: usize = 16 << 10;

/// A log that is not read yet.
struct Waiting {
    place: Place,
    /// What cannot be opened twice stays open.
    blocks: Option<Blocks>,
    format: Format,
    /// When its first request ended.
    first: i64,
    /// How long a file is.
    length: Option<u64>,
    /// What is wrong if no line can be used.
    misfit: String,
}

/// A log that is being read.
struct Open {
    place: Place,
    blocks: Blocks,
    reader: Reader,
    batch: Batch,
    /// What of the batch was handed on.
    at: usize,
    /// Lines so far, and how many of them were understood.
    lines: u64,
    understood: u64,
    misfit: String,
}

impl Open {
    /// When its next request ended.
    fn head(&self) -> i64 {
        self.batch.requests[self.at].time
    }
}

/// All logs.
pub struct Logs {
    /// The one that begins first stands last.
    waiting: Vec<Waiting>,
    /// Each in a place of its own, which another takes when it is at its end.
    open: Vec<Option<Open>>,
    free: Vec<usize>,
    /// When the next request of each ended, the earliest first, and its place.
    heads: BinaryHeap<Reverse<(i64, usize)>>,
    /// How long a buffer is.
    size: usize,
    keys: Keys,
    progress: Progress,
    bar: ProgressBar,
    /// What was read, and what could not be used.
    pub tally: Tally,
}

impl Logs {
    /// Looks how each log begins.
    pub fn new(
        places: Vec<Place>,
        format: Option<&Format>,
        keys: Keys,
        progress: Progress,
    ) -> Logs {
        let mut logs = Logs {
            waiting: Vec::new(),
            open: Vec::new(),
            free: Vec::new(),
            heads: BinaryHeap::new(),
            size: (BUFFERS / places.len().max(1)).clamp(BUFFER, BLOCK),
            keys,
            progress,
            bar: ProgressBar::hidden(),
            tally: Tally::default(),
        };
        let mut seen = HashMap::new();
        for place in places {
            if let Some(identity) = identity(&place)
                && let Some(first) = seen.insert(identity, place.name())
            {
                logs.say(&format!(
                    "{} is the same file as {first}; it counts once",
                    place.name()
                ));
                continue;
            }
            match logs.look(&place, format) {
                Ok(waiting) => logs.waiting.push(waiting),
                Err(error) => logs.failed(&place, "cannot be read", &error),
            }
        }
        logs.waiting.sort_by_key(|log| Reverse(log.first));
        logs
    }

    /// How many bytes there are to read; none where that cannot be known.
    pub fn length(&self) -> Option<u64> {
        self.waiting.iter().map(|log| log.length).sum()
    }

    /// What is said from now on makes place on the terminal.
    pub fn show(&mut self, bar: ProgressBar) {
        self.bar = bar;
    }

    fn say(&self, sentence: &str) {
        self.bar.suspend(|| crate::complain(sentence));
    }

    /// The formats that were recognized or given, each once.
    pub fn formats(&self) -> Vec<Format> {
        let mut formats: Vec<Format> = Vec::new();
        for log in &self.waiting {
            if !formats.contains(&log.format) {
                formats.push(log.format.clone());
            }
        }
        formats
    }

    fn look(&mut self, place: &Place, format: Option<&Format>) -> io::Result<Waiting> {
        let length = match place {
            Place::File(path) => Some(std::fs::metadata(path)?)
                .filter(|file| file.is_file())
                .map(|file| file.len()),
            Place::Stdin => None,
        };
        let can_be_reopened = length.is_some();
        let (progress, size) = match can_be_reopened {
            true => (Progress::default(), BLOCK),
            false => (self.progress.clone(), self.size),
        };
        let mut blocks = Blocks::open(place, &progress, size)?;
        let lines = blocks.peek();
        let (format, misfit) = match format {
            Some(format) => (format.clone(), misfit(&recognize(lines))),
            None => {
                let recognized = recognize(lines);
                if let Some(guess) = recognized.goes_on {
                    self.tally.goes_on = Some(GoesOn {
                        name: recognized.name,
                        guess,
                        log: place.argument(),
                    });
                }
                let misfit = "no line is in common, combined or vhost_combined format; give the log's LogFormat with --format";
                (recognized.format, misfit.to_owned())
            }
        };
        let mut reader = Reader::new(format.clone());
        let mut batch = Batch::default();
        for line in lines.split(|byte| *byte == b'\n').take(1000) {
            if let Ok(line) = reader.read(line) {
                batch.add(&line, &self.keys);
                break;
            }
        }
        // One in which nothing is understood comes first, to be told about.
        let first = batch.requests.first().map_or(i64::MIN, |first| first.time);
        Ok(Waiting {
            place: place.clone(),
            blocks: (!can_be_reopened).then_some(blocks),
            format,
            first,
            length,
            misfit,
        })
    }

    fn failed(&mut self, place: &Place, what: &str, error: &io::Error) {
        self.failed_because(format!("{} {what}: {}", place.name(), why(error)));
    }

    fn failed_because(&mut self, sentence: String) {
        self.say(&sentence);
        self.tally.failures.push(sentence);
    }

    /// The next requests; false at the end.
    pub fn next_batch(&mut self, into: &mut Batch) -> bool {
        into.clear();
        loop {
            self.open_what_is_due();
            let Some(Reverse((_, next))) = self.heads.pop() else {
                return !into.requests.is_empty();
            };
            let others = self.heads.peek().map(|Reverse((head, _))| *head);
            let waiting = self.waiting.last().map(|log| log.first);
            let bound = others.into_iter().chain(waiting).min().unwrap_or(i64::MAX);
            let Some(log) = &mut self.open[next] else {
                continue;
            };
            let rest = &log.batch.requests[log.at..];
            let length = rest
                .iter()
                .take_while(|one| one.time <= bound)
                .count()
                .max(1);
            if log.at == 0 && length == rest.len() && into.requests.is_empty() {
                std::mem::swap(into, &mut log.batch);
                self.refill(next);
                return true;
            } else {
                for request in &rest[..length] {
                    into.copy(&log.batch, request);
                }
                log.at += length;
            }
            match log.at < log.batch.requests.len() {
                true => self.heads.push(Reverse((log.head(), next))),
                false => self.refill(next),
            }
            if into.requests.len() >= HANDFUL {
                return true;
            }
        }
    }

    fn open_what_is_due(&mut self) {
        while let Some(next) = self.waiting.last() {
            let earliest = self.heads.peek();
            if earliest.is_some_and(|Reverse((earliest, _))| *earliest < next.first) {
                return;
            }
            let Some(log) = self.waiting.pop() else {
                return;
            };
            let blocks = match log.blocks {
                Some(blocks) => Ok(blocks),
                None => Blocks::open(&log.place, &self.progress, self.size),
            };
            match blocks {
                Ok(blocks) => {
                    let open = Some(Open {
                        place: log.place,
                        blocks,
                        reader: Reader::new(log.format),
                        batch: Batch::default(),
                        at: 0,
                        lines: 0,
                        understood: 0,
                        misfit: log.misfit,
                    });
                    let at = self.free.pop().unwrap_or(self.open.len());
                    match self.open.get_mut(at) {
                        Some(place) => *place = open,
                        None => self.open.push(open),
                    }
                    self.refill(at);
                }
                Err(error) => self.failed(&log.place, "cannot be read", &error),
            }
        }
    }

    /// Reads on; closes the log at its end.
    fn refill(&mut self, at: usize) {
        let Some(log) = &mut self.open[at] else {
            return;
        };
        log.batch.clear();
        log.at = 0;
        while log.read_on(&self.keys, &mut self.tally) {
            if !log.batch.requests.is_empty() {
                self.heads.push(Reverse((log.head(), at)));
                return;
            }
        }
        if let Some(log) = self.open[at].take() {
            self.free.push(at);
            self.close(log);
        }
    }

    fn close(&mut self, log: Open) {
        self.tally.lines += log.blocks.too_long;
        self.tally.too_long += log.blocks.too_long;
        self.tally.logs += 1;
        if let Some(error) = &log.blocks.failure {
            self.failed(&log.place, "could be read in part only", error);
        } else if log.understood == 0 && log.lines + log.blocks.too_long > 0 {
            self.failed_because(format!("{}: {}", log.place.name(), log.misfit));
        }
    }
}

impl Open {
    /// Reads the next block; false at the end.
    fn read_on(&mut self, keys: &Keys, tally: &mut Tally) -> bool {
        let Some((too_long, mut rest)) = self.blocks.next_lines() else {
            return false;
        };
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest);
            let (line, after) = match end {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &[][..]),
            };
            rest = after;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.lines += 1;
            tally.lines += 1;
            match self.reader.read(line) {
                Ok(told) => {
                    self.understood += 1;
                    match told.kind {
                        Kind::Request => self.batch.add(&told, keys),
                        Kind::Silent => tally.silence.add(&told, keys),
                        Kind::Dummy => tally.dummies += 1,
                    }
                }
                Err(_) if line.is_empty() => tally.lines -= 1,
                Err(fault) => tally.bad(line, fault, || self.place.name(), self.lines + too_long),
            }
        }
        true
    }
}

/// What makes a file the same as another.
fn identity(place: &Place) -> Option<(u64, u64)> {
    match place {
        Place::File(path) => {
            let file = std::fs::metadata(path).ok().filter(|file| file.is_file())?;
            Some((file.dev(), file.ino()))
        }
        Place::Stdin => None,
    }
}

/// What is said of a log no line of which has the format that was given.
fn misfit(recognized: &Recognized) -> String {
    let is = match recognized {
        Recognized { fits: false, .. } => "compare it with a line of the log".to_owned(),
        Recognized {
            name,
            goes_on: None,
            ..
        } => format!("the lines are {name}, without %D"),
        Recognized { name, .. } => format!("the lines are {name} with something behind"),
    };
    format!("no line has the format that --format says; {is}")
}

/// What went wrong with a file, as people say it.
fn why(error: &io::Error) -> String {
    if let Some(Errno::MFILE | Errno::NFILE) = Errno::from_io_error(error) {
        return "too many logs of the same time are open; raise the limit (for example ulimit -n 65536), or \
                name fewer logs"
            .into();
    }
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied (try as root)".into(),
        io::ErrorKind::IsADirectory => "it is a directory; name the logs in it".into(),
        io::ErrorKind::UnexpectedEof => "the gzip data ends too early".into(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            format!("the gzip data is damaged ({error})")
        }
        _ => error.to_string(),
    }
}
