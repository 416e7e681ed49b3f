//! httpd's expressions (`ap_expr`): parsed once, while the configuration is read; and a
//! variable of ours in them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::boundary::guard;
use super::pool::Pool;
use super::request::Request;
use super::server::text;
use crate::sys;

/// A condition that lives as long as the configuration it stands in.
#[derive(Clone, Copy)]
pub struct Expression<'p>(NonNull<sys::ap_expr_info_t>, PhantomData<&'p ()>);

/// An expression whose value is a text; it lives as long as the configuration.
#[derive(Clone, Copy)]
pub struct Text<'p>(NonNull<sys::ap_expr_info_t>, PhantomData<&'p ()>);

/// # Safety
/// `parameters` are those of the directive that is being read, whose pool is `pool`.
unsafe fn parse(
    parameters: *mut sys::cmd_parms,
    pool: Pool<'_>,
    expression: &str,
    flags: c_int,
    module: c_int,
) -> Result<NonNull<sys::ap_expr_info_t>, String> {
    let mut error = ptr::null();
    // SAFETY: by the contract; the text lives as long as the pool; without a lookup
    // function httpd takes its own.
    let parsed = unsafe {
        sys::ap_expr_parse_cmd_mi(
            parameters,
            pool.c_text(expression),
            // What we look at must not make the answer vary for caches.
            (flags | sys::AP_EXPR_FLAG_DONT_VARY) as u32,
            &mut error,
            None,
            module,
        )
    };
    // SAFETY: null, or a text of the configuration's pool.
    match (unsafe { text(error) }, NonNull::new(parsed)) {
        (None, Some(parsed)) => Ok(parsed),
        (error, _) => Err(error.unwrap_or("it cannot be parsed").to_owned()),
    }
}

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
        // SAFETY: by the contract.
        let parsed = unsafe { parse(parameters, pool, condition, 0, module) };
        parsed.map(|parsed| Expression(parsed, PhantomData))
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

impl<'p> Text<'p> {
    /// Parses an expression. `Err` is what httpd finds wrong with it.
    ///
    /// # Safety
    /// As [`Expression::parse`].
    pub(super) unsafe fn parse(
        parameters: *mut sys::cmd_parms,
        pool: Pool<'p>,
        expression: &str,
        module: c_int,
    ) -> Result<Self, String> {
        let flags = sys::AP_EXPR_FLAG_STRING_RESULT;
        // SAFETY: by the contract.
        let parsed = unsafe { parse(parameters, pool, expression, flags, module) };
        parsed.map(|parsed| Text(parsed, PhantomData))
    }

    /// The value for this request, of any bytes but NUL. `Err` is what failed.
    pub fn value<'r>(self, request: Request<'r>) -> Result<&'r [u8], String> {
        let mut error = ptr::null();
        // SAFETY: parsed above; the request is live.
        let value = unsafe { sys::ap_expr_str_exec(request.as_ptr(), self.0.as_ptr(), &mut error) };
        // SAFETY: null, or a text of the request's pool or of the configuration, either of
        // which outlives the request.
        match (unsafe { text(error) }, value.is_null()) {
            (None, true) => Ok(&[]),
            // SAFETY: as above, NUL-terminated.
            (None, false) => Ok(unsafe { CStr::from_ptr(value) }.to_bytes()),
            (Some(error), _) => Err(error.to_owned()),
        }
    }
}

/// A variable that stands in httpd's expressions as `%{NAME}`.
pub trait Variable {
    /// Its name, in capitals.
    const NAME: &CStr;

    /// Its value for this request, in the request's pool; none is the empty text.
    fn value(request: Request<'_>) -> Option<&CStr>;

    /// Hears of a panic in it.
    fn on_fault(text: &str);
}

/// Makes a variable known to httpd.
pub fn register<V: Variable>() {
    let none = ptr::null();
    // SAFETY: called while httpd loads modules, single-threaded; the lists may be null.
    unsafe {
        sys::ap_hook_expr_lookup(Some(look_up::<V>), none, none, sys::APR_HOOK_MIDDLE);
    }
}

unsafe extern "C" fn look_up<V: Variable>(parms: *mut sys::ap_expr_lookup_parms) -> c_int {
    // SAFETY: httpd passes live parameters whose name is NUL-terminated and whose two
    // results it wants to be written.
    unsafe {
        let wants_variable = (*parms).type_ == sys::AP_EXPR_FUNC_VAR as c_int;
        if !wants_variable || libc::strcasecmp((*parms).name, V::NAME.as_ptr()) != 0 {
            return sys::DECLINED;
        }
        let function: unsafe extern "C" fn(_, _) -> _ = evaluate::<V>;
        *(*parms).func = function as *const c_void;
        *(*parms).data = ptr::null();
    }
    sys::OK
}

unsafe extern "C" fn evaluate<V: Variable>(
    context: *mut sys::ap_expr_eval_ctx_t,
    _data: *const c_void,
) -> *const c_char {
    // SAFETY: httpd passes a live context; without a request there is no value.
    let request = unsafe { (*context).r };
    if request.is_null() {
        return ptr::null();
    }
    // SAFETY: the request is live while the expression is evaluated, and its pool longer.
    let request = unsafe { Request::from_raw(request) };
    guard(ptr::null(), V::on_fault, || {
        V::value(request).map_or(ptr::null(), CStr::as_ptr)
    })
}
