//! httpd's scoreboard: only the status of a slot is ever read. Its texts are cut,
//! stale or host names, so who sits in a slot is our own table's business.

use std::mem::{offset_of, size_of};

use crate::sys;

/// A slot's running number: child * threads per child + thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(pub u32);

/// The worker slots of the running httpd.
#[derive(Clone, Copy)]
pub struct Scoreboard {
    base: *const u8,
    slots: u32,
}

// SAFETY: what another thread could spoil is the memory behind `base`, and whether it is there.
// httpd makes the scoreboard once, in the pool of the process, before it has a child; ServerLimit
// and ThreadLimit keep their first values, so a restart empties it where it is, and never moves
// or shrinks it. No child destroys that pool before it ends, and the parent does as it exits,
// with no thread of ours. Behind `base` nothing is ever written, and nothing read but the status
// byte of a slot below `slots`, by one volatile load: other processes write it at any time, and
// there is no half of a byte to be seen.
unsafe impl Send for Scoreboard {}
// SAFETY: as above; that the same value is used by several threads at once makes no difference,
// since its own fields never change.
unsafe impl Sync for Scoreboard {}

/// Why the scoreboard cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScoreboardError {
    /// There is none (yet).
    Missing,
    /// Two neighbours are this many bytes apart, not as many as in the headers.
    Stride(usize),
}

impl std::fmt::Display for ScoreboardError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ScoreboardError::Missing => f.write_str("this httpd has no scoreboard"),
            ScoreboardError::Stride(found) => write!(
                f,
                "a slot of this httpd's scoreboard has {found} bytes, but the module was built for {}; \
                 build it with the headers of this httpd",
                size_of::<sys::worker_score>()
            ),
        }
    }
}

impl Scoreboard {
    /// Finds the slots and checks that they are as far apart as the headers say.
    pub fn find(slots: u32) -> Result<Self, ScoreboardError> {
        // SAFETY: httpd returns null for what does not exist.
        let at =
            |child, thread| unsafe { sys::ap_get_scoreboard_worker_from_indexes(child, thread) };
        let base = at(0, 0).cast::<u8>();
        if base.is_null() {
            return Err(ScoreboardError::Missing);
        }
        // The next slot is the next thread's, or under prefork the next child's.
        let next = [at(0, 1), at(1, 0)]
            .into_iter()
            .find(|slot| !slot.is_null());
        if let Some(next) = next {
            check_stride(base as usize, next as usize)?;
        }
        Ok(Scoreboard { base, slots })
    }

    /// For a reader outside of httpd: the address of the first slot in this process, from one
    /// slot to the next, and from the beginning of one to its status byte.
    pub fn bearings(&self) -> [usize; 3] {
        [
            self.base as usize,
            size_of::<sys::worker_score>(),
            offset_of!(sys::worker_score, status),
        ]
    }

    pub(super) fn slot_of(&self, worker: *const sys::worker_score) -> Option<Slot> {
        let distance = (worker as usize).checked_sub(self.base as usize)?;
        let slot = (distance / size_of::<sys::worker_score>()) as u32;
        (slot < self.slots).then_some(Slot(slot))
    }

    fn status(&self, slot: Slot) -> i32 {
        if slot.0 >= self.slots {
            return sys::SERVER_DEAD;
        }
        let at = slot.0 as usize * size_of::<sys::worker_score>()
            + offset_of!(sys::worker_score, status);
        // SAFETY: below `slots`, so inside the scoreboard, which stays mapped. Other
        // processes write the byte at any time: hence volatile.
        i32::from(unsafe { self.base.add(at).read_volatile() })
    }

    /// Whether a worker is busy the way mod_limitipconn 0.24 sees it: reading,
    /// writing, waiting in keep-alive, logging, looking up, closing or finishing.
    pub fn is_busy(&self, slot: Slot) -> bool {
        matches!(
            self.status(slot),
            sys::SERVER_BUSY_READ..=sys::SERVER_GRACEFUL
        )
    }

    /// The statuses of all slots, in their order.
    pub fn statuses(self) -> impl Iterator<Item = u8> {
        (0..self.slots).map(move |slot| self.status(Slot(slot)) as u8)
    }

    /// How many workers are busy, and how many wait for work.
    pub fn pool(&self) -> (u32, u32) {
        let mut pool = (0, 0);
        for slot in (0..self.slots).map(Slot) {
            if self.is_busy(slot) {
                pool.0 += 1;
            } else if self.status(slot) == sys::SERVER_READY {
                pool.1 += 1;
            }
        }
        pool
    }
}

fn check_stride(slot: usize, next: usize) -> Result<(), ScoreboardError> {
    match next.wrapping_sub(slot) {
        stride if stride == size_of::<sys::worker_score>() => Ok(()),
        stride => Err(ScoreboardError::Stride(stride)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scoreboard_of_another_httpd_is_refused() {
        let ours = size_of::<sys::worker_score>();
        assert_eq!(check_stride(4096, 4096 + ours), Ok(()));
        let other = check_stride(4096, 4096 + ours - 8);
        assert_eq!(other, Err(ScoreboardError::Stride(ours - 8)));
        let sentence = other.unwrap_err().to_string();
        assert!(
            sentence.contains(&ours.to_string()) && sentence.contains("build it"),
            "{sentence}"
        );
    }
}
