//! A backend whose answers are long, or late, or come by drops.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// It listens until the process ends; `/big` is 20 MB, `/drops?N` is a line every two seconds,
/// N times, `/late?N` answers after so many seconds.
pub struct Source(SocketAddr);

impl Source {
    /// Listens at a free port of 127.0.0.1.
    pub fn start() -> Source {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind to a free port");
        let address = listener.local_addr().expect("the address of a listener");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // The other end may be gone at any time.
                std::thread::spawn(move || drop(converse(&stream)));
            }
        });
        Source(address)
    }

    /// What the configuration says to have it.
    pub fn conf(&self) -> String {
        format!("Define SOURCE {}", self.0.port())
    }
}

fn converse(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let number = query.parse().unwrap_or(1);
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
    match path {
        "/big" => {
            const LENGTH: usize = 20 << 20;
            stream.write_all(format!("{head}Content-Length: {LENGTH}\r\n\r\n").as_bytes())?;
            for _ in 0..LENGTH >> 14 {
                stream.write_all(&[0; 1 << 14])?;
            }
        }
        "/drops" => {
            stream
                .write_all(format!("{head}Content-Type: text/event-stream\r\n\r\n").as_bytes())?;
            for _ in 0..number {
                stream.write_all(b"data: hello\n\n")?;
                std::thread::sleep(Duration::from_secs(2));
            }
        }
        _ => {
            std::thread::sleep(Duration::from_secs(number));
            stream.write_all(format!("{head}Content-Length: 3\r\n\r\nok\n").as_bytes())?;
        }
    }
    Ok(())
}
