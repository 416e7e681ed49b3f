//! What client, log and other modules get to see of a decision.

use std::borrow::Cow;
use std::ffi::c_int;

use super::MODULE;
use super::client::Client;
use super::delay::{self, Waited};
use super::found::{Found, Timed};
use super::running::Running;
use super::trip::Trip;
use super::zones::Key;
use crate::httpd::connection::Connection;
use crate::httpd::first_output;
use crate::httpd::log::{self, LogLevel};
use crate::httpd::request::Request;
use crate::httpd::state;
use crate::limit::gcra;
use crate::limit::key::{CountId, Digest};
use crate::limit::rating::{Limit, Statuses};
use crate::limit::settings::{Settings, Within};
use crate::report::printable::decoded;
use crate::report::ratelimit::Fields;
use crate::report::refusal::{Asked, Refusal, Verdict};
use crate::store::Counter;
use crate::sys::DECLINED;

/// A request under decision, and how its answers are made.
#[derive(Clone, Copy)]
pub struct Answer<'r> {
    /// The generation that serves.
    pub running: Running,
    /// The request.
    pub request: Request<'r>,
    /// The client request that it is part of.
    pub trip: &'r Trip<'r>,
    /// The settings of the rules' level.
    pub settings: Within<'r>,
}

/// What becomes of one that is over the number.
pub fn verdict(settings: &Settings) -> Verdict {
    if settings.is_dry_run() {
        Verdict::RefusedDryRun
    } else {
        Verdict::Refused
    }
}

/// The status of a refusal by a rule of this kind.
pub fn status_of(is_rate: bool, settings: &Settings) -> u16 {
    match is_rate {
        true => settings.rate_status(),
        false => settings.concurrency_status(),
    }
}

impl<'r> Answer<'r> {
    /// Refuses: gives places back, marks the client's request, and tells client and log.
    /// Returns what the hook returns; in a dry run the request goes on.
    pub fn refuse(&self, found: Found<'_>) -> c_int {
        let settings = self.settings.merged();
        let verdict = verdict(&settings);
        self.tell(verdict, found, &settings);
        let status = match verdict {
            Verdict::Refused => c_int::from(status_of(found.rate.is_some(), &settings)),
            Verdict::RefusedDryRun | Verdict::DelayedDryRun => DECLINED,
        };
        if self.request.is_sub() {
            // Only this part of the page is refused; the page itself was admitted.
            return status;
        }
        match verdict {
            Verdict::Refused => {
                self.trip.refused.set(true);
                self.trip.give_back();
                self.trip.charges.refund(self.running);
                send_away(self.request, found, &settings);
            }
            Verdict::RefusedDryRun | Verdict::DelayedDryRun => {
                self.trip.marked.set(true);
                self.trip.give_back_marked();
            }
        }
        mark(self.request.initial(), verdict, found);
        self.tell_limits(found);
        status
    }

    /// How long the request may still wait, in nanoseconds: there is one time for all the
    /// places that it comes to.
    pub fn patience(&self) -> u64 {
        let longest = gcra::LONGEST_WAIT.as_nanos() as u64;
        longest.saturating_sub(self.trip.waited.get())
    }

    /// Lets the request wait for its turn, so long in nanoseconds. Returns what the hook
    /// returns: a client that goes away meanwhile is not served.
    pub fn wait(&self, time: u64, found: Found<'_>) -> c_int {
        self.trip.waited.set(self.trip.waited.get() + time.max(1));
        if self.running.runtime.names_variables && !self.trip.marked.get() {
            let initial = self.request.initial();
            initial.set_variable(c"LIMITIP_STATUS", "DELAYED");
            name(initial, found);
        }
        match delay::wait(self.request, time) {
            Waited::Through => DECLINED,
            Waited::Gone => {
                self.trip.refused.set(true);
                self.trip.give_back();
                self.trip.charges.refund(self.running);
                send_away(self.request, found, &self.settings.merged())
            }
        }
    }

