//! A bucket full of keys, a process that holds some of them, and another one to
//! which things happen.

use super::*;

/// The other process, by the pid under which it is reaped.
pub const CHILD: u32 = 2;
pub const LIMIT: u16 = 4;

/// What a process does: with its holder, and a place that it got before.
pub type Work = fn(&Holder, LeaseIndex);

/// The key that all is about; others come and go in the same bucket.
pub fn subject() -> Keyed<'static> {
    key(0)
}

pub fn take_and_keep(holder: &Holder, key: &Keyed) -> Option<LeaseIndex> {
    match holder.acquire(key, Some(LIMIT), 7) {
        Acquired::Held(lease) => Some(lease.keep()),
        _ => None,
    }
}

pub const WORKS: [(&str, Work); 6] = [
    ("acquire of a known key", |holder, _| {
        take_and_keep(holder, &subject());
    }),
    ("release", |holder, lease| holder.release(lease)),
    ("release and acquire again", |holder, lease| {
        holder.release(lease);
        take_and_keep(holder, &subject());
    }),
    ("insert", |holder, _| {
        take_and_keep(holder, &key(20));
    }),
    ("insert, release, insert again", |holder, _| {
        for n in [20, 21] {
            drop(holder.acquire(&key(n), Some(LIMIT), 7));
        }
    }),
    ("a refused acquire", |holder, _| {
        let mut places = [const { None }; 5];
        for place in &mut places {
            *place = Some(holder.acquire(&subject(), Some(LIMIT), 7));
        }
    }),
];

/// What others do meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meanwhile {
    Nothing,
    /// Take and give back a place of the same key.
    Use,
    /// Give back a place that was taken before.
    Release,
    /// Take all places that are left.
    Fill,
    /// Insert a key that the other may be inserting too.
    Insert,
    /// So many new keys that every key without places is evicted.
    Crowd,
}

pub const MEANWHILE: [Meanwhile; 6] = [
    Meanwhile::Nothing,
    Meanwhile::Use,
    Meanwhile::Release,
    Meanwhile::Fill,
    Meanwhile::Insert,
    Meanwhile::Crowd,
];

pub struct Scene {
    pub other: Holder,
    pub segment: Mapped,
    /// Places that `other` holds on the subject.
    places: std::cell::RefCell<Vec<LeaseIndex>>,
    clock: std::cell::Cell<u32>,
}

impl Scene {
    pub fn new() -> Self {
        let segment = segment(SMALL);
        // It never waits: what it meets is a lock of the dead, or one that its own
        // thread holds at that step.
        let other = Holder::new(&segment, 1, || 0).with_patience(Duration::ZERO);
        Scene {
            segment,
            other,
            places: Vec::new().into(),
            clock: 10.into(),
        }
    }

    fn later(&self) -> u32 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Gives both processes a place of the subject, in a bucket where idle keys
    /// may fill all the other cells.
    pub fn set(&self, full: bool) -> (Holder, LeaseIndex) {
        if full {
            (1..8).for_each(|n| drop(held(self.other.acquire(&key(n), None, self.later()))));
        }
        let place = held(self.other.acquire(&subject(), None, self.later())).keep();
        self.places.borrow_mut().push(place);
        let child = holder(&self.segment, CHILD);
        let lease = held(child.acquire(&subject(), None, self.later())).keep();
        (child, lease)
    }

    pub fn meanwhile(&self, what: Meanwhile) {
        match what {
            Meanwhile::Nothing => {}
            Meanwhile::Use => drop(held(self.other.acquire(&subject(), None, self.later()))),
            Meanwhile::Release => self.release_all(),
            Meanwhile::Fill => {
                let places = std::iter::from_fn(|| take_and_keep(&self.other, &subject()));
                self.places.borrow_mut().extend(places);
            }
            Meanwhile::Insert => drop(self.other.acquire(&key(20), Some(1), self.later())),
            Meanwhile::Crowd => {
                self.release_all();
                for n in 30..50 {
                    // What the other still holds may leave no room: then untracked.
                    drop(self.other.acquire(&key(n), None, self.later()));
                }
            }
        }
    }

    fn release_all(&self) {
        let places = self.places.take();
        places
            .into_iter()
            .for_each(|place| self.other.release(place));
    }

    /// How many places of the subject `other` holds.
    pub fn places(&self) -> usize {
        self.places.borrow().len()
    }

    /// Work in a child that is killed at its `k`-th step, if it has so many.
    pub fn killed_at(&self, k: u32, work: Work, child: &Holder, lease: LeaseIndex) -> bool {
        processes::killed_at(k, || work(child, lease))
    }

    /// When nobody is left but `other`: the subject's count is what it holds, the
    /// limit admits exactly the rest, keys can be inserted, labels fit their
    /// keys, and when all is given back, all is quiet.
    pub fn check(&self, case: &str) {
        let Scene { segment, other, .. } = self;
        assert_eq!(
            other.count(subject().digest) as usize,
            self.places(),
            "{case}"
        );
        assert_eq!(audit(segment), 0, "{case}");
        let room = usize::from(LIMIT) - self.places();
        let more: Vec<Lease> = (0..room)
            .map(|_| held(other.acquire(&subject(), Some(LIMIT), 9)))
            .collect();
        let count = refused(other.acquire(&subject(), Some(LIMIT), 9));
        assert_eq!(count, u32::from(LIMIT), "{case}");
        // Keys that the other may have left half inserted, and a new one.
        let new = [20, 21, u64::from(100 + self.later())];
        let places = new.map(|n| held(other.acquire(&key(n), Some(1), self.later())));
        let rows = read(segment, 0).counts;
        assert_eq!(rows.len(), 4, "{case}: {rows:?}");
        for n in [0].into_iter().chain(new) {
            let Keyed { count, name, .. } = key(n);
            let value = if n == 0 { u32::from(LIMIT) } else { 1 };
            let row = KeyCount {
                count,
                name: read_name(name),
                value,
            };
            assert!(rows.contains(&row), "{case}: no {row:?} in {rows:?}");
        }
        drop((more, places));
        self.release_all();
        assert_quiet(segment);
    }
}
