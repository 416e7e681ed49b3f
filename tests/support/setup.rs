//! A server before its start: what it is loaded with and what it says.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::files::{make_dir, temporary_dir};
use super::recipe::Recipe;
use super::server::START_DEADLINE;
use super::{Backend, Httpd, Mpm, base, log};

/// A server that is not started yet. Dropped, its directory is removed.
pub struct Setup {
    recipe: Recipe,
    conf: String,
    environment: Vec<(String, String)>,
    expected: Vec<String>,
    /// What runs the server, with its arguments; nothing: it runs by itself.
    runner: Vec<String>,
    started: bool,
}

/// What `httpd -t` said.
#[derive(Debug)]
pub struct Configtest {
    /// The exit code.
    pub code: i32,
    /// All that it wrote to stderr.
    pub stderr: String,
    /// All that it wrote to stdout.
    pub stdout: String,
}

impl Setup {
    pub(super) fn new(mpm: Mpm) -> Setup {
        let dir = temporary_dir("");
        for part in ["run", "gates", "htdocs"] {
            make_dir(&dir.join(part));
        }
        let recipe = Recipe {
            mpm,
            dir,
            modules: Vec::new(),
            modules_after: Vec::new(),
            ours: true,
            status: true,
            is_named: true,
        };
        let setup = Setup {
            recipe,
            conf: String::new(),
            environment: Vec::new(),
            expected: Vec::new(),
            runner: Vec::new(),
            started: false,
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
        self.recipe
            .modules
            .extend(modules.iter().map(|name| (*name).to_owned()));
        self
    }

    /// As [`Setup::load`], but after our module: httpd asks hooks of one rank in this order.
    #[must_use]
    pub fn load_after(mut self, modules: &[&str]) -> Setup {
        self.recipe
            .modules_after
            .extend(modules.iter().map(|name| (*name).to_owned()));
        self
    }

    /// A virtual host `front.example` whose `/app` is `/hoge` of another one of this server,
    /// `back.example` at `${PORT2}`, with these lines in each; sixty visits at once take all
    /// of its workers.
    #[must_use]
    pub fn proxies_to_itself(self, front: &str, back: &str) -> Setup {
        let pool = if self.recipe.mpm == Mpm::Prefork {
            "StartServers 70\nServerLimit 128\nMaxRequestWorkers 128\nMaxSpareServers 128"
        } else {
            "StartServers 6\nServerLimit 8\nMaxRequestWorkers 128\nMaxSpareThreads 128"
        };
        self.load(&["proxy", "proxy_http"])
            .conf(pool)
            .conf(&format!(
                "Listen 127.0.0.1:${{PORT2}}
                 <VirtualHost *:${{PORT}}>
                     ServerName front.example
                     ProxyPass /app http://127.0.0.1:${{PORT2}}/hoge disablereuse=On
                     {front}
                 </VirtualHost>
                 <VirtualHost *:${{PORT2}}>
                     ServerName back.example
                     {back}
                 </VirtualHost>"
            ))
    }

    /// Makes `${BACKEND}` this backend's port, and its gates the server's.
    #[must_use]
    pub fn backend(self, backend: &Backend) -> Setup {
        backend.wait_at(&self.dir().join("gates"));
        self.conf(&format!("Define BACKEND {}", backend.port()))
    }

    /// Writes a throw-away certificate for localhost: `${TMP}/cert.pem` and `${TMP}/key.pem`.
    #[must_use]
    pub fn certificate(self) -> Setup {
        let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
                       -subj /CN=localhost -addext subjectAltName=DNS:localhost \
                       -addext basicConstraints=critical,CA:FALSE \
                       -keyout key.pem -out cert.pem";
        let made = Command::new("openssl")
            .args(request.split_whitespace())
            .current_dir(self.dir())
            .output()
            .expect("run openssl; install openssl");
        assert!(made.status.success(), "{made:?}");
        self
    }

    /// Sets a variable of the server's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Setup {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lines of the error log that hold this text are no fault.
    #[must_use]
    pub fn expect_log(mut self, text: &str) -> Setup {
        self.expected.push(text.to_owned());
        self
    }

    /// The test kills children. mod_cgid's daemon may die of it: it does not ignore SIGPIPE, and
    /// answers whoever asked it for a script.
    #[must_use]
    pub fn expect_kills(self) -> Setup {
        self.expect_log("exit signal Killed (9)")
            .expect_log("exit signal Broken pipe (13)")
            .expect_log("cgid daemon process died")
    }

    /// Refusals are no fault, and neither is it to leave some of a flood out.
    #[must_use]
    pub fn expect_refusals(self) -> Setup {
        self.expect_log(log::REFUSED).expect_log(log::LEFT_OUT)
    }

    /// Leaves our module out: a control.
    #[must_use]
    pub fn without_module(mut self) -> Setup {
        self.recipe.ours = false;
        self
    }

    /// Leaves the status place out: what is then configured is the test's own lines only.
    #[must_use]
    pub fn without_status(mut self) -> Setup {
        self.recipe.status = false;
        self
    }

    /// Leaves the ServerName of the main server out.
    #[must_use]
    pub fn nameless(mut self) -> Setup {
        self.recipe.is_named = false;
        self
    }

    /// HTTP/2 without TLS, for clients that begin with it.
    #[must_use]
    pub fn over_h2c(self) -> Setup {
        self.load(&["http2"]).conf("Protocols h2c http/1.1")
    }

    /// HTTP/2 over TLS at the second port, beside what it speaks at the first.
    #[must_use]
    pub fn over_tls_too(self) -> Setup {
        self.load(&["ssl", "socache_shmcb"]).certificate().conf(
            "LogLevel ssl:error
             Listen 127.0.0.1:${PORT2}
             <VirtualHost *:${PORT2}>
                 Protocols h2
                 SSLEngine on
                 SSLCertificateFile ${TMP}/cert.pem
                 SSLCertificateKeyFile ${TMP}/key.pem
             </VirtualHost>",
        )
    }

    /// Lets a program run the server, which becomes the server: `valgrind` and its options.
    #[must_use]
    pub fn run_by(mut self, runner: &[&str]) -> Setup {
        self.runner = runner.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// The server's own directory.
    pub fn dir(&self) -> &Path {
        &self.recipe.dir
    }

    fn httpd(&self) -> Command {
        let binary = base::installation().binary.as_os_str();
        let mut words = self.runner.iter().map(OsStr::new).chain([binary]);
        let mut command = Command::new(words.next().expect("the binary, if nothing else"));
        command
            .args(words)
            .arg("-d")
            .arg(self.dir())
            .arg("-f")
            .arg(self.dir().join("httpd.conf"))
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// What `httpd -t` says to this configuration; more arguments may follow it.
    pub fn configtest_with(&self, arguments: &[&str]) -> Configtest {
        self.recipe.write([8080, 8081], &self.conf);
        let said = self
            .httpd()
            .arg("-t")
            .args(arguments)
            .output()
            .expect("run httpd -t");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = said.status.code().unwrap_or(-1);
        Configtest {
            code,
            stderr: text(&said.stderr),
            stdout: text(&said.stdout),
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
            self.recipe.write(ports, &self.conf);
            let mut child = self.spawn();
            match await_start(&mut child, self.dir()) {
                Ok(()) => {
                    self.started = true;
                    let expected = std::mem::take(&mut self.expected);
                    let httpd = Httpd::running(self.recipe.clone(), child, ports, expected);
                    httpd.wait_for_children_besides(&[]);
                    httpd.wait_for_scripts(None);
                    return Ok(httpd);
                }
                // AH00072: somebody took the port between our look and httpd's.
                Err(said) if said.contains("AH00072") => {
                    let _ = fs::remove_file(self.dir().join("error_log"));
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

    /// In a session of its own: httpd signals its whole process group when it stops.
    fn spawn(&self) -> Child {
        let stderr = fs::File::create(self.dir().join("stderr")).expect("create a file");
        let mut command = self.httpd();
        command
            .arg("-DFOREGROUND")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        // A test that dies by a signal cannot drop its guard; the kernel then stops the server.
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
        if !self.started {
            remove_dir(self.dir());
        }
    }
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
    let said = || log::read(&dir.join("stderr")) + &log::read(&dir.join("error_log"));
    loop {
        if said().contains(log::SERVING) {
            return Ok(());
        }
        if child.try_wait().expect("wait for httpd").is_some() {
            return Err(said());
        }
        if start.elapsed() > START_DEADLINE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!(
                "it does not serve after {START_DEADLINE:?}\n{}",
                said()
            ));
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// `LIMITIPCONN_KEEP=1` keeps the directories for a look.
pub(super) fn remove_dir(dir: &Path) {
    if std::env::var_os("LIMITIPCONN_KEEP").is_none() {
        let _ = fs::remove_dir_all(dir);
    }
}
