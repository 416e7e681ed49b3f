//! The guard of a running private httpd: its clients, its signals, its end.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::recipe::Recipe;
use super::{Client, DEADLINE, Gate, Mpm, Process, Setup, base, log, process, setup, wait_until};

/// httpd waits up to ten seconds for children that do not want to end, then kills them.
/// A server may be run by something that makes it many times slower.
pub(super) const START_DEADLINE: Duration = Duration::from_secs(60);
const STOP_DEADLINE: Duration = Duration::from_secs(60);

/// A running httpd. Dropped, it stops; an unexpected line in its error log then fails the test.
pub struct Httpd {
    recipe: Recipe,
    child: Child,
    ports: [u16; 2],
    expected: Mutex<Vec<String>>,
    stopped: bool,
}

/// The socket of mod_cgid's daemon, as it was at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ScriptSocket {
    owner: u32,
    changed: (i64, i64),
}

impl Httpd {
    /// A server to set up.
    pub fn on(mpm: Mpm) -> Setup {
        Setup::new(mpm)
    }

    pub(super) fn running(
        recipe: Recipe,
        child: Child,
        ports: [u16; 2],
        expected: Vec<String>,
    ) -> Httpd {
        Httpd {
            recipe,
            child,
            ports,
            expected: Mutex::new(expected),
            stopped: false,
        }
    }

    /// The file that is loaded as our module.
    pub fn module() -> PathBuf {
        base::module()
    }

    /// The MPM it runs on.
    pub fn mpm(&self) -> Mpm {
        self.recipe.mpm
    }

    /// The port at which it listens.
    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    /// `${PORT2}` of the configuration, which the test may listen at.
    pub fn port2(&self) -> u16 {
        self.ports[1]
    }

    /// The server's own directory: logs, `run`, `htdocs`.
    pub fn dir(&self) -> &Path {
        &self.recipe.dir
    }

    /// The parent process.
    pub fn parent(&self) -> Process {
        Process(self.child.id() as i32)
    }

    /// The children that serve requests; not mod_cgid's daemon, and no scripts.
    pub fn children(&self) -> Vec<Process> {
        let children = self.parent().children();
        let socket = self.dir().join("run/cgid.sock");
        let daemons = process::holders_of_unix(&children, &socket.display().to_string());
        children
            .into_iter()
            .filter(|child| !daemons.contains(child))
            .collect()
    }

    /// How many threads each of these children has.
    pub fn threads_of_children(&self) -> Vec<usize> {
        self.children()
            .iter()
            .map(|child| child.threads())
            .collect()
    }

    /// The child that has the server's end of this client's connection.
    #[track_caller]
    pub fn child_serving(&self, client: SocketAddr) -> Process {
        let server = SocketAddr::from(([127, 0, 0, 1], self.port()));
        wait_until(DEADLINE, || {
            process::holder_of(&self.children(), server, client).ok_or("no child has it")
        })
    }

    /// A client with this address: one of 127.0.0.0/8, or ::1 where the test listens there.
    pub fn client(&self, source: &str) -> Client {
        let source: IpAddr = source
            .parse()
            .unwrap_or_else(|_| panic!("no address: {source}"));
        let host = if source.is_ipv4() {
            IpAddr::from([127, 0, 0, 1])
        } else {
            Ipv6Addr::LOCALHOST.into()
        };
        Client {
            server: SocketAddr::new(host, self.port()),
            source,
            receive_buffer: None,
            headers: String::new(),
            preface: String::new(),
            gates: self.gates(),
        }
    }

    fn gates(&self) -> PathBuf {
        self.dir().join("gates")
    }

    /// A closed gate with this name, for a script whose query is not the client's to choose.
    pub fn gate(&self, name: &str) -> Gate {
        Gate::named(&self.gates(), name)
    }

    /// From now on lines of the error log that hold this text are no fault.
    pub fn expect_log(&self, text: &str) {
        self.expected
            .lock()
            .expect("no panic while locked")
            .push(text.to_owned());
    }

