//! The entries of watched responses: what is said of one use is never of another.

use super::*;

const BOUNDS: Bounds = Bounds {
    min_rate: Some(MinRate {
        bytes: 500,
        after: Duration::from_secs(3),
        window: Duration::from_secs(4),
        busy: Some(80),
    }),
    max_time: Some(MaxTime {
        time: Duration::from_secs(60),
        busy: None,
    }),
    is_dry_run: true,
};

const ONE_EACH: Carried = Carried {
    active: 1,
    waiting: 1,
    spared: 1,
    dry: 1,
};

fn response(fd: i32, kind: Kind) -> Begun {
    Begun {
        fd,
        seat: Some((3, 77)),
        kind,
        now: 11,
    }
}

const NOTHING: Findings = Findings {
    cut: None,
    marks: [None; 2],
    is_charged: false,
};

#[test]
fn an_entry_keeps_what_its_worker_says_until_the_response_ends() {
    let watched = Watched::new(1);
    let index = watched.begin(response(7, Kind::Response)).unwrap();
    watched.bound(index, &BOUNDS);
    let read = watched.read(index.at()).unwrap();
    assert_eq!((read.fd, read.seat, read.started), (7, Some((3, 77)), 11));
    assert_eq!((read.index, read.kind), (index, Kind::Response));
    assert_eq!(read.bounds, BOUNDS);
    let taken = Found::TooSlow(Taken { bytes: 5, time: 6 });
    let later = WatchedIndex {
        generation: index.generation + 2,
        ..index
    };
    assert!(!watched.decide(later, taken));
    assert_eq!(watched.found(index), None);
    assert!(watched.decide(index, taken));
    assert!(!watched.decide(index, Found::TooLong(Duration::ZERO)));
    let cut = Findings {
        cut: Some(taken),
        ..NOTHING
    };
    assert_eq!(watched.close(index), cut);
    assert_eq!(watched.found(index), Some(taken));
    watched.end(index);
    assert!(watched.read(index.at()).is_none() && !watched.is_still(index));
    let again = watched.begin(response(8, Kind::Carrier)).unwrap();
    assert_eq!((again.at, watched.found(again)), (index.at, None));
    let read = watched.read(again.at()).unwrap();
    assert_eq!((read.bounds, read.kind), (Bounds::default(), Kind::Carrier));
}

#[test]
fn who_comes_too_late_neither_says_nor_finds_anything() {
    let watched = Watched::new(1);
    let first = watched.begin(response(7, Kind::Response)).unwrap();
    watched.end(first);
    let second = watched.begin(response(8, Kind::Response)).unwrap();
    assert_eq!(first.at, second.at);
    let late = Found::TooLong(Duration::ZERO);
    watched.bound(first, &BOUNDS);
    watched.blocks(first, 1);
    watched.goes_on(first, 5);
    watched.went_out(first, 1, 1);
    watched.carries(first, ONE_EACH);
    watched.began(first, 99);
    watched.set_free(first);
    watched.moves(first, None);
    watched.spare(first);
    assert!(!watched.decide(first, late) && !watched.mark(first, late));
    watched.end(first);
    assert_eq!(
        (watched.bounds(first), watched.close(first)),
        (None, NOTHING)
    );
    let read = watched.read(second.at()).unwrap();
    assert_eq!((read.seat, read.blocked), (Some((3, 77)), None));
    let numbers = [read.waited, read.data, read.other];
    assert_eq!((numbers, read.carried), ([0; 3], Carried::default()));
    assert_eq!(read.started, 11);
    assert!(read.bounds.is_idle() && !read.is_decided && read.is_marked == [false; 2]);
    watched.end(second);
    assert!(watched.begin(response(9, Kind::Response)).is_some());
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let watched = Watched::new(100);
    let begin = || watched.begin(response(1, Kind::Response));
    let taken: Vec<WatchedIndex> = std::iter::from_fn(begin).collect();
    assert_eq!(taken.len(), watched.room());
    watched.end(taken[70]);
    assert_eq!(begin().map(|index| index.at), Some(taken[70].at));
    assert_eq!(begin(), None);
}

#[test]
fn what_has_ended_is_not_found_out_any_more() {
    let watched = Watched::new(1);
    let late = Found::TooLong(Duration::from_secs(1));
    for end in [Watched::spare, |watched: &Watched, index| {
        assert_eq!(watched.close(index), NOTHING);
    }] {
        let index = watched.begin(response(7, Kind::Response)).unwrap();
        end(&watched, index);
        assert!(!watched.decide(index, late) && !watched.mark(index, late));
        assert_eq!(watched.close(index), NOTHING);
        assert!(watched.read(index.at()).unwrap().is_decided);
        watched.end(index);
    }
}

