//! What client, log and other modules get to see of a decision.

use std::borrow::Cow;
use std::ffi::c_int;

use super::MODULE;
use super::client::Client;
use super::rules::Placed;
use super::running::Running;
use super::trip::Trip;
use crate::httpd::connection::Connection;
use crate::httpd::log::{self, LogLevel};
use crate::httpd::request::Request;
use crate::httpd::state;
use crate::limit::key::CountId;
use crate::limit::settings::{Settings, Within};
use crate::report::printable::decoded;
use crate::report::ratelimit::Concurrency;
use crate::report::refusal::{Asked, Refusal, Verdict};
use crate::store::Counter;
use crate::sys::DECLINED;

/// What a concurrency rule found.
#[derive(Clone, Copy)]
pub struct Found<'r> {
    /// The rule's name, for people.
    pub rule: &'r str,
    /// Its own name in shared memory.
    pub id: CountId,
    /// How many the client would have.
    pub stands: u32,
    /// How many it may have.
    pub limit: u16,
}

impl<'r> Found<'r> {
    /// What this rule found.
    pub fn by(rule: &Placed<'r>, stands: u32, limit: u16) -> Found<'r> {
        Found {
            rule: rule.name,
            id: rule.id.get(),
            stands,
            limit,
        }
    }
}

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

impl<'r> Answer<'r> {
    /// Refuses: gives places back, marks the client's request, and tells client and log.
    /// Returns what the hook returns; in a dry run the request goes on.
    pub fn refuse(&self, found: Found<'_>) -> c_int {
        let settings = self.settings.merged();
        let verdict = verdict(&settings);
        self.tell(found, &settings);
        let status = match verdict {
            Verdict::Refused => c_int::from(settings.concurrency_status()),
            Verdict::RefusedDryRun => DECLINED,
        };
        if self.request.is_sub() {
            // Only this part of the page is refused; the page itself was admitted.
            return status;
        }
        match verdict {
            Verdict::Refused => {
                self.trip.refused.set(true);
                self.trip.give_back();
                send_away(self.request, &settings);
            }
            Verdict::RefusedDryRun => {
                self.trip.marked.set(true);
                self.trip.give_back_marked();
            }
        }
        mark(self.request.initial(), verdict, found);
        self.tell_limits(found, 0);
        status
    }

    /// Marks an admitted request, naming the rule that had least room left.
    #[inline]
    pub fn passed(&self, stands: impl FnOnce() -> u32, rule: &Placed<'_>, limit: u16) {
        if self.running.runtime.names_variables || self.settings.has_headers() {
            self.mark_passed(Found::by(rule, stands(), limit));
        }
    }

    #[inline(never)]
    fn mark_passed(&self, found: Found<'_>) {
        let room = u32::from(found.limit).saturating_sub(found.stands);
        self.tell_limits(found, room);
        // What a dry run has marked stays so.
        if !self.running.runtime.names_variables || self.trip.marked.get() {
            return;
        }
        let initial = self.request.initial();
        initial.set_variable(c"LIMITIP_STATUS", "PASSED");
        if room < self.trip.least_room.get() {
            self.trip.least_room.set(room);
            name(initial, found);
        }
    }

    fn tell_limits(&self, found: Found<'_>, left: u32) {
        if !self.settings.has_headers() || self.request.is_sub() {
            return;
        }
        let fields = Concurrency {
            rule: found.rule,
            limit: found.limit,
            left,
        };
        self.request
            .add_error_header(c"RateLimit-Policy", &fields.policy());
        self.request.add_error_header(c"RateLimit", &fields.state());
    }

    fn tell(&self, found: Found<'_>, settings: &Settings) {
        let level = LogLevel::numbered(settings.log_level().0);
        if !log::shows(MODULE, level, self.request) {
            return;
        }
        let Some(refusal) = refusal(self.running, &self.trip.client, found, settings) else {
            return;
        };
        let initial = self.request.initial();
        let path = if initial.is_untranslated() {
            Cow::Owned(decoded(initial.uri()))
        } else {
            Cow::Borrowed(initial.uri())
        };
        let site = self.request.server().config(MODULE);
        let refusal = Refusal {
            asked: Some(Asked {
                vhost: site.map_or("-", |site| site.label.get()),
                uri: &path,
            }),
            ..refusal
        };
        log::request(MODULE, level, self.request, &refusal.to_string());
    }
}

/// Counts a request as exempt, once.
pub fn exempt(running: Running, request: Request<'_>, trip: &Trip<'_>) {
    if request.is_sub() || trip.exempt.replace(true) {
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
    if let Some(refusal) = refusal(running, client, found, settings) {
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
    send_away(request, &settings)
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
const REASON: &str = "Too Many Connections";

/// The error page of a refusal keeps its status, whatever httpd knows of it.
pub fn keep_status(page: Request<'_>) {
    page.name_status(page.status(), REASON);
}

/// What every refusal of a client's request has in common; returns what the hook does.
fn send_away(request: Request<'_>, settings: &Settings) -> c_int {
    let status = c_int::from(settings.concurrency_status());
    request.name_status(status, REASON);
    request.set_error_header(c"Retry-After", &settings.retry_after().to_string());
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
    settings: &Settings,
) -> Option<Refusal<'a>> {
    let key = client.digest.within(found.id);
    let flood = running.runtime.segment.flood();
    let left_out = flood.tell(key, state::seconds_up())?;
    Some(Refusal {
        client: client.address,
        verdict: verdict(settings),
        count: found.stands,
        limit: found.limit.into(),
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
    };
    initial.set_variable(c"LIMITIP_STATUS", status);
    name(initial, found);
}

fn name(initial: Request<'_>, found: Found<'_>) {
    initial.set_variable(c"LIMITIP_RULE", found.rule);
    initial.set_variable(c"LIMITIP_COUNT", &found.stands.to_string());
    initial.set_variable(c"LIMITIP_LIMIT", &found.limit.to_string());
}