    /// `apachectl graceful`; returns when the new generation serves.
    #[track_caller]
    pub fn graceful(&self) {
        self.restart(libc::SIGUSR1);
    }

    /// `apachectl graceful` as people call it: only what `httpd -t` accepts is signalled. The
    /// error is what that said.
    pub fn graceful_if_good(&self) -> Result<(), String> {
        let said = Command::new(&base::installation().binary)
            .arg("-t")
            .arg("-d")
            .arg(self.dir())
            .arg("-f")
            .arg(self.dir().join("httpd.conf"))
            .output()
            .expect("run httpd -t");
        if !said.status.success() {
            return Err(String::from_utf8_lossy(&said.stderr).into_owned());
        }
        self.graceful();
        Ok(())
    }

    /// `apachectl restart`; returns when the new generation serves.
    #[track_caller]
    pub fn hard_restart(&self) {
        self.settle();
        self.hard_restart_under_load();
    }

    /// As [`Httpd::hard_restart`], but at once: on worker and event a child that closes a
    /// connection at that moment may crash, with or without our module.
    #[track_caller]
    pub fn hard_restart_under_load(&self) {
        self.restart(libc::SIGHUP);
    }

    #[track_caller]
    fn restart(&self, signal: i32) {
        let (before, old) = (self.log_lines(log::SERVING).len(), self.children());
        let scripts = self.script_socket();
        self.parent().signal(signal);
        // A hard restart first waits for children that do not want to end.
        wait_until(STOP_DEADLINE, || {
            let now = self.log_lines(log::SERVING).len();
            if now > before {
                Ok(())
            } else {
                Err(self.error_log())
            }
        });
        self.wait_for_children_besides(&old);
        // A child that is about to finish may still take a connection, by its old configuration.
        let parent = self.parent();
        wait_until(DEADLINE, || {
            let listening = old.iter().find(|child| child.shares_a_socket(parent));
            listening.map_or(Ok(()), |child| Err(format!("{child:?} still listens")))
        });
        if scripts.is_some() {
            self.wait_for_scripts(scripts);
        }
    }

    /// Waits until there are new children, with all their threads: a signal that comes while
    /// httpd still starts them makes a child of httpd's own crash now and then. A child of
    /// worker starts fewer threads while those of an old one still sit in its slots: then it is
    /// ready when their number no longer changes.
    #[track_caller]
    pub(super) fn wait_for_children_besides(&self, old: &[Process]) {
        let mut looks = VecDeque::new();
        wait_until(START_DEADLINE, || {
            let mut new = self.children();
            new.retain(|child| !old.contains(child));
            let threads: Vec<_> = new.iter().map(|child| (*child, child.threads())).collect();
            let all_at_least = |number| threads.iter().all(|(_, threads)| *threads >= number);
            looks.push_back(threads.clone());
            let steady = looks.len() > 10 && looks.pop_front().as_ref() == Some(&threads);
            let number = self.mpm().threads_of_a_child();
            let ready = all_at_least(number) || steady && all_at_least(number.min(3));
            if !new.is_empty() && ready {
                Ok(())
            } else {
                Err(threads)
            }
        });
    }

    /// Waits until scripts can be run, by another daemon than that of this socket. mod_cgid's
    /// daemon makes its socket first, and gives it to the user of the children then: before that
    /// a script is a 503.
    #[track_caller]
    pub(super) fn wait_for_scripts(&self, before: Option<ScriptSocket>) {
        // SAFETY: geteuid takes nothing and cannot fail.
        if self.mpm() == Mpm::Prefork || unsafe { libc::geteuid() } != 0 {
            return;
        }
        wait_until(START_DEADLINE, || {
            self.script_socket()
                .filter(|socket| socket.owner != 0 && Some(*socket) != before)
                .ok_or("no socket of mod_cgid")
        });
    }

