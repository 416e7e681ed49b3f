//! Who holds the server now. As quick with a million keys as with ten: the table is not read.

use super::worker::pool;
use super::{Scene, holders};
use crate::report::top::Top;
use crate::store::{Counter, Fate};

/// Who holds it now.
pub fn top(scene: &Scene<'_>) -> Top {
    let segment = scene.segment;
    let empty = Top {
        version: env!("CARGO_PKG_VERSION").into(),
        httpd: scene.httpd.into(),
        pool: pool(scene.workers, scene.max_workers),
        holders_known: scene.has_rules,
        holders: holders(scene),
        cut_too_slow: segment.read(Counter::CutTooSlow),
        cut_too_long: segment.read(Counter::CutTooLong),
        ..Top::default()
    };
    segment.ledger().iter().fold(empty, |top, rule| Top {
        passed: top.passed.saturating_add(rule.count(Fate::Passed)),
        refused: top.refused.saturating_add(rule.count(Fate::Refused)),
        refused_dry_run: top
            .refused_dry_run
            .saturating_add(rule.count(Fate::RefusedDryRun)),
        delayed: top.delayed.saturating_add(rule.count(Fate::Delayed)),
        ..top
    })
}
