//! A `conn_rec`: one client connection, or one stream of an HTTP/2 connection.

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ptr::NonNull;
use std::time::Duration;

use super::pool::Pool;
use super::record::{Module, Slots};
use super::scoreboard::{Scoreboard, Slot};
use super::server::Server;
use super::state;
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

    pub(super) fn as_ptr(self) -> *mut sys::conn_rec {
        self.rec()
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

    /// The connection that this stream belongs to; None for one that is none.
    pub fn master(self) -> Option<Connection<'c>> {
        // SAFETY: live for 'c, and a master outlives its streams.
        NonNull::new(unsafe { (*self.rec()).master }).map(|master| Connection(master, PhantomData))
    }

    /// Whether httpd opened the connection itself, as a proxy does.
    pub fn is_outgoing(self) -> bool {
        // SAFETY: live for 'c.
        unsafe { (*self.rec()).outgoing != 0 }
    }

    /// Whether it came in at one of httpd's own ports. What mod_proxy_connect and
    /// mod_proxy_ftp open did not, although it looks like the client's otherwise.
    pub fn came_to_a_listener(self) -> bool {
        // SAFETY: live for 'c, and so is its local_addr; the list of listeners is made
        // before children are, and ends with null.
        unsafe {
            let Some(local) = (*self.rec()).local_addr.as_ref() else {
                return true;
            };
            let mut listener = sys::ap_listeners.as_ref();
            while let Some(listens) = listener {
                match listens.bind_addr.as_ref() {
                    // A socket that is no IP socket has no port to compare.
                    None => return true,
                    Some(bound) if bound.port == local.port => return true,
                    Some(_) => listener = listens.next.as_ref(),
                }
            }
        }
        false
    }

    /// Whether mod_remoteip waits for a PROXY protocol header on it; known once
    /// mod_remoteip's own hook has run.
    pub fn awaits_proxy_header(self) -> bool {
        const NAME: &CStr = c"remoteip_input";
        // SAFETY: the filters live as long as the connection and their records for
        // good; names are NUL-terminated.
        unsafe {
            let mut filter = (*self.rec()).input_filters.as_ref();
            while let Some(this) = filter {
                let record = this.frec.as_ref();
                if record.is_some_and(|record| {
                    !record.name.is_null()
                        && CStr::from_ptr(record.name)
                            .to_bytes()
                            .eq_ignore_ascii_case(NAME.to_bytes())
                }) {
                    return true;
                }
                filter = this.next.as_ref();
            }
        }
        false
    }

    /// Whether httpd opened it to wake a worker: it comes from here, and has brought
    /// what httpd sends then and nothing else. Nothing is read from the socket.
    ///
    /// # Safety
    /// `socket` is the live apr_socket_t of this connection, as pre_connection gets it.
    pub unsafe fn is_dummy(self, socket: *mut c_void) -> bool {
        // To a TLS port httpd sends an alert instead of a request.
        const ALERT: &[u8] = b"\x15\x03\x01\x00\x02\x01\x00";
        if !self.is_from_here() {
            return false;
        }
        let mut fd = -1;
        let mut bytes = [0u8; 1024];
        // SAFETY: the socket is live, by the contract; recv writes into `bytes` only.
        let length = unsafe {
            if sys::apr_os_sock_get(&mut fd, socket.cast()) != 0 {
                return false;
            }
            let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
            libc::recv(fd, bytes.as_mut_ptr().cast(), bytes.len(), flags)
        };
        let seen = &bytes[..usize::try_from(length).unwrap_or(0)];
        let request = format!(
            "OPTIONS * HTTP/1.0\r\nUser-Agent: {} (internal dummy connection)\r\n\r\n",
            state::description()
        );
        seen == ALERT || seen == request.as_bytes()
    }

    /// The server whose address it came to.
    pub fn base_server(self) -> Option<Server<'c>> {
        // SAFETY: live for 'c; the configuration outlives its connections.
        unsafe {
            let server = (*self.rec()).base_server;
            (!server.is_null()).then(|| Server::from_raw(server))
        }
    }

    /// Lets the connection end after the response that is being made.
    pub fn close_after_response(self) {
        // SAFETY: live for 'c; the thread that carries the connection calls.
        unsafe { (*self.rec()).keepalive = sys::ap_conn_keepalive_e_AP_CONN_CLOSE };
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

    /// The descriptor of its socket; None where it has none.
    pub fn descriptor(self) -> Option<i32> {
        let mut fd = -1;
        // SAFETY: live for 'c; its socket lives as long, or there is none.
        let has_socket = unsafe {
            let socket = sys::ap_get_conn_socket(self.rec());
            !socket.is_null() && sys::apr_os_sock_get(&mut fd, socket) == 0
        };
        has_socket.then_some(fd)
    }

    /// Whether httpd has given the connection up.
    pub fn is_aborted(self) -> bool {
        // SAFETY: live for 'c.
        unsafe { (*self.rec()).aborted != 0 }
    }

    /// Waits so long for the client to close the connection, or its half of it; whether it
    /// did. Ends early where a signal comes. For a connection that carries requests itself.
    pub fn is_closed_within(self, time: Duration) -> bool {
        let mut poll = libc::pollfd {
            // poll() waits only, for a number below 0.
            fd: self.descriptor().unwrap_or(-1),
            events: libc::POLLRDHUP,
            revents: 0,
        };
        let time = libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos().into(),
        };
        // SAFETY: one pollfd and a timespec, both ours; no signal mask.
        let found = unsafe { libc::ppoll(&mut poll, 1, &time, std::ptr::null()) };
        found > 0
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
