//! The frames that an HTTP/2 connection sends (RFC 9113, section 4.1): when the last
//! byte of which stream went out, and how much of what. Only headers are looked at.

/// Length, type, flags and stream of a frame, in bytes.
const HEADER: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const PADDED: u8 = 8;

/// What there is to tell of the frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// On this stream so many bytes of a body go out, and so many of padding.
    Data(u32, u32, u32),
    /// A frame of so many bytes goes out that is of no body.
    Other(u32),
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
        self.ends = match kind {
            DATA | HEADERS if flags & END_STREAM != 0 => stream,
            _ => 0,
        };
        stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: usize) -> Vec<u8> {
        let length = (payload as u32).to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], kind, flags];
        bytes.extend(stream.to_be_bytes());
        // Payload that looks like ends of streams.
        bytes.extend([0, 0, 0, 0, 1, 0, 0, 0, 9].iter().cycle().take(payload));
        bytes
    }

    fn ends(ended: &mut Vec<u32>) -> impl FnMut(Seen) {
        |seen| {
            if let Seen::End(stream) = seen {
                ended.push(stream);
            }
        }
    }

    #[test]
    fn a_stream_ends_with_the_last_byte_of_its_last_frame() {
        let mut frames = Frames::default();
        let mut ended = Vec::new();
        let data = frame(DATA, END_STREAM, 5, 100);
        let (most, last) = data.split_at(data.len() - 1);
        frames.read(most, ends(&mut ended));
        assert_eq!((ended.as_slice(), frames.payload()), (&[][..], 1));
        frames.read(last, ends(&mut ended));
        assert_eq!(ended, [5]);
        // Without a payload, and by its headers alone.
        frames.read(&frame(DATA, END_STREAM, 7, 0), ends(&mut ended));
        frames.read(&frame(HEADERS, 0x25, 9, 30), ends(&mut ended));
        frames.read(&frame(HEADERS, 0x24, 11, 30), ends(&mut ended));
        assert_eq!(ended, [5, 7, 9]);
    }

    #[test]
    fn bodies_are_told_from_all_else() {
        const PING: u8 = 6;
        let mut seen = Vec::new();
        // A byte that says 99, 100 bytes of body, 99 of padding.
        let padded = [&frame(DATA, PADDED | END_STREAM, 5, 200)[..9], &[99; 200]];
        let bytes = [
            frame(SETTINGS, 0, 0, 12),
            frame(HEADERS, 4, 3, 40),
            frame(DATA, 0, 3, 1000),
            frame(PING, 1, 0, 8),
            frame(DATA, END_STREAM, 3, 0),
            padded.concat(),
        ];
        Frames::default().read(&bytes.concat(), |what| seen.push(what));
        let expected = [
            Seen::Other(21),
            Seen::Other(49),
            Seen::Data(3, 1000, 0),
            Seen::Other(17),
            Seen::Data(3, 0, 0),
            Seen::End(3),
            Seen::Data(5, 100, 100),
            Seen::End(5),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn only_http2_begins_with_settings() {
        assert!(Frames::begin_with(&frame(SETTINGS, 0, 0, 12)));
        assert!(!Frames::begin_with(b"HTTP/1.1 200 OK\r\n"));
        assert!(!Frames::begin_with(&frame(SETTINGS, 0, 0, 12)[..8]));
    }

    proptest! {
        #[test]
        fn cut_anywhere_it_tells_the_same(
            frames in prop::collection::vec((0u8..10, any::<u8>(), 0u32..50, 0usize..300), 0..20),
            cuts in prop::collection::vec(1usize..64, 1..50),
        ) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (kind, flags, stream, payload) in frames {
                bytes.extend(frame(kind, flags, stream, payload));
                if kind <= 1 && flags & 1 == 1 && stream != 0 {
                    expected.push(stream);
                }
            }
            let (mut reader, mut ended, mut rest) = (Frames::default(), Vec::new(), bytes.as_slice());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, more) = rest.split_at((*cut).min(rest.len()));
                // Payload may be passed over unseen.
                if reader.payload() >= piece.len() {
                    ended.extend(reader.skip(piece.len()));
                } else {
                    reader.read(piece, ends(&mut ended));
                }
                rest = more;
            }
            prop_assert_eq!(ended, expected);
        }
    }
}
