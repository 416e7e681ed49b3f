//! APR pools: memory that httpd frees, and cleanups that run when it does.
//!
//! Only values without a destructor go into a pool, so nothing of ours is freed
//! there: prefork destroys pools inside its signal handler, where free() could
//! deadlock.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, needs_drop, size_of};
use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, compiler_fence};
use std::{slice, str};

use crate::sys;

/// A pool; what it hands out lives for `'p`.
#[derive(Clone, Copy)]
pub struct Pool<'p>(NonNull<sys::apr_pool_t>, PhantomData<&'p ()>);

/// Something that has a duty when its pool is cleared.
///
/// It may run inside prefork's signal handler: no lock, no allocation.
pub trait OnClear {
    /// The duty.
    fn on_clear(&self);

    /// Hears of a panic in it.
    fn on_fault(text: &str);
}

impl<'p> Pool<'p> {
    /// # Safety
    /// `pool` is a live APR pool that outlives `'p`.
    pub unsafe fn from_raw(pool: *mut sys::apr_pool_t) -> Self {
        Pool(
            NonNull::new(pool).expect("httpd never passes a null pool"),
            PhantomData,
        )
    }

    /// The pool as httpd's functions want it.
    pub(super) fn as_ptr(self) -> *mut sys::apr_pool_t {
        self.0.as_ptr()
    }

    fn bytes(self, size: usize) -> NonNull<u8> {
        // SAFETY: the pool is live for 'p by from_raw's contract. apr_palloc aligns
        // to 8 bytes and ends the process when memory is out, as all of httpd does.
        let memory = unsafe { sys::apr_palloc(self.as_ptr(), size as sys::apr_size_t) };
        NonNull::new(memory.cast()).expect("apr_palloc does not return null")
    }

    /// Moves a value into the pool.
    #[inline]
    // Each call makes a new allocation, which is nobody else's.
    #[allow(clippy::mut_from_ref)]
    pub fn alloc<T>(self, value: T) -> &'p mut T {
        const { assert!(!needs_drop::<T>() && align_of::<T>() <= 8) };
        let place = self.bytes(size_of::<T>()).cast::<T>();
        // SAFETY: bytes() gave size_of::<T>() bytes, aligned to 8, that nobody else
        // has; the pool keeps them for 'p.
        unsafe {
            place.write(value);
            &mut *place.as_ptr()
        }
    }

    /// Copies the items into the pool.
    pub fn slice<T: Copy>(self, items: impl Iterator<Item = T> + Clone) -> &'p [T] {
        const { assert!(align_of::<T>() <= 8) };
        let room = items.clone().count();
        let start = self.bytes(room * size_of::<T>()).cast::<T>();
        let mut length = 0;
        for item in items.take(room) {
            // SAFETY: length < room, so this is inside the fresh allocation.
            unsafe { start.add(length).write(item) };
            length += 1;
        }
        // SAFETY: the first `length` items are written, and are the pool's for 'p.
        unsafe { slice::from_raw_parts(start.as_ptr(), length) }
    }

    /// Copies a text into the pool.
    pub fn text(self, text: &str) -> &'p str {
        let bytes = self.slice(text.bytes());
        // SAFETY: these are the bytes of a str.
        unsafe { str::from_utf8_unchecked(bytes) }
    }

    /// Copies a text for C; what follows a NUL byte is left out.
    pub fn c_text(self, text: &str) -> *const c_char {
        let bytes = text.bytes().take_while(|&byte| byte != 0).chain([0]);
        self.slice(bytes).as_ptr().cast()
    }

    /// As [`Pool::c_text`], with its length known.
    pub fn c_str(self, text: &str) -> &'p CStr {
        // SAFETY: c_text ends with a NUL and lives as long as the pool.
        unsafe { CStr::from_ptr(self.c_text(text)) }
    }

    /// Lets `data` do its duty when the pool is cleared, after the pools made from it are;
    /// not when the process is a copy that is about to become a CGI script, however its
    /// copy of the pool ends.
    pub fn on_clear<T: OnClear>(self, data: &'p T) {
        // SAFETY: the pool is live; data lives in it, or in a parent of it, for 'p.
        unsafe {
            sys::apr_pool_cleanup_register(
                self.as_ptr(),
                ptr::from_ref(data).cast_mut().cast(),
                Some(on_clear::<T>),
                Some(sys::apr_pool_cleanup_null),
            );
        }
    }

    /// The same before anybody else does his: mod_cgid waits in its own for its script.
    pub fn on_clear_first<T: OnClear>(self, data: &'p T) {
        // SAFETY: as in on_clear. A copy that becomes a CGI script never runs this kind.
        unsafe {
            sys::apr_pool_pre_cleanup_register(
                self.as_ptr(),
                ptr::from_ref(data).cast_mut().cast(),
                Some(on_clear::<T>),
            );
        }
    }
}

