//! `%{IPLIMIT_CLIENT}` in httpd's expressions: the client's address as rules about
//! addresses see it, cut to its prefix.

use std::ffi::CStr;

use super::running::{self, Running};
use super::trip::Trip;
use crate::httpd::expression::Variable;
use crate::httpd::request::Request;

/// The variable.
pub enum ClientVariable {}

impl Variable for ClientVariable {
    const NAME: &CStr = c"IPLIMIT_CLIENT";

    fn value(request: Request<'_>) -> Option<&CStr> {
        let trip = Trip::of(Running::get()?, request)?;
        Some(request.pool().c_str(&trip.client.key.to_string()))
    }

    fn on_fault(text: &str) {
        running::fault(text);
    }
}
