//! An HTTP/2 client over plain TCP, by prior knowledge: it chooses its address, opens streams,
//! holds, cancels or stalls each of them, and drops or resets the connection under them.
//!
//! A task beside the test keeps each connection going, so that nothing waits for the test to
//! look. What is not read grants no window.

use std::future::Future;
use std::io::Cursor;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use h2::client::{ResponseFuture, SendRequest};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use socket2::SockRef;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::{Client, DEADLINE, Response};

/// The connection's window: no stream that is not read holds up another.
const CONNECTION_WINDOW: u32 = 16 << 20;

type Body = Cursor<Vec<u8>>;

/// One connection. Dropped, it is closed at once, whatever its streams do.
pub struct H2 {
    requests: SendRequest<Body>,
    pings: Mutex<PingPong>,
    task: Option<JoinHandle<()>>,
    socket: TcpStream,
    headers: Vec<(String, String)>,
}

/// One request of a connection. Dropped before its end, it is cancelled by RST_STREAM.
pub struct Stream {
    sending: SendStream<Body>,
    response: Option<ResponseFuture>,
    head: Option<(Response, RecvStream)>,
}

impl Client {
    /// Connects by prior knowledge.
    #[track_caller]
    pub fn h2(&self) -> H2 {
        self.h2_with_window(65_535)
    }

    /// As [`Client::h2`]; each stream that is not read stalls after so many bytes of its body.
    #[track_caller]
    pub fn h2_with_window(&self, window: u32) -> H2 {
        let socket = self
            .socket()
            .unwrap_or_else(|e| panic!("connect from {} to {}: {e}", self.source, self.server));
        socket.set_nonblocking(true).expect("a nonblocking socket");
        let driven = socket.try_clone().expect("a second handle of a socket");
        let stream = {
            let _within = runtime().enter();
            tokio::net::TcpStream::from_std(driven).expect("a socket for tokio")
        };
        let begin = async {
            let mut settings = h2::client::Builder::new();
            settings.initial_window_size(window);
            settings.initial_connection_window_size(CONNECTION_WINDOW);
            settings.enable_push(false);
            settings.handshake(stream).await
        };
        let (requests, mut connection) = wait(begin).expect("the start of HTTP/2");
        let pings = connection.ping_pong().expect("the pings of a connection");
        // How it ends is seen by the streams.
        let task = runtime().spawn(async { drop(connection.await) });
        let lines = self
            .headers
            .lines()
            .filter_map(|line| line.split_once(": "));
        H2 {
            requests,
            pings: Mutex::new(pings),
            task: Some(task),
            socket,
            headers: lines
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect(),
        }
    }
}

impl H2 {
    /// Sends a GET; what comes of it is the stream's.
    #[track_caller]
    pub fn open(&self, path: &str) -> Stream {
        self.try_open("GET", path, true)
            .unwrap_or_else(|e| panic!("GET {path}: {e}"))
    }

    /// Sends a GET and waits for the head of its answer, which is 200.
    #[track_caller]
    pub fn download(&self, path: &str) -> Stream {
        let mut stream = self.open(path);
        assert_eq!(stream.status(), 200, "{path}");
        stream
    }

    /// Sends so many GETs at once.
    #[track_caller]
    pub fn open_many(&self, number: usize, path: &str) -> Vec<Stream> {
        (0..number).map(|_| self.open(path)).collect()
    }

    /// Sends the head of a POST, whose body is then sent by [`Stream::send`].
    #[track_caller]
    pub fn upload(&self, path: &str) -> Stream {
        self.try_open("POST", path, false)
            .unwrap_or_else(|e| panic!("POST {path}: {e}"))
    }

    /// Opens a stream; the error tells that the connection has ended.
    pub fn try_open(&self, method: &str, path: &str, no_body: bool) -> Result<Stream, String> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("http://localhost{path}"));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(()).expect("a request");
        let mut requests = wait(self.requests.clone().ready())?;
        let (response, sending) = requests
            .send_request(request, no_body)
            .map_err(|e| e.to_string())?;
        Ok(Stream {
            sending,
            response: Some(response),
            head: None,
        })
    }

    /// One GET, read to its end.
    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        self.open(path).finish()
    }

    /// The status of one GET.
    #[track_caller]
    pub fn status(&self, path: &str) -> u16 {
        self.get(path).status
    }

    /// Sends a PING and waits for its answer: the server has then looked at this connection.
    pub fn try_ping(&self) -> Result<(), String> {
        let mut pings = self.pings.lock().map_err(|e| e.to_string())?;
        wait(pings.ping(Ping::opaque())).map(drop)
    }

    /// This end of the connection, as the server sees its client.
    pub fn local(&self) -> SocketAddr {
        self.socket
            .local_addr()
            .expect("the address of a connection")
    }

    /// Ends the connection with RST.
    pub fn reset(self) {
        SockRef::from(&self.socket)
            .set_linger(Some(Duration::ZERO))
            .expect("linger of 0");
    }
}

