//! Clients that take their responses at a rate of their own, each in a thread, and what the
//! module says of those that it cut.

use std::io::{Error, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::support::{Client, Connection, DEADLINE, Httpd, Mpm, Response, sleep_until, wait_until};
use stopwatch::wait_in_time;

#[path = "stopwatch.rs"]
pub mod stopwatch;

/// A small pool that is there from the start, and small buffers: what a client does not read
/// soon holds its worker.
pub fn small_pool(mpm: Mpm) -> &'static str {
    match mpm {
        Mpm::Prefork => "StartServers 25\nMaxRequestWorkers 25\nSendBufferSize 16384",
        Mpm::Worker | Mpm::Event => {
            "StartServers 5\nThreadsPerChild 5\nMaxRequestWorkers 25\nSendBufferSize 16384"
        }
    }
}

/// A response that is read at a rate. Dropped, it is closed.
pub struct Reader {
    flags: Arc<Flags>,
    thread: Option<JoinHandle<Ended>>,
}

/// What a reader and its thread tell each other.
#[derive(Default)]
struct Flags {
    stop: AtomicBool,
    /// Whether the head came: it has a worker.
    has_begun: AtomicBool,
}

/// How the reading ended.
#[derive(Debug)]
pub struct Ended {
    /// The status; 0 where none came.
    pub status: u16,
    /// Bytes of the body that came.
    pub bytes: u64,
    /// Whether that is all that the head said.
    pub is_whole: bool,
    /// From the request to the end.
    pub took: Duration,
}

impl Reader {
    /// Asks for this path, and reads so many bytes a second as they come.
    pub fn start(client: &Client, path: &str, rate: u64) -> Reader {
        let (client, path) = (client.clone(), path.to_owned());
        Reader::run(move |flags| {
            let start = Instant::now();
            let mut connection = client.connect();
            connection.send(connection.request("GET", &path, "Connection: close\r\n"));
            read(&mut connection, rate, start, flags)
        })
    }

    /// As [`Reader::start`], of the next response on a connection on which it was asked for.
    pub fn go_on(mut connection: Connection, rate: u64) -> Reader {
        Reader::run(move |flags| read(&mut connection, rate, Instant::now(), flags))
    }

    fn run(read: impl FnOnce(&Flags) -> Ended + Send + 'static) -> Reader {
        let flags = Arc::new(Flags::default());
        let seen = flags.clone();
        Reader {
            flags,
            thread: Some(std::thread::spawn(move || read(&seen))),
        }
    }

    /// Waits for the end.
    #[track_caller]
    pub fn ended(mut self) -> Ended {
        let thread = self.thread.take().expect("a reader that runs");
        thread.join().expect("a reader does not panic")
    }

    /// Waits for the end, which must be good.
    #[track_caller]
    pub fn finish(self) -> Ended {
        let ended = self.ended();
        assert!(ended.status == 200 && ended.is_whole, "{ended:?}");
        ended
    }

    /// Waits for the end, which must not be good.
    #[track_caller]
    pub fn break_off(self) -> Ended {
        let ended = self.ended();
        assert!(ended.status == 200 && !ended.is_whole, "{ended:?}");
        ended
    }

    /// Whether the head has come.
    pub fn has_begun(&self) -> bool {
        self.flags.has_begun.load(Ordering::Relaxed)
    }

