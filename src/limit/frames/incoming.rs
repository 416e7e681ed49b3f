//! What the client of an HTTP/2 connection sends: where a frame may be put among its own as
//! if it had sent it, and of which streams its request is whole. It is sure of nothing before
//! it has seen the client's preface (RFC 9113, section 3.4).

use super::{Frames, Seen};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// So many requests may be on their way at once, each known by itself.
const AT_ONCE: usize = 16;

/// A place in the input of a connection; by default its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Incoming {
    /// Bytes of the preface that were there.
    preface: u8,
    /// Whether something else was.
    is_other: bool,
    frames: Frames,
    /// Streams of which the request is not whole yet; 0 for none.
    open: [u32; AT_ONCE],
    /// Of no stream up to this one it is known that its request is whole.
    unknown: u32,
}

impl Incoming {
    /// Reads what comes next. False: it is not HTTP/2.
    pub fn read(&mut self, bytes: &[u8]) -> bool {
        let rest = &PREFACE[usize::from(self.preface)..];
        let (preface, bytes) = bytes.split_at(rest.len().min(bytes.len()));
        self.is_other |= preface != &rest[..preface.len()];
        if self.is_other {
            return false;
        }
        self.preface += preface.len() as u8;
        let (open, unknown) = (&mut self.open, &mut self.unknown);
        self.frames.read(bytes, |seen| match seen {
            Seen::Open(stream) if open.contains(&stream) => {}
            Seen::Open(stream) => match open.iter_mut().find(|open| **open == 0) {
                Some(free) => *free = stream,
                None => *unknown = stream.max(*unknown),
            },
            Seen::End(stream) | Seen::Reset(stream) => {
                let known = open.iter_mut().find(|open| **open == stream);
                known.into_iter().for_each(|open| *open = 0);
            }
            Seen::Data(..) | Seen::Other(_) => {}
        });
        true
    }

    /// Whether a frame may come next that the client has not sent.
    pub fn is_between(&self) -> bool {
        usize::from(self.preface) == PREFACE.len() && !self.is_other && self.frames.is_between()
    }

    /// Whether the client sends no more on this stream, which is there: what it sent after a
    /// reset of its own would end the connection.
    pub fn is_whole(&self, stream: u32) -> bool {
        stream > self.unknown && !self.open.contains(&stream)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::frame;
    use super::super::{CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn after(frames: &[Vec<u8>]) -> Incoming {
        let mut incoming = Incoming::default();
        assert!(incoming.read(PREFACE));
        assert!(incoming.read(&frames.concat()));
        incoming
    }

    #[test]
    fn nothing_is_known_before_the_preface_is_whole() {
        let mut incoming = Incoming::default();
        for byte in PREFACE {
            assert!(!incoming.is_between());
            assert!(incoming.read(&[*byte]));
        }
        assert!(incoming.is_between());
    }

    #[test]
    fn what_does_not_begin_with_it_is_not_http2() {
        let almost = [&PREFACE[..23], b"x"].concat();
        for begins in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &almost, &[0; 30]] {
            let mut incoming = Incoming::default();
            assert!(!incoming.read(begins));
            assert!(!incoming.is_between());
            // It never will be.
            assert!(!incoming.read(PREFACE));
            assert!(!incoming.is_between());
        }
    }

    #[test]
    fn request_is_whole_with_its_last_frame() {
        let head = |flags| frame(HEADERS, flags, 3, 9);
        let cases: &[(&[Vec<u8>], bool)] = &[
            (&[head(END_HEADERS | END_STREAM)], true),
            (&[head(END_STREAM), frame(CONTINUATION, 4, 3, 9)], true),
            (&[head(END_HEADERS)], false),
            (&[head(END_HEADERS), frame(DATA, 0, 3, 9)], false),
            (&[head(END_HEADERS), frame(DATA, END_STREAM, 3, 9)], true),
            (&[head(END_HEADERS), frame(DATA, END_STREAM, 3, 0)], true),
            (
                &[
                    head(END_HEADERS),
                    frame(DATA, END_STREAM, 3, 9)[..17].to_vec(),
                ],
                false,
            ),
            (&[head(END_HEADERS), frame(DATA, END_STREAM, 5, 9)], false),
            (&[head(END_HEADERS), head(5)], true),
            (&[head(END_HEADERS), frame(RST_STREAM, 0, 3, 4)], true),
        ];
        for (frames, expected) in cases {
            assert_eq!(after(frames).is_whole(3), *expected, "{frames:?}");
        }
    }

    #[test]
    fn of_too_many_uploads_none_is_taken_for_whole() {
        let uploads = (0..=AT_ONCE as u32).map(|n| frame(HEADERS, END_HEADERS, 2 * n + 1, 9));
        let mut frames: Vec<_> = uploads.collect();
        frames.push(frame(HEADERS, 5, 99, 9));
        let last = 2 * AT_ONCE as u32 + 1;
        frames.push(frame(DATA, END_STREAM, last, 9));
        let incoming = after(&frames);
        assert!((1..=last).all(|stream| !incoming.is_whole(stream)));
        assert!(incoming.is_whole(99));
    }

    proptest! {
        #[test]
        fn cut_anywhere_it_knows_the_same(
            frames in prop::collection::vec((0u8..10, 0u8..16, 0u32..9, 0usize..40), 0..30),
            cuts in prop::collection::vec(1usize..40, 1..50),
        ) {
            let mut bytes = PREFACE.to_vec();
            // Where a frame ends outside of headers, and whose requests are not whole then.
            let mut places = vec![(bytes.len(), BTreeSet::new())];
            let (mut open, mut in_block) = (BTreeSet::new(), false);
            for (kind, flags, stream, payload) in frames {
                bytes.extend(frame(kind, flags, stream, payload));
                if matches!(kind, 1 | 5 | 9) {
                    in_block = flags & END_HEADERS == 0;
                }
                match kind {
                    0 | 1 if flags & END_STREAM != 0 => drop(open.remove(&stream)),
                    1 if stream != 0 => drop(open.insert(stream)),
                    3 => drop(open.remove(&stream)),
                    _ => {}
                }
                if !in_block {
                    places.push((bytes.len(), open.clone()));
                }
            }
            let (mut incoming, mut read) = (Incoming::default(), 0);
            for cut in cuts.iter().cycle() {
                let piece = &bytes[read..(read + cut).min(bytes.len())];
                if piece.is_empty() {
                    break;
                }
                prop_assert!(incoming.read(piece));
                read += piece.len();
                let place = places.iter().rev().find(|(end, _)| *end == read);
                prop_assert_eq!(incoming.is_between(), place.is_some(), "at {}", read);
                for stream in place.into_iter().flat_map(|(_, open)| (1..9).zip([open; 8])) {
                    let (stream, open) = stream;
                    prop_assert_eq!(incoming.is_whole(stream), !open.contains(&stream));
                }
            }
        }
    }
}
