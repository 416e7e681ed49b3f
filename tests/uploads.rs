//! A refused upload is answered at once, whatever the status and the error page: nobody
//! waits for its body, the client gets the answer, and the connection ends. A refused
//! request without a body leaves the connection as httpd itself would.

mod support;

use std::io::Read;
use std::time::{Duration, Instant};

use support::{Client, Connection, Httpd, Mpm, Response, Setup, on_every_mpm};

on_every_mpm!(
    upload_refused_in_a_section_is_answered_at_once,
    upload_refused_outside_sections_is_answered_at_once,
    refusal_without_a_body_keeps_the_connection,
    admitted_upload_is_read_whole,
);

/// Far less than the server's Timeout (300 s), which a wait for the body would take, and than
/// its KeepAliveTimeout (30 s).
const AT_ONCE: Duration = Duration::from_secs(20);

/// httpd throws away what still comes after a refusal, so that its answer is not lost. But where
/// nothing comes for two seconds it is done with the client, which may only have been held up.
const HELD_UP: Duration = Duration::from_secs(1);

const STATUSES: [u16; 3] = [503, 429, 403];
/// `reads` is a script that reads the body.
const PAGES: [&str; 5] = ["none", "file", "text", "cgi", "reads"];

/// What is done with the body of an upload.
#[derive(Clone, Copy, Debug)]
enum Body {
    /// The client waits for `100 Continue` before it sends 1 MB.
    Expected,
    /// The same without a length.
    ExpectedChunks,
    /// 1 MB is announced, nothing comes.
    NeverSent,
    /// 1 MB is announced, half of it comes.
    HalfSent,
    /// 16 MB come at once: more than the kernel keeps.
    AllSent,
    /// One chunk comes, more could follow.
    OneChunk,
    /// 1 MB in chunks comes at once.
    AllChunks,
}

const BODIES: [Body; 7] = [
    Body::Expected,
    Body::ExpectedChunks,
    Body::NeverSent,
    Body::HalfSent,
    Body::AllSent,
    Body::OneChunk,
    Body::AllChunks,
];

/// All bodies; the longest only where httpd answers alone, and where a script reads.
fn bodies(kind: &str) -> impl Iterator<Item = Body> {
    let long = matches!(kind, "none" | "reads");
    BODIES
        .into_iter()
        .filter(move |body| long || !matches!(body, Body::AllSent))
}

impl Body {
    fn headers(self) -> &'static str {
        match self {
            Body::Expected => "Content-Length: 1048576\r\nExpect: 100-continue\r\n",
            Body::ExpectedChunks => "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n",
            Body::NeverSent | Body::HalfSent => "Content-Length: 1048576\r\n",
            Body::AllSent => "Content-Length: 16777216\r\n",
            Body::OneChunk | Body::AllChunks => "Transfer-Encoding: chunked\r\n",
        }
    }

    fn bytes(self) -> Vec<u8> {
        let chunk = |size: usize| {
            [
                format!("{size:x}\r\n").as_bytes(),
                &vec![b'x'; size],
                b"\r\n",
            ]
            .concat()
        };
        match self {
            Body::Expected | Body::ExpectedChunks | Body::NeverSent => Vec::new(),
            Body::HalfSent => vec![b'x'; 1 << 19],
            Body::AllSent => vec![b'x'; 16 << 20],
            Body::OneChunk => chunk(1 << 16),
            Body::AllChunks => [chunk(1 << 18).repeat(4), b"0\r\n\r\n".to_vec()].concat(),
        }
    }
}

/// The error page of this kind, as a directive.
fn page(kind: &str, status: u16) -> String {
    match kind {
        "file" => format!("ErrorDocument {status} /busy.html"),
        "text" => format!("ErrorDocument {status} \"busy text\""),
        "cgi" => format!("ErrorDocument {status} /busy.cgi"),
        "reads" => format!("ErrorDocument {status} /reads.cgi"),
        _ => String::new(),
    }
}

/// What the page of this kind says.
fn says(kind: &str) -> &'static str {
    match kind {
        "file" => "busy file",
        "text" => "busy text",
        "cgi" => "busy script",
        "reads" => "read 0",
        _ => "<title>",
    }
}

fn with_pages(mpm: Mpm) -> Setup {
    Httpd::on(mpm)
        .expect_refusals()
        .file("busy.html", "busy file\n")
        .script(
            "busy.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nbusy script\\n'\n",
        )
        .script(
            "reads.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\necho read $(cat | wc -c)\n",
        )
}

/// Sends an upload, and returns the answer once the server has closed its side.
#[track_caller]
fn upload(client: &Client, method: &str, path: &str, more: &str, body: Body) -> Response {
    loop {
        let (start, mut pause) = (Instant::now(), Duration::ZERO);
        let answer = try_upload(client, method, path, (more, body), &mut pause);
        let time = start.elapsed();
        assert!(time < AT_ONCE, "{path} {body:?}: {answer:?} after {time:?}");
        match answer {
            Ok(answer) => return answer,
            Err(_) if pause >= HELD_UP => {}
            Err(why) => panic!("{path} {body:?}: {why}"),
        }
    }
}

/// The same once; the error is what went wrong. `pause` is the longest time from one piece to
/// the next.
fn try_upload(
    client: &Client,
    method: &str,
    path: &str,
    (more, body): (&str, Body),
    pause: &mut Duration,
) -> Result<Response, String> {
    let mut connection = client.connect();
    let head = connection.request(method, path, &format!("{more}{}", body.headers()));
    let bytes = body.bytes();
    let mut last = Instant::now();
    for piece in std::iter::once(head.as_bytes()).chain(bytes.chunks(1 << 16)) {
        let sent = connection.try_send(piece);
        *pause = last.elapsed().max(*pause);
        last = Instant::now();
        sent.map_err(|e| format!("the server does not take it: {e}"))?;
    }
    let answer = connection.try_response();
    let answer = answer.map_err(|e| format!("the answer is lost: {e}"))?;
    ends(&mut connection)?;
    Ok(answer)
}

