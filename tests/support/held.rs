//! Requests that stay in flight until the test lets them go.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Connection, Response};

/// A FIFO at which a script waits; it opens when this drops.
///
/// This end stays open for reading and writing, so a script that opens the FIFO waits for a
/// byte that never comes, until the end of the test or of this value closes it.
#[derive(Debug)]
pub struct Gate {
    path: PathBuf,
    end: Option<File>,
}

impl Gate {
    /// A closed gate with a name of its own.
    pub fn new(gates: &Path) -> Gate {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Gate::named(
            gates,
            &format!("gate{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        )
    }

    /// A closed gate with this name.
    pub fn named(gates: &Path, name: &str) -> Gate {
        let path = gates.join(name);
        let text = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())
            .expect("a path without NUL");
        // SAFETY: mkfifo reads the NUL-terminated text of a CString that lives to the end of this function.
        let made = unsafe { libc::mkfifo(text.as_ptr(), 0o644) };
        assert_eq!(
            made,
            0,
            "mkfifo {}: {}",
            path.display(),
            io::Error::last_os_error()
        );
        let end = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .expect("open a FIFO");
        Gate {
            path,
            end: Some(end),
        }
    }

    /// The gate's name: the query of a script that shall wait here.
    pub fn name(&self) -> &str {
        self.path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name in ASCII")
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // First nobody can come to wait any more, then those who wait are woken.
        let _ = fs::remove_file(&self.path);
        drop(self.end.take());
    }
}

/// A response in flight. Dropped, it ends at once: the connection is closed, the script goes on.
pub struct Held {
    connection: Connection,
    head: Response,
    gate: Option<Gate>,
}

impl Held {
    pub(super) fn script(connection: Connection, head: Response, gate: Gate) -> Held {
        Held {
            connection,
            head,
            gate: Some(gate),
        }
    }

    pub(super) fn file(connection: Connection, head: Response) -> Held {
        Held {
            connection,
            head,
            gate: None,
        }
    }

    /// Status and headers of what is held.
    pub fn head(&self) -> &Response {
        &self.head
    }

    /// Lets the response end in good order, reads the rest of it and closes.
    #[track_caller]
    pub fn finish(mut self) -> Response {
        drop(self.gate.take());
        self.connection.body_of(self.head.clone())
    }

    /// Closes with RST, as a client that breaks off. A script goes on waiting until the gate,
    /// which is given back, opens.
    pub fn reset(mut self) -> Option<Gate> {
        let gate = self.gate.take();
        self.connection.reset();
        gate
    }

    /// The connection that carries it.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
