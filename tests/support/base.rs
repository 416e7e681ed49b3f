//! What every private server says before the test's own lines: where things lie,
//! which modules are loaded, how many workers there are.
//!
//! A test's lines come after these, so that they win; the status place comes last.
//! Test configurations may use `${PORT}`, `${PORT2}`, `${TMP}`, `${DOCROOT}` and `${LIBEXEC}`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::Mpm;

/// Where the httpd of this system lies, as apxs tells it.
pub struct Installation {
    /// The server's binary.
    pub binary: PathBuf,
    /// Where its modules lie.
    pub libexec: PathBuf,
    /// Its mime.types, if one was found.
    pub mime_types: Option<PathBuf>,
}

/// The httpd to test with: the one of `$APXS`, or of the apxs in the path.
pub fn installation() -> &'static Installation {
    static FOUND: OnceLock<Installation> = OnceLock::new();
    FOUND.get_or_init(|| {
        let apxs = std::env::var("APXS").unwrap_or_else(|_| "apxs".into());
        let ask = |what: &str| {
            let said = Command::new(&apxs).args(["-q", what]).output();
            let said =
                said.unwrap_or_else(|e| panic!("cannot run {apxs}: {e}; install apache2-dev"));
            PathBuf::from(String::from_utf8_lossy(&said.stdout).trim())
        };
        let types = [
            ask("SYSCONFDIR").join("mime.types"),
            "/etc/mime.types".into(),
        ];
        Installation {
            binary: ask("SBINDIR").join(ask("PROGNAME")),
            libexec: ask("LIBEXECDIR"),
            mime_types: types.into_iter().find(|path| path.exists()),
        }
    })
}

/// The module under test. cargo puts the cdylib of a test into PROFILE/deps, beside the test's
/// own executable; an example lies in PROFILE/examples.
pub fn module() -> PathBuf {
    let name = "libmod_limitipconn.so";
    let own = std::env::current_exe().expect("the path of this executable");
    let here = own.parent().expect("the directory of this executable");
    let places = [
        here.join(name),
        here.join("../deps").join(name),
        here.join("..").join(name),
    ];
    places
        .iter()
        .find(|path| path.exists())
        .cloned()
        .unwrap_or_else(|| panic!("no {name} near {}", here.display()))
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

/// Small pools, but roomy enough for a test that holds a dozen requests.
fn pool(mpm: Mpm) -> &'static str {
    match mpm {
        Mpm::Prefork => {
            "StartServers 4\nMinSpareServers 2\nMaxSpareServers 64\nServerLimit 64\nMaxRequestWorkers 64"
        }
        Mpm::Worker | Mpm::Event => {
            "StartServers 2\nServerLimit 4\nThreadLimit 64\nThreadsPerChild 16\nMaxRequestWorkers 64\n\
             MinSpareThreads 8\nMaxSpareThreads 64"
        }
    }
}

/// The lines before the test's own.
pub fn opening(
    mpm: Mpm,
    dir: &Path,
    ports: [u16; 2],
    extra: &[String],
    ours: bool,
    user: bool,
) -> String {
    let found = installation();
    let libexec = found.libexec.display();
    let load = |name: &str| {
        format!(
            "<IfModule !{name}_module>\nLoadModule {name}_module {libexec}/mod_{name}.so\n</IfModule>\n"
        )
    };
    let mut text = format!(
        "Define PORT {}\nDefine PORT2 {}\nDefine TMP {tmp}\nDefine DOCROOT {tmp}/htdocs\nDefine LIBEXEC {libexec}\n\
         ServerRoot {tmp}\nServerName localhost:{}\nListen 127.0.0.1:{}\n",
        ports[0],
        ports[1],
        ports[0],
        ports[0],
        tmp = dir.display(),
    );
    text += &load(&format!("mpm_{}", mpm.name()));
    let cgi = if mpm == Mpm::Prefork { "cgi" } else { "cgid" };
    for name in MODULES
        .iter()
        .copied()
        .chain([cgi])
        .chain(extra.iter().map(String::as_str))
    {
        text += &load(name);
    }
    if ours {
        text += &format!("LoadModule limitipconn_module {}\n", module().display());
    }
    if cgi == "cgid" {
        text += "ScriptSock ${TMP}/run/cgid.sock\n";
    }
    if user {
        text += "User www-data\nGroup www-data\n";
    }
    if let Some(types) = &found.mime_types {
        text += &format!("TypesConfig {}\n", types.display());
    }
    text += pool(mpm);
    text += "
DefaultRuntimeDir ${TMP}/run
Mutex file:${TMP}/run default
PidFile ${TMP}/run/httpd.pid
ErrorLog ${TMP}/error_log
LogLevel warn
Timeout 60
KeepAliveTimeout 30
MaxKeepAliveRequests 0
GracefulShutdownTimeout 5
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
    text
}

/// The lines after the test's own: the place where the gauge is read, free of directory rules.
pub const STATUS: &str = "
IPLimitStatusPage On
<Location /limit-status>
    SetHandler limitipconn-status
    MaxConnPerIP off
    Require all granted
</Location>
";