impl Drop for H2 {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            // The task's handle of the socket is closed when the task is gone.
            let _ = runtime().block_on(task);
        }
    }
}

impl Stream {
    /// Waits for status and headers.
    #[track_caller]
    pub fn head(&mut self) -> &Response {
        self.try_head()
            .unwrap_or_else(|e| panic!("no answer on a stream: {e}"))
    }

    /// As [`Stream::head`]; the error is why the stream ended.
    pub fn try_head(&mut self) -> Result<&Response, String> {
        if let Some(response) = self.response.take() {
            let (head, body) = wait(response)?.into_parts();
            let headers = head.headers.iter().map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            });
            let head = Response {
                status: head.status.as_u16(),
                headers: headers.collect(),
                body: Vec::new(),
            };
            self.head = Some((head, body));
        }
        let head = self.head.as_ref().map(|(head, _)| head);
        head.ok_or_else(|| "the stream has ended".into())
    }

    /// Waits for the status.
    #[track_caller]
    pub fn status(&mut self) -> u16 {
        self.head().status
    }

    /// Waits for the next piece of the body and grants its window again; `None` at the end.
    pub fn try_read(&mut self) -> Result<Option<Vec<u8>>, String> {
        self.try_head()?;
        let (_, body) = self.head.as_mut().ok_or("no head")?;
        wait(async {
            let Some(piece) = body.data().await.transpose()? else {
                return Ok(None);
            };
            body.flow_control().release_capacity(piece.len())?;
            Ok(Some(piece.to_vec()))
        })
    }

    /// Reads to the end.
    #[track_caller]
    pub fn finish(self) -> Response {
        self.try_finish()
            .unwrap_or_else(|e| panic!("no whole answer on a stream: {e}"))
    }

    /// As [`Stream::finish`]; the error is why the stream ended.
    pub fn try_finish(mut self) -> Result<Response, String> {
        let mut response = self.try_head()?.clone();
        while let Some(piece) = self.try_read()? {
            response.body.extend(piece);
        }
        Ok(response)
    }

    /// Sends a piece of the request's body, `last` or not, as fast as the server's window allows.
    pub fn send(&mut self, bytes: &[u8], last: bool) -> Result<(), String> {
        let sent = self.sending.send_data(Cursor::new(bytes.to_vec()), last);
        sent.map_err(|e| e.to_string())
    }

    /// Reads this one and a sibling, a megabyte a second or so of each, until this one ends, be
    /// it cut or whole; how many bytes the sibling has, which is read to its end.
    #[track_caller]
    pub fn outlived_by(&mut self, mut sibling: Stream, within: Duration) -> u64 {
        let (start, mut bytes) = (Instant::now(), 0);
        while let Ok(Some(_)) = self.try_read() {
            assert!(start.elapsed() < within, "it is not cut");
            let piece = sibling.try_read().expect("a stream that goes on");
            bytes += piece.expect("more of the body").len();
            std::thread::sleep(Duration::from_millis(10));
        }
        (bytes + sibling.finish().body.len()) as u64
    }

    /// Breaks off by RST_STREAM with CANCEL.
    pub fn cancel(mut self) {
        self.sending.send_reset(Reason::CANCEL);
    }
}

/// How many of these streams have this status, once all have one.
#[track_caller]
pub fn count(streams: &mut [Stream], status: u16) -> usize {
    let statuses: Vec<_> = streams.iter_mut().map(Stream::status).collect();
    statuses.iter().filter(|one| **one == status).count()
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_all();
        builder.build().expect("start tokio")
    })
}

/// Waits, but not for ever.
fn wait<T>(work: impl Future<Output = Result<T, h2::Error>>) -> Result<T, String> {
    let patient = async { tokio::time::timeout(DEADLINE, work).await };
    match runtime().block_on(patient) {
        Ok(done) => done.map_err(|e| e.to_string()),
        Err(_) => Err(format!("nothing within {DEADLINE:?}")),
    }
}