    /// Marks a request that would have to wait for its turn, were it not a dry run.
    pub fn would_wait(&self, found: Found<'_>) {
        self.tell(Verdict::DelayedDryRun, found, &self.settings.merged());
        if !self.trip.marked.get() && self.running.runtime.names_variables {
            // No rule that it passes later takes the mark away.
            self.trip.waited.set(self.trip.waited.get().max(1));
            mark(self.request.initial(), Verdict::DelayedDryRun, found);
        }
    }

    /// The request is to be charged if its answer has one of these statuses.
    #[cold]
    pub fn await_status(
        &self,
        key: (Key<'_>, Option<Digest>),
        count: CountId,
        limit: Limit,
        on: Statuses,
    ) {
        let charges = &self.trip.charges;
        if !charges.awaits_status() {
            first_output::watch(self.request, self.trip);
        }
        let outlives_mark = !self.settings.is_dry_run();
        charges.await_status(key, count, limit, on, outlives_mark);
    }

    /// Marks an admitted request, naming the rule that had least room left.
    #[inline]
    pub fn passed<'f>(&self, found: impl FnOnce() -> Found<'f>) {
        if self.running.runtime.names_variables || self.settings.has_headers() {
            self.mark_passed(found());
        }
    }

    #[inline(never)]
    fn mark_passed(&self, found: Found<'_>) {
        self.tell_limits(found);
        // What a dry run has marked stays so, and what had to wait.
        if !self.running.runtime.names_variables || self.trip.marked.get() {
            return;
        }
        let initial = self.request.initial();
        if self.trip.waited.get() > 0 {
            return;
        }
        initial.set_variable(c"LIMITIP_STATUS", "PASSED");
        if found.left < self.trip.least_room.get() {
            self.trip.least_room.set(found.left);
            name(initial, found);
        }
    }

    fn tell_limits(&self, found: Found<'_>) {
        if !self.settings.has_headers() || self.request.is_sub() {
            return;
        }
        let fields = match found.rate {
            None => Fields::concurrency(found.rule, found.limit, found.left),
            Some(Timed { rate, seconds }) => Fields::rate(found.rule, rate, found.left, seconds),
        };
        self.request
            .add_error_header(c"RateLimit-Policy", &fields.policy());
        self.request.add_error_header(c"RateLimit", &fields.state());
    }

    fn tell(&self, verdict: Verdict, found: Found<'_>, settings: &Settings) {
        let level = LogLevel::numbered(settings.log_level().0);
        if !log::shows(MODULE, level, self.request) {
            return;
        }
        let Some(refusal) = refusal(self.running, &self.trip.client, found, verdict) else {
            return;
        };
        let path = path_of(self.request);
        let refusal = Refusal {
            asked: Some(asked(self.request, &path)),
            ..refusal
        };
        log::request(MODULE, level, self.request, &refusal.to_string());
    }
}

/// The path that the client asked for, decoded.
pub fn path_of<'r>(request: Request<'r>) -> Cow<'r, [u8]> {
    let initial = request.initial();
    match initial.is_untranslated() {
        true => Cow::Owned(decoded(initial.uri())),
        false => Cow::Borrowed(initial.uri()),
    }
}

/// What a line of the log says of a request.
pub fn asked<'a>(request: Request<'a>, path: &'a [u8]) -> Asked<'a> {
    let site = request.server().config(MODULE);
    Asked {
        vhost: site.map_or("-", |site| site.label.get()),
        uri: path,
    }
}

/// Counts a request as exempt, once.
pub fn exempt(running: Running, request: Request<'_>, trip: &Trip<'_>) {
    // The page that answers our refusal is a part of what was refused.
    if request.is_sub() || trip.refused.get() || trip.exempt.replace(true) {
        return;
    }
    running.runtime.segment.add(Counter::Exempt, 1);
    if running.runtime.names_variables && !trip.was_asked() {
        request.initial().set_variable(c"LIMITIP_STATUS", "EXEMPT");
    }
}