#[test]
fn a_dry_run_marks_once_of_each_kind_and_whoever_cuts_has_the_last_word() {
    let watched = Watched::new(1);
    let index = watched.begin(response(7, Kind::Response)).unwrap();
    let long = Found::TooLong(Duration::from_secs(1));
    let slow = |bytes| Found::TooSlow(Taken { bytes, time: 9 });
    let is_marked = || watched.read(index.at()).unwrap().is_marked;
    assert!(watched.mark(index, long) && !watched.mark(index, long));
    assert_eq!(is_marked(), [false, true]);
    assert!(watched.mark(index, slow(1)) && !watched.mark(index, slow(2)));
    assert_eq!(is_marked(), [true; 2]);
    assert!(!watched.read(index.at()).unwrap().is_decided);
    assert_eq!(watched.found(index), None);
    // A redirect has led to a place that is in earnest.
    assert!(watched.decide(index, long) && !watched.mark(index, slow(3)));
    let all = watched.close(index);
    assert_eq!(
        (all.cut, all.marks),
        (Some(long), [Some(slow(1)), Some(long)])
    );
}

#[test]
fn a_stream_tells_how_long_it_waited_and_a_connection_what_it_carries() {
    let watched = Watched::new(2);
    let carrier = watched.begin(response(7, Kind::Carrier)).unwrap();
    let stream = watched.begin(response(7, Kind::Stream(carrier))).unwrap();
    let read = |index: WatchedIndex| watched.read(index.at()).unwrap();
    assert_eq!(read(stream).kind, Kind::Stream(carrier));
    watched.blocks(stream, 100);
    assert_eq!((read(stream).blocked, read(stream).waited), (Some(100), 0));
    watched.goes_on(stream, 130);
    watched.goes_on(stream, 190);
    assert_eq!((read(stream).blocked, read(stream).waited), (None, 30));
    watched.blocks(stream, 200);
    watched.goes_on(stream, 205);
    assert_eq!(read(stream).waited, 35);
    watched.went_out(carrier, 1000, 9);
    watched.went_out(carrier, 0, 17);
    watched.carries(carrier, ONE_EACH);
    watched.began(carrier, 12);
    watched.set_free(stream);
    let connection = read(carrier);
    assert_eq!((connection.data, connection.other), (1000, 26));
    assert_eq!((connection.carried, connection.started), (ONE_EACH, 12));
    assert_eq!((connection.is_free, read(stream).is_free), (false, true));
}

#[test]
fn streams_leave_room_for_all_else() {
    for room in [2 * 64, 64 * 16 + 64] {
        let watched = Watched::new(room);
        let carrier = watched.begin(response(7, Kind::Carrier)).unwrap();
        let begin = |kind| watched.begin(response(7, kind));
        let streams = std::iter::from_fn(|| begin(Kind::Stream(carrier))).count();
        let others = std::iter::from_fn(|| begin(Kind::Response)).count();
        assert_eq!(streams + others + 1, watched.room());
        assert!(others >= watched.room() / 4 && streams >= watched.room() / 4);
    }
}

#[test]
fn only_a_minimum_in_earnest_is_one() {
    let in_earnest = Bounds {
        is_dry_run: false,
        ..BOUNDS
    };
    assert_eq!(in_earnest.min_rate_in_earnest(), BOUNDS.min_rate);
    for bounds in [BOUNDS, Bounds::default()] {
        assert_eq!(bounds.min_rate_in_earnest(), None);
    }
}

#[test]
fn streams_without_a_worker_have_a_part_of_the_entries() {
    let watched = Watched::new(4 * GROUP);
    let carrier = watched.begin(response(7, Kind::Carrier)).unwrap();
    let stream = || watched.begin(response(7, Kind::Stream(carrier))).unwrap();
    let most = watched.room() / 4;
    let streams: Vec<_> = (0..most).map(|_| stream()).collect();
    assert!(streams.iter().all(|stream| watched.set_free(*stream)));
    let another = stream();
    assert!(!watched.set_free(another));
    // One that has ended makes room; one that is over already has none to give.
    watched.end(streams[0]);
    watched.end(streams[0]);
    assert!(!watched.set_free(streams[0]));
    assert!(watched.set_free(another));
    assert!(!watched.set_free(stream()));
}

#[test]
fn what_is_due_is_due_once_and_on_this_connection_only() {
    let watched = Watched::new(1);
    let carrier = watched.begin(response(7, Kind::Carrier)).unwrap();
    assert!(!watched.take_due(carrier));
    watched.set_due(carrier);
    assert!(watched.take_due(carrier));
    assert!(!watched.take_due(carrier));
    watched.set_due(carrier);
    watched.end(carrier);
    assert!(!watched.take_due(carrier));
    let next = watched.begin(response(8, Kind::Carrier)).unwrap();
    assert_eq!(next.at(), carrier.at());
    assert!(!watched.take_due(next));
}
