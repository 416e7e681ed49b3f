//! A backend in threads of the test, for what httpd proxies: plain HTTP/1, requests that wait
//! at a gate, and WebSockets that give back what they get.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// It listens until it is dropped; conversations end with their connections.
///
/// `/hold?GATE` says `started`, waits at the gate, then says `ended`; a request to upgrade to
/// a WebSocket gets one, at any path; all else is answered with `ok`.
pub struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    gates: OnceLock<PathBuf>,
    stop: AtomicBool,
}

impl Backend {
    /// Listens at a free port of 127.0.0.1.
    pub fn start() -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind to a free port");
        let address = listener.local_addr().expect("the address of a listener");
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let listening = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if of_thread.stop.load(Ordering::Relaxed) {
                    return;
                }
                let shared = of_thread.clone();
                // The other end may be gone at any time.
                std::thread::spawn(move || drop(converse(stream, &shared)));
            }
        });
        Backend {
            address,
            shared,
            listening: Some(listening),
        }
    }

    /// The port at which it listens.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Where the gates are at which it waits.
    pub(super) fn wait_at(&self, gates: &Path) {
        let known = self.shared.gates.get_or_init(|| gates.to_owned());
        assert_eq!(known, gates, "a backend belongs to one server");
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // Wakes the listener, so that it looks.
        let woken = TcpStream::connect(self.address);
        if let (Ok(_), Some(listening)) = (woken, self.listening.take()) {
            let _ = listening.join();
        }
    }
}

/// Answers one request after the other.
fn converse(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some((path, upgrade)) = read_request(&mut reader)? {
        let mut writer = reader.get_ref();
        if upgrade {
            // httpd passes the accepted key on and does not look at it.
            writer.write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                  Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
            )?;
            return echo(reader);
        } else if path.starts_with("/hold") {
            writer.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n\
                  8\r\nstarted\n\r\n",
            )?;
            let name = path.split_once('?').map_or("", |(_, name)| name);
            if let Some(gates) = shared.gates.get() {
                wait_at(&gates.join(name));
            }
            writer.write_all(b"6\r\nended\n\r\n0\r\n\r\n")?;
        } else {
            writer.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n",
            )?;
        }
    }
    Ok(())
}

/// The path, and whether a WebSocket is asked for; `None` at the end of the connection.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<(String, bool)>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut upgrade = false;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? <= 2 {
            return Ok(Some((path, upgrade)));
        }
        let line = line.trim_end().to_ascii_lowercase();
        upgrade |= line == "upgrade: websocket";
    }
}

/// Gives back what it gets, until the other end closes.
fn echo(mut reader: BufReader<TcpStream>) -> io::Result<()> {
    let mut bytes = [0; 1024];
    loop {
        let read = reader.read(&mut bytes)?;
        if read == 0 {
            return Ok(());
        }
        reader.get_mut().write_all(&bytes[..read])?;
    }
}

/// Returns when the gate opens; one that is not there is open.
fn wait_at(gate: &Path) {
    if gate.is_file() || gate.is_dir() {
        return;
    }
    if let Ok(mut gate) = std::fs::File::open(gate) {
        let _ = gate.read(&mut [0; 1]);
    }
}