/// # Safety
/// `data` is a `&T` that the pool which is being cleared keeps.
unsafe extern "C" fn on_clear<T: OnClear>(data: *mut c_void) -> sys::apr_status_t {
    // SAFETY: by the contract.
    let data = unsafe { &*data.cast::<T>() };
    if !super::process::is_copy() {
        super::boundary::guard((), T::on_fault, || data.on_clear());
    }
    0
}

impl<'p> Pool<'p> {
    /// Something that belongs to the whole configuration, by name: made at the first
    /// call, and gone when the configuration's pool is cleared.
    ///
    /// # Safety
    /// All calls with this key want the same T.
    pub unsafe fn shared<T>(self, key: &'static CStr, make: impl FnOnce() -> T) -> &'p T {
        let mut found = ptr::null_mut();
        // SAFETY: the pool is live; the key is 'static; under it there is nothing or
        // the T that an earlier call stored, by the contract.
        unsafe {
            sys::apr_pool_userdata_get(&mut found, key.as_ptr(), self.as_ptr());
            if let Some(found) = found.cast::<T>().as_ref() {
                return found;
            }
            let made: &T = self.alloc(make());
            sys::apr_pool_userdata_setn(
                ptr::from_ref(made).cast(),
                key.as_ptr(),
                None,
                self.as_ptr(),
            );
            made
        }
    }
}

/// A growing list whose first N items need no allocation of their own. One thread at
/// a time; a signal handler may interrupt any step of it and sees a list that is
/// whole, perhaps short of the last item.
pub struct List<'p, T, const N: usize> {
    pool: Pool<'p>,
    few: UnsafeCell<[MaybeUninit<T>; N]>,
    /// Where the items are once they are too many; null until then.
    many: Cell<*mut T>,
    length: Cell<u32>,
    room: Cell<u32>,
}

impl<'p, T: Copy, const N: usize> List<'p, T, N> {
    /// An empty list.
    #[inline]
    pub fn new(pool: Pool<'p>) -> Self {
        const { assert!(align_of::<T>() <= 8 && N > 0) };
        List {
            pool,
            few: UnsafeCell::new([const { MaybeUninit::uninit() }; N]),
            many: Cell::new(ptr::null_mut()),
            length: Cell::new(0),
            room: Cell::new(N as u32),
        }
    }

    /// Where the items are: room for `room` of them, the first `length` written.
    #[inline]
    fn start(&self) -> *mut T {
        match self.many.get() {
            many if many.is_null() => self.few.get().cast(),
            many => many,
        }
    }

    /// Adds an item at the end.
    #[inline]
    pub fn push(&self, item: T) {
        let length = self.length.get();
        if length == self.room.get() {
            self.widen();
        }
        // SAFETY: length < room now.
        unsafe { self.start().add(length as usize).write(item) };
        compiler_fence(Ordering::SeqCst);
        self.length.set(length + 1);
    }

    #[cold]
    fn widen(&self) {
        let (length, room) = (self.length.get() as usize, self.room.get() as usize);
        let wider = self
            .pool
            .bytes(room * 2 * size_of::<T>())
            .cast::<T>()
            .as_ptr();
        // SAFETY: both allocations hold `length` items of T and do not overlap.
        unsafe { wider.copy_from_nonoverlapping(self.start(), length) };
        compiler_fence(Ordering::SeqCst);
        self.many.set(wider);
        self.room.set(room as u32 * 2);
    }

    /// Takes the last item out. The list forgets it before the caller sees it.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let length = self.length.get().checked_sub(1)?;
        // SAFETY: the item at the old length - 1 was written by push.
        let item = unsafe { self.start().add(length as usize).read() };
        self.length.set(length);
        compiler_fence(Ordering::SeqCst);
        Some(item)
    }

    /// Takes the first item that fits out; the order of the others may change.
    pub fn take(&self, fits: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.iter().position(|item| fits(&item))?;
        // SAFETY: position() is below the length. The length shrinks before the last
        // item moves into the gap, so an interrupting reader never sees an item twice;
        // it may miss one, which is the reaper's then.
        unsafe {
            let found = self.start().add(at).read();
            let last = self.length.get() - 1;
            self.length.set(last);
            compiler_fence(Ordering::SeqCst);
            if at != last as usize {
                let moved = self.start().add(last as usize).read();
                self.start().add(at).write(moved);
            }
            Some(found)
        }
    }

    /// The items, by value.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.length.get()).map(|at| {
            // SAFETY: items below the length are written, and T is Copy.
            unsafe { self.start().add(at as usize).read() }
        })
    }
}
