//! One httpd under callgrind: a configuration, a number of requests, and how
//! many instructions the whole run took. The server is a single process
//! (`-X`) on a free loopback port, lives for one measurement and is gone after
//! it, whatever happened.

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::client;
use crate::profile::{self, Cost};

/// How long a server under callgrind may take to start, answer or stop.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// What Debian enables when it installs httpd: an ordinary server, no bare one.
const MODULES: &[&str] = &[
    "mpm_prefork",
    "access_compat",
    "alias",
    "auth_basic",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "autoindex",
    "deflate",
    "dir",
    "env",
    "filter",
    "mime",
    "negotiation",
    "reqtimeout",
    "setenvif",
    "status",
];

/// The httpd that apxs names, and what its runs need on disk.
pub struct Httpd {
    binary: PathBuf,
    modules: PathBuf,
    apxs: String,
    /// Where a server lives; the name is of one length in every run, because
    /// httpd walks it. Removed at the end.
    root: PathBuf,
    /// Where the profiles stay for `callgrind_annotate`.
    profiles: PathBuf,
}

impl Httpd {
    /// Finds httpd through apxs (the environment's `APXS` overrides) and lays
    /// out its tree.
    pub fn find(profiles: PathBuf) -> Result<Httpd, String> {
        let apxs = match std::env::var("APXS") {
            Ok(apxs) if !apxs.is_empty() => apxs,
            _ => ["apxs", "apxs2"]
                .into_iter()
                .find(|name| output(name, ["-q", "SBINDIR"]).is_ok())
                .ok_or("apxs not found: install apache2-dev (httpd-devel) or set APXS")?
                .to_owned(),
        };
        let ask = |what| output(&apxs, ["-q", what]);
        output("valgrind", ["--version"])
            .map_err(|_| "valgrind not found: install the package valgrind")?;
        let root =
            std::env::temp_dir().join(format!("limitipconn-bench-{:08}", std::process::id()));
        let httpd = Httpd {
            binary: Path::new(&ask("SBINDIR")?).join(ask("progname")?),
            modules: PathBuf::from(ask("LIBEXECDIR")?),
            apxs,
            root,
            profiles,
        };
        httpd
            .lay_out()
            .map_err(|error| format!("cannot write {}: {error}", httpd.root.display()))?;
        Ok(httpd)
    }

    fn lay_out(&self) -> std::io::Result<()> {
        fs::create_dir_all(&self.profiles)?;
        fs::create_dir_all(self.root.join("htdocs/b"))?;
        fs::create_dir_all(self.root.join("run"))?;
        fs::write(self.root.join("htdocs/b/file.txt"), "ok\n")?;
        fs::write(
            self.root.join("mime.types"),
            "text/plain txt\nimage/png png\n",
        )
    }

    /// Compiles the yardstick with apxs and returns its path.
    pub fn compile(&self, source: &str) -> Result<PathBuf, String> {
        let directory = self.profiles.join("yardstick");
        fs::create_dir_all(&directory)
            .and_then(|()| fs::write(directory.join("mod_yardstick.c"), source))
            .map_err(|error| format!("cannot write {}: {error}", directory.display()))?;
        let built = Command::new(&self.apxs)
            .args(["-c", "mod_yardstick.c"])
            .current_dir(&directory)
            .output()
            .map_err(|error| format!("{}: {error}", self.apxs))?;
        if !built.status.success() {
            let why = String::from_utf8_lossy(&built.stderr).into_owned();
            return Err(format!("apxs could not compile the yardstick: {why}"));
        }
        Ok(directory.join(".libs/mod_yardstick.so"))
    }

    /// What a whole server life with this many requests costs.
    pub fn cost(&self, name: &str, slots: u32, lines: &str, requests: u32) -> Result<Cost, String> {
        let port = free_port();
        self.configure(port, slots, lines)
            .map_err(|error| format!("cannot write the configuration: {error}"))?;
        let profile = self.root.join("run/callgrind.out");
        make_writable(&profile).map_err(|error| format!("{}: {error}", profile.display()))?;
        // In one process httpd leaves its pid file and would complain of it.
        let _ = fs::remove_file(self.root.join("run/pid"));
        let mut server = self.start(&profile)?;
        let told = client::converse(port, requests, &mut server);
        let ended = server.stop();
        told.and(ended).map_err(|error| {
            let log = fs::read_to_string(self.root.join("run/error_log")).unwrap_or_default();
            format!(
                "{name}: {error}; its error log:\n{log}{}",
                server.said(&self.root)
            )
        })?;
        let text = fs::read_to_string(&profile)
            .map_err(|error| format!("{name}: callgrind left no result: {error}"))?;
        let _ = fs::write(
            self.profiles
                .join(format!("{name}-{requests}.callgrind.out")),
            &text,
        );
        profile::cost(&text).ok_or_else(|| format!("{name}: callgrind's result cannot be read"))
    }

