//! The guard of a private httpd: starts it, signals it, and ends it with all its children.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Client, DEADLINE, Gate, Gauge, Process, base, log, process, scripts, wait_until};

/// The address from which the gauge is read, so that it is in no test's count.
const GAUGE_READER: &str = "127.0.0.99";

/// httpd waits up to ten seconds for children that do not want to end, then kills them.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// A multi-processing module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Mpm {
    Prefork,
    Worker,
    Event,
}

impl Mpm {
    /// All of them.
    pub const ALL: [Mpm; 3] = [Mpm::Prefork, Mpm::Worker, Mpm::Event];

    /// The name in `mpm_NAME_module`.
    pub fn name(self) -> &'static str {
        match self {
            Mpm::Prefork => "prefork",
            Mpm::Worker => "worker",
            Mpm::Event => "event",
        }
    }
}

/// A server that is not started yet: what it is loaded with and what it says.
pub struct Setup {
    mpm: Mpm,
    modules: Vec<String>,
    conf: String,
    expected: Vec<String>,
    ours: bool,
    status: bool,
    dir: PathBuf,
}

/// What `httpd -t` said.
#[derive(Debug)]
pub struct Configtest {
    /// The exit code.
    pub code: i32,
    /// All that it wrote to stderr.
    pub stderr: String,
}

/// A running httpd. Dropped, it stops; an unexpected line in its error log then fails the test.
pub struct Httpd {
    mpm: Mpm,
    child: Child,
    dir: PathBuf,
    ports: [u16; 2],
    ours: bool,
    status: bool,
    extra_modules: Vec<String>,
    expected: Mutex<Vec<String>>,
    stopped: bool,
}

impl Setup {
    fn new(mpm: Mpm) -> Setup {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "limitipconn-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let dir = std::env::temp_dir().join(name);
        for part in [
            "",
            "run",
            "gates",
            "cgi",
            "htdocs",
            "htdocs/hoge",
            "htdocs/fuga",
        ] {
            let part = dir.join(part);
            fs::create_dir(&part).unwrap_or_else(|e| panic!("create {}: {e}", part.display()));
            // Whatever the umask: the server's children run as another user.
            fs::set_permissions(&part, fs::Permissions::from_mode(0o755))
                .expect("set the mode of a directory");
        }
        let setup = Setup {
            mpm,
            modules: Vec::new(),
            conf: String::new(),
            expected: Vec::new(),
            ours: true,
            status: true,
            dir,
        };
        setup.furnish("").furnish("hoge").furnish("fuga")
    }

    /// Adds lines to the configuration.
    #[must_use]
    pub fn conf(mut self, lines: &str) -> Setup {
        self.conf += lines;
        self.conf += "\n";
        self
    }

    /// Loads more of httpd's modules, by the name in `NAME_module`.
    #[must_use]
    pub fn load(mut self, modules: &[&str]) -> Setup {
        self.modules
            .extend(modules.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Lines of the error log that hold this text are no fault.
    #[must_use]
    pub fn expect_log(mut self, text: &str) -> Setup {
        self.expected.push(text.to_owned());
        self
    }

    /// Refusals are no fault.
    #[must_use]
    pub fn expect_refusals(self) -> Setup {
        self.expect_log("limitipconn(101): ")
    }

    /// Leaves our module out: a control.
    #[must_use]
    pub fn without_module(mut self) -> Setup {
        self.ours = false;
        self
    }

    /// Leaves the status place out: what is then configured is the test's own lines only.
    #[must_use]
    pub fn without_status(mut self) -> Setup {
        self.status = false;
        self
    }

    /// A directory of the document root with `hold.cgi`, `hello.cgi`, `small.txt` and `index.html`.
    #[must_use]
    pub fn furnish(self, dir: &str) -> Setup {
        let place = self.docroot().join(dir);
        fs::create_dir_all(&place).expect("create a directory");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755))
            .expect("set the mode of a directory");
        scripts::install(
            &place.join("hold.cgi"),
            &scripts::hold(&self.dir.join("gates")),
        );
        scripts::install(&place.join("hello.cgi"), scripts::HELLO);
        let title = if dir.is_empty() { "root" } else { dir };
        self.file(&format!("{dir}/small.txt"), "ok\n")
            .file(&format!("{dir}/index.html"), &format!("{title}\n"))
    }