    /// Whether it still reads.
    pub fn goes_on(&self) -> bool {
        let thread = self.thread.as_ref();
        thread.is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.flags.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until so many of them have a worker.
#[track_caller]
pub fn wait_to_begin(readers: &[Reader], number: usize) {
    wait_until(DEADLINE, || {
        let begun = readers.iter().filter(|reader| reader.has_begun()).count();
        if begun >= number { Ok(()) } else { Err(begun) }
    });
}

/// Reads one response in pieces of a tenth of a second.
fn read(connection: &mut Connection, rate: u64, start: Instant, flags: &Flags) -> Ended {
    let mut ended = Ended {
        status: 0,
        bytes: 0,
        is_whole: false,
        took: Duration::ZERO,
    };
    // Its worker may be long in coming: no error yet, and a stop is heard.
    let patience = Duration::from_millis(50);
    let set_patience = |connection: &Connection, time| {
        let set = connection.stream().set_read_timeout(Some(time));
        set.expect("set a timeout");
    };
    set_patience(connection, patience);
    // Whoever was stopped amid a wait is told so.
    let is_no_end =
        |error: &Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
    while matches!(connection.stream().peek(&mut [0]), Err(error) if is_no_end(&error)) {
        if flags.stop.load(Ordering::Relaxed) {
            return ended;
        }
    }
    // The rest of the head comes soon, but not always at once.
    set_patience(connection, DEADLINE);
    let Ok(head) = Response::read_head(connection.reader()) else {
        return ended;
    };
    set_patience(connection, patience);
    flags.has_begun.store(true, Ordering::Relaxed);
    ended.status = head.status;
    let length: Option<u64> = head
        .header("content-length")
        .and_then(|value| value.parse().ok());
    let is_chunked = head.header("transfer-encoding").is_some();
    let mut last = Vec::new();
    let mut rest = connection.reader().buffer().len() as u64;
    let mut piece = vec![0; (rate / 10).clamp(20, 4096) as usize];
    let began = Instant::now();
    while !flags.stop.load(Ordering::Relaxed) {
        if length.is_some_and(|length| ended.bytes >= length) {
            ended.is_whole = true;
            break;
        }
        let due = began + Duration::from_millis(ended.bytes * 1000 / rate.max(1));
        if due > Instant::now() {
            std::thread::sleep(patience.min(due - Instant::now()));
            continue;
        }
        let got = if rest > 0 {
            connection.reader().read(&mut piece)
        } else {
            connection.stream().read(&mut piece)
        };
        match got {
            Ok(0) => {
                ended.is_whole = length.is_none() && (!is_chunked || last.ends_with(b"0\r\n\r\n"));
                break;
            }
            Ok(got) => {
                rest = rest.saturating_sub(got as u64);
                ended.bytes += got as u64;
                last.extend_from_slice(&piece[..got]);
                last.drain(..last.len().saturating_sub(5));
            }
            Err(error) if is_no_end(&error) => {}
            Err(_) => break,
        }
    }
    ended.took = start.elapsed();
    ended
}

/// What a line of a cut says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutLine {
    /// The whole line.
    pub line: String,
    /// The client's address.
    pub client: String,
    /// What it asked for.
    pub uri: String,
    /// Bytes, seconds, bytes per second and their minimum; none where it was held too long.
    pub numbers: Option<[u64; 4]>,
}

impl CutLine {
    /// Reads a line of message 501 that is no dry run's.
    #[track_caller]
    pub fn read(line: &str) -> CutLine {
        let wrong = || panic!("no line of a cut: {line}");
        let (_, text) = line
            .split_once("limitipconn(501): client ")
            .unwrap_or_else(wrong);
        let (client, text) = text.split_once(" cut: ").unwrap_or_else(wrong);
        let (why, uri) = text.split_once(", vhost localhost:").unwrap_or_else(wrong);
        let uri = uri.split('"').nth(1).unwrap_or_else(|| wrong().1);
        let numbers = why.strip_prefix("too slow: ").map(|text| {
            let numbers: Vec<u64> = text
                .split(|c: char| !c.is_ascii_digit())
                .filter_map(|digits| digits.parse().ok())
                .collect();
            assert_eq!(
                text,
                format!(
                    "{} bytes in {} s, {} B/s, minimum {} B/s",
                    numbers[0], numbers[1], numbers[2], numbers[3]
                )
            );
            [numbers[0], numbers[1], numbers[2], numbers[3]]
        });
        CutLine {
            line: line.to_owned(),
            client: client.to_owned(),
            uri: uri.to_owned(),
            numbers,
        }
    }

    /// Bytes, seconds and rate go together, for a window of so many seconds or some more: a
    /// watch that was held up looks later.
    #[track_caller]
    pub fn is_right_for(&self, window: u64, minimum: u64) {
        let Some([bytes, seconds, rate, told]) = self.numbers else {
            panic!("not of a client that is too slow: {self:?}");
        };
        assert!(seconds >= window, "{self:?}");
        assert!(told == minimum && rate < minimum, "{self:?}");
        // The seconds are rounded, the rate is not of them.
        let range = bytes * 2 / (2 * seconds + 1)..=bytes * 2 / (2 * seconds - 1);
        assert!(range.contains(&rate), "{self:?}, {range:?}");
    }

    /// All that it was measured by came after this moment.
    #[track_caller]
    pub fn is_measured_since(&self, moment: Instant) {
        let most = moment.elapsed().as_secs_f64().round() as u64;
        let seconds = self.numbers.map(|[_, seconds, ..]| seconds);
        let is_within = seconds.is_some_and(|seconds| seconds <= most);
        assert!(is_within, "{self:?}: {most} s at most");
    }
}

/// The lines of all cuts so far.
#[track_caller]
pub fn cut_lines(httpd: &Httpd) -> Vec<CutLine> {
    let log = httpd.error_log();
    // Written by the server while we read, the last may lack its end.
    let whole = &log[..log.rfind('\n').map_or(0, |end| end + 1)];
    let cuts = whole
        .lines()
        .filter(|line| line.contains("limitipconn(501): "));
    cuts.map(CutLine::read).collect()
}

/// Waits for so many cuts, each with its line. A deadline that is promised is by the stopwatch.
#[track_caller]
pub fn wait_for_cuts(httpd: &Httpd, number: usize, deadline: Duration) -> Vec<CutLine> {
    let cuts = wait_in_time(deadline, || match cut_lines(httpd) {
        cuts if cuts.len() >= number => Ok(cuts),
        cuts => Err(cuts),
    });
    assert_eq!(cuts.len(), number, "{cuts:#?}");
    cuts
}

/// Waits while nothing but time may pass.
pub fn pass(seconds: u64) {
    sleep_until(Instant::now() + Duration::from_secs(seconds));
}
