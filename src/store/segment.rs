//! The shared memory: made once by the parent, inherited by every child, kept
//! over graceful restarts, gone with the last process that maps it.
//!
//! The only place where a pointer becomes a reference: [`array()`], after checks
//! of bounds and alignment, and only to types that are made of atomics. The
//! memory is allocated in full at start and sealed, so that no touch of it can
//! fail later; nothing here unmaps it, which is why references are `'static`.

use std::fs::File;
use std::io;
use std::mem::{align_of, size_of};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use super::about::{About, Notice};
use super::cell::Cell;
use super::desk::{Desk, Desks};
use super::fleet::Breaker;
use super::flood::{self, Flood};
use super::header::{Counter, Header, Hourly, MAGIC, Tally};
use super::history::{Frame, History};
use super::identity::{Identity, Seat};
use super::label::Label;
use super::layout::{Layout, Region, Size};
use super::ledger::{Ledger, Record};
use super::lock::Lock;
use super::mailbox::{Letter, Mailbox};
use super::majority::Majority;
use super::memfd;
use super::refused::SegmentError;
use super::table::Table;
use crate::limit::fleet::OnFailure;
use crate::limit::key::Secret;

/// What `ap_retained_data` keeps of a segment over a restart.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Where it is mapped.
    pub base: *mut u8,
    /// Its length in bytes.
    pub len: usize,
    /// Its file descriptor, -1 when closed.
    pub fd: i32,
}

/// A mapped segment. Dropping it leaves memory and descriptor as they are.
pub struct Segment {
    base: NonNull<u8>,
    len: usize,
    fd: AtomicI32,
    size: Size,
    secret: Secret,
    header: &'static Header,
    pub(super) table: Table,
    /// Who owns each chunk of leases: 0, or a pid.
    pub(super) owners: &'static [AtomicU32],
    tags: &'static [AtomicU64],
    seats: &'static [Seat],
    desks: &'static [Desk],
    records: &'static [Record],
    flood: &'static [AtomicU64; flood::WORDS],
    notice: &'static [Notice],
    history: &'static [Frame],
    mailbox: &'static Letter,
}

// SAFETY: `base` is only copied into Parts, never read through; all other fields
// are plain values or references to atomics (and to Lock, which is Sync itself).
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// Types that any bytes are a value of and that threads and processes may share.
///
/// # Safety
/// Only for types that consist of atomics, or of cells that are accessed by the
/// C library alone.
unsafe trait Shared: Sync + 'static {}
// SAFETY: all of these are atomics, or repr(C) structs of atomics.
unsafe impl Shared for AtomicU32 {}
// SAFETY: as above.
unsafe impl Shared for AtomicU64 {}
// SAFETY: as above.
unsafe impl Shared for Header {}
// SAFETY: as above.
unsafe impl Shared for Cell {}
// SAFETY: as above.
unsafe impl Shared for Desk {}
// SAFETY: as above.
unsafe impl Shared for Label {}
// SAFETY: as above.
unsafe impl Shared for Seat {}
// SAFETY: as above.
unsafe impl Shared for Record {}
// SAFETY: as above.
unsafe impl Shared for Notice {}
// SAFETY: as above.
unsafe impl Shared for Frame {}
// SAFETY: as above.
unsafe impl Shared for Letter {}
// SAFETY: an atomic, and a mutex in an UnsafeCell that only pthread calls touch.
unsafe impl Shared for Lock {}

/// The array at `region` of the mapping; none if it does not lie inside of it.
///
/// # Safety
/// `len` bytes from `base` are mapped, readable and writable, for as long as
/// this process runs, and are only accessed through [`Shared`] types.
unsafe fn array<T: Shared>(base: NonNull<u8>, len: usize, region: Region) -> Option<&'static [T]> {
    let bytes = region.count.checked_mul(size_of::<T>())?;
    let fits = region.offset.checked_add(bytes)? <= len;
    let aligned = (base.as_ptr() as usize + region.offset).is_multiple_of(align_of::<T>());
    if !fits || !aligned {
        return None;
    }
    // SAFETY: the range was just checked to lie in the mapping, whose bytes live
    // as long as the process (the caller's word); T is aligned and takes any bytes.
    Some(unsafe {
        std::slice::from_raw_parts(base.as_ptr().add(region.offset).cast::<T>(), region.count)
    })
}

