//! Frames that reset streams (RFC 9113, section 6.4), to be sent.

use super::{HEADER, RST_STREAM};

/// As many as are sent at once.
const AT_ONCE: usize = 8;
/// Its payload is an error code.
const LENGTH: usize = HEADER + 4;
/// The stream is of no use any more: this says nothing about the connection, and lets no
/// client ask again by itself, as REFUSED_STREAM would.
const CANCEL: u8 = 8;

/// Some RST_STREAM frames, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Resets {
    bytes: [u8; AT_ONCE * LENGTH],
    used: usize,
}

impl Resets {
    /// None.
    pub const fn none() -> Resets {
        Resets {
            bytes: [0; AT_ONCE * LENGTH],
            used: 0,
        }
    }

    /// Whether there is room for another.
    pub fn has_room(&self) -> bool {
        self.used < self.bytes.len()
    }

    /// Adds one for this stream, if there is room.
    pub fn add(&mut self, stream: u32) {
        if self.has_room() {
            let frame = &mut self.bytes[self.used..self.used + LENGTH];
            frame[..HEADER].copy_from_slice(&[0, 0, 4, RST_STREAM, 0, 0, 0, 0, 0]);
            frame[5..HEADER].copy_from_slice(&stream.to_be_bytes());
            frame[HEADER..].copy_from_slice(&[0, 0, 0, CANCEL]);
            self.used += LENGTH;
        }
    }

    /// All of them as they are sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Frames, Seen};
    use super::*;

    #[test]
    fn each_is_a_frame_that_resets_its_stream() {
        let mut resets = Resets::none();
        let streams: Vec<u32> = (0..AT_ONCE as u32).map(|n| n * 0x0102_0304 + 1).collect();
        for stream in &streams {
            assert!(resets.has_room());
            resets.add(*stream);
        }
        assert!(!resets.has_room());
        // One too many is none.
        resets.add(99);
        let (mut frames, mut seen) = (Frames::default(), Vec::new());
        frames.read(resets.as_bytes(), |what| {
            if let Seen::Reset(stream) = what {
                seen.push(stream);
            }
        });
        assert_eq!(seen, streams);
        assert!(frames.is_between());
        assert_eq!(
            &resets.as_bytes()[..LENGTH],
            &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8]
        );
    }
}
