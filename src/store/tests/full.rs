//! What happens when there is no room: of cells, of leases, of time, of numbers.

use std::time::Duration;

use super::*;

#[test]
fn keys_in_flight_are_never_evicted() {
    let segment = segment(SMALL);
    let holder = holder(&segment, 1);
    let places: Vec<Lease> = (0..8)
        .map(|n| held(holder.acquire(&key(n), None, 1)))
        .collect();
    for n in 8..1000 {
        assert!(matches!(
            holder.acquire(&key(n), Some(1), 2),
            Acquired::Untracked
        ));
    }
    assert!((0..8).all(|n| holder.count(key(n).digest) == 1));
    assert_eq!(segment.read(Counter::Untracked), 992);
    assert_eq!(segment.read(Counter::Evictions), 0);
    drop(places);
    assert_quiet(&segment);
}

#[test]
fn the_stalest_key_makes_room() {
    let segment = segment(SMALL);
    let holder = holder(&segment, 1);
    for (n, now) in [
        (0, 5),
        (1, 9),
        (2, 3),
        (3, 4),
        (4, 8),
        (5, 7),
        (6, 6),
        (7, 2),
    ] {
        drop(held(holder.acquire(&key(n), Some(1), now)));
    }
    let place = held(holder.acquire(&key(7), Some(1), 2));
    // Key 7 is in flight and key 2 the stalest of the others; then 3, then 0.
    for (newcomer, gone) in [(10, 2), (11, 3), (12, 0)] {
        assert!(segment.table.find(key(gone).digest).is_some());
        drop(held(holder.acquire(&key(newcomer), Some(1), 20)));
        assert!(segment.table.find(key(gone).digest).is_none());
    }
    assert_eq!(segment.read(Counter::Evictions), 3);
    assert_eq!(holder.count(key(7).digest), 1);
    drop(place);
    assert_quiet(&segment);
}

#[test]
fn a_late_release_does_not_make_a_key_stale_again() {
    let segment = segment(SMALL);
    let (early, late) = (holder(&segment, 1), holder(&segment, 2));
    let place = held(early.acquire(&key(0), None, 1));
    drop(held(late.acquire(&key(0), None, 100)));
    (1..8).for_each(|n| drop(held(late.acquire(&key(n), None, 50))));
    drop(place);
    drop(held(late.acquire(&key(8), None, 101)));
    assert!(segment.table.find(key(0).digest).is_some());
}

#[test]
fn ten_thousand_strangers_do_not_move_ten_holders() {
    let segment = segment(SMALL);
    let secret = segment.secret();
    let address = |n: u32| Address::from_v4((0x7f01_0000 + n).to_be_bytes());
    let keyed = |n| Keyed {
        digest: secret.digest(address(n)).within(CountId(9)),
        count: CountId(9),
        name: Name::Client(address(n)),
    };
    let holder = holder(&segment, 1);
    let places: Vec<Lease> = (0..10)
        .map(|n| held(holder.acquire(&keyed(n), Some(1), 0)))
        .collect();
    for n in 10..10_000 {
        match holder.acquire(&keyed(n), Some(1), n) {
            Acquired::Held(_) | Acquired::Untracked => {}
            Acquired::Refused { count } => panic!("an innocent was refused at {count}"),
        }
    }
    for n in 0..10 {
        assert_eq!(refused(holder.acquire(&keyed(n), Some(1), 10_000)), 1);
    }
    let reading = read(&segment, 0);
    assert_eq!(reading.counts.len(), 10);
    assert_eq!(reading.keys.held, 10);
    assert!(reading.evictions > 9_000, "{}", reading.evictions);
    drop(places);
    assert_quiet(&segment);
}

#[test]
fn without_a_free_lease_requests_are_admitted_untracked() {
    let segment = segment(Size {
        leases: 64,
        ..SMALL
    });
    let (one, other) = (holder(&segment, 1), holder(&segment, 2));
    let mut places: Vec<Lease> = (0..64)
        .map(|_| held(one.acquire(&key(0), None, 0)))
        .collect();
    assert!(matches!(
        one.acquire(&key(0), Some(70), 0),
        Acquired::Untracked
    ));
    assert!(matches!(
        other.acquire(&key(1), Some(70), 0),
        Acquired::Untracked
    ));
    // A limit that is reached is known without a lease.
    assert_eq!(refused(one.acquire(&key(0), Some(64), 0)), 64);
    places.pop();
    places.push(held(one.acquire(&key(0), Some(70), 0)));
    assert_eq!(segment.read(Counter::Untracked), 2);
    drop(places);
    assert_quiet(&segment);
}

