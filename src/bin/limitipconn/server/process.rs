//! Processes as /proc tells them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

/// A process, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Process(pub u32);

impl Process {
    /// All that there are.
    pub fn all() -> Vec<Process> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Process))
            .collect()
    }

    fn place(self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.0))
    }

    /// Whether there is such a process: one that has ended is there no more, although nobody has
    /// waited for it yet.
    pub fn is_there(self) -> bool {
        self.place("").is_dir() && !matches!(self.stat(0).as_deref(), Some("Z" | "X"))
    }

    /// When it was started, in ticks since the machine was: another process that has its number
    /// later began later.
    pub fn since(self) -> Option<u64> {
        self.stat(19)?.parse().ok()
    }

    /// One of the fields behind its name, which may hold anything.
    fn stat(self, nth: usize) -> Option<String> {
        let status = fs::read(self.place("stat")).ok()?;
        let status = String::from_utf8_lossy(&status).into_owned();
        let (_, fields) = status.rsplit_once(") ")?;
        fields.split(' ').nth(nth).map(str::to_owned)
    }

    /// What it is called.
    pub fn name(self) -> String {
        let name = fs::read_to_string(self.place("comm")).unwrap_or_default();
        crate::text::shown(name.trim_end())
    }

    /// Its command line, cut.
    pub fn command_line(self) -> String {
        let line = fs::read(self.place("cmdline")).unwrap_or_default();
        let words: Vec<String> = line
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty())
            .map(crate::text::shown_bytes)
            .collect();
        crate::text::cut(&words.join(" "), 200)
    }

    /// A line of its status, by name.
    fn status(self, name: &str) -> Option<String> {
        let status = fs::read_to_string(self.place("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches(':').trim().to_owned())
    }

    /// Its parent.
    pub fn parent(self) -> Option<Process> {
        let number = self.status("PPid")?.parse().ok()?;
        Some(Process(number))
    }

    /// The number that it has for itself: in a container that is another.
    pub fn own_number(self) -> Option<u32> {
        self.status("NSpid")?
            .split_whitespace()
            .last()?
            .parse()
            .ok()
    }

    /// Its descriptors: number, and what it leads to.
    pub fn descriptors(self) -> io::Result<Vec<(u32, String)>> {
        let entries = fs::read_dir(self.place("fd"))?;
        Ok(entries
            .flatten()
            .filter_map(|entry| {
                let number = entry.file_name().to_str()?.parse().ok()?;
                let target = fs::read_link(entry.path()).ok()?;
                Some((number, target.display().to_string()))
            })
            .collect())
    }

    /// What one of its descriptors leads to, taken hold of.
    pub fn hold(self, number: u32) -> io::Result<Held> {
        let mut options = File::options();
        let held = options.read(true).custom_flags(libc::O_PATH);
        held.open(self.descriptor(number)).map(Held)
    }

    /// Where one of its descriptors can be opened anew.
    pub fn descriptor(self, number: u32) -> PathBuf {
        self.place(&format!("fd/{number}"))
    }

    /// Whether one of its descriptors may be read from, or written to.
    pub fn directions(self, number: u32) -> Option<(bool, bool)> {
        let info = fs::read_to_string(self.place(&format!("fdinfo/{number}"))).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
        // O_ACCMODE: O_RDONLY, O_WRONLY, O_RDWR
        match flags & 3 {
            0 => Some((true, false)),
            1 => Some((false, true)),
            _ => Some((true, true)),
        }
    }

    /// What it has mapped at this address: device and inode as `major:minor inode`, and the path.
    pub fn mapped_at(self, address: u64) -> Option<(String, String)> {
        let maps = fs::read(self.place("maps")).ok()?;
        let maps = String::from_utf8_lossy(&maps).into_owned();
        maps.lines().find_map(|line| {
            // 7f00-7f80 r-xp 00000000 08:01 1234      /usr/lib/x.so
            let mut fields = line.splitn(6, ' ');
            let (from, to) = fields.next()?.split_once('-')?;
            let number = |hex| u64::from_str_radix(hex, 16).ok();
            let is_here = (number(from)?..number(to)?).contains(&address);
            let device = fields.nth(2)?;
            let inode = fields.next()?;
            let path = fields.next()?.trim_start();
            is_here.then(|| (format!("{device} {inode}"), path.to_owned()))
        })
    }

    /// Its arguments.
    pub fn arguments(self) -> Vec<OsString> {
        self.texts("cmdline")
    }

    /// What its environment was when it was started.
    pub fn environment(self) -> Vec<(OsString, OsString)> {
        let split = |text: OsString| {
            let bytes = text.as_bytes();
            let at = bytes.iter().position(|byte| *byte == b'=')?;
            let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
            Some((part(&bytes[..at]), part(&bytes[at + 1..])))
        };
        self.texts("environ")
            .into_iter()
            .filter_map(split)
            .collect()
    }

    fn texts(self, name: &str) -> Vec<OsString> {
        let bytes = fs::read(self.place(name)).unwrap_or_default();
        let mut texts = bytes
            .split(|byte| *byte == 0)
            .map(|text| OsStr::from_bytes(text).to_owned());
        // Each ends with a NUL.
        let texts: Vec<OsString> = texts.by_ref().collect();
        texts.into_iter().rev().skip(1).rev().collect()
    }

    /// The program that it runs.
    pub fn program(self) -> io::Result<PathBuf> {
        fs::read_link(self.place("exe"))
    }

    /// Where it is: relative names begin there.
    pub fn directory(self) -> PathBuf {
        self.place("cwd")
    }

    /// The user whom it belongs to.
    pub fn user(self) -> Option<u32> {
        fs::metadata(self.place(""))
            .ok()
            .map(|metadata| metadata.uid())
    }

    /// A file in the file system as this process sees it.
    pub fn file(self, path: &str) -> PathBuf {
        self.place(&format!("root{path}"))
    }

    /// Copies from its memory.
    pub fn read_memory(self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        File::open(self.place("mem"))?.read_exact_at(bytes, address)
    }
}

/// What a descriptor of a process led to: not opened yet, which alone can do something to a
/// device, and the same whatever the process does to its descriptor meanwhile.
pub struct Held(File);

impl Held {
    /// Whose it is, and what.
    pub fn metadata(&self) -> io::Result<fs::Metadata> {
        self.0.metadata()
    }

    /// Opens it.
    pub fn open(&self, options: &OpenOptions) -> io::Result<File> {
        options.open(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// Device and inode of a file as [`Process::mapped_at`] writes them.
pub fn identity(metadata: &fs::Metadata) -> String {
    let device = metadata.dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    format!("{major:02x}:{minor:02x} {}", metadata.ino())
}
