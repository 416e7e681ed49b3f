//! Blocks of whole lines from a plain or packed log, however long it is: one buffer, read
//! in big pieces. What is packed is told by its first bytes, not by its name.

use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;

/// How much is read at a time, and the longest line that is looked at.
pub const BLOCK: usize = 1 << 20;

/// How many bytes of the files themselves were read: for the progress bar.
pub type Progress = Arc<AtomicU64>;

/// A log as it lies there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    File(PathBuf),
    Stdin,
}

impl Place {
    /// How people call it, in printable characters.
    pub fn name(&self) -> String {
        match self {
            Place::File(path) => super::escape::text(path.as_os_str().as_encoded_bytes()),
            Place::Stdin => "standard input".into(),
        }
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        match self {
            Place::File(path) => Ok(Box::new(open_file(path)?)),
            Place::Stdin => Ok(Box::new(io::stdin())),
        }
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    Ok(file)
}

/// Counts what passes.
struct Counted {
    inner: Box<dyn Read + Send>,
    progress: Progress,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        // Nobody orders anything by it.
        self.progress.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

type Raw = Chain<Cursor<Vec<u8>>, Counted>;

enum Unpacked {
    Plain(Raw),
    Gzip(Box<MultiGzDecoder<io::BufReader<Raw>>>),
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Unpacked::Plain(raw) => raw.read(buffer),
            Unpacked::Gzip(gzip) => gzip.read(buffer),
        }
    }
}

/// A log that is being read.
pub struct Blocks {
    reader: Unpacked,
    buffer: Vec<u8>,
    /// What lies in the buffer and was not given out yet.
    start: usize,
    end: usize,
    at_end: bool,
    /// Whether a line that is too long is being passed over.
    passing_over: bool,
    /// How many lines were too long.
    pub too_long: u64,
    /// What ended the reading before the end.
    pub failure: Option<io::Error>,
}

impl Blocks {
    pub fn open(place: &Place, progress: &Progress) -> io::Result<Blocks> {
        let mut raw = Counted {
            inner: place.open()?,
            progress: progress.clone(),
        };
        let mut magic = Vec::with_capacity(2);
        (&mut raw).take(2).read_to_end(&mut magic)?;
        let is_gzip = magic == [0x1f, 0x8b];
        let whole = Cursor::new(magic).chain(raw);
        Ok(Blocks {
            reader: match is_gzip {
                true => Unpacked::Gzip(Box::new(MultiGzDecoder::new(
                    io::BufReader::with_capacity(1 << 17, whole),
                ))),
                false => Unpacked::Plain(whole),
            },
            buffer: vec![0; BLOCK],
            start: 0,
            end: 0,
            at_end: false,
            passing_over: false,
            too_long: 0,
            failure: None,
        })
    }

    /// What the log begins with, which is given out again by the next [`Blocks::next_lines`].
    pub fn peek(&mut self) -> &[u8] {
        self.fill();
        &self.buffer[self.start..self.end]
    }

    /// The next whole lines, with the ends of lines in them; none at the end. The last line
    /// may lack its end.
    pub fn next_lines(&mut self) -> Option<&[u8]> {
        loop {
            self.fill();
            let filled = &self.buffer[self.start..self.end];
            if self.passing_over {
                match memchr::memchr(b'\n', filled) {
                    Some(at) => {
                        self.start += at + 1;
                        self.passing_over = false;
                    }
                    None => self.start = self.end,
                }
                if self.at_end && self.start == self.end {
                    return None;
                }
                continue;
            }
            let length = match memchr::memrchr(b'\n', filled) {
                Some(at) => at + 1,
                None if self.at_end && !filled.is_empty() => filled.len(),
                None if self.at_end => return None,
                // The buffer is full of one line.
                None => {
                    self.too_long += 1;
                    self.passing_over = true;
                    continue;
                }
            };
            let start = self.start;
            self.start += length;
            return Some(&self.buffer[start..start + length]);
        }
    }

    /// Reads until the buffer is full or there is no more.
    fn fill(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.end < BLOCK && !self.at_end {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(length) => self.end += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error);
                    self.at_end = true;
                }
            }
        }
    }
}
