//! Tunnels through httpd: a WebSocket, or what CONNECT opens.

use super::{Client, Connection, Response};

/// An open tunnel. Dropped, its connection is closed.
pub struct Tunnel {
    connection: Connection,
    head: Response,
}

impl Client {
    /// Opens a WebSocket; any answer but 101 is the error.
    #[track_caller]
    pub fn try_websocket(&self, path: &str) -> Result<Tunnel, Response> {
        let mut connection = self.connect();
        let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        connection.send(connection.request("GET", path, upgrade));
        Tunnel::accepted(connection, 101)
    }

    /// As [`Client::try_websocket`]; panics on a refusal.
    #[track_caller]
    pub fn websocket(&self, path: &str) -> Tunnel {
        self.try_websocket(path)
            .unwrap_or_else(|refused| panic!("{path} opened no WebSocket: {refused:?}"))
    }

    /// Opens a tunnel to this port of 127.0.0.1 by CONNECT; any answer but 200 is the error.
    #[track_caller]
    pub fn try_connect_to(&self, port: u16) -> Result<Tunnel, Response> {
        let mut connection = self.connect();
        let place = format!("127.0.0.1:{port}");
        let request = connection.request("CONNECT", &place, &format!("Host: {place}\r\n"));
        connection.send(request);
        Tunnel::accepted(connection, 200)
    }

    /// As [`Client::try_connect_to`]; panics on a refusal.
    #[track_caller]
    pub fn connect_to(&self, port: u16) -> Tunnel {
        self.try_connect_to(port)
            .unwrap_or_else(|refused| panic!("no tunnel to port {port}: {refused:?}"))
    }
}

impl Tunnel {
    fn accepted(mut connection: Connection, status: u16) -> Result<Tunnel, Response> {
        let head = connection.head();
        if head.status == status {
            Ok(Tunnel { connection, head })
        } else {
            Err(connection.body_of(head))
        }
    }

    /// Status and headers with which it opened.
    pub fn head(&self) -> &Response {
        &self.head
    }

    /// What is said through the tunnel.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Sends a text to a backend that gives it back, and waits for it.
    #[track_caller]
    pub fn echoes(&mut self, text: &str) {
        self.connection.send(text);
        let mut back = vec![0; text.len()];
        std::io::Read::read_exact(self.connection.reader(), &mut back).expect("the echo");
        assert_eq!(String::from_utf8_lossy(&back), text);
    }

    /// Closes with RST, as a client that is cut off.
    pub fn reset(self) {
        self.connection.reset();
    }
}
