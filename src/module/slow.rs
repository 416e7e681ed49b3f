//! Slow clients, seen by the worker: a response is put under the watch when it begins, and
//! what the watch has found is told when it ends, unless that is in prefork's signal handler.

use super::answer;
use super::exempt::Spared;
use super::running::Running;
use super::stream_meter::StreamMeter;
use super::trip::Trip;
use super::visitor::Visitor;
use super::{MODULE, admission};
use crate::httpd::log::{self, LogLevel};
use crate::httpd::request::Request;
use crate::httpd::state;
use crate::limit::settings::{Settings, Within};
use crate::report::cut::{Cut, Why};
use crate::store::{Begun, Bounds, Counter, Findings, Found, Kind};

/// A response begins, or has come to another place: watches it as that place says.
pub fn watch<'r>(running: Running, request: Request<'r>) {
    if !running.watches() || request.is_sub() || request.is_dummy() {
        return;
    }
    let Some((trip, site)) = Trip::of(running, request).zip(request.server().config(MODULE)) else {
        return;
    };
    let none = Settings::default();
    let place = request.directory(MODULE);
    let settings = Within {
        place: place.map_or(&none, |said| &said.settings),
        server: &site.level.settings,
    };
    let lines = [site.level.exempt, place.map_or(&[][..], |said| said.exempt)];
    let (min_rate, max_time) = (settings.min_rate(), settings.max_time());
    let is_spared = (min_rate.is_some() || max_time.is_some())
        && admission::spares(running, request, trip, lines) == Spared::All;
    let bounds = Bounds {
        min_rate: min_rate.filter(|_| !is_spared),
        max_time: max_time.filter(|_| !is_spared),
        is_dry_run: settings.is_dry_run(),
    };
    trip.watch(request, &bounds);
}

/// The request has ended: tells what the watch has found, and charges for it.
pub fn tell(running: Running, request: Request<'_>) {
    let Some(trip) = request.initial().state(MODULE) else {
        return;
    };
    let findings = trip.close_watch();
    let would = findings.marks.into_iter().flatten();
    let charges = !findings.is_charged;
    match findings.cut {
        Some(found) => tell_one(running, request, trip, found, (false, charges)),
        None => would.for_each(|found| tell_one(running, request, trip, found, (true, false))),
    }
}

fn tell_one(
    running: Running,
    request: Request<'_>,
    trip: &Trip<'_>,
    found: Found,
    (is_dry_run, charges): (bool, bool),
) {
    let segment = &running.runtime.segment;
    segment.add(
        match found {
            Found::TooSlow(_) => Counter::CutTooSlow,
            Found::TooLong(_) => Counter::CutTooLong,
        },
        1,
    );
    if running.child.is_interrupted() {
        // Nothing may be written here, nor any key be charged that is not known.
        segment.flood().leave_out();
        return;
    }
    let last = request.last();
    let Some(site) = last.server().config(MODULE) else {
        return;
    };
    let none = Settings::default();
    let settings = Within {
        place: last.directory(MODULE).map_or(&none, |said| &said.settings),
        server: &site.level.settings,
    };
    let settings_all = settings.merged();
    // A dry run has cut nothing.
    if charges {
        trip.charges.was_slow(running, trip.started);
    }
    let level = LogLevel::numbered(settings_all.log_level().0);
    if !log::shows(MODULE, level, request) {
        return;
    }
    let Some(left_out) = segment.flood().tell_any(state::seconds_up()) else {
        return;
    };
    let path = answer::path_of(request.initial());
    let cut = Cut {
        client: trip.client.address,
        dry_run: is_dry_run,
        why: match found {
            Found::TooSlow(taken) => Why::TooSlow {
                taken,
                minimum: settings.min_rate().map_or(0, |min| min.bytes),
            },
            Found::TooLong(time) => Why::Held(time.as_secs()),
        },
        asked: answer::asked(request, &path),
        left_out,
    };
    log::request(MODULE, level, request, &cut.to_string());
}

impl<'r> Trip<'r> {
    /// Lets the response be watched for a slow client.
    pub fn watch(&self, request: Request<'r>, bounds: &Bounds) {
        let watched = &self.running.child.watched;
        match (self.stream, self.carrier, self.meter.get()) {
            (0, ..) => {}
            (_, _, Some(meter)) => return meter.bound(bounds),
            (_, Some(carrier), None) if !bounds.is_idle() => {
                return StreamMeter::put_on(request, self, carrier, bounds);
            }
            _ => return,
        }
        if self.watched.get().is_none() && !bounds.is_idle() {
            self.describe(request, None);
            let begun = request.connection().descriptor().and_then(|fd| {
                watched.begin(Begun {
                    fd,
                    seat: self.visitor.and_then(Visitor::seat),
                    kind: Kind::Response,
                    now: self.running.nanos(),
                })
            });
            self.watched.set(begun);
            // It is asked for again at the end of fixups, and told but once.
            if begun.is_none() && !self.is_unwatched.replace(true) {
                self.running.runtime.segment.add(Counter::Unwatched, 1);
            }
        }
        if let Some(index) = self.watched.get() {
            watched.bound(index, bounds);
        }
    }

    /// What the watch has found; from now on it finds nothing more.
    pub fn close_watch(&self) -> Findings {
        let watched = &self.running.child.watched;
        if let Some(index) = self.watched.get() {
            return watched.close(index);
        }
        let Some(carrier) = self.carrier else {
            return Findings::default();
        };
        let guard = carrier.streams.lock();
        match (guard, self.meter.get()) {
            (Some(guard), Some(meter)) => carrier.streams.findings(&guard, self.running, meter),
            _ => Findings::default(),
        }
    }

    /// Another worker carries the request now, or none does.
    pub fn moves(&self, seat: Option<(u32, u64)>) {
        if let Some(index) = self.watched.get() {
            self.running.child.watched.moves(index, seat);
        }
    }

    /// Lets nobody watch it any more: what follows is no response.
    pub fn end_watch(&self) {
        let Some(index) = self.watched.take() else {
            return;
        };
        self.running.child.watched.end(index);
        if let Some(seat) = self.visitor.and_then(Visitor::seat) {
            self.running.child.desks.mark_slow(seat, None);
        }
    }
}
