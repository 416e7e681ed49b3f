//! What is read and audited while everything moves, and what an audit finds.

use super::super::table::Found;
use super::scene::{CHILD, MEANWHILE, Scene, subject, take_and_keep};
use super::steps::interleaved;
use super::*;

#[test]
fn an_audit_is_right_whatever_happens_meanwhile() {
    for meanwhile in MEANWHILE {
        for k in 1.. {
            let scene = Scene::new();
            let (us, lease) = scene.set(true);
            let ours: Vec<_> = (1..4).map(|n| take_and_keep(&us, &key(n))).collect();
            let then = || {
                // So that cells change hands.
                ours.iter().flatten().for_each(|lease| us.release(*lease));
                us.release(lease);
                scene.meanwhile(meanwhile);
                for n in 60..63 {
                    take_and_keep(&us, &key(n));
                }
                take_and_keep(&us, &subject());
            };
            if !interleaved(k, then, || assert_eq!(audit(&scene.segment), 0)) {
                break;
            }
        }
    }
}

/// A row is of one key at one moment, however fast its cell changes hands.
#[test]
fn a_reading_is_right_whatever_happens_meanwhile() {
    for k in 1.. {
        let scene = Scene::new();
        // In flight, so that keys 20 and 21 have one cell between them.
        for n in 1..8 {
            take_and_keep(&scene.other, &key(n));
        }
        let us = holder(&scene.segment, CHILD);
        let three: Vec<_> = (0..3).map(|_| take_and_keep(&us, &key(20))).collect();
        let then = || {
            three.iter().flatten().for_each(|lease| us.release(*lease));
            assert!(take_and_keep(&us, &key(21)).is_some());
        };
        let came = interleaved(k, then, || {
            for row in read(&scene.segment, 0).counts {
                let n = number_of(&row.name);
                let value = if n == 20 { 3 } else { 1 };
                assert_eq!((row.count, row.value), (key(n).count, value), "step {k}");
            }
        });
        if !came {
            break;
        }
    }
}

#[test]
fn an_audit_finds_a_planted_mismatch_and_leaves_it() {
    use std::sync::atomic::Ordering::SeqCst;
    let segment = segment(SMALL);
    let holder = holder(&segment, 1);
    let lease = held(holder.acquire(&subject(), None, 0));
    assert_eq!(audit(&segment), 0);
    let Found { cell, state, .. } = segment.table.find(subject().digest).unwrap();
    // One more than its leases say, then one less.
    for (planted, mismatches) in [(state.up(63, 9), 1), (state.down(63, 9), 1), (state, 0)] {
        cell.state.store(planted.0, SeqCst);
        assert_eq!(audit(&segment), mismatches);
        assert_eq!(cell.state.load(SeqCst), planted.0);
    }
    drop(lease);
    // A count without any lease.
    let Found { state, .. } = segment.table.find(subject().digest).unwrap();
    cell.state.store(state.up(63, 9).0, SeqCst);
    assert_eq!(audit(&segment), 1);
    assert_eq!(segment.read(Counter::AuditMismatches), 3);
    assert_eq!(read(&segment, 0).audits, 5);
}
