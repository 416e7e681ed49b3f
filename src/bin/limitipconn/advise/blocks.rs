//! Blocks of whole lines from a plain or packed log, however long it is: one buffer, read
//! in big pieces. What is packed is told by its first bytes, not by its name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;

/// How much is read at a time, unless many logs are open, and the longest line that is
/// looked at.
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

    /// How it may be named on a command line, where its name is plain.
    pub fn argument(&self) -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
        match self.name() {
            name if matches!(self, Place::File(_)) && name.bytes().all(is_plain) => name,
            _ => "FILE".into(),
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
    Gzip(Members),
}

/// The parts of a packed log, one after the other; zeros behind them, as tapes and block devices
/// leave them, are no damage.
struct Members(Option<Box<GzDecoder<BufReader<Raw>>>>);

impl Read for Members {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let length = member.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            let Some(ended) = self.0.take() else {
                break;
            };
            let mut rest = ended.into_inner();
            if has_more(&mut rest)? {
                self.0 = Some(Box::new(GzDecoder::new(rest)));
            }
        }
        Ok(0)
    }
}

/// Passes over zeros; whether anything is behind them.
fn has_more(rest: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let next = rest.fill_buf()?;
        let (length, zeros) = (
            next.len(),
            next.iter().take_while(|byte| **byte == 0).count(),
        );
        rest.consume(zeros);
        if zeros < length || length == 0 {
            return Ok(length > 0);
        }
    }
}

/// Packers that are known by the bytes they begin with but not read, with how to read them.
const PACKERS: [(&[u8], &str, &str); 3] = [
    (b"\xFD7zXZ\0", "xz", "xzcat"),
    (b"\x28\xB5\x2F\xFD", "zstd", "zstdcat"),
    (b"BZh", "bzip2", "bzcat"),
];

fn refuse_packed(magic: &[u8], place: &Place) -> io::Result<()> {
    // BZh might be text.
    let is_text = magic.starts_with(b"BZh") && magic.get(4..10) != Some(b"1AY&SY");
    let packer = PACKERS.iter().find(|(begin, ..)| magic.starts_with(begin));
    let Some((_, packer, reader)) = packer.filter(|_| !is_text) else {
        return Ok(());
    };
    let name = match place {
        Place::File(_) => place.name() + " ",
        Place::Stdin => String::new(),
    };
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!("it is packed by {packer}; use {reader} {name}| limitipconn advise -"),
    ))
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
    /// How long the buffer is but for a longer line.
    size: usize,
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
    /// One whose blocks are so long, [`BLOCK`] at most; a longer line gets a longer one.
    pub fn open(place: &Place, progress: &Progress, size: usize) -> io::Result<Blocks> {
        let size = size.clamp(1, BLOCK);
        let mut raw = Counted {
            inner: place.open()?,
            progress: progress.clone(),
        };
        let mut magic = Vec::with_capacity(10);
        (&mut raw).take(10).read_to_end(&mut magic)?;
        refuse_packed(&magic, place)?;
        let is_gzip = magic.starts_with(&[0x1f, 0x8b]);
        let whole = Cursor::new(magic).chain(raw);
        Ok(Blocks {
            reader: match is_gzip {
                true => Unpacked::Gzip(Members(Some(Box::new(GzDecoder::new(
                    BufReader::with_capacity(size.div_ceil(8), whole),
                ))))),
                false => Unpacked::Plain(whole),
            },
            buffer: vec![0; size],
            size,
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
    /// may lack its end. With them comes how many lines before were too long.
    pub fn next_lines(&mut self) -> Option<(u64, &[u8])> {
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
                None if self.buffer.len() < BLOCK => {
                    self.buffer.resize((self.buffer.len() * 2).min(BLOCK), 0);
                    continue;
                }
                None => {
                    self.too_long += 1;
                    self.passing_over = true;
                    continue;
                }
            };
            let start = self.start;
            self.start += length;
            return Some((self.too_long, &self.buffer[start..start + length]));
        }
    }

    /// Reads until the buffer is full or there is no more.
    fn fill(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() > self.size && self.end < self.size {
            self.buffer.truncate(self.size);
            self.buffer.shrink_to_fit();
        }
        while self.end < self.buffer.len() && !self.at_end {
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
