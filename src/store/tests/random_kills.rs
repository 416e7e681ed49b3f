//! Processes that take and give back as fast as they can, killed at random.

use std::time::{Duration, Instant};

use super::processes::{Child, End, fork};
use super::*;

const PROCESSES: u32 = 4;
const LIMIT: u16 = 3;
/// Few keys, so that all meet; and strangers that want their cells.
const KEYS: u64 = 3;
const FOR: Duration = Duration::from_secs(5);
/// A run that kills nobody between two steps proves nothing: then it goes on, so long.
const AT_MOST: Duration = Duration::from_secs(60);

/// What a child does until it is killed. Nothing is allocated.
fn work(holder: &Holder, seed: u64) -> i32 {
    let mut random = seed;
    let mut places = [const { None }; 4];
    loop {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let now = (random >> 40) as u32;
        let which = random % 16;
        let place = &mut places[random as usize >> 20 & 3];
        *place = None;
        if which == 0 {
            // A stranger: inserts, evicts, goes.
            drop(holder.acquire(&key(100 + (random >> 8) % 64), Some(1), now));
            continue;
        }
        match holder.acquire(&key(which % KEYS), Some(LIMIT), now) {
            Acquired::Held(lease) => *place = Some(lease),
            Acquired::Refused { count } if count != u32::from(LIMIT) => return 1,
            // Untracked: strangers and the dead may hold all eight cells for a moment.
            Acquired::Refused { .. } | Acquired::Untracked => {}
        }
        if holder.count(key(which % KEYS).digest) > u32::from(LIMIT) {
            return 2; // Over-admission.
        }
    }
}

#[test]
fn killed_at_random_under_load() {
    let segment = segment(SMALL);
    let mut pids = 1..;
    let mut start = || -> (u32, Child) {
        let pid = pids.next().unwrap();
        let holder = holder(&segment, pid);
        let child = fork(|| work(&holder, u64::from(pid).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        (pid, child)
    };
    let mut children: Vec<(u32, Child)> = (0..PROCESSES).map(|_| start()).collect();
    let (begin, mut random, mut kills) = (Instant::now(), 88_172_645_463_325_252u64, 0);
    let mut end = |(pid, child): (u32, Child)| {
        child.kill();
        let end = child.wait();
        assert_eq!(end, End::Killed, "1: refused too early, 2: over the limit");
        reap(&segment, pid);
        kills += 1;
    };
    let proves_nothing = || {
        let Reaped {
            pending,
            held,
            releasing,
            released,
        } = read(&segment, 0).reaped;
        pending == 0 || held == 0 || releasing + released == 0
    };
    while begin.elapsed() < FOR || proves_nothing() && begin.elapsed() < AT_MOST {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Not a wait for anything: the time of death is what is random here.
        std::thread::sleep(Duration::from_micros(random % 1_500));
        let which = random as usize % children.len();
        end(std::mem::replace(&mut children[which], start()));
    }
    children.into_iter().for_each(&mut end);

    let reaped = read(&segment, 0).reaped;
    println!("{kills} kills found {reaped:?}");
    assert_quiet(&segment);
    let last = holder(&segment, u32::MAX);
    for n in 0..KEYS {
        let places: Vec<Lease> = (0..LIMIT)
            .map(|_| held(last.acquire(&key(n), Some(LIMIT), u32::MAX)))
            .collect();
        refused(last.acquire(&key(n), Some(LIMIT), u32::MAX));
        drop(places);
    }
    assert_quiet(&segment);
    assert!(!proves_nothing(), "{reaped:?}");
}
