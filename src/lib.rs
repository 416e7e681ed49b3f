//! mod_limitipconn: limits what one client may hold of an Apache httpd 2.4.
//!
//! Arrows point down only: `module` uses all below it (of `sys` only types and numbers
//! of callbacks); `gauge` uses `report`, `store` and `limit`; `httpd` uses `sys`; `report` and
//! `store` use `limit`; `limit` nothing.

pub mod gauge;
#[cfg(feature = "httpd")]
mod httpd;
pub mod limit;
#[cfg(feature = "httpd")]
mod module;
pub mod report;
pub mod store;
#[cfg(feature = "httpd")]
#[expect(dead_code, reason = "the allowlist is by name, not by use")]
mod sys;
