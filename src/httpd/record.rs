//! The module record that httpd loads, and the slots that belong to a module in
//! httpd's configuration vectors, typed.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int, c_ulong, c_void};
use std::marker::PhantomData;
use std::ptr;

use crate::sys;

/// What a module keeps in each kind of vector.
pub trait Slots {
    /// Per directory, merged for each request.
    type Directory<'p>;
    /// Per server.
    type Server<'p>;
    /// Per connection.
    type Connection<'p>;
    /// Per request.
    type Request<'p>;
}

/// The record. httpd writes its index, handle and list link at load time.
#[repr(transparent)]
pub struct Module<S>(UnsafeCell<sys::module>, PhantomData<fn() -> S>);

// SAFETY: httpd writes the record while it is single-threaded, at load time; we
// only read the index afterwards.
unsafe impl<S> Sync for Module<S> {}

/// The callbacks that a record names.
pub struct Callbacks {
    /// Makes a directory configuration.
    pub create_directory:
        unsafe extern "C" fn(*mut sys::apr_pool_t, *mut std::ffi::c_char) -> *mut c_void,
    /// Merges two of them.
    pub merge_directory:
        unsafe extern "C" fn(*mut sys::apr_pool_t, *mut c_void, *mut c_void) -> *mut c_void,
    /// Makes a server configuration.
    pub create_server:
        unsafe extern "C" fn(*mut sys::apr_pool_t, *mut sys::server_rec) -> *mut c_void,
    /// Merges two of them.
    pub merge_server:
        unsafe extern "C" fn(*mut sys::apr_pool_t, *mut c_void, *mut c_void) -> *mut c_void,
    /// Registers the hooks.
    pub register_hooks: unsafe extern "C" fn(*mut sys::apr_pool_t),
}

/// "AP24", by which httpd knows a module of its own series.
const MAGIC: c_ulong = 0x4150_3234;

impl<S: Slots> Module<S> {
    /// A record with this name (`mod_NAME.c`), as `STANDARD20_MODULE_STUFF` makes it.
    pub const fn new(
        name: &'static CStr,
        commands: *const sys::command_rec,
        callbacks: Callbacks,
    ) -> Self {
        let record = sys::module {
            version: sys::MODULE_MAGIC_NUMBER_MAJOR as c_int,
            minor_version: sys::MODULE_MAGIC_NUMBER_MINOR as c_int,
            module_index: -1,
            name: name.as_ptr(),
            dynamic_load_handle: ptr::null_mut(),
            next: ptr::null_mut(),
            magic: MAGIC,
            rewrite_args: None,
            create_dir_config: Some(callbacks.create_directory),
            merge_dir_config: Some(callbacks.merge_directory),
            create_server_config: Some(callbacks.create_server),
            merge_server_config: Some(callbacks.merge_server),
            cmds: commands,
            register_hooks: Some(callbacks.register_hooks),
            flags: 0,
        };
        Module(UnsafeCell::new(record), PhantomData)
    }

    /// The index that httpd gave the module.
    pub fn index(&self) -> c_int {
        // SAFETY: httpd writes it only when it loads or unloads the module, in the parent,
        // single-threaded, while no callback of ours runs.
        unsafe { (*self.0.get()).module_index }
    }

    /// # Safety
    /// `vector` is a configuration vector of httpd's whose slot of this module is
    /// null or points to a T that lives for `'p`.
    pub(super) unsafe fn get<'p, T>(&self, vector: *mut sys::ap_conf_vector_t) -> Option<&'p T> {
        // SAFETY: by this function's contract.
        unsafe { self.slot::<T>(vector).as_ref() }
    }

    /// # Safety
    /// `vector` is null or a configuration vector of httpd's.
    pub(super) unsafe fn slot<T>(&self, vector: *mut sys::ap_conf_vector_t) -> *mut T {
        if vector.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: httpd makes every vector with a slot for each loaded module.
        unsafe { *vector.cast::<*mut T>().add(self.index() as usize) }
    }

    /// # Safety
    /// `vector` is a configuration vector of httpd's that lives no longer than `value`.
    pub(super) unsafe fn set<T>(&self, vector: *mut sys::ap_conf_vector_t, value: &T) {
        // SAFETY: httpd makes every vector with a slot for each loaded module.
        unsafe {
            *vector.cast::<*mut c_void>().add(self.index() as usize) =
                ptr::from_ref(value).cast_mut().cast()
        };
    }
}
