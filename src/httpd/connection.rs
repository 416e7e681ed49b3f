//! A `conn_rec`: one client connection, or one stream of an HTTP/2 connection.

use std::marker::PhantomData;
use std::net::IpAddr;
use std::ptr::NonNull;

use super::pool::Pool;
use super::record::{Module, Slots};
use super::scoreboard::{Scoreboard, Slot};
use crate::sys;

/// A connection that lives at least for `'c`.
#[derive(Clone, Copy)]
pub struct Connection<'c>(NonNull<sys::conn_rec>, PhantomData<&'c ()>);

impl<'c> Connection<'c> {
    /// # Safety
    /// `connection` is a live conn_rec that outlives `'c`.
    pub unsafe fn from_raw(connection: *mut sys::conn_rec) -> Self {
        Connection(
            NonNull::new(connection).expect("httpd never passes a null connection"),
            PhantomData,
        )
    }

    fn rec(self) -> *mut sys::conn_rec {
        self.0.as_ptr()
    }

    /// The pool that ends with the connection.
    pub fn pool(self) -> Pool<'c> {
        // SAFETY: a conn_rec's pool lives as long as the conn_rec.
        unsafe { Pool::from_raw((*self.rec()).pool) }
    }

    /// Whether httpd serves a stream of another connection with this one (HTTP/2).
    pub fn is_stream(self) -> bool {
        // SAFETY: live for 'c.
        !unsafe { (*self.rec()).master }.is_null()
    }

    /// Whether httpd opened the connection itself, as a proxy does.
    pub fn is_outgoing(self) -> bool {
        // SAFETY: live for 'c.
        unsafe { (*self.rec()).outgoing != 0 }
    }

    /// The TCP peer.
    pub fn peer(self) -> Option<IpAddr> {
        // SAFETY: live for 'c, and so is its client_addr.
        unsafe { address((*self.rec()).client_addr) }
    }

    pub(super) fn client_addr(self) -> *const sys::apr_sockaddr_t {
        // SAFETY: live for 'c.
        unsafe { (*self.rec()).client_addr }
    }

    /// Whether client and server address are one: httpd talking to itself.
    pub fn is_from_here(self) -> bool {
        // SAFETY: live for 'c, and so are its addresses.
        unsafe { address((*self.rec()).client_addr) == address((*self.rec()).local_addr) }
    }

    /// The scoreboard slot of the worker that carries it now, if one does.
    pub fn slot(self, scoreboard: &Scoreboard) -> Option<Slot> {
        // SAFETY: live for 'c.
        let handle = unsafe { (*self.rec()).sbh };
        if handle.is_null() {
            return None;
        }
        // SAFETY: sbh is what the MPM made with ap_create_sb_handle.
        scoreboard.slot_of(unsafe { sys::ap_get_scoreboard_worker(handle.cast()) })
    }

    /// What we keep for this connection.
    pub fn state<S: Slots>(self, module: &Module<S>) -> Option<&'c S::Connection<'c>> {
        // SAFETY: only this module writes its slot, always with a Slots::Connection.
        unsafe { module.get((*self.rec()).conn_config) }
    }

    /// Keeps `state` for this connection.
    pub fn keep<S: Slots>(self, module: &Module<S>, state: &'c S::Connection<'c>) {
        // SAFETY: the vector ends with the connection, and `state` not before 'c does.
        unsafe { module.set((*self.rec()).conn_config, state) };
    }
}

/// The address in an APR socket address; None when it is no IP address.
///
/// # Safety
/// `sockaddr` is null or a live apr_sockaddr_t.
pub(super) unsafe fn address(sockaddr: *const sys::apr_sockaddr_t) -> Option<IpAddr> {
    // SAFETY: by the contract; `family` says which member of the union was written.
    unsafe {
        let sockaddr = sockaddr.as_ref()?;
        match sockaddr.family {
            libc::AF_INET => Some(sockaddr.sa.sin.sin_addr.s_addr.to_ne_bytes().into()),
            libc::AF_INET6 => Some(sockaddr.sa.sin6.sin6_addr.__in6_u.__u6_addr8.into()),
            _ => None,
        }
    }
}
