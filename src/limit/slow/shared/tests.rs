//! Connections that are shared, looked at twice a second by a clock of our own.

use super::*;

const S: u64 = 1_000_000_000;
const HALF: u64 = S / 2;
const WINDOW: u64 = 4 * S;

/// What happens until the next look, and what is found then.
#[derive(Clone, Copy)]
struct Step {
    out: u64,
    acknowledged: u64,
    is_full: bool,
    waiting: u32,
    /// Whether all waited all the time.
    all: bool,
}

const STILL: Step = Step {
    out: 0,
    acknowledged: 0,
    is_full: false,
    waiting: 1,
    all: true,
};

/// What was found of the connection, and of a response on it that waits from the beginning
/// and has half of what goes out, at each look.
fn looks(steps: impl IntoIterator<Item = Step>) -> Vec<[Option<Taken>; 2]> {
    let (mut connection, mut stream) = (Connection::default(), Stream::default());
    let mut look = Look {
        now: 7 * S,
        out: 0,
        acknowledged: 0,
        is_full: false,
        busy: 0,
        waiting: 1,
        all_waited: 0,
    };
    let one = |step: Step| {
        look.now += HALF;
        look.out += step.out;
        look.acknowledged += step.acknowledged;
        look.busy += if step.is_full { HALF } else { 0 };
        look.is_full = step.is_full;
        look.waiting = step.waiting;
        look.all_waited += if step.all { HALF } else { 0 };
        let of_all = connection.look(look, WINDOW);
        let sample = Sample {
            now: look.now,
            taken: look.out / 2,
            waiting: look.now - 7 * S,
            waits: true,
        };
        [of_all, stream.look(sample, connection.share(), WINDOW)]
    };
    steps.into_iter().map(one).collect()
}

/// The highest rates that were found after the first window.
fn highest(steps: &[Step]) -> [Option<u64>; 2] {
    let found: Vec<_> = looks(steps.iter().cycle().take(120).copied()).split_off(20);
    [0, 1].map(|of| {
        let rates = found.iter().map(|both| both[of].map(|taken| taken.rate()));
        rates.collect::<Option<Vec<_>>>()?.into_iter().max()
    })
}

#[test]
fn whoever_is_waited_for_is_judged_whatever_keeps_it_back() {
    let full = Step {
        is_full: true,
        ..STILL
    };
    let takes = |bytes| Step {
        acknowledged: bytes,
        ..full
    };
    let out = |bytes| Step {
        out: bytes,
        ..STILL
    };
    type Case<'a> = (&'a str, &'a [Step], [Option<u64>; 2]);
    let cases: [Case; 7] = [
        ("nothing at all", &[STILL], [Some(0), Some(0)]),
        (
            "nothing, and its socket is full",
            &[full],
            [Some(0), Some(0)],
        ),
        ("what goes out", &[out(500)], [Some(1000), Some(500)]),
        (
            "what is acknowledged",
            &[takes(500)],
            [Some(1000), Some(1000)],
        ),
        // The kernel took a megabyte before, and sends it.
        (
            "two share it",
            &[Step {
                waiting: 2,
                ..takes(500)
            }],
            [Some(1000), Some(500)],
        ),
        // It grants 400 bytes and does not read, then reads them all, over and over.
        (
            "full and empty by turns",
            &[
                full,
                full,
                full,
                Step {
                    out: 400,
                    acknowledged: 400,
                    ..STILL
                },
            ],
            [Some(200), Some(200)],
        ),
        // New responses come and go all the time.
        (
            "a short one now and then",
            &[
                STILL,
                STILL,
                Step {
                    waiting: 2,
                    ..STILL
                },
            ],
            [Some(0), Some(0)],
        ),
    ];
    for (what, steps, rates) in cases {
        assert_eq!(highest(steps), rates, "{what}");
    }
}

#[test]
fn lumps_of_either_kind_are_no_slowness() {
    // All goes out at once, and is acknowledged for a long time after.
    let lump = Step {
        out: 100_000,
        is_full: true,
        ..STILL
    };
    let after = Step {
        acknowledged: 5000,
        is_full: true,
        ..STILL
    };
    let steps = [&[lump][..], &[after; 20]].concat();
    for [of_all, of_one] in looks(steps.iter().cycle().take(100).copied()).split_off(10) {
        assert!(
            of_all.is_none_or(|taken| taken.rate() >= 8000),
            "{of_all:?}"
        );
        assert!(
            of_one.is_none_or(|taken| taken.rate() >= 8000),
            "{of_one:?}"
        );
    }
}

#[test]
fn nobody_is_judged_while_a_server_is_waited_for() {
    let busy = Step {
        all: false,
        ..STILL
    };
    let idle = Step {
        waiting: 0,
        all: false,
        ..STILL
    };
    for step in [busy, idle] {
        assert!(looks([step; 30]).iter().all(|both| both[0].is_none()));
    }
    // Unless what there is waits in the socket.
    let full = Step {
        is_full: true,
        ..busy
    };
    assert_eq!(highest(&[full])[0], Some(0));
}

#[test]
fn what_is_of_no_body_takes_nothing_back() {
    let mut connection = Connection::default();
    let mut look = Look {
        now: S,
        out: 0,
        acknowledged: 10_000,
        is_full: true,
        busy: 0,
        waiting: 1,
        all_waited: 0,
    };
    for _ in 0..8 {
        connection.look(look, WINDOW);
        look.now += HALF;
        look.busy += HALF;
        look.all_waited += HALF;
    }
    // Headers went out and are not acknowledged yet.
    look.acknowledged -= 5000;
    let taken = connection.look(look, WINDOW).expect("a whole window");
    assert_eq!((taken.bytes, connection.share()), (0, 0));
}
