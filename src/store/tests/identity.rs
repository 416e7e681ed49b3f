//! The identity table against a plain list of seats.

use std::sync::atomic::Ordering::SeqCst;

use proptest::prelude::*;

use super::processes::killed_at;
use super::steps::interleaved;
use super::*;

const SLOTS: u32 = 21; // Not a multiple of eight.

fn sized(slots: u32) -> Mapped {
    segment(Size { slots, ..SMALL })
}

fn address(n: u64) -> Address {
    Address::from_words([n / 4, n % 4])
}

fn owner(pid: u32, serial: u32) -> u64 {
    u64::from(pid) << 32 | u64::from(serial)
}

#[derive(Clone, Debug)]
enum Op {
    Seat {
        slot: u32,
        pid: u32,
        serial: u32,
        who: u64,
    },
    Vacate {
        slot: u32,
        pid: u32,
        serial: u32,
    },
    VacateProcess(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let (slot, pid, serial) = (0..SLOTS + 2, 1u32..4, 1u32..4);
    prop_oneof![
        4 => (slot.clone(), pid.clone(), serial.clone(), 0u64..10)
            .prop_map(|(slot, pid, serial, who)| Op::Seat { slot, pid, serial, who }),
        2 => (slot, pid.clone(), serial).prop_map(|(slot, pid, serial)| Op::Vacate { slot, pid, serial }),
        1 => pid.prop_map(Op::VacateProcess),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_list(ops in prop::collection::vec(op(), 1..150), busy: u32, stop in 0u32..25) {
        let segment = sized(SLOTS);
        let identity = segment.identity();
        let mut list: Vec<Option<(u64, u64)>> = vec![None; SLOTS as usize];
        // Three tags for ten clients, two of them neighbours: bytes collide, and
        // the scan's trick marks one byte too many now and then.
        let tag = |who: u64| [1, 2, 0xff][who as usize % 3];
        for op in ops {
            match op {
                Op::Seat { slot, pid, serial, who } => {
                    identity.seat(slot, owner(pid, serial), address(who), tag(who));
                    if let Some(seat) = list.get_mut(slot as usize) {
                        *seat = Some((owner(pid, serial), who));
                    }
                }
                Op::Vacate { slot, pid, serial } => {
                    identity.vacate(slot, owner(pid, serial));
                    if let Some(seat) = list.get_mut(slot as usize) {
                        *seat = seat.filter(|(sits, _)| *sits != owner(pid, serial));
                    }
                }
                Op::VacateProcess(pid) => {
                    identity.vacate_process(pid);
                    for seat in &mut list {
                        *seat = seat.filter(|(sits, _)| sits >> 32 != u64::from(pid));
                    }
                }
            }
            for (slot, seat) in list.iter().enumerate() {
                let who = seat.map(|(_, who)| address(who));
                prop_assert_eq!(identity.seated(slot as u32), who);
            }
            for who in 0..10 {
                let sits = |seat: &&(usize, Option<(u64, u64)>)| {
                    seat.1.is_some_and(|(_, sits)| sits == who) && busy >> seat.0 & 1 == 1
                };
                let all: Vec<_> = list.iter().copied().enumerate().collect();
                let expected = all.iter().filter(sits).count() as u32;
                let count = identity.count(address(who), tag(who), stop, |slot| busy >> slot & 1 == 1);
                prop_assert_eq!(count, expected.min(stop + 1));
            }
        }
    }
}

#[test]
fn equal_tags_do_not_make_equal_clients() {
    let segment = sized(256);
    let identity = segment.identity();
    for slot in 0..256 {
        let who = if slot % 2 == 0 {
            address(1)
        } else {
            address(2)
        };
        identity.seat(slot, owner(1, slot + 1), who, 77);
    }
    assert_eq!(identity.count(address(1), 77, u32::MAX, |_| true), 128);
    assert_eq!(identity.count(address(3), 77, u32::MAX, |_| true), 0);
}

#[test]
fn a_scan_stops_when_the_number_is_passed() {
    let segment = sized(256);
    let identity = segment.identity();
    (0..256).for_each(|slot| identity.seat(slot, owner(1, 1), address(1), 5));
    let asked = std::cell::Cell::new(0);
    let busy = |_| {
        asked.set(asked.get() + 1);
        true
    };
    assert_eq!(identity.count(address(1), 5, 3, busy), 4);
    assert_eq!(asked.get(), 4);
}

#[test]
fn a_former_user_of_a_slot_is_not_seen_there() {
    let segment = sized(8);
    let identity = segment.identity();
    identity.seat(3, owner(1, 1), address(1), 5);
    identity.seat(3, owner(1, 2), address(2), 6);
    identity.vacate(3, owner(1, 1)); // Too late: no longer its slot.
    assert_eq!(identity.seated(3), Some(address(2)));
    assert_eq!(identity.count(address(1), 5, 9, |_| true), 0);
    assert_eq!(identity.count(address(2), 6, 9, |_| true), 1);
    identity.vacate(3, owner(1, 2));
    assert_eq!(identity.seated(3), None);
    assert_eq!(identity.count(address(2), 6, 9, |_| true), 0);
}

#[test]
fn the_address_of_a_connection_may_change() {
    let segment = sized(8);
    let identity = segment.identity();
    identity.seat(0, owner(1, 1), address(1), 5);
    identity.seat(0, owner(1, 1), address(2), 6);
    assert_eq!(identity.count(address(1), 5, 9, |_| true), 0);
    assert_eq!(identity.count(address(2), 6, 9, |_| true), 1);
}

/// A slow cleanup of the last connection must not take the tag of the next.
#[test]
fn seating_and_vacating_at_once_loses_no_tag() {
    let segment = sized(8);
    let identity = segment.identity();
    let seated = std::sync::atomic::AtomicU32::new(0);
    const LAST: u32 = 20_000;
    let seat = |slot: u32| {
        for serial in 1..=LAST {
            let n = u64::from(serial % 3);
            identity.seat(slot, owner(slot, serial), address(n), n as u8 + 1);
            if slot == 2 {
                seated.store(serial, SeqCst);
            }
            let count = identity.count(address(n), n as u8 + 1, 9, |s| s == slot);
            assert_eq!(count, 1);
        }
    };
    std::thread::scope(|scope| {
        let two = scope.spawn(|| seat(2));
        scope.spawn(|| seat(3));
        while !two.is_finished() {
            // Of whoever sat there before, as a late cleanup does.
            let serial = seated.load(SeqCst);
            identity.vacate(2, owner(2, serial.saturating_sub(1)));
        }
    });
    for slot in [2, 3] {
        let n = u64::from(LAST % 3);
        assert_eq!(identity.seated(slot), Some(address(n)));
        assert_eq!(identity.count(address(n), n as u8 + 1, 9, |s| s == slot), 1);
    }
}

#[test]
fn nobody_reads_half_an_address() {
    let segment = sized(1);
    let identity = segment.identity();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for serial in 1..50_000u32 {
                let half = u64::from(serial);
                identity.seat(0, owner(1, serial), Address::from_words([half, half]), 1);
            }
            done.store(true, SeqCst);
        });
        while !done.load(SeqCst) {
            if let Some(who) = identity.seated(0) {
                let [high, low] = who.words();
                assert_eq!(high, low);
            }
        }
    });
}