    /// Writes a file into the document root.
    #[must_use]
    pub fn file(self, path: &str, text: impl AsRef<[u8]>) -> Setup {
        let place = self.docroot().join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().expect("a file has a directory"))
            .expect("create a directory");
        fs::write(&place, text).unwrap_or_else(|e| panic!("write {}: {e}", place.display()));
        self
    }

    /// Writes a script into the document root.
    #[must_use]
    pub fn script(self, path: &str, text: &str) -> Setup {
        let place = self.docroot().join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().expect("a file has a directory"))
            .expect("create a directory");
        scripts::install(&place, text);
        self
    }

    /// Makes a file of so many bytes, all zero and taking no room.
    #[must_use]
    pub fn big_file(self, path: &str, bytes: u64) -> Setup {
        let this = self.file(path, "");
        let file = fs::File::options()
            .write(true)
            .open(this.docroot().join(path.trim_start_matches('/')));
        file.and_then(|file| file.set_len(bytes))
            .expect("make a big file");
        this
    }

    /// The directory that is served.
    pub fn docroot(&self) -> PathBuf {
        self.dir.join("htdocs")
    }

    /// The server's own directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn write_conf(&self, ports: [u16; 2]) {
        write_conf(
            &self.dir,
            self.mpm,
            ports,
            &self.modules,
            self.ours,
            self.status,
            &self.conf,
        );
    }

    fn httpd(&self) -> Command {
        let mut command = Command::new(&base::installation().binary);
        command
            .arg("-d")
            .arg(&self.dir)
            .arg("-f")
            .arg(self.dir.join("httpd.conf"));
        command
    }

    /// What `httpd -t` says to this configuration; more arguments may follow it.
    pub fn configtest_with(&self, arguments: &[&str]) -> Configtest {
        self.write_conf([8080, 8081]);
        let said = self
            .httpd()
            .arg("-t")
            .args(arguments)
            .output()
            .expect("run httpd -t");
        let stderr = String::from_utf8_lossy(&said.stderr).into_owned();
        Configtest {
            code: said.status.code().unwrap_or(-1),
            stderr,
        }
    }

    /// What `httpd -t` says to this configuration.
    pub fn configtest(&self) -> Configtest {
        self.configtest_with(&[])
    }

    /// Starts the server; the error is all that it wrote before it gave up.
    pub fn try_start(mut self) -> Result<Httpd, String> {
        for _ in 0..20 {
            let ports = free_ports();
            self.write_conf(ports);
            let mut child = self.spawn();
            match await_start(&mut child, &self.dir) {
                Ok(()) => {
                    return Ok(Httpd {
                        mpm: self.mpm,
                        child,
                        dir: std::mem::take(&mut self.dir),
                        ports,
                        ours: self.ours,
                        status: self.status,
                        extra_modules: std::mem::take(&mut self.modules),
                        expected: Mutex::new(std::mem::take(&mut self.expected)),
                        stopped: false,
                    });
                }
                // Somebody took the port between our look and httpd's.
                Err(said) if said.contains("AH00072") => {
                    let _ = fs::remove_file(self.dir.join("error_log"));
                }
                Err(said) => return Err(said),
            }
        }
        panic!("no free port in 20 attempts");
    }

    /// Starts the server and returns when it serves.
    #[track_caller]
    pub fn start(self) -> Httpd {
        self.try_start()
            .unwrap_or_else(|said| panic!("httpd did not start:\n{said}"))
    }

    fn spawn(&self) -> Child {
        let stderr = fs::File::create(self.dir.join("stderr")).expect("create a file");
        let mut command = self.httpd();
        command
            .arg("-DFOREGROUND")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        // A parent that dies by a signal cannot drop its guard; the kernel then stops the server.
        // SAFETY: between fork and exec only setsid and prctl run: system calls that take
        // numbers, allocate nothing and take no lock.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() == -1 || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) == -1
                {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        command.spawn().expect("run httpd")
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        if !self.dir.as_os_str().is_empty() {
            remove_dir(&self.dir);
        }
    }
}

