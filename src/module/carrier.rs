//! What the watch is told of an HTTP/2 connection and its streams: an entry for the
//! connection while it has streams with bounds, and one for each of these while its worker
//! is not done, or longer where it is of use. All of it under the lock of the connection's
//! streams.
//!
//! A connection has no more than a part of the entries; a stream that found none asks again
//! whenever its worker looks around, or some of it goes out.

use std::sync::atomic::Ordering::Relaxed;

use super::running::Running;
use super::stream_meter::StreamMeter;
use super::streams::{Guard, Streams};
use super::trip::Trip;
use crate::store::{Begun, Bounds, Carried, Counter, Findings, Found, Kind};

mod bounds;

/// One connection may have one of so many entries for streams that hold a worker.
const PART: usize = 4;
/// And one of so many for streams that hold none.
const FREE_PART: usize = 8;

impl Streams {
    /// Lets the watch know how many streams there are, and how many wait.
    pub(super) fn publish(&self, _guard: &Guard<'_>, running: Running) {
        if let Some(entry) = self.entry.get() {
            let (live, waiting) = (self.live.get(), self.waiting.get());
            let [earnest, dry] = self.bound.get();
            let carried = Carried {
                active: live.saturating_sub(waiting),
                waiting,
                spared: live.saturating_sub(earnest),
                dry,
            };
            let watched = &running.child.watched;
            watched.carries(entry, carried);
            let all_wait = waiting > 0 && carried.active == 0;
            if self.all_wait.replace(all_wait) != all_wait {
                match all_wait {
                    true => watched.blocks(entry, running.nanos()),
                    false => watched.goes_on(entry, running.nanos()),
                }
            }
        }
    }

    /// The answer on a stream is watched from now on.
    pub(super) fn begin(
        &self,
        guard: &Guard<'_>,
        running: Running,
        meter: &StreamMeter<'_>,
        bounds: &Bounds,
    ) {
        self.metered.fetch_add(1, Relaxed);
        self.bind(guard, running, meter, bounds);
    }

    /// The bounds of a stream are new, or others.
    pub(super) fn bind(
        &self,
        guard: &Guard<'_>,
        running: Running,
        meter: &StreamMeter<'_>,
        bounds: &Bounds,
    ) {
        let before = meter.bounds.replace(*bounds);
        if !meter.is_sent.get() {
            self.rebind(guard, running, meter, [&before, bounds]);
            self.publish(guard, running);
        }
        match meter.entry.get() {
            Some(entry) => running.child.watched.bound(entry, bounds),
            None => self.enroll(guard, running, meter),
        }
    }

    /// Takes the entries that are missing, if there is room.
    pub(super) fn enroll(&self, guard: &Guard<'_>, running: Running, meter: &StreamMeter<'_>) {
        // It is asked for each frame that goes out.
        if meter.entry.get().is_some() {
            return;
        }
        let watched = &running.child.watched;
        let (is_free, bounds) = (meter.is_free.get(), meter.bounds.get());
        let is_over = meter.is_sent.get() || (meter.is_done.get() && !is_free);
        if is_over || (is_free && bounds.is_idle()) {
            return;
        }
        let begin = |kind| {
            let (fd, now) = (meter.fd, meter.begun);
            watched.begin(Begun {
                fd,
                seat: None,
                kind,
                now,
            })
        };
        if self.entry.get().is_none()
            && let Some(entry) = begin(Kind::Carrier)
        {
            watched.bound(entry, &self.bounds());
            watched.began(entry, self.youngest.get().max(meter.begun));
            self.entry.set(Some(entry));
            self.all_wait.set(false);
            self.publish(guard, running);
        }
        let (number, part) = match is_free {
            true => (&self.free, FREE_PART),
            false => (&self.entries, PART),
        };
        let has_part = (number.get() as usize) < watched.room() / part;
        let carrier = self.entry.get().filter(|_| has_part);
        let entry = carrier.and_then(|carrier| begin(Kind::Stream(carrier)));
        let entry = entry.filter(|entry| {
            let stays = !is_free || watched.set_free(*entry);
            if !stays {
                watched.end(*entry);
            }
            stays
        });
        match entry {
            Some(entry) => {
                watched.bound(entry, &bounds);
                number.set(number.get() + 1);
                meter.entry.set(Some(entry));
                if meter.is_waiting.get() {
                    watched.blocks(entry, running.nanos());
                }
            }
            // Without a worker, or until that has to wait, it is judged with its connection.
            None if !is_free
                && (bounds.max_time.is_some() || meter.is_parked())
                && !meter.is_told.replace(true) =>
            {
                running.runtime.segment.add(Counter::Unwatched, 1);
            }
            None => {}
        }
    }

    /// Takes the entries that streams without a worker had no room for.
    pub(super) fn enroll_free(&self, guard: &Guard<'_>, running: Running) {
        let meters = self.requests(guard).filter_map(|trip| trip.meter.get());
        for meter in meters.filter(|meter| meter.is_free.get()) {
            self.enroll(guard, running, meter);
        }
    }

