//! Where lines of an error log go: what a descriptor of httpd leads to, and for a pipe what the
//! program at its other end writes to.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};

use memchr::memmem;

use crate::server::Process;
use crate::text::shown;

/// The descriptor of httpd's parent that is the main server's error log, but for syslog.
pub const STDERR: u32 = 2;
/// So much is searched of what was not there before.
const TAIL: u64 = 1 << 20;
const CHUNK: usize = 1 << 16;

/// Where a descriptor leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sink {
    /// A file; its name is shown.
    File {
        /// What it is called now.
        path: String,
        /// Whether it has no name any more.
        is_deleted: bool,
    },
    /// A pipe or a FIFO, by what the kernel calls it.
    Pipe(String),
    /// Whoever writes there writes to nobody.
    Null,
    /// A terminal or another device.
    Device(String),
    /// Something else, such as a socket.
    Other(String),
}

impl Sink {
    /// Where this descriptor leads.
    pub fn of(process: Process, number: u32) -> io::Result<Sink> {
        let place = process.descriptor(number);
        let target = std::fs::read_link(&place)?.display().to_string();
        let kind = std::fs::metadata(&place)?.file_type();
        Ok(if kind.is_file() {
            Sink::File {
                is_deleted: target.ends_with(" (deleted)"),
                path: target,
            }
        } else if kind.is_fifo() {
            Sink::Pipe(target)
        } else if target == "/dev/null" {
            Sink::Null
        } else if kind.is_char_device() {
            Sink::Device(target)
        } else {
            Sink::Other(target)
        })
    }
}

/// Who reads from this pipe, but for httpd itself, which keeps both ends.
pub fn readers(pipe: &str, httpd: Process) -> Vec<Process> {
    let own = httpd.program().ok();
    let reads = |process: &Process| {
        let descriptors = process.descriptors().unwrap_or_default();
        descriptors.iter().any(|(number, target)| {
            target == pipe && process.directions(*number).is_some_and(|(reads, _)| reads)
        })
    };
    let others = Process::all().into_iter();
    others
        .filter(|process| *process != httpd && (process.program().ok() != own || own.is_none()))
        .filter(reads)
        .collect()
}

/// A file in which a text may come.
pub struct Watched {
    /// What it is called, and who writes there.
    pub name: String,
    file: File,
    identity: (u64, u64),
    /// Up to where it was searched.
    from: u64,
}

impl Watched {
    /// The files that a process writes to by one of its descriptors, or by any; what comes from
    /// now on is searched, or, if it was not there `before`, the end of them too.
    pub fn of(
        process: Process,
        only: Option<u32>,
        before: &[Watched],
        is_late: bool,
    ) -> Vec<Watched> {
        let descriptors = process.descriptors().unwrap_or_default();
        let wanted = descriptors
            .into_iter()
            .filter(|(number, _)| only.is_none_or(|only| only == *number))
            .filter(|(number, _)| {
                process
                    .directions(*number)
                    .is_some_and(|(_, writes)| writes)
            });
        let mut found: Vec<Watched> = Vec::new();
        for (number, target) in wanted {
            let Some((file, metadata)) = open(process, number) else {
                continue;
            };
            let identity = (metadata.dev(), metadata.ino());
            let known = before
                .iter()
                .chain(&found)
                .any(|other| other.identity == identity);
            if !known {
                found.push(Watched {
                    name: shown(&target),
                    file,
                    identity,
                    from: if is_late {
                        metadata.len().saturating_sub(TAIL)
                    } else {
                        metadata.len()
                    },
                });
            }
        }
        found
    }

    /// Whether this text came.
    pub fn has(&mut self, text: &[u8]) -> bool {
        let length = self.file.metadata().map_or(0, |metadata| metadata.len());
        if length < self.from {
            // It was emptied meanwhile.
            self.from = 0;
        }
        let mut chunk = vec![0; CHUNK];
        while let Ok(read @ 1..) = self.file.read_at(&mut chunk, self.from) {
            if memmem::find(&chunk[..read], text).is_some() {
                return true;
            }
            // The text may begin in this chunk and end in the next.
            let Some(next) = read.checked_sub(text.len()).filter(|more| *more > 0) else {
                break;
            };
            self.from += next as u64;
        }
        false
    }
}

/// Opens what a descriptor leads to anew, if it is a file.
fn open(process: Process, number: u32) -> Option<(File, Metadata)> {
    let held = process.hold(number).ok()?;
    // A FIFO or a device must not be opened: that alone could be noticed.
    held.metadata().ok().filter(Metadata::is_file)?;
    let file = held.open(File::options().read(true)).ok()?;
    let metadata = file.metadata().ok()?;
    Some((file, metadata))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    fn me() -> Process {
        Process(std::process::id())
    }

    /// A file without a name: in the directory of temporary files, and gone when it is closed.
    fn scratch() -> File {
        let path = std::env::temp_dir().join(format!(
            "limitipconn-sinks-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let file = File::options()
            .read(true)
            .append(true)
            .create_new(true)
            .open(&path);
        std::fs::remove_file(&path).unwrap();
        file.unwrap()
    }

    #[test]
    fn what_comes_is_found_and_what_was_there_is_not() {
        let mut file = scratch();
        let number = file.as_raw_fd() as u32;
        file.write_all(b"needle\n").unwrap();
        let mut watched = Watched::of(me(), Some(number), &[], false).pop().unwrap();
        assert!(!watched.has(b"needle"));
        file.write_all(&[b'x'; CHUNK - 3]).unwrap();
        assert!(!watched.has(b"needle"));
        file.write_all(b"nee").unwrap();
        assert!(!watched.has(b"needle"));
        file.write_all(b"dle").unwrap();
        assert!(watched.has(b"needle"));
        let late = Watched::of(me(), Some(number), &[], true).pop();
        assert!(late.unwrap().has(b"needle"), "it is searched from its tail");
        assert!(Watched::of(me(), Some(number), &[watched], true).is_empty());
    }

    #[test]
    fn emptied_it_is_searched_from_its_beginning() {
        let mut file = scratch();
        file.write_all(&[b'x'; 100]).unwrap();
        let number = file.as_raw_fd() as u32;
        let mut watched = Watched::of(me(), Some(number), &[], false).pop().unwrap();
        file.set_len(0).unwrap();
        file.write_all(b"needle").unwrap();
        assert!(watched.has(b"needle"));
    }

    #[test]
    fn descriptors_lead_somewhere() {
        let null = File::options().write(true).open("/dev/null").unwrap();
        assert_eq!(Sink::of(me(), null.as_raw_fd() as u32).unwrap(), Sink::Null);
        let file = scratch();
        let sink = Sink::of(me(), file.as_raw_fd() as u32).unwrap();
        assert!(
            matches!(
                sink,
                Sink::File {
                    is_deleted: true,
                    ..
                }
            ),
            "{sink:?}"
        );
        let (reader, writer) = io::pipe().unwrap();
        let sink = Sink::of(me(), writer.as_raw_fd() as u32).unwrap();
        let Sink::Pipe(name) = sink else {
            panic!("{sink:?}")
        };
        assert_eq!(
            me().directions(reader.as_raw_fd() as u32),
            Some((true, false))
        );
        // This program is the writer itself.
        assert!(readers(&name, me()).is_empty());
    }
}
