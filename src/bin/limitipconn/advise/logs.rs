//! The logs as one stream of requests in the order in which they ended: rotated ones in any
//! order on the command line, and those of several virtual hosts side by side. Only logs of
//! the same time are open at once.

use std::io;

use super::batch::{Batch, Keys};
use super::blocks::{Blocks, Place, Progress};
use super::format::Format;
use super::line::{Kind, Reader};
use super::recognize::recognize;
use super::tally::Tally;

/// So many requests are handed on at a time, or somewhat more.
const HANDFUL: usize = 4096;

/// A log that is not read yet.
struct Waiting {
    place: Place,
    /// What cannot be opened twice stays open.
    blocks: Option<Blocks>,
    format: Format,
    /// When its first request ended.
    first: i64,
}

/// A log that is being read.
struct Open {
    place: Place,
    blocks: Blocks,
    reader: Reader,
    batch: Batch,
    /// What of the batch was handed on.
    at: usize,
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
    open: Vec<Open>,
    keys: Keys,
    progress: Progress,
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
            keys,
            progress,
            tally: Tally::default(),
        };
        for place in places {
            match logs.look(&place, format) {
                Ok(waiting) => logs.waiting.push(waiting),
                Err(error) => logs.failed(&place, "cannot be read", &error),
            }
        }
        logs.waiting.sort_by_key(|log| std::cmp::Reverse(log.first));
        logs
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
        let can_be_reopened = match place {
            Place::File(path) => std::fs::metadata(path)?.is_file(),
            Place::Stdin => false,
        };
        let progress = match can_be_reopened {
            true => Progress::default(),
            false => self.progress.clone(),
        };
        let mut blocks = Blocks::open(place, &progress)?;
        let lines = blocks.peek();
        let format = match format {
            Some(format) => format.clone(),
            None => {
                let recognized = recognize(lines);
                if recognized.goes_on {
                    self.tally.goes_on = Some(recognized.name);
                }
                recognized.format
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
        })
    }

    fn failed(&mut self, place: &Place, what: &str, error: &io::Error) {
        let sentence = format!("{} {what}: {}", place.name(), why(error));
        crate::complain(&sentence);
        self.tally.failures.push(sentence);
    }

    /// The next requests; false at the end.
    pub fn next_batch(&mut self, into: &mut Batch) -> bool {
        into.clear();
        loop {
            self.open_what_is_due();
            let heads = self.open.iter().map(Open::head);
            let Some((next, _)) = heads.enumerate().min_by_key(|(_, head)| *head) else {
                return !into.requests.is_empty();
            };
            let others = self.open.iter().enumerate().filter(|(at, _)| *at != next);
            let bound = others
                .map(|(_, log)| log.head())
                .chain(self.waiting.last().map(|log| log.first))
                .min()
                .unwrap_or(i64::MAX);
            let log = &mut self.open[next];
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
            if log.at >= log.batch.requests.len() {
                self.refill(next);
            }
            if into.requests.len() >= HANDFUL {
                return true;
            }
        }
    }

    fn open_what_is_due(&mut self) {
        while let Some(next) = self.waiting.last() {
            let earliest = self.open.iter().map(Open::head).min();
            if earliest.is_some_and(|earliest| earliest < next.first) {
                return;
            }
            let Some(log) = self.waiting.pop() else {
                return;
            };
            let blocks = match log.blocks {
                Some(blocks) => Ok(blocks),
                None => Blocks::open(&log.place, &self.progress),
            };
            match blocks {
                Ok(blocks) => {
                    self.open.push(Open {
                        place: log.place,
                        blocks,
                        reader: Reader::new(log.format),
                        batch: Batch::default(),
                        at: 0,
                    });
                    self.refill(self.open.len() - 1);
                }
                Err(error) => self.failed(&log.place, "cannot be read", &error),
            }
        }
    }

    /// Reads on; closes the log at its end.
    fn refill(&mut self, at: usize) {
        let log = &mut self.open[at];
        log.batch.clear();
        log.at = 0;
        while log.batch.requests.is_empty() {
            let Some(lines) = log.blocks.next_lines() else {
                let log = self.open.swap_remove(at);
                self.tally.lines += log.blocks.too_long;
                self.tally.too_long += log.blocks.too_long;
                self.tally.logs += 1;
                if let Some(error) = log.blocks.failure {
                    self.failed(&log.place, "could be read in part only", &error);
                }
                return;
            };
            read_lines(
                lines,
                &mut log.reader,
                &mut log.batch,
                &self.keys,
                &mut self.tally,
            );
        }
    }
}

fn read_lines(
    lines: &[u8],
    reader: &mut Reader,
    batch: &mut Batch,
    keys: &Keys,
    tally: &mut Tally,
) {
    let mut rest = lines;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest);
        let (line, after) = match end {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, &[][..]),
        };
        rest = after;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        tally.lines += 1;
        match reader.read(line) {
            Ok(told) if told.kind == Kind::Request => {
                batch.add(&told, keys);
            }
            Ok(told) if told.kind == Kind::Silent => tally.silent += 1,
            Ok(_) => tally.dummies += 1,
            Err(_) if line.is_empty() => tally.lines -= 1,
            Err(fault) => tally.bad(line, fault),
        }
    }
}

/// What went wrong with a file, as people say it.
fn why(error: &io::Error) -> String {
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
