//! The kernel's part in the shared memory: a file in memory that is there in full and whose
//! size is sealed, its mapping, and random bytes.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use memmap2::MmapOptions;

use crate::limit::key::Secret;

/// What it is called in `/proc/PID/fd`.
pub const NAME: &std::ffi::CStr = c"limitipconn";

/// A memfd of this length whose pages all exist and whose size cannot change.
pub fn sealed(len: u64) -> io::Result<File> {
    let check = |result: libc::c_int| match result {
        -1 => Err(io::Error::last_os_error()),
        other => Ok(other),
    };
    // SAFETY: the name is a C string; the call touches nothing else.
    let fd = check(unsafe {
        libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
    })?;
    // SAFETY: a new descriptor that is ours alone.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.set_len(len)?;
    let bytes = libc::off_t::try_from(len).map_err(io::Error::other)?;
    // SAFETY: plain system calls on a descriptor that is open here. fallocate
    // says now what a later touch would say by SIGBUS: that memory is short.
    unsafe {
        check(libc::fallocate(file.as_raw_fd(), 0, 0, bytes))?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        check(libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals))?;
    }
    Ok(file)
}

/// Sixteen random bytes from the kernel.
pub fn secret() -> io::Result<Secret> {
    let mut bytes = [0u8; 16];
    // SAFETY: the buffer is ours and as long as said. Up to 256 bytes come at once.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match usize::try_from(got) {
        Ok(16) => {
            let value = u128::from_ne_bytes(bytes);
            Ok(Secret([(value >> 64) as u64, value as u64]))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether this is a memfd that can never become shorter: a touch of what is mapped of
/// another one could end the process.
pub fn is_sealed(file: &File) -> bool {
    // SAFETY: a plain question about a descriptor that is open here.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals != -1 && seals & libc::F_SEAL_SHRINK != 0
}

/// Maps it, to be shared and written, for the life of this process.
pub fn map(file: &File, len: usize) -> io::Result<*mut u8> {
    let map = MmapOptions::new().len(len).map_raw(file)?;
    // Never unmapped: the references of a segment are 'static.
    let map = std::mem::ManuallyDrop::new(map);
    Ok(map.as_mut_ptr())
}
