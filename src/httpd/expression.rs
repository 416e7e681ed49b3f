//! httpd's expressions (`ap_expr`): parsed once, while the configuration is read.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::pool::Pool;
use super::request::Request;
use super::server::text;
use crate::sys;

/// A condition that lives as long as the configuration it stands in.
#[derive(Clone, Copy)]
pub struct Expression<'p>(NonNull<sys::ap_expr_info_t>, PhantomData<&'p ()>);

impl<'p> Expression<'p> {
    /// Parses a condition. `Err` is what httpd finds wrong with it.
    ///
    /// # Safety
    /// `parameters` are those of the directive that is being read, whose pool is `pool`.
    pub(super) unsafe fn parse(
        parameters: *mut sys::cmd_parms,
        pool: Pool<'p>,
        condition: &str,
        module: c_int,
    ) -> Result<Self, String> {
        let mut error = ptr::null();
        // SAFETY: by the contract; the text lives as long as the pool; without a lookup
        // function httpd takes its own.
        let parsed = unsafe {
            sys::ap_expr_parse_cmd_mi(
                parameters,
                pool.c_text(condition),
                // What we look at must not make the answer vary for caches.
                sys::AP_EXPR_FLAG_DONT_VARY as u32,
                &mut error,
                None,
                module,
            )
        };
        // SAFETY: null, or a text of the configuration's pool.
        match (unsafe { text(error) }, NonNull::new(parsed)) {
            (None, Some(parsed)) => Ok(Expression(parsed, PhantomData)),
            (error, _) => Err(error.unwrap_or("it cannot be parsed").to_owned()),
        }
    }

    /// Whether the condition holds for this request. `Err` is what failed.
    pub fn holds(self, request: Request<'_>) -> Result<bool, String> {
        let mut error = ptr::null();
        // SAFETY: parsed above; the request is live.
        let result = unsafe { sys::ap_expr_exec(request.as_ptr(), self.0.as_ptr(), &mut error) };
        // SAFETY: null, or a text of the request's pool.
        match (result, unsafe { text(error) }) {
            (0.., None) => Ok(result > 0),
            (_, error) => Err(error.unwrap_or("it cannot be evaluated").to_owned()),
        }
    }
}
