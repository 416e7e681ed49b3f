//! The configuration of one private server: what every server says, the test's own lines,
//! and the place where the gauge is read.
//!
//! A test's lines come after the common ones, so that they win; the status place comes last.
//! They may use `${PORT}`, `${PORT2}`, `${TMP}`, `${DOCROOT}` and `${LIBEXEC}`.

use std::fs;
use std::path::PathBuf;

use super::base;

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

    /// How many threads a child has when it is ready: on the threaded ones the workers, the
    /// listener and the main thread.
    pub fn threads_of_a_child(self) -> usize {
        match self {
            Mpm::Prefork => 1,
            Mpm::Worker | Mpm::Event => 16 + 2,
        }
    }

    /// Small pools, but roomy enough for a test that holds a dozen requests.
    fn pool(self) -> &'static str {
        match self {
            Mpm::Prefork => {
                "StartServers 4\nMinSpareServers 2\nMaxSpareServers 64\nServerLimit 64\nMaxRequestWorkers 64\n"
            }
            Mpm::Worker | Mpm::Event => {
                "StartServers 2\nServerLimit 16\nThreadLimit 64\nThreadsPerChild 16\nMaxRequestWorkers 64\n\
                 MinSpareThreads 8\nMaxSpareThreads 64\n"
            }
        }
    }
}

/// What a server is made of, but for its ports and the test's own lines.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Its MPM.
    pub mpm: Mpm,
    /// Its own directory.
    pub dir: PathBuf,
    /// Modules beyond those that every server has.
    pub modules: Vec<String>,
    /// Those that are loaded after ours.
    pub modules_after: Vec<String>,
    /// Whether our module is loaded.
    pub ours: bool,
    /// Whether it has the place where the gauge is read.
    pub status: bool,
    /// Whether the main server has a ServerName.
    pub is_named: bool,
}

/// Modules that every server has; mod_cgi or mod_cgid comes with the MPM.
const MODULES: &[&str] = &[
    "authn_core",
    "authz_core",
    "authz_host",
    "unixd",
    "log_config",
    "env",
    "mime",
    "dir",
    "alias",
];

const COMMON: &str = "
DefaultRuntimeDir ${TMP}/run
Mutex file:${TMP}/run default
PidFile ${TMP}/run/httpd.pid
ErrorLog ${TMP}/error_log
LogLevel warn
Timeout 300
KeepAliveTimeout 30
MaxKeepAliveRequests 0
DocumentRoot ${DOCROOT}
<Directory />
    AllowOverride None
    Require all denied
</Directory>
<Directory ${DOCROOT}>
    Options +ExecCGI +FollowSymLinks
    AddHandler cgi-script .cgi
    Require all granted
</Directory>
";

/// Free of directory rules, so that it can be read whatever is held.
const STATUS: &str = "
IPLimitStatusPage On
<Location /limit-status>
    SetHandler limitipconn-status
    MaxConnPerIP off
    Require all granted
</Location>
";

impl Recipe {
    /// Writes `httpd.conf` with these ports and lines.
    pub fn write(&self, ports: [u16; 2], lines: &str) {
        let text = self.opening(ports)
            + COMMON
            + lines
            + if self.ours && self.status { STATUS } else { "" };
        fs::write(self.dir.join("httpd.conf"), text).expect("write httpd.conf");
    }

    /// Definitions, modules, user and pool.
    fn opening(&self, [port, port2]: [u16; 2]) -> String {
        let found = base::installation();
        let (tmp, libexec) = (self.dir.display(), found.libexec.display());
        let mut text = format!(
            "Define PORT {port}\nDefine PORT2 {port2}\nDefine TMP {tmp}\nDefine DOCROOT {tmp}/htdocs\n\
             Define LIBEXEC {libexec}\nServerRoot {tmp}\nListen 127.0.0.1:{port}\n"
        );
        if self.is_named {
            text += &format!("ServerName localhost:{port}\n");
        }
        let (mpm, cgi) = match self.mpm {
            Mpm::Prefork => ("mpm_prefork", "cgi"),
            Mpm::Worker => ("mpm_worker", "cgid"),
            Mpm::Event => ("mpm_event", "cgid"),
        };
        // Some builds have some of them linked in.
        let load = |name: &str| {
            format!(
                "<IfModule !{name}_module>\nLoadModule {name}_module {libexec}/mod_{name}.so\n</IfModule>\n"
            )
        };
        let common = MODULES.iter().copied().chain([mpm, cgi]);
        text.extend(
            common
                .chain(self.modules.iter().map(String::as_str))
                .map(load),
        );
        if self.ours {
            text += &format!(
                "LoadModule limitipconn_module {}\n",
                base::module().display()
            );
        }
        text.extend(self.modules_after.iter().map(|name| load(name)));
        if cgi == "cgid" {
            text += "ScriptSock ${TMP}/run/cgid.sock\n";
        }
        // SAFETY: geteuid takes nothing and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            text += "User www-data\nGroup www-data\n";
        }
        if let Some(types) = &found.mime_types {
            text += &format!("TypesConfig {}\n", types.display());
        }
        text + self.mpm.pool()
    }
}
