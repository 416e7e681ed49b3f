//! The segment itself: its memory, its seal, and what is refused as one.

use std::error::Error;
use std::fs::File;
use std::io;

use super::*;
use crate::limit::address::Prefix;

#[test]
fn sizes_are_rounded_up() {
    let asked = Size {
        keys: 9,
        leases: 65,
        slots: 3,
        rules: 1,
    };
    let segment = segment(asked);
    assert_eq!(asked.rounded(), Some(segment.size()));
    assert_eq!(
        segment.size(),
        Size {
            keys: 16,
            leases: 128,
            slots: 3,
            rules: 1
        }
    );
    assert_eq!(read(&segment, 0).keys.capacity, 16);
    assert_eq!(read(&segment, 0).leases.capacity, 128);
}

#[test]
fn impossible_sizes_are_refused() {
    for size in [
        Size { keys: 0, ..SMALL },
        Size {
            keys: (1 << 24) + 1,
            ..SMALL
        },
        Size { leases: 0, ..SMALL },
        Size {
            leases: 1 << 22,
            ..SMALL
        },
        Size {
            keys: u32::MAX,
            leases: u32::MAX,
            slots: u32::MAX,
            rules: u32::MAX,
        },
    ] {
        assert_eq!(size.rounded(), None);
        let error = Segment::create(size).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), SegmentError::Size.to_string());
    }
}

#[test]
fn the_memory_is_there_and_its_size_is_sealed() {
    let segment = Segment::create(SMALL).unwrap();
    let Parts { fd, len, .. } = segment.parts();
    // SAFETY: system calls on an open descriptor; `stat` is written by fstat.
    let (truncated, grown, stat, cloexec) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &mut stat);
        let truncated = libc::ftruncate(fd, 0);
        let grown = libc::ftruncate(fd, 1 << 20);
        (truncated, grown, stat, libc::fcntl(fd, libc::F_GETFD))
    };
    assert_eq!((truncated, grown), (-1, -1));
    assert_eq!(stat.st_size as usize, len);
    assert!(
        stat.st_blocks as usize * 512 >= len,
        "a page may be missing later"
    );
    assert_eq!(cloexec & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    segment.close_fd();
}

#[test]
fn children_close_the_descriptor_and_keep_the_mapping() {
    let segment = Segment::create(SMALL).unwrap();
    assert!(segment.parts().fd >= 0);
    segment.close_fd();
    segment.close_fd();
    assert_eq!(segment.parts().fd, -1);
    drop(held(holder(&segment, 1).acquire(&key(0), Some(1), 0)));
    assert_quiet(&segment);
}

#[test]
fn graceful_keeps_everything() {
    let before = segment(SMALL);
    let old = holder(&before, 1);
    let place = held(old.acquire(&key(0), Some(2), 0));
    before.raise(0b101);
    before.add(Counter::Faults, 3);
    // SAFETY: the parts of a segment that is mapped.
    let after = unsafe { Segment::from_parts(before.parts()) }.unwrap();
    assert_eq!(after.size(), before.size());
    assert_eq!(after.secret().0, before.secret().0);
    assert_eq!(after.flags(), 0b101);
    assert_eq!(after.read(Counter::Faults), 3);
    let new = holder(&after, 2);
    assert_eq!(new.count(key(0).digest), 1);
    let second = held(new.acquire(&key(0), Some(2), 0));
    assert_eq!(refused(old.acquire(&key(0), Some(2), 0)), 2);
    drop((place, second));
    assert_eq!(read(&after, 0).counts, []);
    after.raise(0b10);
    assert_eq!(before.flags(), 0b111);
}

#[test]
fn every_segment_has_its_own_secret() {
    assert_ne!(segment(SMALL).secret().0, segment(SMALL).secret().0);
}

