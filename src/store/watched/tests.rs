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

#[test]
fn an_entry_keeps_what_its_worker_says_until_the_response_ends() {
    let watched = Watched::new(1);
    let index = watched.begin(7, Some(3), false, 11).unwrap();
    watched.bound(index, &BOUNDS);
    let at = index.at;
    let response = watched.read(at as usize).unwrap();
    assert_eq!(
        (response.fd, response.slot, response.started),
        (7, Some(3), 11)
    );
    assert_eq!(response.bounds, BOUNDS);
    let taken = Taken { bytes: 5, time: 6 };
    let generation = response.generation;
    assert!(!watched.decide(at as usize, generation + 2, Found::TooSlow(taken)));
    assert_eq!(watched.found(index), None);
    assert!(watched.decide(at as usize, generation, Found::TooSlow(taken)));
    assert!(!watched.decide(at as usize, generation, Found::TooLong(Duration::ZERO)));
    assert_eq!(watched.close(index), Some(Found::TooSlow(taken)));
    assert_eq!(watched.found(index), Some(Found::TooSlow(taken)));
    watched.end(index);
    assert!(watched.read(at as usize).is_none());
    assert!(!watched.is_still(at as usize, response.generation));
    let again = watched.begin(8, None, true, 12).unwrap();
    assert_eq!((again.at, watched.found(again)), (at, None));
    assert!(watched.read(at as usize).unwrap().bounds.min_rate.is_none());
}

#[test]
fn who_comes_too_late_neither_says_nor_finds_anything() {
    let watched = Watched::new(1);
    let first = watched.begin(7, Some(3), true, 11).unwrap();
    watched.end(first);
    let second = watched.begin(8, Some(4), true, 12).unwrap();
    assert_eq!(first.at, second.at);
    watched.bound(first, &BOUNDS);
    watched.blocks(first, Some(1));
    watched.moves(first, None);
    watched.sent(first);
    watched.decide_own(first, Found::TooLong(Duration::ZERO));
    watched.end(first);
    assert_eq!((watched.bounds(first), watched.found(first)), (None, None));
    let response = watched.read(second.at as usize).unwrap();
    assert_eq!((response.slot, response.blocked), (Some(4), None));
    assert!(response.bounds.min_rate.is_none() && !response.is_decided);
    watched.sent(second);
    assert!(watched.read(second.at as usize).is_none());
    watched.end(second);
    assert!(watched.begin(9, None, false, 13).is_some());
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let watched = Watched::new(100);
    let taken: Vec<WatchedIndex> =
        std::iter::from_fn(|| watched.begin(1, None, false, 0)).collect();
    assert_eq!(taken.len(), watched.room());
    watched.end(taken[70]);
    let again = watched.begin(1, None, false, 0);
    assert_eq!(again.map(|index| index.at), Some(taken[70].at));
    assert_eq!(watched.begin(1, None, false, 0), None);
}

#[test]
fn what_has_ended_is_not_found_out_any_more() {
    let watched = Watched::new(1);
    let index = watched.begin(7, None, false, 11).unwrap();
    let response = watched.read(index.at as usize).unwrap();
    assert_eq!(watched.close(index), None);
    let late = Found::TooLong(Duration::from_secs(1));
    assert!(!watched.decide(index.at as usize, response.generation, late));
    assert!(!watched.decide_own(index, late));
    assert_eq!(watched.found(index), None);
    assert!(watched.read(index.at as usize).unwrap().is_decided);
}
