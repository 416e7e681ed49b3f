//! One HTTP/1 response, read as bytes: status line, headers, body.

use std::io::{self, BufRead, Read};

/// A response that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names in lower case and values, in the order in which they came.
    pub headers: Vec<(String, String)>,
    /// The body without its transfer coding.
    pub body: Vec<u8>,
}

impl Response {
    /// The first value of a header; the name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Reads the status line and the headers; the body is left unread.
    pub fn read_head(from: &mut impl BufRead) -> io::Result<Response> {
        let line = read_line(from)?;
        let status = line
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.get(2..5))
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| io::Error::other(format!("no status line: {line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = read_line(from)?;
            if line.is_empty() {
                return Ok(Response {
                    status,
                    headers,
                    body: Vec::new(),
                });
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| io::Error::other(format!("no header: {line:?}")))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// Reads the body, as the headers say how long it is.
    pub fn read_body(&mut self, from: &mut impl BufRead) -> io::Result<()> {
        if matches!(self.status, 100..200 | 204 | 304) {
            return Ok(());
        }
        if self.header("transfer-encoding").is_some() {
            while let Some(chunk) = read_chunk(from)? {
                self.body.extend_from_slice(&chunk);
            }
        } else if let Some(length) = self.header("content-length") {
            let length = length
                .parse()
                .map_err(|_| io::Error::other(format!("bad length: {length:?}")))?;
            self.body.resize(length, 0);
            from.read_exact(&mut self.body)?;
        } else {
            from.read_to_end(&mut self.body)?;
        }
        Ok(())
    }
}

/// One chunk of a chunked body; `None` after the last.
pub fn read_chunk(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let line = read_line(from)?;
    let size = line.split(';').next().unwrap_or_default().trim();
    let size = usize::from_str_radix(size, 16)
        .map_err(|_| io::Error::other(format!("no chunk size: {line:?}")))?;
    let mut chunk = vec![0; size];
    from.read_exact(&mut chunk)?;
    read_line(from)?;
    Ok((size > 0).then_some(chunk))
}

/// A line without its CRLF; the end of the stream is an error.
fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the connection ended",
        ));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}