impl Segment {
    /// Makes a segment: memory that is there in full, sealed, with a new secret.
    pub fn create(size: Size) -> io::Result<Segment> {
        let refuse = |cause| io::Error::new(io::ErrorKind::InvalidInput, cause);
        let layout = Layout::new(size).ok_or_else(|| refuse(SegmentError::Size))?;
        let file = memfd::sealed(layout.len as u64)?;
        let base = NonNull::new(memfd::map(&file, layout.len)?)
            .ok_or_else(|| refuse(SegmentError::Address))?;

        // SAFETY: just mapped, shared and writable, for good.
        let header = unsafe { header(base, layout.len) }.map_err(refuse)?;
        let secret = memfd::secret()?;
        for (word, value) in header.secret.iter().zip(secret.0) {
            word.store(value, Relaxed);
        }
        let numbers = [size.keys, size.leases, size.slots, size.rules];
        for (word, value) in header.size.iter().zip(numbers) {
            word.store(value, Relaxed);
        }
        header.layout.store(layout.hash, Relaxed);
        header.len.store(layout.len as u64, Relaxed);
        // SAFETY: as above.
        let segment = unsafe { Segment::assemble(base, layout, header) }.map_err(refuse)?;
        for lock in segment.table.locks {
            // SAFETY: nobody else has this memory yet.
            unsafe { lock.init() }?;
        }
        segment.fd.store(file.into_raw_fd(), Relaxed);
        // Release: pairs with the Acquire of `header`: magic means finished.
        header.magic.store(MAGIC, Release);
        Ok(segment)
    }

    /// What to keep for [`Segment::from_parts`].
    pub fn parts(&self) -> Parts {
        Parts {
            base: self.base.as_ptr(),
            len: self.len,
            fd: self.fd.load(Relaxed),
        }
    }

    /// The segment of a running httpd, by a descriptor of it that may write; for a reader
    /// outside of httpd. The mapping stays for the life of this process.
    pub fn open(file: &File) -> io::Result<Segment> {
        let refuse = |cause| io::Error::new(io::ErrorKind::InvalidData, cause);
        if !memfd::is_sealed(file) {
            return Err(refuse(SegmentError::Magic));
        }
        let len = file.metadata()?.len() as usize;
        let parts = Parts {
            base: memfd::map(file, len)?,
            len,
            fd: -1,
        };
        // SAFETY: just mapped, for good, and `create` made what has the magic.
        unsafe { Segment::from_parts(parts) }.map_err(refuse)
    }

    /// The segment that an earlier generation made, after all checks that can be made.
    ///
    /// # Safety
    /// `parts` came from [`Segment::parts`] in this process or in a parent of it
    /// before the fork, and is still mapped.
    pub unsafe fn from_parts(parts: Parts) -> Result<Segment, SegmentError> {
        let base = NonNull::new(parts.base).ok_or(SegmentError::Address)?;
        // SAFETY: mapped by `create`, by the caller's word.
        let header = unsafe { header(base, parts.len) }?;
        // Acquire: pairs with the Release at the end of `create`.
        if header.magic.load(Acquire) != MAGIC {
            return Err(SegmentError::Magic);
        }
        let [keys, leases, slots, rules] = [0, 1, 2, 3].map(|i| header.size[i].load(Relaxed));
        let layout = Layout::new(Size {
            keys,
            leases,
            slots,
            rules,
        })
        .ok_or(SegmentError::Size)?;
        if header.layout.load(Relaxed) != layout.hash {
            return Err(SegmentError::Layout);
        }
        if parts.len != layout.len || header.len.load(Relaxed) != layout.len as u64 {
            return Err(SegmentError::Length);
        }
        // SAFETY: as above, and as long as its layout needs.
        let segment = unsafe { Segment::assemble(base, layout, header) }?;
        segment.fd.store(parts.fd, Relaxed);
        Ok(segment)
    }

