//! The text, as its readers take it apart.

use super::*;
use crate::report::snapshot::{BusyKey, RuleRow, Shared};

fn rule(name: &str, vhost: Option<&str>, passed: u64, busy_reached: Option<bool>) -> RuleRow {
    RuleRow {
        rule: name.into(),
        vhost: vhost.map(str::to_owned),
        limit: passed + 1,
        passed,
        busy_reached,
        ..RuleRow::default()
    }
}

fn lines<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let is_it = |line: &&str| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['{', ' ']))
    };
    text.lines().filter(is_it).collect()
}

#[test]
fn rules_of_one_name_are_one_series() {
    let mut slow = rule("MaxRatePerIP@/api", None, 5, None);
    slow.busiest = vec![BusyKey {
        key: "192.0.2.1".into(),
        count: 3,
        limit: 4,
    }];
    let snapshot = Snapshot {
        rules: vec![
            rule("MaxRatePerIP@/api", None, 3, Some(false)),
            slow,
            rule("MaxRatePerIP@/api", Some("a:80"), 7, Some(false)),
        ],
        ..Snapshot::default()
    };
    let text = openmetrics(&snapshot);
    let (main, host) = (
        "{rule=\"MaxRatePerIP@/api\",vhost=\"\"}",
        "{rule=\"MaxRatePerIP@/api\",vhost=\"a:80\"}",
    );
    for (name, [of_main, of_host]) in [
        ("limitipconn_rule_passed_total", ["8", "7"]),
        ("limitipconn_rule_limit", ["4", "8"]),
        ("limitipconn_rule_nearest_ratio", ["0.75", "0"]),
        ("limitipconn_rule_acts", ["1", "0"]),
    ] {
        let expected = [
            format!("{name}{main} {of_main}"),
            format!("{name}{host} {of_host}"),
        ];
        assert_eq!(lines(&text, name), expected);
    }
    assert!(!text.contains("192.0.2.1"), "{text}");
}

#[test]
fn text_from_the_configuration_stays_in_its_quotes() {
    let name = "MaxConnPerIP@If:\"\\d\n# EOF\r\u{85}é";
    let snapshot = Snapshot {
        rules: vec![rule(name, None, 1, None)],
        ..Snapshot::default()
    };
    let text = openmetrics(&snapshot);
    assert_eq!(
        lines(&text, "limitipconn_rule_passed_total"),
        [
            "limitipconn_rule_passed_total{rule=\"MaxConnPerIP@If:\\\"\\\\d\\n# EOF\u{fffd}\u{fffd}é\",vhost=\"\"} 1"
        ]
    );
    assert_eq!(text.matches("\n# EOF\n").count(), 1);
    assert!(text.ends_with("\n# EOF\n"));
}

#[test]
fn families_without_a_rule_are_left_out() {
    let text = openmetrics(&Snapshot::default());
    assert!(
        !text.contains("limitipconn_rule_") && !text.contains("_acts"),
        "{text}"
    );
    assert!(text.starts_with("# TYPE limitipconn_build info\n"));
}

#[test]
fn shared_counts_have_families_where_some_rule_is_shared() {
    let shared = |degraded| Snapshot {
        shared: Some(Shared {
            degraded,
            asked: 5,
            missed: 6,
            outages: 7,
            ..Shared::default()
        }),
        ..Snapshot::default()
    };
    for (degraded, value) in [(false, "0"), (true, "1")] {
        let text = openmetrics(&shared(degraded));
        for (name, value) in [
            ("limitipconn_shared_degraded", value),
            ("limitipconn_shared_asked_total", "5"),
            ("limitipconn_shared_missed_total", "6"),
            ("limitipconn_shared_outages_total", "7"),
        ] {
            assert_eq!(lines(&text, name), [format!("{name} {value}")]);
        }
    }
    assert!(!openmetrics(&Snapshot::default()).contains("shared"));
}
