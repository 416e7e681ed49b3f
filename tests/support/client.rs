//! Raw HTTP/1 clients: they choose their address and buffers, send what they like, and can
//! hold a response, drop it or reset it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::{DEADLINE, Gate, Held, Response};

/// The smallest receive buffer that the kernel gives; the sender then fills its own.
pub const TINY: usize = 1024;

/// A client with an address of its own.
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) server: SocketAddr,
    pub(super) source: IpAddr,
    pub(super) receive_buffer: Option<usize>,
    pub(super) headers: String,
    pub(super) preface: String,
    pub(super) gates: std::path::PathBuf,
}

/// One connection of a client.
pub struct Connection {
    reader: BufReader<TcpStream>,
    headers: String,
}

impl Client {
    /// The same client with one more header in each request.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Client {
        self.headers += &format!("{name}: {value}\r\n");
        self
    }

    /// The same client at another port of this server.
    #[must_use]
    pub fn at_port(mut self, port: u16) -> Client {
        self.server.set_port(port);
        self
    }

    /// The same client behind a proxy that says so by the PROXY protocol, version 1: each
    /// connection begins with the line that names `source` as the true client.
    #[must_use]
    pub fn through_proxy_protocol(mut self, source: &str) -> Client {
        let family = if source.contains(':') { "TCP6" } else { "TCP4" };
        let (here, port) = (self.server.ip(), self.server.port());
        self.preface = format!("PROXY {family} {source} {here} 49152 {port}\r\n");
        self
    }

    /// The same client with the smallest receive buffer.
    #[must_use]
    pub fn with_tiny_buffer(mut self) -> Client {
        self.receive_buffer = Some(TINY);
        self
    }

    /// Connects; the error is the caller's when the server may be away.
    pub fn try_connect(&self) -> io::Result<Connection> {
        let mut connection = Connection {
            reader: BufReader::with_capacity(4096, self.socket()?),
            headers: self.headers.clone(),
        };
        connection.try_send(&self.preface)?;
        Ok(connection)
    }

    /// A connection on which nothing was sent yet.
    pub fn socket(&self) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(self.server), Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(self.source, 0).into())?;
        if let Some(size) = self.receive_buffer {
            socket.set_recv_buffer_size(size)?;
        }
        socket.connect_timeout(&self.server.into(), DEADLINE)?;
        socket.set_read_timeout(Some(DEADLINE))?;
        socket.set_write_timeout(Some(DEADLINE))?;
        socket.set_tcp_nodelay(true)?;
        Ok(socket.into())
    }

    /// Connects.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        self.try_connect()
            .unwrap_or_else(|e| panic!("connect from {} to {}: {e}", self.source, self.server))
    }

    /// One GET on a connection of its own, closed after it.
    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        self.try_get(path)
            .unwrap_or_else(|e| panic!("GET {path} from {}: {e}", self.source))
    }

    /// As [`Client::get`]; the error is the caller's.
    pub fn try_get(&self, path: &str) -> io::Result<Response> {
        let mut connection = self.try_connect()?;
        connection.try_send(connection.request("GET", path, "Connection: close\r\n"))?;
        let response = connection.try_response()?;
        // The server's FIN says that it is done with the connection, not only with the response.
        io::copy(&mut connection.reader, &mut io::sink())?;
        Ok(response)
    }

    /// The status of one GET.
    #[track_caller]
    pub fn status(&self, path: &str) -> u16 {
        self.get(path).status
    }

    /// One request by any method on a connection of its own, closed after it; `more` are whole
    /// lines with CRLF.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, more: &str) -> Response {
        let mut connection = self.connect();
        connection.send(connection.request(method, path, &format!("Connection: close\r\n{more}")));
        let head = connection.head();
        match method {
            "HEAD" => head,
            _ => connection.body_of(head),
        }
    }

    /// One POST on a connection of its own, closed after it.
    #[track_caller]
    pub fn post(&self, path: &str, body: &str) -> Response {
        let mut connection = self.connect();
        let length = format!("Connection: close\r\nContent-Length: {}\r\n", body.len());
        connection.send(connection.request("POST", path, &length) + body);
        connection.response()
    }

    /// Sends a GET for a script that waits, and returns once it is in flight: it has answered
    /// `started`, and waits until the guard is finished or dropped. A refusal is the error.
    #[track_caller]
    pub fn try_hold(&self, path: &str) -> Result<Held, Response> {
        let gate = Gate::new(&self.gates);
        let mut connection = self.connect();
        let request = connection.request(
            "GET",
            &format!("{path}?{}", gate.name()),
            "Connection: close\r\n",
        );
        connection.send(request);
        let mut head = connection.head();
        if head.status != 200 {
            head.read_body(&mut connection.reader)
                .expect("the body of a refusal");
            return Err(head);
        }
        let started = if head.header("transfer-encoding").is_some() {
            super::response::read_chunk(&mut connection.reader)
                .expect("first output of the script")
                .unwrap_or_default()
        } else {
            let mut line = Vec::new();
            connection
                .reader
                .read_until(b'\n', &mut line)
                .expect("first output of the script");
            line
        };
        assert_eq!(
            String::from_utf8_lossy(&started),
            "started\n",
            "{path} is no script that waits"
        );
        Ok(Held::script(connection, head, gate))
    }

    /// As [`Client::try_hold`]; panics on a refusal.
    #[track_caller]
    pub fn hold(&self, path: &str) -> Held {
        self.try_hold(path).unwrap_or_else(|refused| {
            panic!("{path} was not admitted for {}: {refused:?}", self.source)
        })
    }

    /// Asks for a file larger than what the kernel buffers, through a tiny receive buffer, and
    /// reads the head only: the response is in flight for as long as the guard lives.
    #[track_caller]
    pub fn try_read_slowly(&self, path: &str) -> Result<Held, Response> {
        let mut connection = self.clone().with_tiny_buffer().connect();
        connection.send(connection.request("GET", path, "Connection: close\r\n"));
        let mut head = connection.head();
        if !matches!(head.status, 200 | 206) {
            head.read_body(&mut connection.reader)
                .expect("the body of a refusal");
            return Err(head);
        }
        Ok(Held::file(connection, head))
    }

    /// As [`Client::try_read_slowly`]; panics on a refusal.
    #[track_caller]
    pub fn read_slowly(&self, path: &str) -> Held {
        self.try_read_slowly(path).unwrap_or_else(|refused| {
            panic!("{path} was not admitted for {}: {refused:?}", self.source)
        })
    }
}

