//! A private redis-server: on a free port and a socket of its own, with nothing saved and
//! nothing shared; gone when its guard drops.
//!
//! The unit tests of src/store/redis use this file too, so it names nothing beside it.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

/// How long a server may take to start, or to answer.
const DEADLINE: Duration = Duration::from_secs(60);

/// A running redis-server.
pub struct Redis {
    dir: PathBuf,
    port: u16,
    /// Bound, so that nobody else is given the port while no server listens there.
    _keeps_port: Socket,
    options: Vec<String>,
    child: Option<Child>,
}

/// An answer, as far as tests look at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    Text(String),
    Error(String),
    Number(i64),
    Nothing,
    List(Vec<Value>),
}

impl Redis {
    /// A server that only remembers.
    #[track_caller]
    pub fn start() -> Redis {
        Redis::with(&[])
    }

    /// One with more options of its command line.
    #[track_caller]
    pub fn with(options: &[&str]) -> Redis {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("limitipconn-redis-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("create a directory");
        let (keeps_port, port) = port_of_our_own();
        let mut redis = Redis {
            dir,
            port,
            _keeps_port: keeps_port,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            child: None,
        };
        assert!(
            redis.spawn(),
            "redis-server does not start:\n{}",
            redis.log()
        );
        redis
    }

    /// False where it ended at once.
    fn spawn(&mut self) -> bool {
        let path = self.dir.display().to_string();
        let mut command = Command::new(program());
        command
            .arg0("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .args(["--dir", &path, "--save", "", "--appendonly", "no"])
            .args(["--unixsocket", &self.socket(), "--unixsocketperm", "777"])
            .args(["--daemonize", "no", "--logfile", &format!("{path}/log")])
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal to the group of the test shall not end it before its guard does.
            .process_group(0);
        let child = command
            .spawn()
            .expect("run redis-server; is the package redis-tools, redis or valkey installed?");
        self.child = Some(child);
        let start = Instant::now();
        while start.elapsed() < DEADLINE {
            // One that wants a password, or is a replica, answers all the same.
            if self.try_ask(&["PING"]).is_some() {
                return true;
            }
            let child = self.child.as_mut().expect("just started");
            if child.try_wait().expect("wait for redis-server").is_some() {
                self.child = None;
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis-server does not answer:\n{}", self.log());
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its socket.
    pub fn socket(&self) -> String {
        self.dir.join("socket").display().to_string()
    }

    /// Its own directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What `IPLimitRedis` says to name it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// By the shell, since unit tests of the store may not say unsafe.
    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().expect("it runs").id();
        let line = format!("kill -{signal} {pid}");
        let done = Command::new("sh").args(["-c", &line]).status();
        assert!(done.is_ok_and(|status| status.success()), "{line}");
    }

    /// SIGSTOP: it hangs, and its sockets stay open.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// SIGKILL: it is gone, with all it knew.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again, on the same port.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.spawn(), "redis-server does not start:\n{}", self.log());
    }

    /// The same with more options of its command line.
    #[track_caller]
    pub fn restart_with(&mut self, options: &[&str]) {
        let more = options.iter().map(|option| (*option).to_owned());
        self.options.extend(more);
        self.restart();
    }

    /// The answer to a command.
    #[track_caller]
    pub fn ask(&self, words: &[&str]) -> Value {
        self.try_ask(words)
            .unwrap_or_else(|| panic!("no answer to {words:?}:\n{}", self.log()))
    }

    /// The number that is the answer to a command.
    #[track_caller]
    pub fn number(&self, words: &[&str]) -> i64 {
        match self.ask(words) {
            Value::Number(number) => number,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    /// A number of `INFO`.
    #[track_caller]
    pub fn info(&self, field: &str) -> i64 {
        let Value::Text(text) = self.ask(&["INFO", "everything"]) else {
            panic!("no INFO");
        };
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let line = line.unwrap_or_else(|| panic!("no {field} in {text}"));
        line.trim().parse().expect("a number")
    }

    /// All keys there are.
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        match self.ask(&["KEYS", "*"]) {
            Value::List(keys) => keys
                .into_iter()
                .map(|key| match key {
                    Value::Text(key) => key,
                    other => panic!("{other:?} is no key"),
                })
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    fn try_ask(&self, words: &[&str]) -> Option<Value> {
        self.try_ask_all(&[words])?.pop()
    }

    /// The answers to these commands, on one connection.
    #[track_caller]
    pub fn ask_all(&self, commands: &[&[&str]]) -> Vec<Value> {
        self.try_ask_all(commands)
            .unwrap_or_else(|| panic!("no answer to {commands:?}:\n{}", self.log()))
    }

    fn try_ask_all(&self, commands: &[&[&str]]) -> Option<Vec<Value>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).ok()?;
        let mut text = String::new();
        for words in commands {
            text += &format!("*{}\r\n", words.len());
            for word in *words {
                text += &format!("${}\r\n{word}\r\n", word.len());
            }
        }
        stream.write_all(text.as_bytes()).ok()?;
        commands.iter().map(|_| read_value(&mut stream)).collect()
    }
}

/// A port at which only we can listen: servers may, since they say SO_REUSEADDR as this socket
/// does, and whoever asks for any free port gets another one.
pub fn port_of_our_own() -> (Socket, u16) {
    let bound = Socket::new(Domain::IPV4, Type::STREAM, None).and_then(|socket| {
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let port = socket.local_addr()?.as_socket().map_or(0, |at| at.port());
        Ok((socket, port))
    });
    bound.expect("bind to a free port")
}

/// All programs of Redis are one, which looks at the name that it is called by. Debian has it
/// without its service in the package redis-tools.
fn program() -> &'static str {
    let is_there = |name: &&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| dir.join(name).exists())
    };
    let known = ["redis-server", "valkey-server", "redis-check-rdb"];
    known.into_iter().find(is_there).unwrap_or(known[0])
}

fn read_line(stream: &mut TcpStream) -> Option<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte).ok()?;
        line.push(byte[0]);
    }
    line.truncate(line.len() - 2);
    String::from_utf8(line).ok()
}

fn read_value(stream: &mut TcpStream) -> Option<Value> {
    let line = read_line(stream)?;
    let (kind, rest) = line.split_at_checked(1)?;
    Some(match kind {
        "+" => Value::Text(rest.to_owned()),
        "-" => Value::Error(rest.to_owned()),
        ":" => Value::Number(rest.parse().ok()?),
        "$" => match rest.parse::<i64>().ok()? {
            length if length < 0 => Value::Nothing,
            length => {
                let mut bytes = vec![0; usize::try_from(length).ok()? + 2];
                stream.read_exact(&mut bytes).ok()?;
                bytes.truncate(bytes.len() - 2);
                Value::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
        },
        "*" => {
            let number: usize = rest.parse().ok()?;
            Value::List(
                (0..number)
                    .map(|_| read_value(stream))
                    .collect::<Option<_>>()?,
            )
        }
        _ => return None,
    })
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
        if std::env::var_os("LIMITIPCONN_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}
