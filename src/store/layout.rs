//! Where everything lies in the segment: sizes in, offsets out.
//!
//! Two programs that compute the same [`Layout::hash`] read the same words at
//! the same places; any other size, order or record format gives another hash.

use std::mem::{align_of, size_of};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::about::Notice;
use super::cell::{Cell, MAX_CELLS, MAX_LEASES};
use super::desk::Desk;
use super::flood;
use super::header::Header;
use super::history::{Frame, SAMPLES};
use super::identity::Seat;
use super::label::Label;
use super::ledger::Record;
use super::lock::Lock;
use super::mailbox::Letter;

/// Cells of one bucket: a key lives in one of these or not at all.
pub const BUCKET: usize = 8;
/// Cells that share one insert lock: 64 buckets.
pub const STRIPE: usize = 64 * BUCKET;
/// Leases of one chunk: a child claims so many at once.
pub const CHUNK: usize = 64;
/// Slots whose tags share one word.
pub const TAGS: usize = 8;
/// Words of a cache line: the scan takes one at a time.
pub const LINE: usize = 8;

/// Raised whenever a word of the segment changes its meaning.
const FORMAT: u64 = 5;
/// A cache line in bytes: no two regions share one.
const ALIGN: u64 = 64;

/// How many things a segment has room for. Fixed when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Keys that can be counted at a time: 1..=16777216, rounded up to a multiple of 8.
    pub keys: u32,
    /// Places that can be held at a time: 1..=4194240, rounded up to a multiple of 64.
    pub leases: u32,
    /// Slots of httpd's scoreboard.
    pub slots: u32,
    /// Rules that can have counters of their own.
    pub rules: u32,
}

impl Size {
    /// As [`Segment::size`](super::Segment::size) will tell it; none if no segment
    /// can have this size.
    pub fn rounded(self) -> Option<Size> {
        Layout::new(self).map(|layout| layout.size)
    }
}

/// One array in the segment.
#[derive(Clone, Copy)]
pub struct Region {
    /// Bytes from the start of the mapping.
    pub offset: usize,
    /// Elements, not bytes.
    pub count: usize,
}

/// The offsets of all arrays.
#[derive(Clone, Copy)]
pub struct Layout {
    pub size: Size,
    pub locks: Region,
    pub cells: Region,
    pub labels: Region,
    pub owners: Region,
    pub words: Region,
    pub tags: Region,
    pub seats: Region,
    pub desks: Region,
    pub records: Region,
    pub flood: Region,
    pub notice: Region,
    pub history: Region,
    pub mailbox: Region,
    pub len: usize,
    pub hash: u64,
}

impl Layout {
    /// Lays out a segment of this size; none if the numbers do not fit the
    /// fields of a [`State`](super::cell::State) or the address space.
    pub fn new(asked: Size) -> Option<Layout> {
        let size = Size {
            keys: asked.keys.checked_next_multiple_of(BUCKET as u32)?,
            leases: asked.leases.checked_next_multiple_of(CHUNK as u32)?,
            ..asked
        };
        if !(1..=MAX_CELLS).contains(&size.keys) || !(1..=MAX_LEASES).contains(&size.leases) {
            return None;
        }
        let mut end = size_of::<Header>() as u64;
        let mut hash = Fnv::new();
        for word in [FORMAT, size_of::<usize>() as u64, end] {
            hash.add(word);
        }
        let mut place = |count: usize, bytes: usize, align: usize| -> Option<Region> {
            let offset = end.checked_next_multiple_of(ALIGN.max(align as u64))?;
            end = (count as u64)
                .checked_mul(bytes as u64)?
                .checked_add(offset)?;
            for word in [offset, count as u64, bytes as u64] {
                hash.add(word);
            }
            Some(Region {
                offset: offset.try_into().ok()?,
                count,
            })
        };
        macro_rules! array {
            ($of:ty, $count:expr) => {
                place($count, size_of::<$of>(), align_of::<$of>())?
            };
        }
        let (keys, leases) = (size.keys as usize, size.leases as usize);
        let slots = size.slots as usize;
        let locks = array!(Lock, keys.div_ceil(STRIPE));
        let cells = array!(Cell, keys);
        let labels = array!(Label, keys);
        let owners = array!(AtomicU32, leases / CHUNK);
        let words = array!(AtomicU64, leases);
        let tags = array!(AtomicU64, slots.div_ceil(TAGS * LINE) * LINE);
        let seats = array!(Seat, slots);
        let desks = array!(Desk, slots);
        let records = array!(Record, size.rules as usize);
        let flood = array!(AtomicU64, flood::WORDS);
        let notice = array!(Notice, 1);
        let history = array!(Frame, SAMPLES);
        let mailbox = array!(Letter, 1);
        let len = usize::try_from(end)
            .ok()
            .filter(|len| isize::try_from(*len).is_ok())?;
        hash.add(end);
        Some(Layout {
            size,
            locks,
            cells,
            labels,
            owners,
            words,
            tags,
            seats,
            desks,
            records,
            flood,
            notice,
            history,
            mailbox,
            len,
            hash: hash.0,
        })
    }
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits: the same in every build, unlike std's.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