impl Httpd {
    /// A server to set up.
    pub fn on(mpm: Mpm) -> Setup {
        Setup::new(mpm)
    }

    /// The MPM it runs on.
    pub fn mpm(&self) -> Mpm {
        self.mpm
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
        &self.dir
    }

    /// The parent process.
    pub fn parent(&self) -> Process {
        Process(self.child.id() as i32)
    }

    /// The children that serve requests; not mod_cgid's daemon, and no scripts.
    pub fn children(&self) -> Vec<Process> {
        let children = self.parent().children();
        let socket = self.dir.join("run/cgid.sock");
        let daemons = process::holders_of_unix(&children, &socket.display().to_string());
        children
            .into_iter()
            .filter(|child| !daemons.contains(child))
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

    /// A client with this address.
    pub fn client(&self, source: &str) -> Client {
        let source: IpAddr = source
            .parse()
            .unwrap_or_else(|_| panic!("no address: {source}"));
        let host: IpAddr = if source.is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            "::1".parse().expect("an address")
        };
        Client {
            server: SocketAddr::new(host, self.port()),
            source,
            receive_buffer: None,
            headers: String::new(),
            gates: self.dir.join("gates"),
        }
    }

    /// A closed gate with this name, for a script whose query is not the client's to choose.
    pub fn gate(&self, name: &str) -> Gate {
        Gate::named(&self.dir.join("gates"), name)
    }

    /// Reads the gauge.
    #[track_caller]
    pub fn gauge(&self) -> Gauge {
        self.try_gauge().unwrap_or_else(|why| panic!("{why}"))
    }

    fn try_gauge(&self) -> Result<Gauge, String> {
        let answer = self
            .client(GAUGE_READER)
            .try_get("/limit-status?format=json");
        let answer = answer.map_err(|e| format!("no gauge: {e}"))?;
        if answer.status != 200 {
            return Err(format!(
                "the gauge answers {}: {}",
                answer.status,
                answer.text()
            ));
        }
        serde_json::from_slice(&answer.body)
            .map(Gauge)
            .map_err(|e| format!("no gauge: {e} in {}", answer.text()))
    }

    /// Reads the gauge until it is so; fails with the last reading.
    #[track_caller]
    pub fn wait_for(&self, so: impl Fn(&Gauge) -> bool) -> Gauge {
        self.wait_for_within(DEADLINE, so)
    }

    /// As [`Httpd::wait_for`], with a deadline of its own.
    #[track_caller]
    pub fn wait_for_within(&self, deadline: Duration, so: impl Fn(&Gauge) -> bool) -> Gauge {
        wait_until(deadline, || match self.try_gauge() {
            Ok(gauge) if so(&gauge) => Ok(gauge),
            Ok(gauge) => Err(format!("{gauge:?}")),
            Err(why) => Err(why),
        })
    }

    /// Waits until no request holds a place and no worker but the gauge's own is busy.
    #[track_caller]
    pub fn wait_for_quiet(&self) -> Gauge {
        self.wait_for(|gauge| gauge.leases_in_use() == 0 && gauge.total() == 0 && gauge.busy() <= 1)
    }

    /// All that stands in the error log.
    pub fn error_log(&self) -> String {
        read_lossy(&self.dir.join("error_log"))
    }

    /// The lines of the error log that hold this text.
    pub fn log_lines(&self, text: &str) -> Vec<String> {
        self.error_log()
            .lines()
            .filter(|line| line.contains(text))
            .map(str::to_owned)
            .collect()
    }

    /// Waits until the error log has a line with this text, and returns all of them.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) -> Vec<String> {
        wait_until(DEADLINE, || {
            Some(self.log_lines(text))
                .filter(|lines| !lines.is_empty())
                .ok_or(text.to_owned())
        })
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

    /// `apachectl restart`; returns when the new generation serves.
    #[track_caller]
    pub fn hard_restart(&self) {
        self.restart(libc::SIGHUP);
    }

