//! An HTTP/2 client by hand: it sends frames as it likes, a byte at a time or half of them, and
//! sees each frame that comes.

// Each test file compiles this module on its own and uses its own part of it.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use super::support::Client;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PRIORITY: u8 = 0x20;

/// A window that nothing here fills.
pub const WIDE: u32 = 1 << 30;

/// A frame as it is sent.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The head of a GET: :method GET, :scheme http; :path and :authority as they are (RFC 7541).
pub fn head(path: &str) -> Vec<u8> {
    let mut head = vec![0x82, 0x86, 0x04, path.len() as u8];
    head.extend(path.bytes());
    head.extend([0x01, 9]);
    head.extend(b"localhost");
    head
}

/// A frame that came.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn is(&self, kind: u8, stream: u32) -> bool {
        (self.kind, self.stream) == (kind, stream)
    }

    pub fn is_end_of(&self, stream: u32) -> bool {
        let can_end = matches!(self.kind, DATA | HEADERS);
        can_end && self.stream == stream && self.flags & END_STREAM != 0
    }
}

/// One connection.
pub struct Raw {
    input: Box<dyn Read + Send>,
    output: Box<dyn Write + Send>,
    tls: Option<Child>,
}

impl Raw {
    /// Begins by prior knowledge. Each stream that gets no window stalls after so many bytes of
    /// its body; all together never do.
    #[track_caller]
    pub fn connect(client: &Client, window: u32) -> Raw {
        let socket = client.socket().expect("connect");
        let input = Box::new(socket.try_clone().expect("a second handle of a socket"));
        Raw::begin(input, Box::new(socket), None, window)
    }

    /// The same over TLS, at this port.
    #[track_caller]
    pub fn connect_tls(port: u16, window: u32) -> Raw {
        let mut child = Command::new("openssl")
            .args(["s_client", "-quiet", "-alpn", "h2", "-connect"])
            .arg(format!("127.0.0.1:{port}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("run openssl; install openssl");
        let input = Box::new(child.stdout.take().expect("what it reads"));
        let output = Box::new(child.stdin.take().expect("what it sends"));
        Raw::begin(input, output, Some(child), window)
    }

    #[track_caller]
    fn begin(
        input: Box<dyn Read + Send>,
        output: Box<dyn Write + Send>,
        tls: Option<Child>,
        window: u32,
    ) -> Raw {
        let mut raw = Raw { input, output, tls };
        let window = [[0, 4].as_slice(), &window.to_be_bytes()].concat();
        let bytes = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            frame(SETTINGS, 0, 0, &window),
            frame(WINDOW_UPDATE, 0, 0, &WIDE.to_be_bytes()),
        ];
        raw.send(&bytes.concat());
        raw
    }

    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        let sent = self.output.write_all(bytes);
        sent.and_then(|()| self.output.flush()).expect("send");
    }

    /// Sends each byte by itself.
    #[track_caller]
    pub fn send_in_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.send(&[*byte]);
        }
    }

    #[track_caller]
    pub fn get(&mut self, stream: u32, path: &str) {
        let flags = END_STREAM | END_HEADERS;
        self.send(&frame(HEADERS, flags, stream, &head(path)));
    }

    /// Lets the server send so many bytes more on a stream.
    #[track_caller]
    pub fn grant(&mut self, stream: u32, bytes: u32) {
        self.send(&frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()));
    }

    /// Waits for the next frame.
    #[track_caller]
    pub fn next(&mut self) -> Frame {
        let mut header = [0; 9];
        self.input.read_exact(&mut header).expect("a frame");
        let [a, b, c, kind, flags, stream @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.input.read_exact(&mut payload).expect("a whole frame");
        Frame {
            kind,
            flags,
            stream: u32::from_be_bytes(stream),
            payload,
        }
    }

    /// Waits for a frame; those before it are left out.
    #[track_caller]
    pub fn wait_for(&mut self, is_it: impl Fn(&Frame) -> bool) -> Frame {
        loop {
            let frame = self.next();
            if is_it(&frame) {
                return frame;
            }
        }
    }

    /// Reads what the server sends at this rate and does nothing else.
    pub fn read_at(&mut self, rate: usize) {
        let mut piece = vec![0; rate / 20];
        let read = self.input.read(&mut piece).expect("more");
        std::thread::sleep(std::time::Duration::from_millis(
            (read * 1000 / rate) as u64,
        ));
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(mut child) = self.tls.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
