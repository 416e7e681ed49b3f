//! The client of the instruction bench: one keep-alive connection, one request
//! after the other, each sent when the server waits for it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::httpd::{PATIENCE, Server};

/// GET of the file of three bytes.
const REQUEST: &[u8] = b"GET /b/file.txt HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n\r\n";

/// One connection, exactly this many requests, each answered by the file.
pub fn converse(port: u16, requests: u32, server: &mut Server) -> Result<(), String> {
    let mut stream = connect(port, server)?;
    let mut answer = Vec::with_capacity(1024);
    for number in 1..=requests {
        server.wait_until_idle()?;
        stream
            .write_all(REQUEST)
            .and_then(|()| read_answer(&mut stream, &mut answer))
            .map_err(|error| format!("request {number}: {error}"))?;
        if !answer.starts_with(b"HTTP/1.1 200 ") {
            let head = String::from_utf8_lossy(&answer).into_owned();
            return Err(format!("request {number} was answered: {head}"));
        }
    }
    // Once idle again, the server waits for a connection and can be stopped.
    drop(stream);
    server.wait_until_idle()
}

/// Waits until the server listens. Refused attempts never reach it, so the
/// first connection that is made is also the only one that it sees.
fn connect(port: u16, server: &mut Server) -> Result<TcpStream, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => {
                let set = stream
                    .set_nodelay(true)
                    .and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
                return set.map(|()| stream).map_err(|error| error.to_string());
            }
            Err(_) if server.has_ended() => return Err("did not start".to_owned()),
            Err(error) if Instant::now() > deadline => return Err(error.to_string()),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Reads up to the end of the three bytes behind the header.
fn read_answer(stream: &mut TcpStream, answer: &mut Vec<u8>) -> std::io::Result<()> {
    answer.clear();
    let mut piece = [0; 1024];
    loop {
        let got = stream.read(&mut piece)?;
        if got == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&piece[..got]);
        if answer.ends_with(b"\r\n\r\nok\n") || !answer.starts_with(b"HTTP/1.1 200 ") {
            return Ok(());
        }
    }
}