    #[track_caller]
    fn restart(&self, signal: i32) {
        let before = self.log_lines("resuming normal operations").len();
        self.parent().signal(signal);
        // A hard restart first waits for children that hold something.
        wait_until(STOP_DEADLINE, || {
            let now = self.log_lines("resuming normal operations").len();
            if now > before {
                Ok(())
            } else {
                Err(self.error_log())
            }
        });
        wait_until(DEADLINE, || {
            if self.children().is_empty() {
                Err("no children")
            } else {
                Ok(())
            }
        });
    }

    /// Writes another configuration for the next restart.
    pub fn rewrite_conf(&self, conf: &str) {
        write_conf(
            &self.dir,
            self.mpm,
            self.ports,
            &self.extra_modules,
            self.ours,
            self.status,
            conf,
        );
    }

    /// Stops by SIGTERM and waits; what is left of the session after the deadline is killed
    /// and named.
    pub fn stop(&mut self) -> Result<(), String> {
        if self.stopped {
            return Ok(());
        }
        self.stopped = true;
        self.open_gates();
        let session = self.parent().0;
        self.parent().signal(libc::SIGTERM);
        let start = Instant::now();
        let mut ended = false;
        while start.elapsed() < STOP_DEADLINE {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                _ => {
                    ended = true;
                    break;
                }
            }
        }
        let left = || Process::in_session(session);
        let patience = Instant::now();
        while ended && !left().is_empty() && patience.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let outlived = left();
        for process in &outlived {
            process.signal(libc::SIGKILL);
        }
        let _ = self.child.wait();
        if outlived.is_empty() {
            Ok(())
        } else {
            Err(format!("had to be killed: {outlived:?}"))
        }
    }

    /// Wakes every script that still waits: mod_cgid's outlive a server that stops.
    fn open_gates(&self) {
        let gates = fs::read_dir(self.dir.join("gates"))
            .into_iter()
            .flatten()
            .flatten();
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
            let lines = log::unexpected(&read_lossy(&self.dir.join(file)), &expected);
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
        remove_dir(&self.dir);
        if std::thread::panicking() {
            eprintln!("error_log of the server on {}:\n{log}", self.mpm.name());
        } else if !faults.is_empty() {
            panic!(
                "faults of the server on {}:\n{}",
                self.mpm.name(),
                faults.join("\n")
            );
        }
    }
}

fn write_conf(
    dir: &Path,
    mpm: Mpm,
    ports: [u16; 2],
    modules: &[String],
    ours: bool,
    status: bool,
    conf: &str,
) {
    // SAFETY: geteuid takes nothing and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let mut text = base::opening(mpm, dir, ports, modules, ours, root);
    text += conf;
    if ours && status {
        text += base::STATUS;
    }
    fs::write(dir.join("httpd.conf"), text).expect("write httpd.conf");
}

/// Two ports that nobody listens at now.
fn free_ports() -> [u16; 2] {
    let both =
        [0, 0].map(|port| TcpListener::bind(("127.0.0.1", port)).expect("bind to a free port"));
    both.map(|listener| {
        listener
            .local_addr()
            .expect("the address of a listener")
            .port()
    })
}

/// Waits until it serves; the error is what it wrote before it ended.
fn await_start(child: &mut Child, dir: &Path) -> Result<(), String> {
    let start = Instant::now();
    let said = || read_lossy(&dir.join("stderr")) + &read_lossy(&dir.join("error_log"));
    loop {
        if said().contains("resuming normal operations") {
            return Ok(());
        }
        if child.try_wait().expect("wait for httpd").is_some() {
            return Err(said());
        }
        if start.elapsed() > DEADLINE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("it does not serve after {DEADLINE:?}\n{}", said()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn read_lossy(path: &Path) -> String {
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// `LIMITIPCONN_KEEP=1` keeps the directories for a look.
fn remove_dir(dir: &Path) {
    if std::env::var_os("LIMITIPCONN_KEEP").is_none() {
        let _ = fs::remove_dir_all(dir);
    }
}
