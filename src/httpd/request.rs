//! A `request_rec`: the client's request, a redirect of it, or a subrequest.

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ptr::{self, NonNull};

use super::connection::{Connection, address};
use super::pool::Pool;
use super::record::{Module, Slots};
use super::server::{Server, text};
use crate::sys;

/// A request that lives at least for `'r`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Request<'r>(NonNull<sys::request_rec>, PhantomData<&'r ()>);

impl<'r> Request<'r> {
    /// # Safety
    /// `request` is a live request_rec that outlives `'r`.
    pub unsafe fn from_raw(request: *mut sys::request_rec) -> Self {
        Request(
            NonNull::new(request).expect("httpd never passes a null request"),
            PhantomData,
        )
    }

    pub(super) fn as_ptr(self) -> *mut sys::request_rec {
        self.0.as_ptr()
    }

    #[inline]
    fn rec(self) -> *mut sys::request_rec {
        self.0.as_ptr()
    }

    /// The request that the client sent: before all redirects, outside all subrequests.
    #[inline]
    pub fn initial(self) -> Request<'r> {
        let mut request = self.0;
        loop {
            // SAFETY: prev and main outlive the requests made from them.
            let from = unsafe {
                NonNull::new((*request.as_ptr()).prev).or(NonNull::new((*request.as_ptr()).main))
            };
            match from {
                Some(from) => request = from,
                None => return Request(request, PhantomData),
            }
        }
    }

    /// Whether this is a subrequest: a lookup, or one that will be run.
    #[inline]
    pub fn is_sub(self) -> bool {
        // SAFETY: live for 'r.
        !unsafe { (*self.rec()).main }.is_null()
    }

    /// The request whose answer this is, or is a part of: outside all subrequests.
    pub fn whole(self) -> Request<'r> {
        let mut request = self.0;
        // SAFETY: main outlives the subrequests made from it.
        while let Some(main) = NonNull::new(unsafe { (*request.as_ptr()).main }) {
            request = main;
        }
        Request(request, PhantomData)
    }

    /// The pool that ends with the request.
    #[inline]
    pub fn pool(self) -> Pool<'r> {
        // SAFETY: a request's pool lives as long as the request.
        unsafe { Pool::from_raw((*self.rec()).pool) }
    }

    /// The connection it came on.
    #[inline]
    pub fn connection(self) -> Connection<'r> {
        // SAFETY: the connection outlives its requests.
        unsafe { Connection::from_raw((*self.rec()).connection) }
    }

    /// The server or virtual host that serves it.
    #[inline]
    pub fn server(self) -> Server<'r> {
        // SAFETY: the configuration outlives the requests.
        unsafe { Server::from_raw((*self.rec()).server) }
    }

    /// The client, after mod_remoteip, when it is not the connection's peer.
    #[inline]
    pub fn client_other_than_peer(self) -> Option<IpAddr> {
        // SAFETY: live for 'r; the address belongs to the request or its connection.
        unsafe {
            let client = (*self.rec()).useragent_addr;
            if ptr::eq(client, self.connection().client_addr()) {
                return None;
            }
            address(client)
        }
    }

    /// When httpd had read its request line, in seconds of the wall clock.
    pub fn started(self) -> u32 {
        // SAFETY: live for 'r. Only ages are made of it, so the cut does not matter.
        (unsafe { (*self.rec()).request_time } / 1_000_000) as u32
    }

    /// The same in microseconds.
    pub fn started_micros(self) -> u64 {
        // SAFETY: live for 'r.
        (unsafe { (*self.rec()).request_time }) as u64
    }

    /// Whether httpd sent it to itself to wake a worker.
    #[inline]
    pub fn is_dummy(self) -> bool {
        // SAFETY: live for 'r.
        let method = unsafe { (*self.rec()).method_number };
        method == sys::M_OPTIONS as c_int && self.has_dummy_marks()
    }

    #[cold]
    fn has_dummy_marks(self) -> bool {
        self.uri() == b"*"
            && self.connection().is_from_here()
            && self
                .header_in(c"User-Agent")
                .is_some_and(|agent| agent.ends_with("(internal dummy connection)"))
    }

    /// The path, decoded.
    pub fn uri(self) -> &'r [u8] {
        // SAFETY: null or NUL-terminated, and lives as long as the request.
        unsafe {
            let uri = (*self.rec()).uri;
            if uri.is_null() {
                &[]
            } else {
                CStr::from_ptr(uri).to_bytes()
            }
        }
    }

    /// The query string.
    pub fn query(self) -> Option<&'r str> {
        // SAFETY: null or NUL-terminated, and lives as long as the request.
        unsafe { text((*self.rec()).args) }
    }

    /// The type of the response, as far as it is known yet.
    #[inline]
    pub fn content_type(self) -> Option<&'r [u8]> {
        // SAFETY: null or NUL-terminated, and lives as long as the request.
        unsafe {
            let content_type = (*self.rec()).content_type;
            (!content_type.is_null()).then(|| CStr::from_ptr(content_type).to_bytes())
        }
    }

    /// Whether the handler of this name will serve it.
    #[inline]
    pub fn has_handler(self, name: &CStr) -> bool {
        // SAFETY: null or NUL-terminated, and lives as long as the request.
        unsafe {
            let handler = (*self.rec()).handler;
            // The first letter decides for nearly every request.
            !handler.is_null()
                && *handler == *name.as_ptr()
                && libc::strcmp(handler, name.as_ptr()) == 0
        }
    }

    /// Whether mod_rewrite is about to make another request of it.
    pub fn is_being_rewritten(self) -> bool {
        // SAFETY: null or NUL-terminated, and lives as long as the request.
        let filename = unsafe { text((*self.rec()).filename) };
        self.has_handler(c"redirect-handler")
            && filename.is_some_and(|name| name.starts_with("redirect:"))
    }

    /// Whether the path is still as the client wrote it: before httpd decodes it and
    /// looks for a file.
    pub fn is_untranslated(self) -> bool {
        // SAFETY: live for 'r.
        unsafe { (*self.rec()).filename.is_null() }
    }

    /// A header that the client sent.
    pub fn header_in(self, name: &CStr) -> Option<&'r str> {
        // SAFETY: the table lives as long as the request.
        unsafe { text(sys::apr_table_get((*self.rec()).headers_in, name.as_ptr())) }
    }

    /// A header that the client sent, whatever its bytes.
    pub fn raw_header_in(self, name: &CStr) -> Option<&'r [u8]> {
        // SAFETY: the table lives as long as the request; its values are NUL-terminated.
        unsafe {
            let value = sys::apr_table_get((*self.rec()).headers_in, name.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
        }
    }

    /// Whether a body comes with it, as its headers say.
    pub fn announces_body(self) -> bool {
        let length = self.raw_header_in(c"Content-Length");
        length.is_some_and(|length| length != b"0")
            || self.raw_header_in(c"Transfer-Encoding").is_some()
    }

    /// The status of the answer; a redirect to an error page keeps that of the error.
    pub fn status(self) -> c_int {
        // SAFETY: live for 'r.
        unsafe { (*self.rec()).status }
    }

    /// Whether an error has led here (ErrorDocument). Until it has an answer of its own a
    /// request's status is 200.
    pub fn is_error_page(self) -> bool {
        self.status() != sys::HTTP_OK as c_int
    }

    /// The request that this one was redirected to in the end, or itself.
    pub fn last(self) -> Request<'r> {
        let mut request = self.0;
        // SAFETY: a redirect's record lives as long as that of the client's request.
        while let Some(next) = NonNull::new(unsafe { (*request.as_ptr()).next }) {
            request = next;
        }
        Request(request, PhantomData)
    }

    /// Gives a status that httpd has no line for one with this reason: without it httpd
    /// answers 500.
    pub fn name_status(self, status: c_int, reason: &str) {
        let number = status.to_string();
        // SAFETY: httpd returns a constant line, NUL-terminated, for every number.
        let known = unsafe { CStr::from_ptr(sys::ap_get_status_line(status)) };
        if known.to_bytes().starts_with(number.as_bytes()) {
            return;
        }
        let line = self.pool().c_text(&format!("{number} {reason}"));
        // SAFETY: live for 'r; the line lives as long as the request.
        unsafe { (*self.rec()).status_line = line };
    }

    /// Whoever reads the body from now on finds none: its length is what httpd's own
    /// filter and CGI scripts go by. For a request that nobody has begun to read.
    pub fn forget_body(self) {
        for name in [c"Content-Length", c"Transfer-Encoding", c"Expect"] {
            // SAFETY: the table lives as long as the request.
            unsafe { sys::apr_table_unset((*self.rec()).headers_in, name.as_ptr()) };
        }
    }

    /// The method as the client wrote it.
    pub fn method(self) -> &'r [u8] {
        // SAFETY: null or NUL-terminated, and lives as long as the request.
        unsafe {
            let method = (*self.rec()).method;
            if method.is_null() {
                &[]
            } else {
                CStr::from_ptr(method).to_bytes()
            }
        }
    }

    /// Sets a variable for CGI, logs and expressions.
    pub fn set_variable(self, name: &CStr, value: &str) {
        let value = self.pool().c_text(value);
        // SAFETY: name and value live as long as the table.
        unsafe { sys::apr_table_set((*self.rec()).subprocess_env, name.as_ptr(), value) };
    }

    /// Sets a header that goes out with errors too.
    pub fn set_error_header(self, name: &CStr, value: &str) {
        let value = self.pool().c_text(value);
        // SAFETY: apr_table_set copies both.
        unsafe { sys::apr_table_set((*self.rec()).err_headers_out, name.as_ptr(), value) };
    }

    /// Adds to a header that goes out with errors too; several values become a list.
    pub fn add_error_header(self, name: &CStr, value: &str) {
        let value = self.pool().c_text(value);
        // SAFETY: apr_table_merge copies name and value.
        unsafe { sys::apr_table_merge((*self.rec()).err_headers_out, name.as_ptr(), value) };
    }

    /// Sets a header of the response.
    pub fn set_header(self, name: &CStr, value: &str) {
        let value = self.pool().c_text(value);
        // SAFETY: apr_table_set copies both.
        unsafe { sys::apr_table_set((*self.rec()).headers_out, name.as_ptr(), value) };
    }

    /// Whether it is a GET or a HEAD, which httpd takes for a GET without a body.
    pub fn is_get(self) -> bool {
        // SAFETY: live for 'r.
        unsafe { (*self.rec()).method_number == sys::M_GET as c_int }
    }

    /// Says that GET and HEAD are all that is served here: what `Allow` names.
    pub fn allow_get_only(self) {
        // SAFETY: live for 'r; httpd makes the list with the request.
        unsafe { (*(*self.rec()).allowed_methods).method_mask = 1 << sys::M_GET };
    }

    /// The status of an answer whose body follows.
    pub fn set_status(self, status: c_int) {
        // SAFETY: live for 'r.
        unsafe { (*self.rec()).status = status };
    }

    /// Sends a whole body of this type.
    pub fn send(self, content_type: &'static CStr, body: &str) {
        // SAFETY: the type is 'static; body is as long as said.
        unsafe {
            sys::ap_set_content_type(self.rec(), content_type.as_ptr());
            sys::ap_rwrite(
                body.as_ptr().cast::<c_void>(),
                body.len() as c_int,
                self.rec(),
            );
        }
    }

    /// Sends a part of a body, whose type another module has said.
    pub fn write(self, part: &str) {
        // SAFETY: part is as long as said.
        unsafe {
            sys::ap_rwrite(
                part.as_ptr().cast::<c_void>(),
                part.len() as c_int,
                self.rec(),
            );
        }
    }

    /// Our merged configuration of its directory.
    #[inline]
    pub fn directory<S: Slots>(self, module: &Module<S>) -> Option<&'r S::Directory<'r>> {
        // SAFETY: only this module writes its slot, always with a Slots::Directory.
        unsafe { module.get((*self.rec()).per_dir_config) }
    }

    /// What we keep for this request.
    #[inline]
    pub fn state<S: Slots>(self, module: &Module<S>) -> Option<&'r S::Request<'r>> {
        // SAFETY: only this module writes its slot, always with a Slots::Request.
        unsafe { module.get((*self.rec()).request_config) }
    }

    /// Keeps `state` for this request.
    pub fn keep<S: Slots>(self, module: &Module<S>, state: &'r S::Request<'r>) {
        // SAFETY: the vector ends with the request, and `state` not before 'r does.
        unsafe { module.set((*self.rec()).request_config, state) };
    }
}
