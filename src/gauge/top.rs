//! Who holds the server now. As quick with a million keys as with ten: the table is not read.

use super::worker::pool;
use super::{Scene, holders};
use crate::report::top::Top;
use crate::store::{Counter, Fate};

/// Who holds it now.
pub fn top(scene: &Scene<'_>) -> Top {
    let segment = scene.segment;
    let ledger = segment.ledger();
    Top {
        version: env!("CARGO_PKG_VERSION").into(),
        httpd: scene.httpd.into(),
        pool: pool(scene.workers, scene.max_workers),
        holders_known: scene.has_rules,
        holders: holders(scene),
        cut_too_slow: segment.read(Counter::CutTooSlow),
        cut_too_long: segment.read(Counter::CutTooLong),
        passed: ledger.sum(Fate::Passed),
        refused: ledger.sum(Fate::Refused),
        refused_dry_run: ledger.sum(Fate::RefusedDryRun),
        delayed: ledger.sum(Fate::Delayed),
    }
}