    fn configure(&self, port: u16, slots: u32, lines: &str) -> std::io::Result<()> {
        let root = self.root.display();
        let loads: String = MODULES.iter().map(|name| self.load(name)).collect();
        let common = format!(
            r##"ServerRoot "{root}"
DefaultRuntimeDir "{root}/run"
PidFile "{root}/run/pid"
ServerName localhost
Listen 127.0.0.1:{port}
User "#65534"
Group "#65534"
{loads}TypesConfig "{root}/mime.types"
DocumentRoot "{root}/htdocs"
ErrorLog "{root}/run/error_log"
LogLevel warn
ServerLimit {slots}
MaxRequestWorkers {slots}
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 60
ExtendedStatus On
FileETag None
<Directory "/">
    AllowOverride None
</Directory>
"##
        );
        fs::write(self.root.join("httpd.conf"), common + lines)
    }

    /// Loads one of httpd's own, unless this httpd has it built in.
    fn load(&self, name: &str) -> String {
        let file = self.modules.join(format!("mod_{name}.so"));
        let file = file.display();
        format!("<IfModule !{name}_module>\nLoadModule {name}_module \"{file}\"\n</IfModule>\n")
    }

    fn start(&self, profile: &Path) -> Result<Server, String> {
        let said = fs::File::create(self.root.join("run/said")).map_err(|e| e.to_string())?;
        let mut out = std::ffi::OsString::from("--callgrind-out-file=");
        out.push(profile);
        let child = Command::new("valgrind")
            .args([
                "--tool=callgrind",
                "--trace-children=no",
                "--instr-atstart=yes",
                // Else it leaves pipes for a debugger in the temporary directory.
                "--vgdb=no",
            ])
            .arg(out)
            .arg(&self.binary)
            .args(["-X", "-f"])
            .arg(self.root.join("httpd.conf"))
            // The environment is copied and searched at start: the same every run.
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .map_err(|error| format!("cannot start valgrind: {error}"))?;
        Ok(Server(child))
    }
}

impl Drop for Httpd {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// The running server; killed when dropped before its end.
pub struct Server(Child);

impl Server {
    /// Whether the process is gone.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// Waits until the server sleeps, which it only does when it waits for its
    /// client. A request that comes earlier or later takes another way through
    /// httpd's input.
    pub fn wait_until_idle(&mut self) -> Result<(), String> {
        let path = format!("/proc/{}/stat", self.0.id());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            match text.rsplit_once(')') {
                Some((_, rest)) if rest.trim_start().starts_with('S') => return Ok(()),
                _ if Instant::now() > deadline => {
                    return Err("never waits for a request".to_owned());
                }
                _ => thread::yield_now(),
            }
        }
    }

    /// Ends the server as an administrator would and waits for its result.
    fn stop(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while !self.has_ended() {
            if Instant::now() > deadline {
                return Err("did not stop".to_owned());
            }
            // A signal just before the server sleeps does not wake it: once more.
            if let Ok(pid) = libc::pid_t::try_from(self.0.id()) {
                // SAFETY: kill takes two numbers and touches no memory of ours; the
                // child is not waited for yet, so the pid is still its own.
                unsafe { libc::kill(pid, libc::SIGTERM) };
            }
            let second = Instant::now() + Duration::from_secs(1);
            while !self.has_ended() && Instant::now() < second {
                thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    fn said(&self, root: &Path) -> String {
        fs::read_to_string(root.join("run/said")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .expect("loopback has a free port")
}

/// An empty file that anybody may write: started as root, httpd has become
/// somebody else when callgrind writes its result.
fn make_writable(profile: &Path) -> std::io::Result<()> {
    fs::write(profile, "")?;
    fs::set_permissions(profile, fs::Permissions::from_mode(0o666))
}

/// What a command prints, without the line end.
fn output<I, S>(command: &str, arguments: I) -> Result<String, String>
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let ran = Command::new(command)
        .args(arguments)
        .output()
        .map_err(|error| format!("{command}: {error}"))?;
    if !ran.status.success() {
        return Err(format!(
            "{command} failed: {}",
            String::from_utf8_lossy(&ran.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
}
