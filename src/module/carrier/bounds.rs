//! What holds for all streams of a connection together: the lowest minimum of those that are
//! under way, and how many may be cut for missing theirs.

use super::{Guard, Running, StreamMeter, Streams};
use crate::limit::slow::MinRate;
use crate::store::Bounds;

impl Streams {
    /// A stream that is under way has other bounds than before, or none: so has the connection.
    pub(super) fn rebind(
        &self,
        guard: &Guard<'_>,
        running: Running,
        meter: &StreamMeter<'_>,
        [before, now]: [&Bounds; 2],
    ) {
        let counts = |bounds: &Bounds| {
            let is_bound = bounds.min_rate.is_some();
            [
                is_bound && !bounds.is_dry_run,
                is_bound && bounds.is_dry_run,
            ]
            .map(u32::from)
        };
        let ([earnest, dry], before_and_now) = (self.bound.get(), [counts(before), counts(now)]);
        let [before_is, now_is] = before_and_now;
        self.bound.set([
            earnest.saturating_sub(before_is[0]) + now_is[0],
            dry.saturating_sub(before_is[1]) + now_is[1],
        ]);
        if before.min_rate != now.min_rate {
            let (all, youngest) = match (self.min_rate.get(), before.min_rate, now.min_rate) {
                (None, ..) => (now.min_rate, meter.begun),
                (Some(all), None, Some(now)) => {
                    (Some(all.with(now)), self.youngest.get().max(meter.begun))
                }
                _ => self.of_all(guard),
            };
            let is_new = self.min_rate.replace(all) != all;
            self.youngest.set(youngest);
            if let Some(entry) = self.entry.get() {
                let watched = &running.child.watched;
                if is_new {
                    watched.bound(entry, &self.bounds());
                }
                watched.began(entry, youngest);
            }
        }
    }

    /// What holds for all the streams of the connection together.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            min_rate: self.min_rate.get(),
            ..Bounds::default()
        }
    }

    /// The same, and when the youngest of them began.
    fn of_all(&self, guard: &Guard<'_>) -> (Option<MinRate>, u64) {
        let under_way = self.requests(guard).filter(|trip| !trip.is_sent.get());
        let meters = under_way.filter_map(|trip| trip.meter.get());
        let all = meters.filter_map(|meter| Some((meter.bounds.get().min_rate?, meter.begun)));
        let both = all
            .reduce(|(min, begun), (other, other_begun)| (min.with(other), begun.max(other_begun)));
        both.map_or((None, 0), |(min, begun)| (Some(min), begun))
    }
}
