//! The section and the lines, to the letter.

use super::*;
use crate::report::snapshot::{Keys, Leases, RuleRow, Shared};

fn count(rule: &str, vhost: Option<&str>, key: &str, count: u64) -> CountRow {
    CountRow {
        rule: rule.into(),
        vhost: vhost.map(str::to_owned),
        key: key.into(),
        count,
    }
}

fn busy() -> Snapshot {
    let rule = |rule: &str, vhost: Option<&str>, passed, refused| RuleRow {
        rule: rule.into(),
        vhost: vhost.map(str::to_owned),
        limit: 3,
        scope: "location".into(),
        count: "requests".into(),
        passed,
        refused,
        ..RuleRow::default()
    };
    Snapshot {
        rules: vec![
            rule("MaxConnPerIP@/hoge", Some("site.example:80"), 12, 1),
            RuleRow {
                refused_dry_run: 2,
                delayed: 5,
                exempt: 1,
                ..rule("MaxConnPerIP@If:<script> & 'x'", None, 30, 4)
            },
        ],
        counts: vec![
            count(
                "MaxConnPerIP@/hoge",
                Some("site.example:80"),
                "127.0.0.3",
                2,
            ),
            count("MaxConnPerIP@If:<script> & 'x'", None, "127.0.0.2", 3),
        ],
        leases: Leases {
            held: 5,
            ..Leases::default()
        },
        keys: Keys {
            capacity: 65536,
            used: 7,
            held: 2,
            rated: 3,
            frozen: 1,
        },
        evictions: 6,
        untracked: 8,
        faults: 9,
        cut_too_slow: 10,
        cut_too_long: 11,
        unwatched: 12,
        cuts_put_off: 13,
        ..Snapshot::default()
    }
}

#[test]
fn programs_get_numbers() {
    let expected = "\
IPLimitRules: 2
IPLimitPassed: 42
IPLimitRefused: 5
IPLimitRefusedDryRun: 2
IPLimitDelayed: 5
IPLimitExempt: 0
IPLimitKeysUsed: 7
IPLimitKeysCapacity: 65536
IPLimitKeysFrozen: 1
IPLimitPlacesHeld: 5
IPLimitEvictions: 6
IPLimitUntracked: 8
IPLimitCutTooSlow: 10
IPLimitCutTooLong: 11
IPLimitUnwatched: 12
IPLimitCutsPutOff: 13
IPLimitFaults: 9
IPLimitTop1: 3 127.0.0.2 - MaxConnPerIP@If:<script> & 'x'
IPLimitTop2: 2 127.0.0.3 site.example:80 MaxConnPerIP@/hoge
";
    assert_eq!(auto(&busy()), expected);
}

#[test]
fn people_get_tables() {
    let expected = "\
<hr />

<h2>Limits per client</h2>

<dl>
<dt>Rules: 2</dt>
<dt>Passed: 42</dt>
<dt>Refused: 5</dt>
<dt>Refused if it were no dry run: 2</dt>
<dt>Delayed: 5</dt>
<dt>Exempt: 0</dt>
<dt>Keys used: 7</dt>
<dt>Keys there is room for: 65536</dt>
<dt>Keys frozen: 1</dt>
<dt>Places held: 5</dt>
<dt>Evictions: 6</dt>
<dt>Untracked: 8</dt>
<dt>Cut, too slow: 10</dt>
<dt>Cut, too long: 11</dt>
<dt>Not watched: 12</dt>
<dt>Cuts put off: 13</dt>
<dt>Faults: 9</dt>
</dl>

<h3>Rules</h3>
<table border=\"0\">
<tr><th>Rule</th><th>Virtual host</th><th>Limit</th><th>Scope</th><th>Counts</th><th>Passed</th><th>Refused</th><th>Refused (dry run)</th><th>Exempt</th></tr>
<tr><td>MaxConnPerIP@If:&lt;script&gt; &amp; &#39;x&#39;</td><td>-</td><td>3</td><td>location</td><td>requests</td><td>30</td><td>4</td><td>2</td><td>1</td></tr>
<tr><td>MaxConnPerIP@/hoge</td><td>site.example:80</td><td>3</td><td>location</td><td>requests</td><td>12</td><td>1</td><td>0</td><td>0</td></tr>
</table>

<h3>Clients with most requests in flight</h3>
<table border=\"0\">
<tr><th>Rule</th><th>Virtual host</th><th>Client</th><th>Requests</th></tr>
<tr><td>MaxConnPerIP@If:&lt;script&gt; &amp; &#39;x&#39;</td><td>-</td><td>127.0.0.2</td><td>3</td></tr>
<tr><td>MaxConnPerIP@/hoge</td><td>site.example:80</td><td>127.0.0.3</td><td>2</td></tr>
</table>
";
    assert_eq!(html(&busy(), true), expected);
}

#[test]
fn without_tables_there_are_lines() {
    let text = html(&busy(), false);
    assert!(!text.contains("<t"), "{text}");
    assert!(
        text.contains(
            "Rule: MaxConnPerIP@/hoge, Virtual host: site.example:80, Limit: 3, Scope: location, \
                 Counts: requests, Passed: 12, Refused: 1, \
                 Refused (dry run): 0, Exempt: 0<br />\n"
        ),
        "{text}"
    );
    assert!(
            text.contains(
                "Rule: MaxConnPerIP@/hoge, Virtual host: site.example:80, Client: 127.0.0.3, Requests: 2<br />\n"
            ),
            "{text}"
        );
}

#[test]
fn empty_tables_are_left_out() {
    let text = html(&Snapshot::default(), true);
    assert!(text.ends_with("<dt>Faults: 0</dt>\n</dl>\n"), "{text}");
    assert!(!auto(&Snapshot::default()).contains("Top"));
}

#[test]
fn the_highest_come_first_and_equal_ones_in_a_fixed_order() {
    let mut snapshot = Snapshot {
        counts: vec![
            count("b", None, "k2", 5),
            count("a", Some("v"), "k2", 5),
            count("a", None, "k2", 5),
            count("z", None, "k1", 5),
            count("a", None, "k3", 6),
            count("a", None, "k0", 1),
        ],
        ..Snapshot::default()
    };
    let order = |snapshot: &Snapshot| -> Vec<String> {
        let rows = top(snapshot, 5);
        rows.iter()
            .map(|row| format!("{}{}{}", row.key, row.rule, vhost(&row.vhost)))
            .collect()
    };
    let expected = ["k3a-", "k1z-", "k2a-", "k2av", "k2b-"];
    assert_eq!(order(&snapshot), expected);
    snapshot.counts.reverse();
    assert_eq!(order(&snapshot), expected);
}

#[test]
fn shared_counts_are_told_where_some_rule_is_shared() {
    let snapshot = Snapshot {
        shared: Some(Shared {
            degraded: true,
            degraded_seconds: 12,
            asked: 5,
            missed: 6,
            ..Shared::default()
        }),
        ..busy()
    };
    let expected = "\
IPLimitSharedDegraded: 1
IPLimitSharedDegradedSeconds: 12
IPLimitSharedAsked: 5
IPLimitSharedMissed: 6
IPLimitTop1";
    let said = auto(&snapshot);
    assert!(said.contains(expected), "{said}");
    assert!(html(&snapshot, true).contains("<dt>Shared counts degraded: 1</dt>\n"));
}
