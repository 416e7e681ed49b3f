//! A running httpd with the module, seen from outside: which process it is, its shared
//! memory, its scoreboard.

#[cfg(test)]
mod hostile;
mod process;
mod rights;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use mod_limitipconn::gauge::{ANY_RULE, ByHand, Everybody, Scene, Worker};
use mod_limitipconn::store::{About, Segment};

pub use process::{Process, identity};

use crate::clock;

/// Where the parent of httpd writes its number, unless it is told otherwise.
const PID_FILES: [&str; 8] = [
    "/run/apache2/apache2.pid",
    "/run/httpd/httpd.pid",
    "/run/apache2/httpd.pid",
    "/run/apache2.pid",
    "/run/httpd.pid",
    "/usr/local/apache2/logs/httpd.pid",
    "/var/run/apache2/apache2.pid",
    "/var/run/httpd/httpd.pid",
];

/// What the kernel calls the shared memory.
const MEMFD: &str = "/memfd:limitipconn (deleted)";

/// More bytes than a slot of the scoreboard has.
const WIDEST: usize = 1 << 16;

/// Which httpd is meant
#[derive(Args)]
pub struct Which {
    /// The process number of httpd's parent; without it the usual PID files are looked at, then
    /// all processes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// The file in which the parent's number stands (PidFile)
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    pid_file: Option<PathBuf>,
}

/// An httpd that runs.
pub struct Server {
    /// Its parent.
    pub process: Process,
    /// When that was started: its number may become another's.
    since: Option<u64>,
    /// The shared memory.
    pub segment: Segment,
    /// What the parent said when it was read.
    pub about: About,
}

impl Which {
    /// The httpd that is meant. The error says why there is none.
    pub fn find(&self) -> Result<Server, String> {
        match (self.pid, &self.pid_file) {
            (Some(number), _) => Server::named(Process(number)),
            (None, Some(file)) => {
                let process = read_pid_file(file)
                    .map_err(|why| format!("--pid-file: \"{}\" {why}", file.display()))?;
                Server::named(process)
            }
            (None, None) => search(),
        }
    }
}

/// The process whose number stands in a file; the error is the rest of a sentence.
fn read_pid_file(file: &Path) -> Result<Process, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))?;
    let number = text.trim().parse().ok().filter(|number| *number > 0);
    number
        .map(Process)
        .ok_or_else(|| String::from("holds no process number"))
}

/// The httpd of the usual files, or else the only one that there is.
fn search() -> Result<Server, String> {
    let mut named: Vec<Process> = PID_FILES
        .iter()
        .filter_map(|file| read_pid_file(Path::new(file)).ok())
        .filter(|process| process.is_there())
        .collect();
    named.sort_unstable();
    named.dedup();
    let of_files: Vec<_> = named.into_iter().map(Server::named).collect();
    if of_files.iter().any(Result::is_ok) {
        return the_only_one(of_files.into_iter().flatten().collect());
    }
    let has_memory = |process: &Process| {
        let is_ours =
            |number| fs::metadata(process.descriptor(number)).is_ok_and(|it| is_ours(&it));
        let all = process.descriptors().unwrap_or_default();
        all.iter()
            .any(|(number, target)| target == MEMFD && is_ours(*number))
    };
    let all = Process::all().into_iter().filter(has_memory);
    let found: Vec<_> = all.map(Server::of).collect();
    let error = of_files
        .into_iter()
        .chain(found.iter().map(|found| match found {
            Ok(_) => Err(String::new()),
            Err(why) => Err(why.clone()),
        }))
        .find_map(|found| found.err().filter(|why| !why.is_empty()));
    // What the parent has forked, and what another one of this command has open just now,
    // has the memory too, but is not who wrote there what it is.
    let parents: Vec<Server> = found
        .into_iter()
        .flatten()
        .filter(Server::is_of_parent)
        .collect();
    if !parents.is_empty() {
        return the_only_one(parents);
    }
    Err(match error {
        Some(why) => why,
        None if !rustix::process::geteuid().is_root() => {
            "no httpd that loads mod_limitipconn can be seen; run limitipconn as root".into()
        }
        None => {
            "no httpd that loads mod_limitipconn is running; if one is, name its parent by --pid"
                .into()
        }
    })
}