#[test]
fn what_is_no_segment_of_ours_is_refused() {
    let segment = segment(SMALL);
    let parts = segment.parts();
    let words = parts.base.cast::<u64>();
    let open = |parts| {
        // SAFETY: mapped memory, if at all; what is wrong with it is the test.
        unsafe { Segment::from_parts(parts) }.err()
    };
    assert_eq!(open(parts), None);
    // SAFETY: within the mapping, or not read.
    let odd = unsafe { parts.base.add(1) };
    for (broken, expected) in [
        (
            Parts {
                base: std::ptr::null_mut(),
                ..parts
            },
            SegmentError::Address,
        ),
        (
            Parts {
                base: odd,
                len: parts.len - 1,
                ..parts
            },
            SegmentError::Address,
        ),
        (Parts { len: 8, ..parts }, SegmentError::Short),
        (
            Parts {
                len: parts.len - 64,
                ..parts
            },
            SegmentError::Length,
        ),
        (
            Parts {
                len: parts.len + 64,
                ..parts
            },
            SegmentError::Length,
        ),
    ] {
        assert_eq!(open(broken), Some(expected));
    }
    // Magic, layout hash, length, keys with leases, slots with rules: a bit each.
    let wrong = [
        (0, 1, SegmentError::Magic),
        (1, 1, SegmentError::Layout),
        (2, 64, SegmentError::Length),
        (3, u64::MAX, SegmentError::Size),
        (4, 1, SegmentError::Layout),
    ];
    for (word, flip, expected) in wrong {
        // SAFETY: the header's first words, which nobody else uses now.
        let (at, value) = unsafe { (words.add(word), words.add(word).read()) };
        // SAFETY: as above.
        unsafe { at.write(value ^ flip) };
        assert_eq!(open(parts), Some(expected), "word {word}");
        // SAFETY: as above.
        unsafe { at.write(value) };
    }
    assert_eq!(open(parts), None);
}

#[test]
fn errors_are_lower_case_sentences_without_a_full_stop() {
    use SegmentError::{Address, Layout, Length, Magic, Short, Size};
    for error in [Address, Short, Magic, Size, Layout, Length] {
        let text = (&error as &dyn Error).to_string();
        assert!(
            text.starts_with(char::is_lowercase) && !text.ends_with('.'),
            "{text}"
        );
    }
}

#[test]
fn a_reader_outside_opens_what_the_parent_made() {
    let segment = Segment::create(SMALL).unwrap();
    let path = format!("/proc/self/fd/{}", segment.parts().fd);
    let file = File::options().read(true).write(true).open(path).unwrap();
    let about = About {
        generation: 3,
        max_workers: 25,
        prefix: Prefix { v4: 24, v6: 56 },
        has_rules: true,
        board: Board {
            address: 1 << 40,
            stride: 336,
            status: 20,
        },
        httpd: "Apache/2.4.71 (Debian)".into(),
        pid: 4711,
        started: 9,
        enforces: true,
        has_remoteip: false,
        has_client_header: true,
        is_by_peer: false,
        log_level: 4,
        other_logs: 2,
        code: 77,
        error_log: "|/usr/bin/rotatelogs x 1M".into(),
        module: "0.1.0".into(),
    };
    let seen = Segment::open(&file).unwrap();
    assert_eq!(seen.about(), None);
    segment.say(&about);
    assert_eq!(seen.about(), Some(about.clone()));
    let long = About {
        httpd: "x".repeat(1000),
        ..about
    };
    segment.say(&long);
    assert_eq!(seen.about().unwrap().httpd, "x".repeat(192));
}

#[test]
fn nothing_else_is_opened_as_a_segment() {
    // Any file, and a memfd of the right kind that is empty inside.
    let own = File::open(std::env::current_exe().unwrap()).unwrap();
    let other = memfd::sealed(1 << 20).unwrap();
    for file in [own, other] {
        let error = Segment::open(&file).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(error.to_string(), SegmentError::Magic.to_string());
    }
}

#[test]
fn the_last_samples_are_kept() {
    let segment = segment(SMALL);
    let history = segment.history();
    assert_eq!(history.read(), []);
    let sample = |micros| Sample {
        micros,
        busy: micros % 7,
        ..Sample::default()
    };
    (1..=100).for_each(|micros| history.add(sample(micros)));
    let expected: Vec<Sample> = (37..=100).map(sample).collect();
    assert_eq!(history.read(), expected);
}
