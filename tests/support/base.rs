//! Where things lie: the httpd of this system, and the module under test.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The httpd of this system, as apxs tells it.
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
    let found = places.iter().find(|path| path.exists());
    found
        .cloned()
        .unwrap_or_else(|| panic!("no {name} near {}", here.display()))
}
