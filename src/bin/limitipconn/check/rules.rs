//! Which rules are active, as the running server has them: a file that was edited since and not
//! read yet says nothing here.

use mod_limitipconn::gauge;
use mod_limitipconn::report::snapshot::Snapshot;

use super::{Finding, Verdict};
use crate::server::Server;
use crate::show::number;
use crate::text::{many, shown};

/// How full the table may be before it is worth a word, in percent.
const FULL: u64 = 90;

/// Which they are.
pub fn look(server: &mut Server) -> Result<Vec<Finding>, String> {
    let snapshot = server.look(gauge::snapshot)?;
    let enforces = server.about.enforces;
    let mut findings = vec![rules(&snapshot, enforces)];
    findings.extend(faults(&snapshot));
    Ok(findings)
}

fn rules(snapshot: &Snapshot, enforces: bool) -> Finding {
    let finding = |verdict, text: String| Finding::new("rules", verdict, text);
    let mut names: Vec<String> = snapshot
        .rules
        .iter()
        .map(|rule| {
            let vhost = rule.vhost.as_deref();
            let on = vhost.map_or_else(String::new, |vhost| format!(" on {}", shown(vhost)));
            let off = if rule.limit == 0 { " (off)" } else { "" };
            format!("{} {}{on}{off}", shown(&rule.rule), number(rule))
        })
        .collect();
    names.sort();
    let list = names.join(", ");
    let active = snapshot.rules.iter().filter(|rule| rule.limit > 0).count();
    let refused = snapshot.rules.iter().map(|rule| rule.refused);
    let refusals = refused.fold(0, u64::saturating_add);
    match (active, enforces) {
        (0, _) => finding(
            Verdict::Wrong,
            "none is active: nobody is limited (rules in .htaccess files are known from their first use on)".into(),
        ),
        (1.., false) => finding(
            Verdict::Doubt,
            format!("{active} active, but all is a dry run (IPLimitDryRun On): nobody is refused: {list}"),
        ),
        (1.., true) => finding(
            Verdict::Good,
            format!("{active} active, {} since start: {list}", many(refusals, "refusal")),
        ),
    }
}

/// What the module itself found wrong, and a table that is nearly full.
fn faults(snapshot: &Snapshot) -> Vec<Finding> {
    let mut findings = Vec::new();
    if snapshot.audit_mismatches.max(snapshot.faults) > 0 {
        findings.push(Finding::new(
            "counts",
            Verdict::Wrong,
            format!(
                "{} of the module, and {} not the sum of their places: please report this",
                many(snapshot.faults, "fault"),
                many(snapshot.audit_mismatches, "count")
            ),
        ));
    }
    let keys = &snapshot.keys;
    let in_use = keys.held + keys.frozen;
    if snapshot.untracked > 0 {
        findings.push(Finding::new(
            "table",
            Verdict::Wrong,
            format!(
                "{} admitted without being counted for want of room: give IPLimitTable more than {} keys",
                many(snapshot.untracked, "request"),
                keys.capacity
            ),
        ));
    } else if in_use * 100 >= keys.capacity * FULL {
        findings.push(Finding::new(
            "table",
            Verdict::Doubt,
            format!(
                "{in_use} of {} keys are held or frozen and cannot make room: give IPLimitTable more",
                keys.capacity
            ),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use mod_limitipconn::report::snapshot::{Keys, RuleRow};

    use super::*;

    fn snapshot(limit: u64) -> Snapshot {
        Snapshot {
            rules: vec![RuleRow {
                rule: "MaxConnPerIP@/a".into(),
                limit,
                refused: 3,
                ..RuleRow::default()
            }],
            keys: Keys {
                capacity: 100,
                ..Keys::default()
            },
            ..Snapshot::default()
        }
    }

    #[test]
    fn rules_that_refuse_nobody_are_told_of() {
        for (limit, enforces, verdict, text) in [
            (
                5,
                true,
                Verdict::Good,
                "1 active, 3 refusals since start: MaxConnPerIP@/a 5",
            ),
            (5, false, Verdict::Doubt, "1 active, but all is a dry run"),
            (0, true, Verdict::Wrong, "none is active"),
        ] {
            let finding = rules(&snapshot(limit), enforces);
            assert_eq!(finding.verdict, verdict);
            assert!(finding.text.starts_with(text), "{finding:?}");
        }
    }

    #[test]
    fn a_table_without_room_is_told_of() {
        let mut snapshot = snapshot(5);
        assert_eq!(faults(&snapshot), []);
        snapshot.keys.held = 50;
        snapshot.keys.frozen = 40;
        assert_eq!(faults(&snapshot)[0].verdict, Verdict::Doubt);
        snapshot.untracked = 1;
        assert_eq!(faults(&snapshot)[0].verdict, Verdict::Wrong);
        snapshot.faults = 1;
        assert_eq!(faults(&snapshot).len(), 2);
    }
}