    /// # Safety
    /// As [`array()`], for `layout.len` bytes.
    unsafe fn assemble(
        base: NonNull<u8>,
        layout: Layout,
        header: &'static Header,
    ) -> Result<Segment, SegmentError> {
        macro_rules! array {
            ($region:ident) => {
                // SAFETY: handed through from the caller.
                unsafe { array(base, layout.len, layout.$region) }.ok_or(SegmentError::Length)?
            };
        }
        Ok(Segment {
            base,
            len: layout.len,
            fd: AtomicI32::new(-1),
            size: layout.size,
            secret: Secret([0, 1].map(|half: usize| header.secret[half].load(Relaxed))),
            header,
            table: Table::new(
                array!(cells),
                array!(labels),
                array!(words),
                array!(locks),
                Tally::new(header),
            ),
            owners: array!(owners),
            tags: array!(tags),
            seats: array!(seats),
            desks: array!(desks),
            records: array!(records),
            flood: array!(flood).first_chunk().ok_or(SegmentError::Length)?,
            notice: array!(notice),
            history: array!(history),
            mailbox: array!(mailbox).first().ok_or(SegmentError::Length)?,
        })
    }

    /// Its sizes, rounded as [`Size`] says.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The secret of the keyed hash, drawn when the segment was made.
    pub fn secret(&self) -> Secret {
        self.secret
    }

    /// Closes the descriptor and keeps the mapping: children need no more.
    pub fn close_fd(&self) {
        let fd = self.fd.swap(-1, Relaxed);
        if fd >= 0 {
            // SAFETY: `swap` gave this descriptor to us alone, and it is open:
            // it came from `create`, or from `parts` by the caller's word.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }

    /// The module's flags: one relaxed load.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.header.flags.load(Relaxed)
    }

    /// Sets these bits and leaves the others.
    pub fn raise(&self, bits: u32) {
        self.header.flags.fetch_or(bits, Relaxed);
    }

    /// Adds to a counter. The store keeps its own; callers add
    /// [`Counter::Faults`] and [`Counter::Exempt`].
    pub fn add(&self, counter: Counter, number: u64) {
        self.table.tally.add(counter, number);
    }

    /// Reads a counter.
    pub fn read(&self, counter: Counter) -> u64 {
        self.table.tally.read(counter)
    }

    /// Who sits in which scoreboard slot.
    pub fn identity(&self) -> Identity<'static> {
        Identity::new(self.tags, self.seats)
    }

    /// What the workers of these slots are at.
    pub fn desks(&self) -> Desks {
        Desks::new(self.desks)
    }

    /// Whether nobody has told this in the last hour; who hears yes tells it. `now` is
    /// in seconds of a clock that does not go back.
    pub fn is_first_this_hour(&self, about: Hourly, now: u32) -> bool {
        self.header.is_first_this_hour(about, now)
    }

    /// When this was told last, by the clock of [`Segment::is_first_this_hour`].
    pub fn told(&self, about: Hourly) -> Option<u32> {
        self.header.told(about)
    }

    /// Whether nearly all requests come from one proxy.
    pub fn majority(&self) -> Majority {
        Majority::new(&self.header.majority)
    }

    /// What the parent says about the generation that is up.
    pub fn about(&self) -> Option<About> {
        self.notice.first()?.read()
    }

    /// Says so; only the parent does.
    pub fn say(&self, about: &About) {
        if let Some(notice) = self.notice.first() {
            notice.write(about);
        }
    }

    /// The last ten minutes.
    pub fn history(&self) -> History {
        History::new(self.history)
    }

    /// What the command asks of the parent.
    pub fn mailbox(&self) -> Mailbox {
        Mailbox::new(self.mailbox)
    }

    /// Whether the counts that servers share are within reach.
    pub fn breaker(&self) -> Breaker {
        Breaker::new(self.header)
    }

    /// The same for a generation of children that begins: its configuration may name another
    /// server. No mode where no rule is shared.
    pub fn begin_breaker(&self, mode: Option<OnFailure>) -> Breaker {
        Breaker::begin(self.header, mode)
    }

    /// The rules' own counters.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(self.records)
    }

    /// What decides which refusals get a line in the log.
    pub fn flood(&self) -> Flood {
        Flood::new(self.header, self.flood)
    }
}

/// # Safety
/// As [`array()`].
unsafe fn header(base: NonNull<u8>, len: usize) -> Result<&'static Header, SegmentError> {
    if len < size_of::<Header>() {
        return Err(SegmentError::Short);
    }
    let region = Region {
        offset: 0,
        count: 1,
    };
    // SAFETY: handed through from the caller.
    let headers = unsafe { array::<Header>(base, len, region) };
    headers
        .and_then(<[Header]>::first)
        .ok_or(SegmentError::Address)
}