/// Tells the log that a connection is one too many.
pub fn tell_of_connection(
    running: Running,
    connection: Connection<'_>,
    client: &Client,
    found: Found<'_>,
    settings: &Settings,
) {
    let level = LogLevel::numbered(settings.log_level().0);
    if !log::shows_connection(MODULE, level, connection) {
        return;
    }
    if let Some(refusal) = refusal(running, client, found, verdict(settings)) {
        log::connection(MODULE, level, connection, &refusal.to_string());
    }
}

/// Whether the request is part of one that was refused: the page that says so.
pub fn is_refused(request: Request<'_>) -> bool {
    let trip = request.initial().state(MODULE);
    trip.is_some_and(|trip| trip.refused.get())
}

/// Answers a request on a connection that is one too many, which shows only now.
pub fn refuse_for_connection(running: Running, request: Request<'_>, found: Found<'_>) -> c_int {
    let settings = running
        .runtime
        .main
        .config(MODULE)
        .map_or_else(Settings::default, |main| main.level.settings);
    if let Some(trip) = Trip::of(running, request) {
        trip.refused.set(true);
    }
    mark(request.initial(), Verdict::Refused, found);
    send_away(request, found, &settings)
}

/// Marks a request on a connection that a dry run would have refused.
pub fn mark_for_connection(running: Running, request: Request<'_>, found: Found<'_>) {
    if let Some(trip) = Trip::of(running, request) {
        trip.marked.set(true);
        trip.give_back_marked();
    }
    mark(request.initial(), Verdict::RefusedDryRun, found);
}

/// The reason of a status that httpd has none for.
const REASON: &str = "Too Many Requests";

/// The error page of a refusal keeps its status, whatever httpd knows of it.
pub fn keep_status(page: Request<'_>) {
    page.name_status(page.status(), REASON);
}

/// What every refusal of a client's request has in common; returns what the hook does.
fn send_away(request: Request<'_>, found: Found<'_>, settings: &Settings) -> c_int {
    let status = c_int::from(status_of(found.rate.is_some(), settings));
    request.name_status(status, REASON);
    let seconds = match found.rate {
        Some(rate) => rate.seconds,
        None => settings.retry_after(),
    };
    request.set_error_header(c"Retry-After", &seconds.to_string());
    request.set_error_header(c"Cache-Control", "no-store");
    if request.announces_body() {
        // Else httpd reads the body first, whole, before it answers.
        if !request.connection().is_stream() {
            request.connection().close_after_response();
        }
        // Else an error page that is a script, or a proxy's, waits for it.
        request.forget_body();
    }
    status
}

/// The line of a refusal, if it gets one of its own; what was asked for is not in it yet.
fn refusal<'a>(
    running: Running,
    client: &Client,
    found: Found<'a>,
    verdict: Verdict,
) -> Option<Refusal<'a>> {
    // What would be delayed takes no line from what would be refused.
    let kind = match verdict {
        Verdict::DelayedDryRun => CountId(!found.id.0),
        Verdict::Refused | Verdict::RefusedDryRun => found.id,
    };
    let key = found.key.within(kind);
    let flood = running.runtime.segment.flood();
    let left_out = flood.tell(key, state::seconds_up())?;
    Some(Refusal {
        client: client.address,
        verdict,
        cause: found.cause,
        count: found.stands,
        limit: found.limit,
        rule: found.rule,
        asked: None,
        left_out,
    })
}

/// Marks the client's request as refused, or as one that a dry run would have refused.
fn mark(initial: Request<'_>, verdict: Verdict, found: Found<'_>) {
    let status = match verdict {
        Verdict::Refused => {
            initial.set_variable(c"LIMITIP", "1");
            "REJECTED"
        }
        Verdict::RefusedDryRun => "REJECTED_DRY_RUN",
        Verdict::DelayedDryRun => "DELAYED_DRY_RUN",
    };
    initial.set_variable(c"LIMITIP_STATUS", status);
    name(initial, found);
}

fn name(initial: Request<'_>, found: Found<'_>) {
    initial.set_variable(c"LIMITIP_RULE", found.rule);
    initial.set_variable(c"LIMITIP_COUNT", &found.stands.to_string());
    initial.set_variable(c"LIMITIP_LIMIT", &found.limit.to_string());
}
