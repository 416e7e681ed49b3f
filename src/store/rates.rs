//! The rates of keys: one word in the key's cell, changed by compare-and-swap.
//!
//! What the word means is the caller's: it decides from the word that was and says the
//! word that shall be. A key that makes room for another loses its word; one that is
//! frozen never does. No state is left behind by who dies between two steps: a charge has
//! happened or it has not, and never to another key.

use std::sync::atomic::Ordering::Acquire;

use super::header::Counter;
use super::holder::Holder;
use super::step;
use super::table::{Found, Keyed, Rated, Table};
use crate::limit::key::Digest;

impl Holder {
    /// The word of this key, by a look; 0 where it has none. `seen` is as `now` of
    /// [`Holder::acquire`]: who is refused uses the key too.
    #[inline]
    pub fn rate(&self, digest: Digest, seen: u32) -> u64 {
        let find = |table: &Table| table.find_at_once(digest).or_else(|| table.find(digest));
        loop {
            let Some(found) = find(&self.table) else {
                return 0;
            };
            step();
            let word = found.cell.rate(digest.tag);
            step();
            if found.is_still_there() {
                found.cell.touch(seen);
                return word;
            }
        }
    }

    /// Changes the word of this key: `decide` makes of the one that is there the one that
    /// shall be, none for no change, and what to return. It is called as often as somebody
    /// else was faster, and its last call is what happened. `seen` is as `now` of
    /// [`Holder::acquire`].
    ///
    /// None where the key has no word and finds no room for one: to be admitted; the
    /// segment's counter has it.
    #[inline]
    pub fn change_rate<T>(
        &self,
        key: &Keyed<'_>,
        seen: u32,
        decide: impl Fn(u64) -> (Option<u64>, T),
    ) -> Option<T> {
        loop {
            let found = match self.table.find_at_once(key.digest) {
                Some(found) => found,
                None => match self.table.find(key.digest) {
                    Some(found) => found,
                    None => match self.insert_rate(key, seen, &decide) {
                        Rated::Done(said) => return Some(said),
                        Rated::Known(found) => found,
                        Rated::NoRoom => {
                            self.table.tally.add(Counter::Untracked, 1);
                            return None;
                        }
                    },
                },
            };
            let tag = key.digest.tag;
            step();
            let word = found.cell.rate(tag);
            step();
            if !found.is_still_there() {
                continue;
            }
            // Also for who is refused, and so charged nothing: whoever keeps asking must
            // not become the stalest, and be forgotten, while refused.
            found.cell.touch(seen);
            let (next, said) = decide(word);
            let Some(next) = next.filter(|next| *next != word) else {
                return Some(said);
            };
            step();
            let changed = found.cell.change_rate(tag, word, next);
            step();
            // Where the key was chosen to go between look and change, its word is emptied
            // by now or will be, and the key is charged anew. If it lives again, because it
            // was frozen just then, that is what this charge finds.
            if changed && found.is_still_there() {
                return Some(said);
            }
        }
    }

    /// Changes the word of a key that has a cell; others have none to change.
    pub fn change_known_rate(&self, digest: Digest, decide: impl Fn(u64) -> Option<u64>) {
        loop {
            let Some(found) = self.table.find(digest) else {
                return;
            };
            step();
            let word = found.cell.rate(digest.tag);
            step();
            if !found.is_still_there() {
                continue;
            }
            let Some(next) = decide(word) else {
                return;
            };
            step();
            // Where the key goes at the same time, its word goes with it: done is done.
            if found.cell.change_rate(digest.tag, word, next) {
                return;
            }
        }
    }

    #[cold]
    fn insert_rate<T>(
        &self,
        key: &Keyed<'_>,
        seen: u32,
        decide: impl Fn(u64) -> (Option<u64>, T),
    ) -> Rated<T> {
        let (next, said) = decide(0);
        match next {
            Some(word) => self
                .table
                .insert_rate(key, word, said, self.when(seen), self.patience),
            None => Rated::Done(said),
        }
    }
}

impl Found {
    /// Whether the cell is still the key's that was found in it. The state of a cell that
    /// has a rate names no lease, since no count has both: it changes only when the key
    /// goes, or nearly does.
    #[inline]
    fn is_still_there(&self) -> bool {
        // Acquire: behind the load or the exchange of the word.
        self.cell.state.load(Acquire) == self.state.0
    }
}
