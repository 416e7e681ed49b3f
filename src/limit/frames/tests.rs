//! Frames, read in pieces of any length.

use super::*;
use proptest::prelude::*;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: usize) -> Vec<u8> {
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
        Seen::Open(3),
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
fn no_frame_may_come_within_another_or_among_headers() {
    // What was read, and whether another frame may come then.
    let cases: &[(&[Vec<u8>], bool)] = &[
        (&[], true),
        (&[frame(DATA, 0, 3, 5)], true),
        (&[frame(DATA, 0, 3, 5)[..13].to_vec()], false),
        (&[frame(DATA, 0, 3, 0)[..1].to_vec()], false),
        (&[frame(DATA, PADDED, 3, 5)[..9].to_vec()], false),
        (&[frame(HEADERS, 0, 3, 5)], false),
        (&[frame(HEADERS, END_HEADERS, 3, 5)], true),
        (
            &[frame(HEADERS, 0, 3, 5), frame(CONTINUATION, 0, 3, 5)],
            false,
        ),
        (
            &[frame(HEADERS, 0, 3, 5), frame(CONTINUATION, 4, 3, 0)],
            true,
        ),
        (&[frame(PUSH_PROMISE, 0, 3, 5)], false),
        (&[frame(PUSH_PROMISE, 4, 3, 5)], true),
    ];
    for (read, expected) in cases {
        let mut frames = Frames::default();
        frames.read(&read.concat(), |_| {});
        assert_eq!(frames.is_between(), *expected, "{read:?}");
    }
}

#[test]
fn only_http2_begins_with_settings() {
    assert!(Frames::begin_with(&frame(SETTINGS, 0, 0, 12)));
    assert!(!Frames::begin_with(b"HTTP/1.1 200 OK\r\n"));
    assert!(!Frames::begin_with(&frame(SETTINGS, 0, 0, 12)[..8]));
}

#[test]
fn what_opens_and_resets_a_stream_is_told() {
    let mut seen = Vec::new();
    let bytes = [frame(HEADERS, 4, 3, 10), frame(RST_STREAM, 0, 3, 4)];
    Frames::default().read(&bytes.concat(), |what| seen.push(what));
    let expected = [
        Seen::Other(19),
        Seen::Open(3),
        Seen::Other(13),
        Seen::Reset(3),
    ];
    assert_eq!(seen, expected);
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