    /// A stream begins to wait for its client, or goes on.
    pub(super) fn turn(
        &self,
        guard: &Guard<'_>,
        running: Running,
        meter: &StreamMeter<'_>,
        is_waiting: bool,
    ) {
        self.enroll(guard, running, meter);
        let is_cut = |entry| running.child.watched.found(entry).is_some();
        if !is_waiting && self.entry.get().is_some_and(is_cut) {
            // It waited when its connection was cut, and is told so.
            return;
        }
        self.waits(guard, running, meter, is_waiting && !meter.is_sent.get());
    }

    fn waits(
        &self,
        guard: &Guard<'_>,
        running: Running,
        meter: &StreamMeter<'_>,
        is_waiting: bool,
    ) {
        if meter.is_waiting.replace(is_waiting) == is_waiting {
            return;
        }
        let waiting = self.waiting.get();
        self.waiting.set(match is_waiting {
            true => waiting + 1,
            false => waiting.saturating_sub(1),
        });
        if let Some(entry) = meter.entry.get() {
            let (watched, now) = (&running.child.watched, running.nanos());
            match is_waiting {
                true => watched.blocks(entry, now),
                false => watched.goes_on(entry, now),
            }
        }
        self.publish(guard, running);
    }

    /// The worker of a stream is done with it, having handed on the last of it or not. What
    /// has not gone out yet waits, and holds no worker. It keeps its entry if there is room,
    /// and is judged with its connection only if not.
    pub(super) fn done(
        &self,
        guard: &Guard<'_>,
        running: Running,
        meter: &StreamMeter<'_>,
        is_whole: bool,
    ) {
        let watched = &running.child.watched;
        let is_free = is_whole && !meter.is_sent.get();
        let has_part = (self.free.get() as usize) < watched.room() / FREE_PART;
        let stays = is_free && has_part && !meter.bounds.get().is_idle();
        meter.is_done.set(true);
        match meter.entry.get() {
            Some(entry) if stays && watched.set_free(entry) => {
                self.entries.set(self.entries.get().saturating_sub(1));
                self.free.set(self.free.get() + 1);
            }
            _ => self.leave(running, meter),
        }
        meter.is_free.set(is_free);
        if is_free {
            self.waits(guard, running, meter, true);
        }
    }

    /// Gives the entry of a stream back.
    fn leave(&self, running: Running, meter: &StreamMeter<'_>) {
        if let Some(entry) = meter.entry.take() {
            let watched = &running.child.watched;
            meter.findings.set(watched.close(entry));
            watched.end(entry);
            let number = match meter.is_free.get() {
                true => &self.free,
                false => &self.entries,
            };
            number.set(number.get().saturating_sub(1));
        }
    }

    /// The last byte of a request's stream has gone out.
    pub(super) fn is_sent(&self, guard: &Guard<'_>, trip: &Trip<'_>) {
        if trip.is_sent.replace(true) {
            return;
        }
        self.live.set(self.live.get().saturating_sub(1));
        if let Some(meter) = trip.meter.get() {
            meter.is_sent.set(true);
            let bounds = [&meter.bounds.get(), &Bounds::default()];
            self.rebind(guard, trip.running, meter, bounds);
            self.waits(guard, trip.running, meter, false);
            if meter.is_done.get() {
                self.leave(trip.running, meter);
            }
        }
        self.publish(guard, trip.running);
    }

    /// The request has ended.
    pub(super) fn forget(&self, guard: &Guard<'_>, trip: &Trip<'_>) {
        self.is_sent(guard, trip);
        let Some(meter) = trip.meter.take() else {
            return;
        };
        self.leave(trip.running, meter);
        if self.metered.fetch_sub(1, Relaxed) == 1
            && let Some(entry) = self.entry.take()
        {
            trip.running.child.watched.end(entry);
        }
    }

    /// What the watch has found of a stream, once; it was cut with its connection where that
    /// was cut while it waited. Without a worker it was not cut before somebody did it.
    pub(super) fn findings(
        &self,
        _guard: &Guard<'_>,
        running: Running,
        meter: &StreamMeter<'_>,
    ) -> Findings {
        self.leave(running, meter);
        let own = meter.findings.take();
        let bounds = meter.bounds.get();
        let of_all = self.entry.get().filter(|_| meter.is_waiting.get());
        let of_all = of_all.and_then(|entry| running.child.watched.found(entry));
        let is_bound = |found: &Found| match found {
            Found::TooSlow(_) => bounds.min_rate.is_some(),
            Found::TooLong(_) => bounds.max_time.is_some(),
        };
        let of_all = of_all.filter(|found| is_bound(found) && !bounds.is_dry_run);
        let is_own = own.cut.is_some() && (!meter.is_free.get() || meter.is_reset.get());
        let cut = own.cut.filter(|_| is_own || of_all.is_some()).or(of_all);
        if cut.is_some() && meter.is_cut.replace(true) {
            return Findings::default();
        }
        // A connection that was cut is charged once, however many streams it had.
        let is_charged = !is_own && of_all.is_some() && self.is_charged.replace(true);
        Findings {
            cut,
            is_charged,
            ..own
        }
    }
}
