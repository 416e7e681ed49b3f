//! The frames of an HTTP/2 connection (RFC 9113, section 4.1): when the last byte of which
//! stream went out, how much of what, and where a frame may be put between two others. Only
//! headers are looked at.

mod incoming;
mod reset;

pub use incoming::Incoming;
pub use reset::Resets;

/// Length, type, flags and stream of a frame, in bytes.
const HEADER: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// What there is to tell of the frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// On this stream so many bytes of a body go out, and so many of padding.
    Data(u32, u32, u32),
    /// A frame of so many bytes goes out that is of no body.
    Other(u32),
    /// Headers of this stream, after which more comes.
    Open(u32),
    /// This stream is reset.
    Reset(u32),
    /// The last byte of this stream has gone out.
    End(u32),
}

/// A place in the output of a connection; by default its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frames {
    header: [u8; HEADER],
    /// Bytes of the header that are there.
    have: u8,
    /// Bytes of the frame that are still to come.
    payload: u32,
    /// The stream that ends with this frame; 0 for none.
    ends: u32,
    /// The stream of a DATA frame of which the length of the padding comes next; 0 for none.
    padded: u32,
    /// Whether the next frame goes on with headers, and may be no other (section 6.10).
    in_block: bool,
}

impl Frames {
    /// Whether output that begins so is HTTP/2: its first frame is SETTINGS.
    pub fn begin_with(bytes: &[u8]) -> bool {
        matches!(bytes, [_, _, _, SETTINGS, _, 0, 0, 0, 0, ..])
    }

    /// How many bytes to come are payload, which need not be looked at.
    pub fn payload(&self) -> usize {
        match self.padded {
            0 => self.payload as usize,
            _ => 0,
        }
    }

    /// Whether a frame may come next that belongs to nothing here.
    pub fn is_between(&self) -> bool {
        self.have == 0 && self.payload == 0 && self.padded == 0 && !self.in_block
    }

    /// Passes over so many bytes of payload, at most as many as there are; returns the
    /// stream that has ended with them.
    pub fn skip(&mut self, bytes: usize) -> Option<u32> {
        self.payload -= u32::try_from(bytes).unwrap_or(u32::MAX).min(self.payload);
        match self.payload {
            0 => Some(std::mem::take(&mut self.ends)).filter(|stream| *stream != 0),
            _ => None,
        }
    }

    /// Reads what goes out next, and tells of each frame that begins and each stream that
    /// has ended with it.
    pub fn read(&mut self, mut bytes: &[u8], mut see: impl FnMut(Seen)) {
        while !bytes.is_empty() {
            if self.padded != 0 {
                // It counts as padding, too (RFC 9113, section 6.1).
                let padding = (u32::from(bytes[0]) + 1).min(self.payload);
                let stream = std::mem::take(&mut self.padded);
                see(Seen::Data(stream, self.payload - padding, padding));
                let ended = self.skip(1);
                ended.into_iter().for_each(|stream| see(Seen::End(stream)));
                bytes = &bytes[1..];
                continue;
            }
            if self.payload > 0 {
                let (payload, rest) = bytes.split_at(self.payload().min(bytes.len()));
                if let Some(stream) = self.skip(payload.len()) {
                    see(Seen::End(stream));
                }
                bytes = rest;
                continue;
            }
            let have = usize::from(self.have);
            let (more, rest) = bytes.split_at((HEADER - have).min(bytes.len()));
            self.header[have..have + more.len()].copy_from_slice(more);
            self.have += more.len() as u8;
            bytes = rest;
            if usize::from(self.have) == HEADER {
                self.have = 0;
                let stream = self.begin_frame();
                match self.header[3] {
                    DATA if self.header[4] & PADDED != 0 && self.payload > 0 => {
                        self.padded = stream;
                    }
                    DATA => see(Seen::Data(stream, self.payload, 0)),
                    _ => see(Seen::Other(HEADER as u32 + self.payload)),
                }
                match self.header[3] {
                    HEADERS if self.ends == 0 => see(Seen::Open(stream)),
                    RST_STREAM => see(Seen::Reset(stream)),
                    _ => {}
                }
                if self.payload == 0
                    && let Some(stream) = self.skip(0)
                {
                    see(Seen::End(stream));
                }
            }
        }
    }

    /// Begins with the frame of this header; its stream.
    fn begin_frame(&mut self) -> u32 {
        let [a, b, c, kind, flags, d, e, f, g] = self.header;
        self.payload = u32::from_be_bytes([0, a, b, c]);
        let stream = u32::from_be_bytes([d & 0x7f, e, f, g]);
        if matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION) {
            self.in_block = flags & END_HEADERS == 0;
        }
        self.ends = match kind {
            DATA | HEADERS if flags & END_STREAM != 0 => stream,
            _ => 0,
        };
        stream
    }
}

#[cfg(test)]
mod tests;