/// Not even of a thread that stops in the middle of seating somebody else.
#[test]
fn nobody_reads_half_an_address_of_the_dead() {
    for (j, k) in (1..5).flat_map(|j| (1..5).map(move |k| (j, k))) {
        let segment = sized(8);
        let identity = segment.identity();
        let [ours, theirs] = [[5, 5], [6, 6]].map(Address::from_words);
        identity.seat(3, owner(1, 1), ours, 1);
        let dies = || {
            let seat = || identity.seat(3, owner(2, 1), theirs, 1);
            assert!(killed_at(j, seat));
        };
        let seen = steps::at(k, &dies, || identity.seated(3));
        let whole = [None, Some(ours), Some(theirs)];
        assert!(whole.contains(&seen), "step {j} of the dead, {k} of ours");
    }
}

/// Whatever two threads do to one slot, its tag fits its owner in the end.
#[test]
fn a_slots_tag_fits_its_owner_whoever_comes_between() {
    let owner = |serial| owner(1, serial);
    let who = address;
    for late in [1, 2] {
        for k in 1.. {
            let segment = segment(SMALL);
            let identity = segment.identity();
            identity.seat(3, owner(1), who(1), 1);
            // The cleanup of connection 1 (or of 2, late), then 2 moves in and
            // learns its client's real address.
            let came = interleaved(
                k,
                || {
                    identity.seat(3, owner(2), who(2), 2);
                    identity.seat(3, owner(2), who(3), 3);
                },
                || identity.vacate(3, owner(late)),
            );
            let expected = u32::from(came);
            assert_eq!(identity.count(who(3), 3, 9, |_| true), expected);
            if came {
                assert_eq!(identity.seated(3), Some(who(3)));
            } else {
                break;
            }
        }
    }
    // Whoever reads a slot while it changes hands gets one client or the other.
    for next in [1, 2] {
        for k in 1.. {
            let segment = segment(SMALL);
            let identity = segment.identity();
            let [ours, theirs] = [[5, 5], [6, 6]].map(Address::from_words);
            identity.seat(3, owner(1), ours, 1);
            let came = interleaved(
                k,
                || identity.seat(3, owner(next), theirs, 1),
                || assert!([ours, theirs].contains(&identity.seated(3).unwrap())),
            );
            if !came {
                break;
            }
        }
        // And in the middle of its changing hands there is one of them or nobody.
        for k in 1.. {
            let segment = segment(SMALL);
            let identity = segment.identity();
            let [ours, theirs] = [[5, 5], [6, 6]].map(Address::from_words);
            identity.seat(3, owner(1), ours, 1);
            let whole = || [None, Some(ours), Some(theirs)].contains(&identity.seated(3));
            let came = interleaved(
                k,
                || assert!(whole()),
                || identity.seat(3, owner(next), theirs, 1),
            );
            if !came {
                break;
            }
        }
    }
    // And the other way round: the cleanup comes while the next moves in.
    for k in 1.. {
        let segment = segment(SMALL);
        let identity = segment.identity();
        identity.seat(3, owner(1), who(1), 1);
        let came = interleaved(
            k,
            || identity.vacate(3, owner(1)),
            || identity.seat(3, owner(2), who(2), 2),
        );
        assert_eq!(identity.seated(3), Some(who(2)));
        assert_eq!(identity.count(who(2), 2, 9, |_| true), 1);
        assert_eq!(identity.count(who(1), 1, 9, |_| true), 0);
        if !came {
            break;
        }
    }
}
