//! Who sits in which slot of httpd's scoreboard.
//!
//! A slot has an owner (a connection of a process), an address, and a tag of
//! eight bits in a word that eight slots share: the scan looks at tags, and at
//! the rest only where a tag fits. A tag that is missing or left over makes a
//! scan miss or look; it never makes one client another.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::layout::{LINE, TAGS};
use super::step;
use crate::limit::address::Address;

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

/// One slot.
#[repr(C)]
pub struct Seat {
    /// `pid << 32 | serial`, 0 while nobody sits here.
    owner: AtomicU64,
    address: [AtomicU64; 2],
    /// Changes with every seating; its low byte is the owner's tag, which the
    /// slot's byte in the tag words should be.
    mark: AtomicU64,
}

/// The slots of the scoreboard, by number.
#[derive(Clone, Copy)]
pub struct Identity<'s> {
    /// Tags in words, words in cache lines; those beyond the last slot stay 0.
    tags: &'s [[AtomicU64; LINE]],
    seats: &'s [Seat],
}

impl<'s> Identity<'s> {
    pub(super) fn new(tags: &'s [AtomicU64], seats: &'s [Seat]) -> Self {
        Identity {
            tags: tags.as_chunks().0,
            seats,
        }
    }

    /// How many slots there are.
    pub fn slots(&self) -> u32 {
        self.seats.len() as u32
    }

    /// Puts a client into a slot, in place of whoever was there. Only the thread
    /// that works in this slot does this. `owner` is `pid << 32 | serial` and
    /// never 0; `tag` comes from the keyed digest of the address, the same for
    /// the same address, and never 0. Slots beyond the table are ignored.
    #[inline]
    pub fn seat(&self, slot: u32, owner: u64, who: Address, tag: u8) {
        let Some(seat) = self.seats.get(slot as usize) else {
            return;
        };
        let [high, low] = who.words();
        let same = seat.owner.load(Relaxed) == owner
            && seat.address[0].load(Relaxed) == high
            && seat.address[1].load(Relaxed) == low;
        if !same {
            // No owner while the address changes: readers skip the slot.
            seat.owner.store(0, Relaxed);
            step();
            // Release: whoever reads a new half sees that the owner is gone.
            seat.address[0].store(high, Release);
            step();
            seat.address[1].store(low, Release);
            // An owner may sit down again with another address: the mark tells.
            let next = (seat.mark.load(Relaxed) | 0xff).wrapping_add(1);
            seat.mark.store(next | u64::from(tag), Release);
            step();
            // Release: pairs with the Acquire of `seated`: address and mark are whole.
            seat.owner.store(owner, Release);
            step();
        }
        // Every request comes by here: leave the shared word alone if it is right.
        if !same || self.byte(slot) != tag {
            self.publish(slot, seat);
        }
    }

    /// Empties a slot if it is still `owner`'s. Any thread may.
    #[inline]
    pub fn vacate(&self, slot: u32, owner: u64) {
        if let Some(seat) = self.seats.get(slot as usize)
            && owner != 0
            // Release: pairs with the Acquire in `publish`, by whoever is later.
            && seat.owner.compare_exchange(owner, 0, AcqRel, Relaxed).is_ok()
        {
            step();
            self.publish(slot, seat);
        }
    }

    /// Empties all slots of a process that is dead.
    pub fn vacate_process(&self, pid: u32) {
        for (slot, seat) in self.seats.iter().enumerate() {
            let owner = seat.owner.load(Relaxed);
            if owner >> 32 == u64::from(pid) {
                self.vacate(slot as u32, owner);
            }
        }
    }

    /// Brings the slot's byte up to date with its owner. Whoever changes an owner
    /// calls this after; the last to write the byte has seen the last owner,
    /// because both orders follow the exchanges of the one tag word.
    #[inline]
    fn publish(&self, slot: u32, seat: &Seat) {
        let Some(word) = self.tag_word(slot) else {
            return;
        };
        let shift = slot % TAGS as u32 * 8;
        loop {
            let tag = seat.wanted_tag();
            step();
            let before = word.load(Relaxed);
            let after = before & !(0xff << shift) | tag << shift;
            step();
            // AcqRel: whoever exchanges this word after another sees what the
            // other had stored before, and so looks again and writes that.
            if word
                .compare_exchange(before, after, AcqRel, Relaxed)
                .is_ok()
            {
                step();
                if seat.wanted_tag() == tag {
                    return;
                }
            }
        }
    }

    fn tag_word(&self, slot: u32) -> Option<&AtomicU64> {
        let word = slot as usize / TAGS;
        Some(&self.tags.get(word / LINE)?[word % LINE])
    }

    fn byte(&self, slot: u32) -> u8 {
        let word = self.tag_word(slot);
        let shift = slot % TAGS as u32 * 8;
        word.map_or(0, |word| (word.load(Relaxed) >> shift) as u8)
    }

    /// Who sits in a slot.
    pub fn seated(&self, slot: u32) -> Option<Address> {
        let seat = self.seats.get(slot as usize)?;
        loop {
            let owner = seat.owner.load(Acquire);
            if owner == 0 {
                return None;
            }
            // Acquire: the halves of the address are read after it.
            let mark = seat.mark.load(Acquire);
            // Acquire: the second look at owner and mark comes after.
            let words = seat.address.each_ref().map(|half| {
                step();
                half.load(Acquire)
            });
            step();
            if seat.owner.load(Acquire) == owner && seat.mark.load(Relaxed) == mark {
                return Some(Address::from_words(words));
            }
        }
    }

    /// How many slots `who` sits in that are `busy`; stops as soon as the number
    /// is over `stop_after`. About an instruction for each slot of others.
    pub fn count(&self, who: Address, tag: u8, stop_after: u32, busy: impl Fn(u32) -> bool) -> u32 {
        let wanted = u64::from(tag) * ONES;
        let mut found = 0;
        for (i, line) in self.tags.iter().enumerate() {
            // A line of words at a time: in most there is nobody of interest.
            let hits = line.iter().fold(0, |hits, word| {
                hits | zero_bytes(word.load(Relaxed) ^ wanted)
            });
            if hits & HIGHS == 0 {
                continue;
            }
            for (j, word) in line.iter().enumerate() {
                let mut hits = zero_bytes(word.load(Relaxed) ^ wanted) & HIGHS;
                while hits != 0 {
                    let slot = ((i * LINE + j) * TAGS) as u32 + hits.trailing_zeros() / 8;
                    hits &= hits - 1;
                    // Every candidate is compared in full.
                    if self.seated(slot) == Some(who) && busy(slot) {
                        found += 1;
                        if found > stop_after {
                            return found;
                        }
                    }
                }
            }
        }
        found
    }
}

impl Seat {
    fn wanted_tag(&self) -> u64 {
        // Acquire: pairs with the Release of `seat`: the tag is this owner's.
        match self.owner.load(Acquire) {
            0 => 0,
            _ => self.mark.load(Acquire) & 0xff,
        }
    }
}

/// Sets the high bit of each byte that is zero, and leaves others in any state;
/// a byte that is one may count as zero above a zero byte (Mycroft, 1987).
/// Callers mask with [`HIGHS`] and look closer.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word
}
