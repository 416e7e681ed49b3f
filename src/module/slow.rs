//! Slow clients, seen by the worker: a response is put under the watch when it begins, and
//! what the watch has found is told when it ends.

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
use crate::store::Counter;
use crate::store::{Bounds, Found};

/// A response begins, or has come to another place: watches it as that place says.
pub fn watch(running: Running, request: Request<'_>) {
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
    let Some(found) = trip.close_watch() else {
        return;
    };
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
    if !settings_all.is_dry_run() {
        trip.charges.was_slow(running, trip.started);
    }
    running.runtime.segment.add(
        match found {
            Found::TooSlow(_) => Counter::CutTooSlow,
            Found::TooLong(_) => Counter::CutTooLong,
        },
        1,
    );
    let level = LogLevel::numbered(settings_all.log_level().0);
    if !log::shows(MODULE, level, request) {
        return;
    }
    let flood = running.runtime.segment.flood();
    let Some(left_out) = flood.tell_any(state::seconds_up()) else {
        return;
    };
    let path = answer::path_of(request.initial());
    let cut = Cut {
        client: trip.client.address,
        dry_run: settings_all.is_dry_run(),
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

impl Trip<'_> {
    /// Lets the response be watched for a slow client.
    pub fn watch(&self, request: Request<'_>, bounds: &Bounds) {
        let watched = &self.running.child.watched;
        let is_stream = self.stream != 0;
        let is_idle = bounds.min_rate.is_none() && bounds.max_time.is_none();
        // The other streams of a connection matter even where they are not bounded.
        if self.watched.get().is_none() && (is_stream || !is_idle) {
            let connection = request.connection();
            let socket = connection.master().unwrap_or(connection).descriptor();
            let slot = self.visitor.and_then(Visitor::slot);
            let now = self.running.nanos();
            let begun = socket.and_then(|fd| watched.begin(fd, slot, is_stream, now));
            {
                // The carrier's thread looks at it when the stream's last byte goes out.
                let _guard = self.carrier.map(|carrier| carrier.streams.lock());
                self.watched.set(begun);
            }
            self.describe(request, None);
            if let (true, Some(index)) = (is_stream, begun) {
                StreamMeter::put_on(request, self.running, index);
            }
        }
        if let Some(index) = self.watched.get() {
            watched.bound(index, bounds);
        }
    }

    /// What the watch has found; from now on it finds nothing more.
    pub fn close_watch(&self) -> Option<Found> {
        self.running.child.watched.close(self.watched.get()?)
    }

    /// Another worker carries the request now, or none does.
    pub fn moves(&self, slot: Option<u32>) {
        if let Some(index) = self.watched.get() {
            self.running.child.watched.moves(index, slot);
        }
    }

    /// Lets nobody watch it any more: what follows is no response.
    pub fn end_watch(&self) {
        let Some(index) = self.watched.take() else {
            return;
        };
        self.running.child.watched.end(index);
        if let Some(slot) = self.visitor.and_then(Visitor::slot) {
            self.running.child.desks.mark_slow(slot, None);
        }
    }
}
