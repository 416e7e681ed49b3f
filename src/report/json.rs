//! The gauge as JSON: one object, one line, field names as in the manual.

use super::snapshot::Snapshot;

/// The snapshot as one JSON object without line breaks.
pub fn json(snapshot: &Snapshot) -> String {
    // serde_json fails on maps with keys that are no text and on failing
    // Serialize impls; a Snapshot has neither, so this never is the other case.
    serde_json::to_string(snapshot).unwrap_or_else(|_| String::from("{}"))
}

#[cfg(test)]
mod tests {
    use super::super::holder::Holder;
    use super::super::snapshot::*;
    use super::json;

    fn busy() -> Snapshot {
        Snapshot {
            version: "0.1.0".into(),
            httpd: "Apache/2.4.71 (Debian)".into(),
            pool: Pool {
                busy: 2,
                idle: 8,
                max_workers: 10,
                writing: 2,
                ..Pool::default()
            },
            guards: vec![GuardRow {
                guard: "IPLimitMinRate@server".into(),
                busy: Some(80),
                busy_reached: Some(false),
                bytes_per_second: Some(1000),
                ..GuardRow::default()
            }],
            holders: vec![Holder {
                client: "127.0.0.2".into(),
                workers: 3,
                oldest_seconds: 17,
                uri: Some(b"/hoge/a b\"<\n".into()),
                bytes_acknowledged: Some(4096),
                ..Holder::default()
            }],
            rules: vec![RuleRow {
                rule: "MaxConnPerIP@/hoge".into(),
                vhost: None,
                limit: 3,
                scope: "location".into(),
                count: "requests".into(),
                busy: Some(90),
                busy_reached: Some(true),
                passed: 12,
                refused: 1,
                refused_dry_run: 2,
                exempt: 4,
                busiest: vec![BusyKey {
                    key: "127.0.0.2".into(),
                    count: 3,
                    limit: 3,
                }],
                ..RuleRow::default()
            }],
            counts: vec![CountRow {
                rule: "MaxConnPerIP@/hoge".into(),
                vhost: Some("localhost:8080".into()),
                key: "127.0.0.2".into(),
                count: 3,
            }],
            counts_left_out: 7,
            leases: Leases {
                capacity: 65536,
                held: 3,
                ..Leases::default()
            },
            keys: Keys {
                capacity: 65536,
                used: 1,
                held: 1,
                ..Keys::default()
            },
            exempt: 8,
            log_lines_left_out: 9,
            audits: 10,
            reaped: Reaped {
                pending: 4,
                held: 5,
                releasing: 6,
                released: 7,
            },
            history: vec![SampleRow {
                unix_milliseconds: 5,
                busy: 6,
                passed: 7,
                refused: 8,
                refused_dry_run: 9,
                cut: 10,
            }],
            shared: Some(Shared {
                degraded: true,
                degraded_seconds: 11,
                failure: Some("hung".into()),
                on_failure: "local".into(),
                asked: 12,
                missed: 13,
                outages: 14,
                uncounted: 15,
            }),
            ..Snapshot::default()
        }
    }

    #[test]
    fn the_document_is_as_the_manual_shows_it() {
        let expected = concat!(
            r#"{"version":"0.1.0","httpd":"Apache/2.4.71 (Debian)","unix_milliseconds":0,"#,
            r#""pool":{"busy":2,"idle":8,"#,
            r#""max_workers":10,"starting":0,"reading":0,"writing":2,"keepalive":0,"logging":0,"#,
            r#""dns":0,"closing":0,"gracefully_finishing":0,"idle_cleanup":0},"#,
            r#""guards":[{"guard":"IPLimitMinRate@server","vhost":null,"busy":80,"#,
            r#""busy_reached":false,"bytes_per_second":1000,"after_milliseconds":null,"#,
            r#""window_milliseconds":null,"longest_milliseconds":null}],"#,
            r#""holders":[{"client":"127.0.0.2","workers":3,"oldest_seconds":17,"rule":null,"#,
            r#""vhost":null,"uri":"/hoge/a b%22<%0A","bytes_acknowledged":4096,"#,
            r#""bytes_per_second":null}],"holders_left_out":0,"#,
            r#""rules":[{"rule":"MaxConnPerIP@/hoge","vhost":null,"limit":3,"scope":"location","#,
            r#""count":"requests","busy":90,"busy_reached":true,"dry_run":false,"#,
            r#""period_milliseconds":null,"burst":null,"delay":null,"charged_by_status":false,"#,
            r#""freeze_milliseconds":null,"passed":12,"refused":1,"refused_dry_run":2,"#,
            r#""delayed":0,"delayed_dry_run":0,"exempt":4,"#,
            r#""busiest":[{"key":"127.0.0.2","count":3,"limit":3}]}],"#,
            r#""counts":[{"rule":"MaxConnPerIP@/hoge","vhost":"localhost:8080","key":"127.0.0.2","#,
            r#""count":3}],"counts_left_out":7,"frozen":[],"frozen_left_out":0,"#,
            r#""leases":{"capacity":65536,"pending":0,"held":3,"releasing":0,"released":0},"#,
            r#""keys":{"capacity":65536,"used":1,"held":1,"rated":0,"frozen":0},"#,
            r#""evictions":0,"untracked":0,"exempt":8,"log_lines_left_out":9,"audits":10,"#,
            r#""audit_mismatches":0,"cut_too_slow":0,"cut_too_long":0,"#,
            r#""unwatched":0,"cuts_put_off":0,"faults":0,"#,
            r#""reaped":{"pending":4,"held":5,"releasing":6,"released":7},"#,
            r#""history":[{"unix_milliseconds":5,"busy":6,"passed":7,"refused":8,"#,
            r#""refused_dry_run":9,"cut":10}],"#,
            r#""shared":{"degraded":true,"degraded_seconds":11,"failure":"hung","on_failure":"local","#,
            r#""asked":12,"missed":13,"outages":14,"uncounted":15}}"#,
        );
        assert_eq!(json(&busy()), expected);
    }

    #[test]
    fn text_from_the_configuration_cannot_leave_its_string() {
        let mut snapshot = busy();
        snapshot.rules[0].rule = "MaxConnPerIP@If:%{HTTP:X} == \"\n\u{1b}\"},".into();
        let text = json(&snapshot);
        assert!(!text.contains(char::is_control), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["rules"][0]["rule"], snapshot.rules[0].rule);
    }
}
