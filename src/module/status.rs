//! The handler `limitipconn-status`: the gauge as a page, as JSON, and for Prometheus.

use std::ffi::{CStr, c_int};

use super::MODULE;
use super::audience::Audience;
use super::running::{Running, Runtime};
use crate::gauge::{self, Scene, Worker};
use crate::httpd::log::{self, LogLevel};
use crate::httpd::request::Request;
use crate::httpd::scoreboard::Scoreboard;
use crate::httpd::state;
use crate::report::message::Id;
use crate::report::printable::encoded;
use crate::report::snapshot::Snapshot;
use crate::report::{html, json, openmetrics};
use crate::sys;

/// The name in `SetHandler`.
pub const HANDLER: &CStr = c"limitipconn-status";

/// Serves the gauge.
pub fn serve(running: Running, request: Request<'_>) -> c_int {
    let shown = request
        .server()
        .config(MODULE)
        .and_then(|site| site.status_page);
    if shown != Some(true) {
        let text = format!(
            "{}: limitipconn-status is not shown, since IPLimitStatusPage is Off; set it On in the main server",
            Id::StatusPageOff
        );
        log::request(MODULE, LogLevel::WARNING, request, &text);
        return sys::HTTP_NOT_FOUND;
    }
    if !request.is_get() {
        request.allow_get_only();
        return sys::HTTP_METHOD_NOT_ALLOWED;
    }
    let format = request
        .query()
        .unwrap_or("")
        .split('&')
        .find_map(|pair| pair.strip_prefix("format="));
    request.set_header(c"Cache-Control", "no-store");
    request.set_header(c"X-Content-Type-Options", "nosniff");
    request.set_header(c"Referrer-Policy", "no-referrer");
    match format {
        None | Some("html") => {
            request.set_header(c"Content-Security-Policy", html::POLICY);
            let page = html::page(&snapshot(running));
            request.send(c"text/html; charset=utf-8", &page);
        }
        Some("json") => request.send(c"application/json", &json::json(&snapshot(running))),
        Some("openmetrics") => request.send(
            openmetrics::CONTENT_TYPE,
            &openmetrics::openmetrics(&snapshot(running)),
        ),
        Some(other) => {
            let text = format!(
                "\"format={}\" is not known; use format=html, format=json or format=openmetrics\n",
                encoded(other.as_bytes())
            );
            request.set_status(sys::HTTP_BAD_REQUEST);
            request.send(c"text/plain; charset=utf-8", &text);
        }
    }
    sys::OK
}

/// What there is to see now.
pub fn snapshot(running: Running) -> Snapshot {
    look(running.runtime, running.child.scoreboard, gauge::snapshot)
}

/// Looks through one of the instruments, in a child or in the parent.
pub fn look<T>(
    runtime: &Runtime,
    scoreboard: Scoreboard,
    through: impl FnOnce(&Scene<'_>) -> T,
) -> T {
    let workers: Vec<Worker> = scoreboard.statuses().map(Worker::from_status).collect();
    through(&Scene {
        segment: &runtime.segment,
        workers: &workers,
        max_workers: state::max_request_workers(),
        generation: runtime.generation,
        prefix: runtime.prefix,
        has_rules: Running::rules_anywhere(),
        audience: &Audience::of(runtime.narrow),
        httpd: state::description(),
        nanos: state::nanoseconds_up(),
        micros: state::microseconds(),
    })
}