impl Connection {
    /// The text of a request with this client's headers; `more` are whole lines with CRLF.
    pub fn request(&self, method: &str, path: &str, more: &str) -> String {
        let says_host = self.headers.lines().any(|line| line.starts_with("Host:"));
        let host = if says_host || more.contains("Host:") {
            ""
        } else {
            "Host: localhost\r\n"
        };
        format!(
            "{method} {path} HTTP/1.1\r\n{host}{}{more}\r\n",
            self.headers
        )
    }

    /// Sends bytes as they are.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes.as_ref())
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("send to the server");
    }

    /// A GET that leaves the connection open.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Response {
        self.send(self.request("GET", path, ""));
        self.response()
    }

    /// Reads status line and headers of the next response.
    #[track_caller]
    pub fn head(&mut self) -> Response {
        Response::read_head(&mut self.reader).expect("the head of a response")
    }

    /// Reads the next response to its end.
    pub fn try_response(&mut self) -> io::Result<Response> {
        let mut response = Response::read_head(&mut self.reader)?;
        response.read_body(&mut self.reader)?;
        Ok(response)
    }

    /// Reads the next response to its end.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.try_response().expect("a response")
    }

    /// Waits until the server closes it, which must not send a byte before that.
    #[track_caller]
    pub fn is_closed_without_a_byte(&mut self) {
        let mut bytes = Vec::new();
        match self.reader.read_to_end(&mut bytes) {
            Ok(_) => {}
            // What the server has not read makes its close a reset.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("it is not closed: {error}"),
        }
        assert_eq!(String::from_utf8_lossy(&bytes), "");
    }

    /// Reads the rest of a body whose head was read.
    #[track_caller]
    pub fn body_of(&mut self, mut head: Response) -> Response {
        head.read_body(&mut self.reader)
            .expect("the body of a response");
        head
    }

    /// The stream under the reader, for what only a socket can do.
    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// The reader, for what is not HTTP/1.
    pub fn reader(&mut self) -> &mut BufReader<TcpStream> {
        &mut self.reader
    }

    /// This end of the connection, as the server sees its client.
    pub fn local(&self) -> SocketAddr {
        self.stream()
            .local_addr()
            .expect("the address of a connection")
    }

    /// Closes with RST: what the server sends from now on fails.
    pub fn reset(self) {
        let socket = Socket::from(self.reader.into_inner());
        socket
            .set_linger(Some(Duration::ZERO))
            .expect("linger of 0");
    }
}
