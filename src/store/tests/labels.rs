//! What keys are called: as it was written, and of one key at a time.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use super::rates::{hit, now, rater, window};
use super::*;
use crate::limit::rate::LONGEST;

/// A text of this many bytes, none like its neighbour.
fn text(length: usize, from: u64) -> Vec<u8> {
    (0..length)
        .map(|at| (from as usize * 31 + at) as u8)
        .collect()
}

/// A name of each kind, by number; the same number has the same name.
fn with_name<T>(n: u64, then: impl FnOnce(Name<'_>, KeyName) -> T) -> T {
    let address = Address::from_words([n, !n]);
    let texts = |length: usize| {
        let bytes = text(length, n);
        let kept = KeyName::Text(bytes[..length.min(56)].to_vec(), length > 56);
        (bytes, kept)
    };
    let text = |length, then: &mut dyn FnMut(Name<'_>, KeyName)| {
        let (bytes, kept) = texts(length);
        then(Name::Text(&bytes), kept);
    };
    let mut then = Some(then);
    let mut said = None;
    let mut tell = |name: Name<'_>, read: KeyName| {
        said = then.take().map(|then| then(name, read));
    };
    match n % 11 {
        0 => tell(Name::Client(address), KeyName::Client(address)),
        1 => tell(Name::Network(address, 48), KeyName::Network(address, 48)),
        2 => tell(Name::Network(address, 0), KeyName::Network(address, 0)),
        3 => tell(Name::Hidden(n << 40 | 7), KeyName::Hidden(n << 40 | 7)),
        4 => tell(Name::Hidden(u64::MAX), KeyName::Hidden(u64::MAX)),
        5 => text(0, &mut tell),
        6 => text(1, &mut tell),
        7 => text(55, &mut tell),
        8 => text(56, &mut tell),
        9 => text(57, &mut tell),
        _ => text(8000, &mut tell),
    }
    said.expect("it was told")
}

/// Key number `n` of the first bucket, with a name by its number, which its count tells.
fn named<'a>(n: u64, name: Name<'a>) -> Keyed<'a> {
    Keyed {
        count: CountId(n),
        name,
        ..key(n)
    }
}

#[test]
fn every_name_is_read_as_it_was_written() {
    let limit = window(9, LONGEST, None);
    let segment = segment(SMALL);
    let holder = rater(&segment, 1);
    // Longer and shorter ones in turn, each over what another left in the cell.
    for n in 0..110 {
        with_name(n * 7, |name, expected| {
            let key = named(n * 7, name);
            assert!(hit(&holder, &key, &limit, n as u32).is_some());
            let found = segment.table.find(key.digest).expect("it has a cell");
            let label = &segment.table.labels[found.at as usize];
            let entry = found.cell.read(label).expect("it is of a key");
            assert_eq!(entry.beside, expected, "{n}");
            assert_eq!(entry.count, CountId(n * 7));
            assert_eq!(Some(entry.rate), limit.charge(0, now()).into());
        });
    }
}

#[test]
fn what_is_frozen_is_shown_by_its_name() {
    let segment = segment(SMALL);
    let holder = rater(&segment, 1);
    let mut expected = Vec::new();
    for n in 0..8 {
        with_name(n, |name, read| {
            holder.change_rate(&named(n, name), 1, |_| (Some(super::rates::frozen()), ()));
            expected.push((CountId(n), read));
        });
    }
    let mut rows: Vec<_> = read(&segment, now())
        .frozen
        .into_iter()
        .map(|row| (row.count, row.name))
        .collect();
    rows.sort_by_key(|(count, _)| count.0);
    assert_eq!(rows, expected);
}

/// However fast cells change hands: number, name and rate are of one key.
#[test]
fn no_reader_sees_a_name_of_two_keys() {
    let segment = segment(SMALL);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (1..3)
            .map(|pid| {
                let segment = &segment;
                scope.spawn(move || {
                    let holder = rater(segment, pid);
                    for turn in 0..20_000u64 {
                        let n = turn * u64::from(pid) % 40;
                        // Each key has a word of its own.
                        with_name(n, |name, _| {
                            holder.change_rate(&named(n, name), 1, |word| {
                                assert!(word == 0 || word == word_of(n), "{word:x} of {n}");
                                (Some(word_of(n)), ())
                            })
                        });
                    }
                })
            })
            .collect();
        let (segment, over) = (&segment, &over);
        let reader = scope.spawn(move || {
            let mut read = 0u64;
            loop {
                // Once more when all is written: it may not have had a turn before.
                let is_last = over.load(SeqCst);
                for (cell, label) in segment.table.cells.iter().zip(segment.table.labels).take(8) {
                    let Some(entry) = cell.read(label) else {
                        continue;
                    };
                    read += 1;
                    let n = entry.count.0;
                    assert_eq!(entry.rate, word_of(n));
                    with_name(n, |_, expected| assert_eq!(entry.beside, expected, "{n}"));
                }
                if is_last {
                    return read;
                }
            }
        });
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        over.store(true, SeqCst);
        assert!(written.iter().all(Result::is_ok));
        assert!(reader.join().unwrap() > 0);
    });
    assert!(segment.read(Counter::Evictions) > 1000);
    assert_sound(&segment);
}

/// A bucket that is full again in a time of this key's own.
fn word_of(n: u64) -> u64 {
    (1 << 60) + n
}