fn the_only_one(mut found: Vec<Server>) -> Result<Server, String> {
    if found.len() > 1 {
        let each: Vec<String> = found
            .iter()
            .map(|server| format!("{} ({})", server.process.0, server.process.command_line()))
            .collect();
        return Err(format!(
            "there are several httpds with mod_limitipconn: {}; choose one by --pid",
            each.join(", ")
        ));
    }
    found
        .pop()
        .ok_or_else(|| String::from("no httpd is running"))
}

/// Whether root made this, or we did: what somebody else made may hold anything, at any time.
fn is_ours(metadata: &fs::Metadata) -> bool {
    let owner = metadata.uid();
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

impl Server {
    /// The httpd whose parent this is.
    pub fn of(process: Process) -> Result<Server, String> {
        let Process(number) = process;
        if !process.is_there() {
            return Err(format!("no process has the number {number}"));
        }
        let since = process.since();
        let name = process.name();
        let denied = || {
            format!("not allowed to look into process {number} ({name}); run limitipconn as root")
        };
        let descriptors = process.descriptors().map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => denied(),
            _ => format!("cannot look into process {number} ({name}): {error}"),
        })?;
        let numbers = descriptors
            .iter()
            .filter(|(_, target)| target == MEMFD)
            .map(|(number, _)| *number);
        let mut memories: Vec<(i64, i64, u32)> = numbers
            .filter_map(|number| {
                let made = fs::metadata(process.descriptor(number)).ok()?;
                Some((made.ctime(), made.ctime_nsec(), number))
            })
            .collect();
        if memories.is_empty() {
            return Err(without_module(process, &name));
        }
        // After an update of the module there may be that of the version before, too.
        memories.sort_unstable();
        let mut why = None;
        for (.., number) in memories.into_iter().rev() {
            match open(process, number) {
                // One of another version is newer: ours counts if it is still kept.
                Ok((segment, about)) if why.is_none() || is_kept(&segment) => {
                    let server = Server {
                        process,
                        since,
                        segment,
                        about,
                    };
                    return match server.is_alive() {
                        true => Ok(server),
                        false => Err(server.has_ended()),
                    };
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(denied());
                }
                Err(error) => why = why.or(Some(error)),
            }
        }
        let why = why.unwrap_or_else(|| io::Error::other("its shared memory is not kept any more"));
        // What was read is not what this program reads; anything else no other program mends.
        let advice = match why.kind() {
            io::ErrorKind::InvalidData => format!(
                "; this is limitipconn {}: use the one that came with the module which is loaded, and restart httpd \
                 after an update",
                env!("CARGO_PKG_VERSION")
            ),
            _ => String::new(),
        };
        Err(format!("process {number} ({name}): {why}{advice}"))
    }

    /// The same of a process that somebody named. A child has the memory, too, until it is set up.
    fn named(process: Process) -> Result<Server, String> {
        let server = Server::of(process)?;
        match server.is_of_parent() {
            true => Ok(server),
            false => Err(without_module(process, &process.name())),
        }
    }

    /// Whether the process is the one that wrote what it is.
    fn is_of_parent(&self) -> bool {
        self.process.own_number() == Some(self.about.pid)
    }

    /// Whether it is still the process that was found.
    pub fn is_alive(&self) -> bool {
        self.process.is_there() && self.process.since() == self.since
    }

    /// The sentence for when it is not.
    pub fn has_ended(&self) -> String {
        format!("httpd (process {}) has ended", self.process.0)
    }

    /// A key that somebody names. From then on only what is mapped is used, so what root may do is
    /// given up.
    pub fn by_hand<'a>(&'a self, key: &'a [u8]) -> ByHand<'a> {
        rights::give_up();
        ByHand::new(&self.segment, &self.about, key, clock::nanos())
    }

    /// Looks through one of the instruments.
    pub fn look<T>(&mut self, through: impl FnOnce(&Scene<'_>) -> T) -> Result<T, String> {
        if let Some(about) = self.segment.about() {
            self.about = about;
        }
        let statuses = self.statuses();
        if !self.is_alive() {
            return Err(self.has_ended());
        }
        let workers: Vec<Worker> = statuses?.into_iter().map(Worker::from_status).collect();
        Ok(through(&Scene {
            segment: &self.segment,
            workers: &workers,
            max_workers: self.about.max_workers,
            generation: self.about.generation,
            prefix: self.about.prefix,
            has_rules: self.about.has_rules || self.segment.flags() & ANY_RULE != 0,
            audience: &Everybody,
            httpd: &self.about.httpd,
            nanos: clock::nanos(),
            micros: clock::micros(),
        }))
    }

    /// The status bytes of the scoreboard, out of the parent's memory.
    fn statuses(&self) -> Result<Vec<u8>, String> {
        let (board, slots) = (self.about.board, self.segment.size().slots as usize);
        let stride = usize::try_from(board.stride).unwrap_or(0);
        let status = usize::try_from(board.status).unwrap_or(usize::MAX);
        // A worker that has been taken over may write anything there.
        if !(1..=WIDEST).contains(&stride) || status >= stride {
            return Err(format!(
                "what the shared memory of process {} says about the scoreboard makes no sense; restart httpd",
                self.process.0
            ));
        }
        let length = slots
            .checked_sub(1)
            .map_or(0, |last| last * stride + status + 1);
        let mut bytes = vec![0; length];
        self.process
            .read_memory(board.address, &mut bytes)
            .map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => format!(
                    "not allowed to read the memory of process {}; run limitipconn as root, in a container \
                     with the capability SYS_PTRACE",
                    self.process.0
                ),
                // A process that ends loses its memory first.
                _ if error.raw_os_error() == Some(libc::ESRCH)
                    || error.kind() == io::ErrorKind::UnexpectedEof =>
                {
                    self.has_ended()
                }
                _ => format!(
                    "the scoreboard of process {} cannot be read: {error}",
                    self.process.0
                ),
            })?;
        Ok(bytes.iter().skip(status).step_by(stride).copied().collect())
    }
}

