//! What /proc tells about the processes of a server: who they are, what they hold open.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

/// A process, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Process(pub i32);

/// Parent, session and state of a process.
struct Stat {
    state: char,
    parent: i32,
    session: i32,
}

impl Process {
    /// Every process of this session, zombies left out.
    pub fn in_session(session: i32) -> Vec<Process> {
        Self::every(|stat| stat.session == session)
    }

    /// The live children of this process, in no order.
    pub fn children(self) -> Vec<Process> {
        Self::every(|stat| stat.parent == self.0)
    }

    fn every(wanted: impl Fn(&Stat) -> bool) -> Vec<Process> {
        let entries = fs::read_dir("/proc").expect("read /proc");
        let numbers = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers
            .map(Process)
            .filter(|process| {
                process
                    .stat()
                    .is_some_and(|stat| stat.state != 'Z' && wanted(&stat))
            })
            .collect()
    }

    fn stat(self) -> Option<Stat> {
        parse(&fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?)
    }

    /// Whether one of its threads still runs. The first may be a zombie long before the others
    /// have closed what they had open.
    pub fn is_alive(self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0))
            .into_iter()
            .flatten()
            .flatten();
        let mut states = threads.filter_map(|thread| {
            Some(parse(&fs::read_to_string(thread.path().join("stat")).ok()?)?.state)
        });
        states.any(|state| !matches!(state, 'Z' | 'X'))
    }

    /// Sends a signal; a process that is gone already is no error.
    pub fn signal(self, signal: i32) {
        assert!(self.0 > 1, "no signal to {self:?}");
        // SAFETY: kill takes two numbers and touches no memory of ours.
        unsafe { libc::kill(self.0, signal) };
    }

    /// Waits until it is gone; false when it is still there after this time.
    pub fn is_gone_within(self, time: Duration) -> bool {
        let start = std::time::Instant::now();
        while self.is_alive() {
            if start.elapsed() > time {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// What its file descriptors lead to, sorted: files by name, pipes and sockets by kind.
    pub fn open_files(self) -> Vec<String> {
        let kind = |target: String| target.split(":[").next().unwrap_or_default().to_owned();
        self.descriptors().into_iter().map(kind).collect()
    }

    /// Whether both have the same socket open: of a child and its parent, one that listens.
    pub fn shares_a_socket(self, other: Process) -> bool {
        let others = other.descriptors();
        let own = self.descriptors();
        own.iter()
            .any(|file| file.starts_with("socket:") && others.contains(file))
    }

    /// The targets of its file descriptors, sorted.
    fn descriptors(self) -> Vec<String> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.0))
            .into_iter()
            .flatten()
            .flatten();
        let mut targets: Vec<_> = entries
            .filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string()))
            .collect();
        targets.sort();
        targets
    }

    /// How many threads it has.
    pub fn threads(self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.0))
            .map(|tasks| tasks.count())
            .unwrap_or(0)
    }

    /// The names of its mappings, one an entry; those without a name are left out.
    pub fn named_maps(self) -> Vec<String> {
        let text = fs::read_to_string(format!("/proc/{}/maps", self.0)).unwrap_or_default();
        let mut names: Vec<_> = text
            .lines()
            .filter_map(|line| line.splitn(6, ' ').nth(5))
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect();
        names.sort();
        names
    }

    /// Resident memory in KiB.
    pub fn resident_kib(self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
            .unwrap_or(0)
    }

    /// Whether it has this socket open.
    fn holds_socket(self, inode: u64) -> bool {
        let name = format!("socket:[{inode}]");
        self.descriptors().contains(&name)
    }
}

fn parse(text: &str) -> Option<Stat> {
    // The name may hold blanks and brackets; what follows its last bracket does not.
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Stat {
        state,
        parent,
        session,
    })
}

/// Of these processes, the one that has the server's end of a connection open.
pub fn holder_of(processes: &[Process], server: SocketAddr, client: SocketAddr) -> Option<Process> {
    let inode = inode_of(server, client)?;
    processes
        .iter()
        .copied()
        .find(|process| process.holds_socket(inode))
}

/// Of these processes, those that have the Unix socket with this path prefix open.
pub fn holders_of_unix(processes: &[Process], prefix: &str) -> Vec<Process> {
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let inodes: Vec<u64> = text
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let inode = fields.nth(6)?.parse().ok()?;
            fields.next()?.starts_with(prefix).then_some(inode)
        })
        .collect();
    processes
        .iter()
        .copied()
        .filter(|process| inodes.iter().any(|inode| process.holds_socket(*inode)))
        .collect()
}

/// Whether none of these processes is about to close a connection: each of their TCP sockets
/// listens or has a peer that still listens to it.
pub fn are_settled(processes: &[Process]) -> bool {
    let read = |table| fs::read_to_string(table).unwrap_or_default();
    let text = read("/proc/net/tcp") + &read("/proc/net/tcp6");
    let quiet = |line: &str| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        // ESTABLISHED and LISTEN; what is closed on both sides is not in the list.
        let state = matches!(fields.get(3), Some(&"01" | &"0A"));
        state.then(|| format!("socket:[{}]", fields.get(9).unwrap_or(&"")))
    };
    let quiet: HashSet<_> = text.lines().filter_map(quiet).collect();
    let unix = read("/proc/net/unix");
    let unix: HashSet<_> = unix
        .lines()
        .filter_map(|line| {
            Some(format!(
                "socket:[{}]",
                line.split_ascii_whitespace().nth(6)?
            ))
        })
        .collect();
    let sockets = processes.iter().flat_map(|process| process.descriptors());
    sockets
        .filter(|name| name.starts_with("socket:"))
        .all(|name| quiet.contains(&name) || unix.contains(&name))
}

/// The socket whose local end is `server` and whose remote end is `client`.
fn inode_of(server: SocketAddr, client: SocketAddr) -> Option<u64> {
    let (local, remote) = (hex(server)?, hex(client)?);
    let text = fs::read_to_string("/proc/net/tcp").ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let this =
            fields.get(1) == Some(&local.as_str()) && fields.get(2) == Some(&remote.as_str());
        this.then(|| fields.get(9)?.parse().ok())?
    })
}

/// An IPv4 endpoint as /proc/net/tcp writes it.
fn hex(address: SocketAddr) -> Option<String> {
    let SocketAddr::V4(v4) = address else {
        return None;
    };
    Some(format!(
        "{:08X}:{:04X}",
        u32::from_ne_bytes(v4.ip().octets()),
        v4.port()
    ))
}