    /// The socket of mod_cgid's daemon, where there is one.
    fn script_socket(&self) -> Option<ScriptSocket> {
        let files = fs::read_dir(self.dir().join("run")).into_iter().flatten();
        let socket = files
            .flatten()
            .find(|file| file.file_name().to_string_lossy().starts_with("cgid.sock"));
        let metadata = socket?.metadata().ok()?;
        Some(ScriptSocket {
            owner: metadata.uid(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Waits, some seconds at most, until no child is about to close a connection. A signal to end
    /// that comes at that moment makes a child of httpd's own crash now and then: worker and
    /// event close the sockets of their threads while these free them, and prefork frees what
    /// mod_ssl is freeing.
    fn settle(&self) {
        let start = Instant::now();
        // Twice in a row: the last steps of a close are to be seen nowhere.
        let mut seen = 0;
        while seen < 2 && start.elapsed() < Duration::from_secs(5) {
            seen = if process::are_settled(&self.children()) {
                seen + 1
            } else {
                0
            };
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Writes another configuration for the next restart.
    pub fn rewrite_conf(&self, lines: &str) {
        self.recipe.write(self.ports, lines);
    }

    /// Kills all of it at once, as a machine that fails.
    #[track_caller]
    pub fn kill_all(&mut self) {
        self.stopped = true;
        let parent = self.parent();
        // Those that the parent makes meanwhile die by the next look.
        wait_until(DEADLINE, || {
            // The parent itself stays a zombie until it is waited for.
            let _ = self.child.try_wait();
            let left = Process::in_session(parent.0);
            left.iter()
                .for_each(|process| process.signal(libc::SIGKILL));
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }

    /// Stops by SIGTERM and waits; what is left of the session after the deadline is killed
    /// and named.
    pub fn stop(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.stopped, true) {
            return Ok(());
        }
        self.open_gates();
        self.settle();
        let parent = self.parent();
        parent.signal(libc::SIGTERM);
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && start.elapsed() < STOP_DEADLINE {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Scripts of mod_cgid end a moment after the parent.
        let patience = Instant::now();
        let left = || Process::in_session(parent.0);
        while !left().is_empty() && patience.elapsed() < DEADLINE {
            std::thread::sleep(Duration::from_millis(5));
        }
        let outlived = left();
        outlived
            .iter()
            .for_each(|process| process.signal(libc::SIGKILL));
        let _ = self.child.wait();
        if outlived.is_empty() {
            Ok(())
        } else {
            Err(format!("had to be killed: {outlived:?}"))
        }
    }

    /// Wakes every script that still waits: those of mod_cgid outlive a server that stops.
    fn open_gates(&self) {
        let gates = fs::read_dir(self.gates()).into_iter().flatten().flatten();
        for gate in gates.map(|entry| entry.path()) {
            let fifo = fs::File::options()
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&gate);
            let _ = fs::remove_file(&gate);
            // Each script takes one line.
            let _ = fifo.and_then(|mut fifo| fifo.write_all(&[b'\n'; 100]));
        }
    }

    fn faults(&mut self) -> Vec<String> {
        let mut faults: Vec<_> = self.stop().err().into_iter().collect();
        let expected = self
            .expected
            .lock()
            .map(|texts| texts.clone())
            .unwrap_or_default();
        for file in ["error_log", "stderr"] {
            let lines = log::unexpected(&log::read(&self.dir().join(file)), &expected);
            faults.extend(
                lines
                    .into_iter()
                    .map(|line| format!("unexpected in {file}: {line}")),
            );
        }
        faults
    }
}

impl Drop for Httpd {
    fn drop(&mut self) {
        let faults = self.faults();
        let log = self.error_log();
        setup::remove_dir(self.dir());
        let mpm = self.mpm().name();
        if std::thread::panicking() {
            let lines: Vec<_> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(40)..];
            eprintln!(
                "the end of the error_log of the server on {mpm}:\n{}",
                last.join("\n")
            );
        } else if !faults.is_empty() {
            panic!("faults of the server on {mpm}:\n{}", faults.join("\n"));
        }
    }
}