#[test]
fn chunks_that_a_process_no_longer_needs_go_to_others() {
    let segment = segment(SMALL); // Four chunks.
    let (one, other) = (holder(&segment, 1), holder(&segment, 2));
    let places: Vec<Lease> = (0..256)
        .map(|_| held(one.acquire(&key(0), None, 0)))
        .collect();
    assert!(matches!(
        other.acquire(&key(1), None, 0),
        Acquired::Untracked
    ));
    drop(places);
    let theirs: Vec<Lease> = (0..192)
        .map(|_| held(other.acquire(&key(1), None, 0)))
        .collect();
    // One chunk was kept for the next burst, and no more.
    let ours: Vec<Lease> = (0..64)
        .map(|_| held(one.acquire(&key(0), None, 0)))
        .collect();
    for holder in [&one, &other] {
        let more = holder.acquire(&key(0), None, 0);
        assert!(matches!(more, Acquired::Untracked));
    }
    drop((theirs, ours));
    assert_quiet(&segment);
}

#[test]
fn a_chunk_that_is_used_again_is_not_returned() {
    let segment = segment(SMALL);
    let (one, other) = (holder(&segment, 1), holder(&segment, 2));
    let take = |holder: &Holder| held(holder.acquire(&key(0), None, 0)).keep();
    let first: Vec<LeaseIndex> = (0..64).map(|_| take(&one)).collect();
    let second = take(&one);
    first.into_iter().for_each(|lease| one.release(lease));
    // The first chunk was wholly free and is in use again when the second gets free.
    let again = take(&one);
    one.release(second);
    let theirs: Vec<LeaseIndex> = (0..128).map(|_| take(&other)).collect();
    assert!(matches!(
        other.acquire(&key(0), None, 0),
        Acquired::Untracked
    ));
    one.release(again);
    theirs.into_iter().for_each(|lease| other.release(lease));
    assert_quiet(&segment);
}

#[test]
fn an_insert_that_waits_too_long_goes_untracked_and_known_keys_do_not_wait() {
    let segment = segment(SMALL);
    let holder = Holder::new(&segment, 1, || 0).with_patience(Duration::from_millis(1));
    drop(held(holder.acquire(&key(0), Some(1), 0)));
    let (locked, unlock) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lock = segment.table.locks[0].lock(Duration::ZERO);
            assert!(lock.is_some());
            locked.wait();
            unlock.wait();
        });
        locked.wait();
        assert!(matches!(
            holder.acquire(&key(1), Some(1), 0),
            Acquired::Untracked
        ));
        drop(held(holder.acquire(&key(0), Some(1), 0)));
        unlock.wait();
    });
    drop(held(holder.acquire(&key(1), Some(1), 0)));
    assert_eq!(segment.read(Counter::Untracked), 1);
    assert_quiet(&segment);
}

#[test]
fn a_count_stops_at_what_its_word_can_hold() {
    let size = Size {
        leases: 131_072 + 64,
        ..SMALL
    };
    let segment = segment(size);
    let holder = holder(&segment, 1);
    let mut last = None;
    for _ in 0..131_071 {
        last = Some(held(holder.acquire(&key(0), None, 0)).keep());
    }
    assert!(matches!(
        holder.acquire(&key(0), None, 0),
        Acquired::Untracked
    ));
    assert_eq!(holder.count(key(0).digest), 131_071);
    holder.release(last.unwrap());
    assert_eq!(holder.count(key(0).digest), 131_070);
    assert_eq!(reap(&segment, 1).held, 131_070);
    assert_quiet(&segment);
}

#[test]
fn a_limit_of_zero_refuses_and_makes_no_key() {
    let segment = segment(SMALL);
    let holder = holder(&segment, 1);
    assert_eq!(refused(holder.acquire(&key(0), Some(0), 0)), 0);
    assert_eq!(read(&segment, 0).keys.used, 0);
}
