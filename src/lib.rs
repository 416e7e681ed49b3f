//! mod_limitipconn: limits what one client may hold of an Apache httpd 2.4.
//!
//! Arrows point down only: `module` uses `httpd`, `report` and `store`;
//! `httpd` uses `sys`; `report` and `store` use `limit`; `limit` uses nothing.

pub mod limit;
pub mod report;
pub mod store;