/// The server has sent all that it will send.
fn ends(connection: &mut Connection) -> Result<(), String> {
    let mut rest = Vec::new();
    match connection.reader().read_to_end(&mut rest) {
        Ok(0) => Ok(()),
        end => Err(format!("{end:?} {}", String::from_utf8_lossy(&rest))),
    }
}

#[track_caller]
fn assert_refused(answer: &Response, status: u16, kind: &str, what: &str) {
    assert_eq!(answer.status, status, "{what}: {answer:?}");
    assert!(
        answer.text().contains(says(kind)),
        "{what}: {}",
        answer.text()
    );
    assert_eq!(
        answer.header("connection"),
        Some("close"),
        "{what}: {answer:?}"
    );
    assert_eq!(
        answer.header("retry-after"),
        Some("5"),
        "{what}: {answer:?}"
    );
}

fn upload_refused_in_a_section_is_answered_at_once(mpm: Mpm) {
    let mut places = String::new();
    for status in STATUSES {
        for kind in PAGES {
            let page = page(kind, status);
            places += &format!(
                "<Location /hoge/{status}/{kind}>\n IPLimitErrorStatus {status}\n {page}\n</Location>\n"
            );
        }
    }
    let httpd = with_pages(mpm)
        .conf("<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>")
        .conf(&places)
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    for status in STATUSES {
        for kind in PAGES {
            for body in bodies(kind) {
                let path = format!("/hoge/{status}/{kind}/x");
                let answer = upload(&client, "POST", &path, "", body);
                assert_refused(&answer, status, kind, &format!("{path} {body:?}"));
            }
        }
    }
}

fn upload_refused_outside_sections_is_answered_at_once(mpm: Mpm) {
    let mut hosts = String::new();
    for status in STATUSES {
        for kind in PAGES {
            let page = page(kind, status);
            hosts += &format!(
                "<VirtualHost *:${{PORT}}>\n ServerName {kind}{status}\n DocumentRoot ${{DOCROOT}}
                 IPLimitErrorStatus {status}\n {page}\n</VirtualHost>\n"
            );
        }
    }
    let httpd = with_pages(mpm)
        .conf("MaxConnPerIP 1 count=requests")
        .conf(&hosts)
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/hoge/hold.cgi");
    for status in STATUSES {
        for kind in PAGES {
            let host = format!("Host: {kind}{status}\r\n");
            for body in bodies(kind) {
                let answer = upload(&client, "PUT", "/hoge/small.txt", &host, body);
                assert_refused(&answer, status, kind, &format!("{host} {body:?}"));
            }
        }
    }
}

/// With 503 httpd itself ends the connection, with 429 and 403 it does not, and so a client
/// need not connect again.
fn refusal_without_a_body_keeps_the_connection(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "<Location /hoge>
                 MaxConnPerIP 1 scope=location
             </Location>
             <Location /hoge/429>
                 IPLimitErrorStatus 429
             </Location>
             <Location /hoge/403>
                 IPLimitErrorStatus 403
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let held = client.hold("/hoge/hold.cgi");
    let mut connection = client.connect();
    for status in [429, 403, 429] {
        let path = format!("/hoge/{status}/x");
        for (method, more) in [
            ("GET", ""),
            ("POST", "Content-Length: 0\r\n"),
            ("DELETE", ""),
        ] {
            connection.send(connection.request(method, &path, more));
            let answer = connection.response();
            assert_eq!(answer.status, status, "{method}: {answer:?}");
            assert_ne!(
                answer.header("connection"),
                Some("close"),
                "{method}: {answer:?}"
            );
        }
        assert_eq!(connection.get("/fuga/small.txt").status, 200);
    }
    held.finish();
    httpd.wait_for(|gauge| gauge.total() == 0);
    assert_eq!(
        connection.get("/hoge/small.txt").status,
        200,
        "on the same connection"
    );
    // It ends a moment after its answer.
    httpd.wait_for(|gauge| gauge.total() == 0);
    let _held = client.hold("/hoge/hold.cgi");
    let last = connection.get("/hoge/small.txt");
    assert_eq!(
        (last.status, last.header("connection")),
        (503, Some("close"))
    );
    assert_eq!(ends(&mut connection), Ok(()));
}

/// The other side: what is not refused is asked to continue, and reaches its script whole.
fn admitted_upload_is_read_whole(mpm: Mpm) {
    let httpd = with_pages(mpm)
        .conf("MaxConnPerIP 3 count=requests\n<Location /reads.cgi>\n MaxConnPerIP 2 scope=location\n</Location>")
        .start();
    let client = httpd.client("127.0.0.2");
    let mut connection = client.connect();
    let expect = "Content-Length: 1048576\r\nExpect: 100-continue\r\n";
    connection.send(connection.request("POST", "/reads.cgi", expect));
    assert_eq!(connection.head().status, 100);
    connection.send(vec![b'x'; 1 << 20]);
    let answer = connection.response();
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (200, "read 1048576\n")
    );
    assert_eq!(answer.header("retry-after"), None);
    connection.send(connection.request("POST", "/reads.cgi", "Transfer-Encoding: chunked\r\n"));
    connection.send(Body::AllChunks.bytes());
    assert_eq!(connection.response().text(), "read 1048576\n");
}
