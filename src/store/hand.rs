//! What is looked up and changed by hand, by a process that is no child of httpd and may be
//! killed at any step.
//!
//! A rate is one word, so each change is one exchange that happened or did not; places in
//! flight are never touched. Only a key that is not in the table takes the insert lock, as
//! a child does, and leaves behind no more than a child that dies with it.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use super::cell::State;
use super::label::KeyName;
use super::segment::Segment;
use super::step;
use super::table::{Keyed, Rated, When};
use crate::limit::key::CountId;

/// How often a change is tried that others are faster at.
const ENOUGH: u32 = 10_000;

/// A key in a count, as found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spot {
    at: u32,
    tag: u64,
    /// In which count.
    pub count: CountId,
    /// What it is called.
    pub name: KeyName,
    /// How many places it holds.
    pub in_flight: u32,
    /// The state of its rate; 0 for none.
    pub rate: u64,
}

/// There is no room for another key, or the lock of its place could not be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;

impl Segment {
    /// The keys of all counts for whose count and tag, as [`within`] makes it, this says so.
    ///
    /// [`within`]: crate::limit::key::Digest::within
    pub fn spots(&self, is_it: impl Fn(CountId, u64) -> bool) -> Vec<Spot> {
        let cells = self.table.cells.iter().zip(self.table.labels);
        let live = (0..)
            .zip(cells)
            .filter(|(_, (cell, _))| cell.state.load(Relaxed) != 0);
        live.filter_map(|(at, (cell, label))| {
            let entry = cell.read(label)?;
            is_it(entry.count, entry.tag).then_some(Spot {
                at,
                tag: entry.tag,
                count: entry.count,
                name: entry.beside,
                in_flight: entry.state.count(),
                rate: entry.rate,
            })
        })
        .collect()
    }

    /// Changes the state of the rate of a key: `decide` makes of the one that is there the
    /// one that shall be, never 0, or none for no change. Whether it was changed; where the
    /// key is gone, or has no rate, there is nothing to change.
    pub fn change_rate(&self, spot: &Spot, decide: impl Fn(u64) -> Option<u64>) -> bool {
        let Some(cell) = self.table.cells.get(spot.at as usize) else {
            return false;
        };
        for _ in 0..ENOUGH {
            let Some(state) = cell.look(spot.tag) else {
                return false;
            };
            step();
            let word = cell.rate(spot.tag);
            step();
            // Acquire: as where rates are charged: the word is this key's.
            if State(cell.state.load(Acquire)) != state {
                continue;
            }
            // The word of a count of places, or of a key that goes just now.
            if word == 0 {
                return false;
            }
            let Some(next) = decide(word) else {
                return false;
            };
            step();
            // The word of no other key fits, so at worst it is of a key that goes, or was
            // frozen when it should and lives again.
            if cell.change_rate(spot.tag, word, next) {
                return true;
            }
        }
        false
    }

    /// Gives a key this state of a rate, never 0, whatever it had, and a cell if it has
    /// none: who is killed meanwhile has done so or not. `seconds` is of the clock of
    /// [`Holder::acquire`], `nanos` of that of rates.
    ///
    /// [`Holder::acquire`]: super::Holder::acquire
    pub fn set_rate(
        &self,
        key: &Keyed<'_>,
        word: u64,
        (seconds, nanos): (u32, u64),
        patience: Duration,
    ) -> Result<(), NoRoom> {
        let tag = key.digest.tag;
        for _ in 0..ENOUGH {
            let Some(found) = self.table.find(key.digest) else {
                let when = When { seconds, nanos };
                match self.table.insert_rate(key, word, (), when, patience) {
                    Rated::Done(()) => return Ok(()),
                    Rated::Known(_) => continue,
                    Rated::NoRoom => return Err(NoRoom),
                }
            };
            step();
            let before = found.cell.rate(tag);
            step();
            // As above; and a key that has a rate has a word.
            if State(found.cell.state.load(Acquire)) != found.state || before == 0 {
                continue;
            }
            step();
            if !found.cell.change_rate(tag, before, word) {
                continue;
            }
            step();
            // Chosen to go just before: then its word was emptied, or it lives again; the next
            // turn tells.
            if State(found.cell.state.load(Acquire)) == found.state {
                return Ok(());
            }
        }
        Err(NoRoom)
    }
}
