//! What the parent does about the dead, and the books it checks.
//!
//! [`reap`] gives back the places of one dead child, [`reconcile`] those of
//! children whose death went unnoticed, [`audit`] recounts and only reports.
//! Call them from one thread of the parent; a child never does.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::cell::State;
use super::header::Counter;
use super::layout::CHUNK;
use super::lease::{Kind, LeaseIndex, Word};
use super::segment::Segment;
use super::step;

/// Leases of dead children, by what they were found doing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Reaped {
    /// About to be counted, or counted just then.
    pub pending: u64,
    /// Holding a place.
    pub held: u64,
    /// About to give a place back, or just done.
    pub releasing: u64,
    /// Had given it back, as somebody else had noted.
    pub released: u64,
}

impl Reaped {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.pending + self.held + self.releasing + self.released
    }

    fn note(&mut self, kind: Kind) {
        match kind {
            Kind::Free => {}
            Kind::Pending => self.pending += 1,
            Kind::Held => self.held += 1,
            Kind::Releasing => self.releasing += 1,
            Kind::Released => self.released += 1,
        }
    }
}

impl AddAssign for Reaped {
    fn add_assign(&mut self, more: Reaped) {
        self.pending += more.pending;
        self.held += more.held;
        self.releasing += more.releasing;
        self.released += more.released;
    }
}

/// Gives back what the process `pid` held. Only after waitpid has returned it:
/// before, it could still act on its leases.
pub fn reap(segment: &Segment, pid: u32) -> Reaped {
    reconcile(segment, |owner| owner != pid)
}

/// Gives back what is owned by processes that are not `alive`. The answer must
/// be true for every child that has not been waited for yet.
pub fn reconcile(segment: &Segment, alive: impl Fn(u32) -> bool) -> Reaped {
    let mut reaped = Reaped::default();
    for (chunk, owner) in segment.owners.iter().enumerate() {
        // Relaxed: nobody but the owner, who is dead, writes to an owned chunk.
        let pid = owner.load(Relaxed);
        if pid == 0 || alive(pid) {
            continue;
        }
        for i in 0..CHUNK {
            let lease = LeaseIndex((chunk * CHUNK + i) as u32);
            reaped.note(segment.table.settle(lease));
        }
        // Release: pairs with the Acquire of the next owner's claim.
        owner.store(0, Release);
    }
    for (counter, number) in [
        (Counter::ReapedPending, reaped.pending),
        (Counter::ReapedHeld, reaped.held),
        (Counter::ReapedReleasing, reaped.releasing),
        (Counter::ReapedReleased, reaped.released),
    ] {
        if number != 0 {
            segment.add(counter, number);
        }
    }
    reaped
}

/// Recounts every cell from its leases, and says how many do not agree. Never
/// writes a count; adds to [`Counter::Audits`] and [`Counter::AuditMismatches`].
///
/// Invariant 3: count = leases HELD, and PENDING that happened, and RELEASING
/// that did not happen yet. Cells that changed during the recount are left out:
/// nobody can tell.
pub fn audit(segment: &Segment) -> u32 {
    let table = &segment.table;
    let mut cells: BTreeMap<u32, (State, u32)> = BTreeMap::new();
    let read = |at: u32| {
        let cell = table.cells.get(at as usize)?;
        // Acquire: as in Cell::look: words read below are not older than this.
        Some(State(cell.state.load(Acquire)))
    };
    // Which cells to look at: those that say that they are held, and those that
    // a lease speaks of.
    for at in 0..table.cells.len() as u32 {
        if let Some(state) = read(at).filter(|state| state.count() > 0) {
            cells.insert(at, (state, 0));
        }
    }
    for word in table.words {
        let word = Word(word.load(Relaxed));
        if word.kind() != Kind::Free
            && let Some(state) = read(word.cell())
        {
            cells.entry(word.cell()).or_insert((state, 0));
        }
    }
    step();
    // The recount. A state that stays the same all the while proves for every
    // step that it happened before (it is named, or its word says so) or not.
    for (lease, word) in table.words.iter().enumerate() {
        let word = Word(word.load(Acquire));
        if word.kind() != Kind::Free {
            step();
        }
        let Some((state, sum)) = cells.get_mut(&word.cell()) else {
            continue;
        };
        let named = state.names(lease as u32, word.nonce());
        *sum += u32::from(match word.kind() {
            Kind::Held => true,
            Kind::Pending => named,
            Kind::Releasing => !named,
            Kind::Free | Kind::Released => false,
        });
    }
    step();
    let mismatches = cells
        .iter()
        .filter(|(at, (state, sum))| state.count() != *sum && read(**at) == Some(*state))
        .count() as u32;
    if mismatches != 0 {
        segment.add(Counter::AuditMismatches, u64::from(mismatches));
    }
    // Last: whoever waits for an audit sees what it found.
    segment.add(Counter::Audits, 1);
    mismatches
}
