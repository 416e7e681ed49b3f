//! `IPLimitRedis` as the configuration keeps it. The password is in it, so it cannot be shown.

use std::fs::File;
use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::httpd::command::Command;
use crate::httpd::pool::Pool;
use crate::limit::fleet::{OnFailure, Password, Patience};
use crate::limit::syntax::{self, Endpoint};
#[cfg(feature = "redis")]
use crate::store::redis::{Dialer, Target};

/// What a password file may hold.
const LONGEST: u64 = 4096;

/// Where the shared counts are, and how they are asked.
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "nobody connects"))]
pub struct Redis<'p> {
    /// The URL as it may be shown.
    pub shown: &'p str,
    /// `on-failure=`
    pub on_failure: OnFailure,
    /// `timeout=`, `connect=` and `lease=`
    pub patience: Patience,
    host: &'p str,
    /// 0 for a socket of this machine, whose path then is the host.
    port: u16,
    tls: bool,
    user: Option<&'p str>,
    password: Option<&'p str>,
    database: u32,
    prefix: &'p str,
    /// The line that said it.
    pub line: u32,
    /// Its file.
    pub file: &'p str,
}

impl<'p> Redis<'p> {
    /// What the directive says; reads the file of the password.
    pub fn read(command: Command<'p>, arguments: &str) -> Result<&'p Redis<'p>, String> {
        if cfg!(not(feature = "redis")) {
            return Err(String::from(
                "this module was built without Redis; build it with the feature \"redis\"",
            ));
        }
        let said = syntax::redis(arguments).map_err(|fault| fault.to_string())?;
        let pool = command.pool();
        let password = match &said.password_file {
            Some(path) => Some(password_of(command, path)?),
            None => said.password,
        };
        let (host, port, tls) = match &said.endpoint {
            Endpoint::Tcp { host, port, tls } => (host.as_str(), *port, *tls),
            Endpoint::Unix(path) => (path.as_str(), 0, false),
        };
        let node = command.node();
        command.hide_arguments(&syntax::without_password(arguments));
        let words = crate::limit::arguments::words(arguments).unwrap_or_default();
        let url = words.first().map(|url| syntax::without_password(url));
        Ok(pool.alloc(Redis {
            shown: pool.text(&crate::report::printable::printable(
                &url.unwrap_or_default(),
            )),
            on_failure: said.on_failure,
            patience: said.patience,
            host: pool.text(host),
            port,
            tls,
            user: said.user.as_ref().map(|user| pool.text(user)),
            password: password
                .as_ref()
                .map(|password| pool.text(password.expose())),
            database: said.database,
            prefix: pool.text(&said.prefix),
            line: node.map_or(0, |node| node.line()),
            file: node.map_or("", |node| pool.text(&node.file())),
        }))
    }

    /// What its name means now. `Err` is why it means nothing.
    pub fn resolve(&self, pool: Pool<'p>) -> Result<&'p [SocketAddr], String> {
        if self.port == 0 {
            return Ok(&[]);
        }
        match (self.host, self.port).to_socket_addrs() {
            Ok(found) => Ok(pool.slice(found.collect::<Vec<_>>().into_iter())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// How a child gets there.
    #[cfg(feature = "redis")]
    pub fn dialer(&self, addresses: &[SocketAddr]) -> Dialer {
        Dialer {
            target: match self.port {
                0 => Target::Unix(self.host.into()),
                port => Target::Tcp {
                    host: self.host.to_owned(),
                    port,
                    tls: self.tls,
                    addresses: addresses.to_vec(),
                },
            },
            user: self.user.map(str::to_owned),
            password: self.password.map(|text| Password::new(text.to_owned())),
            database: self.database,
            prefix: self.prefix.to_owned(),
            patience: self.patience,
            is_stale: false,
        }
    }
}

/// The first line of a file that nobody else may read or write.
fn password_of(command: Command<'_>, written: &str) -> Result<Password, String> {
    let wrong = |why: String| format!("password-file=\"{written}\" {why}");
    let path = command
        .path(written)
        .ok_or_else(|| wrong(String::from("is no path")))?;
    let text = read_private(&path).map_err(wrong)?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(Password::new(line.to_owned())),
        None => Err(wrong(String::from(
            "has an empty first line; the password belongs there",
        ))),
    }
}

fn read_private(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    // Looked at after it was opened, so that it is the same file that is read.
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(String::from("is no file"));
    }
    if metadata.mode() & 0o027 != 0 {
        return Err(format!(
            "may be read by others, or written by its group (mode {:o}); use chmod 600, or 640 for a group of readers",
            metadata.mode() & 0o777
        ));
    }
    let mut text = String::new();
    file.take(LONGEST)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok(text)
}