/// Maps the memory that this descriptor leads to.
fn open(process: Process, number: u32) -> io::Result<(Segment, About)> {
    let held = process.hold(number)?;
    let metadata = held.metadata()?;
    if !metadata.is_file() || !is_ours(&metadata) {
        return Err(io::Error::other(
            "its shared memory was made by a user who is neither root nor you",
        ));
    }
    let file = held.open(File::options().read(true).write(true))?;
    let segment = Segment::open(&file)?;
    // A start or a reload is a matter of moments.
    let start = Instant::now();
    loop {
        if let Some(about) = segment.about() {
            return Ok((segment, about));
        }
        if start.elapsed() > Duration::from_secs(2) {
            return Err(io::Error::other("it is just starting; try again"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the parent wrote a sample not long ago.
fn is_kept(segment: &Segment) -> bool {
    const LONG: u64 = 60_000_000;
    let last = segment.history().read().pop();
    last.is_some_and(|sample| sample.micros + LONG > clock::micros())
}

/// Why a process has no shared memory of ours.
fn without_module(process: Process, name: &str) -> String {
    let Process(number) = process;
    let parent = process.parent().filter(|parent| {
        let all = parent.descriptors().unwrap_or_default();
        all.iter().any(|(_, target)| target == MEMFD)
            && Server::of(*parent).is_ok_and(|server| server.is_of_parent())
    });
    match parent {
        Some(Process(parent)) => format!(
            "process {number} ({name}) is a child of httpd; name the parent: --pid {parent}"
        ),
        None => format!(
            "process {number} ({name}) has no mod_limitipconn: it is no parent of httpd, or does not load the module"
        ),
    }
}
