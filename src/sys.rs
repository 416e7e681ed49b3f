//! httpd's C API as bindgen made it from the installed headers, and the shim.
//!
//! Raw and unsafe; everything above goes through `httpd`.

#![allow(
    clippy::all,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
