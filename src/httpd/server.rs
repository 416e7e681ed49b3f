//! A `server_rec`: the main server or a virtual host.

use std::borrow::Cow;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::record::{Module, Slots};
use crate::sys;

/// A server that lives as long as its configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Server<'s>(NonNull<sys::server_rec>, PhantomData<&'s ()>);

impl<'s> Server<'s> {
    /// # Safety
    /// `server` is a live server_rec that outlives `'s`.
    pub unsafe fn from_raw(server: *mut sys::server_rec) -> Self {
        Server(
            NonNull::new(server).expect("httpd never passes a null server"),
            PhantomData,
        )
    }

    pub(super) fn as_ptr(self) -> *mut sys::server_rec {
        self.0.as_ptr()
    }

    fn rec(self) -> &'s sys::server_rec {
        // SAFETY: live for 's by from_raw's contract; httpd changes a server_rec only
        // while it reads its configuration, single-threaded, between our callbacks.
        unsafe { self.0.as_ref() }
    }

    /// Whether this is a virtual host.
    pub fn is_virtual(self) -> bool {
        self.rec().is_virtual != 0
    }

    /// ServerName, or what httpd took in its place; empty when there is none.
    pub fn name(self) -> Cow<'s, str> {
        // SAFETY: null or a text of the configuration.
        unsafe { shown(self.rec().server_hostname) }
    }

    /// The port of ServerName, or else of `<VirtualHost>`'s first address; 0 when
    /// neither says one.
    pub fn port(self) -> u16 {
        match self.rec().port {
            0 => self
                .addresses()
                .map(|(_, port)| port)
                .find(|port| *port != 0)
                .unwrap_or(0),
            port => port,
        }
    }

    /// Its ErrorLog, as it is configured.
    pub fn error_log(self) -> Cow<'s, str> {
        // SAFETY: null or a text of the configuration.
        unsafe { shown(self.rec().error_fname) }
    }

    /// File and line of its `<VirtualHost>`; None for the main server, which has no one place.
    pub fn written_at(self) -> Option<(Cow<'s, str>, u32)> {
        // SAFETY: null or a text of the configuration.
        let file = unsafe { shown(self.rec().defn_name) };
        (self.is_virtual() && !file.is_empty()).then(|| (file, self.rec().defn_line_number))
    }

    /// The addresses of `<VirtualHost ...>`, as written, with their ports.
    pub fn addresses(self) -> impl Iterator<Item = (Cow<'s, str>, u16)> {
        // SAFETY: the list is the configuration's and ends with null.
        let mut next = unsafe { self.rec().addrs.as_ref() };
        std::iter::from_fn(move || {
            let address = next?;
            // SAFETY: as above.
            next = unsafe { address.next.as_ref() };
            // SAFETY: null or a text of the configuration.
            Some((unsafe { shown(address.virthost) }, address.host_port))
        })
    }

    /// The names of `ServerAlias`, with wildcards or without.
    pub fn aliases(self) -> Vec<Cow<'s, str>> {
        let mut aliases = Vec::new();
        for names in [self.rec().names, self.rec().wild_names] {
            // SAFETY: null, or an array of texts of the configuration.
            if let Some(names) = unsafe { names.as_ref() } {
                let first = names.elts.cast::<*const std::ffi::c_char>();
                for at in 0..names.nelts.unsigned_abs() as usize {
                    // SAFETY: the array holds nelts texts.
                    aliases.push(unsafe { shown(*first.add(at)) });
                }
            }
        }
        aliases
    }

    /// This server and those after it: from the main server, all.
    pub fn all(self) -> impl Iterator<Item = Server<'s>> {
        std::iter::successors(Some(self), |server| {
            NonNull::new(server.rec().next).map(|next| Server(next, PhantomData))
        })
    }

    /// Gives this server a configuration of ours, in place of the one it has.
    pub fn keep<S: Slots>(self, module: &Module<S>, config: &'s S::Server<'s>) {
        // SAFETY: the vector ends with the server's configuration, and `config` not
        // before 's does.
        unsafe { module.set(self.rec().module_config, config) };
    }

    /// Our configuration of this server.
    pub fn config<S: Slots>(self, module: &Module<S>) -> Option<&'s S::Server<'s>> {
        // SAFETY: only this module writes its slot, always with a Slots::Server.
        unsafe { module.get(self.rec().module_config) }
    }
}

/// # Safety
/// `text` is null or NUL-terminated and lives for `'t`.
pub(super) unsafe fn text<'t>(text: *const std::ffi::c_char) -> Option<&'t str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by the contract. What is not UTF-8 is no name that we could show.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// A text as it can be shown: what is not UTF-8 has its bytes outside ASCII as `%XX`,
/// so that two texts never become one.
///
/// # Safety
/// As [`text`].
pub(super) unsafe fn shown<'t>(text: *const std::ffi::c_char) -> Cow<'t, str> {
    if text.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: by the contract.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str() {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(
            text.to_bytes()
                .iter()
                .fold(String::new(), |mut shown, byte| {
                    match byte {
                        0x80.. => shown.push_str(&format!("%{byte:02X}")),
                        _ => shown.push(char::from(*byte)),
                    }
                    shown
                }),
        ),
    }
}
