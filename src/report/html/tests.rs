//! The page as text.

use super::*;
use crate::report::holder::Holder;
use crate::report::snapshot::{CountRow, FrozenRow, Pool, RuleRow, SampleRow, Shared};

fn rules(number: usize) -> Vec<RuleRow> {
    let rule = |n| RuleRow {
        rule: format!("MaxConnPerIP@/{n}"),
        limit: 3,
        count: "requests".into(),
        ..RuleRow::default()
    };
    (0..number).map(rule).collect()
}

/// The rows of a table.
fn rows(page: &str, id: &str) -> usize {
    let Some((_, table)) = page.split_once(&format!("<table id=\"{id}\"")) else {
        return 0;
    };
    let (table, _) = table.split_once("</table>").expect("an end of the table");
    table.matches("data-key=").count()
}

#[test]
fn an_empty_server_has_sentences_instead_of_tables() {
    let page = page(&Snapshot::default());
    assert!(!page.contains("<table"), "{page}");
    for sentence in [
        "There is no rule",
        "Nobody holds a worker",
        "Nothing that a rule counts is in flight.",
        "Nobody is frozen.",
        "A sample is kept about every ten seconds",
    ] {
        assert!(page.contains(sentence), "no {sentence:?} in {page}");
    }
}

#[test]
fn lists_are_cut_and_say_so() {
    let many = |number: usize| (0..number).map(|n| format!("k{n}"));
    let snapshot = Snapshot {
        rules: rules(501),
        holders: many(101)
            .map(|client| Holder {
                client,
                ..Holder::default()
            })
            .collect(),
        holders_left_out: 2000,
        counts: many(102)
            .map(|key| CountRow {
                key,
                ..CountRow::default()
            })
            .collect(),
        frozen: many(100)
            .map(|key| FrozenRow {
                key,
                ..FrozenRow::default()
            })
            .collect(),
        frozen_left_out: 3,
        ..Snapshot::default()
    };
    let page = page(&snapshot);
    for (table, shown) in [
        ("rule-table", 500),
        ("holder-table", 100),
        ("count-table", 100),
        ("frozen-table", 100),
    ] {
        assert_eq!(rows(&page, table), shown, "{table}");
    }
    for left_out in ["1 more", "2\u{202f}001 more", "2 more", "3 more"] {
        let sentence = format!(">{left_out} are not shown here.");
        assert!(page.contains(&sentence), "no {sentence}");
    }
}

/// Whatever stands in the texts, the page has the elements that it has without.
#[test]
fn texts_stay_texts() {
    let snapshot = |text: &str| Snapshot {
        version: text.into(),
        httpd: text.into(),
        holders: vec![Holder {
            client: text.into(),
            rule: Some(text.into()),
            vhost: Some(text.into()),
            uri: Some(text.into()),
            ..Holder::default()
        }],
        rules: vec![RuleRow {
            rule: text.into(),
            vhost: Some(text.into()),
            scope: text.into(),
            count: text.into(),
            limit: 2,
            ..RuleRow::default()
        }],
        counts: vec![CountRow {
            rule: text.into(),
            vhost: Some(text.into()),
            key: text.into(),
            count: 1,
        }],
        frozen: vec![FrozenRow {
            rule: text.into(),
            vhost: Some(text.into()),
            key: text.into(),
            seconds_left: 1,
        }],
        ..Snapshot::default()
    };
    let shape = |page: &str| -> Vec<usize> {
        let counts = ["<", ">", "\"", "'"].iter();
        counts.map(|mark| page.matches(mark).count()).collect()
    };
    let plain = page(&snapshot("text"));
    for hostile in [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "</style></title><!--",
        "&lt;b&gt; &#60;",
    ] {
        let page = page(&snapshot(hostile));
        let (found, expected) = (shape(&page), shape(&plain));
        // An apostrophe does no harm where quotes are double.
        assert_eq!(found[..3], expected[..3], "{hostile}: {page}");
        assert!(!page.contains(hostile), "{hostile}");
    }
}

#[test]
fn policy_names_what_the_page_holds_and_nothing_else() {
    assert_eq!(POLICY.matches("'sha256-").count(), 2, "{POLICY}");
    for lax in ["unsafe", "*", "http:", "https:"] {
        assert!(!POLICY.contains(lax), "{lax} in {POLICY}");
    }
    let page = page(&Snapshot::default());
    for (opens, text, closes) in [
        ("<style>", STYLE, "</style>"),
        ("<script>", SCRIPT, "</script>"),
    ] {
        // Hashed is what stands between the two, to the byte.
        assert!(page.contains(&format!("{opens}{text}{closes}")), "{opens}");
        assert!(!text.contains(closes), "{closes} inside of {opens}");
    }
    // Beside those two nothing is style or script, and nothing comes from elsewhere.
    let rest = page
        .replace(STYLE, "")
        .replace(SCRIPT, "")
        .replace("http://www.w3.org/2000/svg", "");
    for alien in [
        " style=",
        " onload=",
        " onclick=",
        " onerror=",
        " src=",
        "//",
    ] {
        assert!(!rest.contains(alien), "{alien} in {rest}");
    }
    for alien in ["@import", "url(", "//"] {
        assert!(!STYLE.contains(alien), "{alien}");
    }
}

#[test]
fn history_is_drawn_where_it_belongs() {
    const NOW: u64 = 1_700_000_600_000;
    let sample = |ago: u64, busy, refused, refused_dry_run| SampleRow {
        unix_milliseconds: NOW - ago * 1000,
        busy,
        refused,
        refused_dry_run,
        ..SampleRow::default()
    };
    let snapshot = Snapshot {
        unix_milliseconds: NOW,
        pool: Pool {
            busy: 5,
            max_workers: 20,
            ..Pool::default()
        },
        history: vec![
            sample(300, 20, 100, 0),
            sample(290, 10, 140, 0),
            // Counters that go back tell nothing.
            sample(280, 0, 10, 20),
            sample(270, 0, 10, 40),
        ],
        ..Snapshot::default()
    };
    let page = page(&snapshot);
    for drawn in [
        // Halfway; 20 of 20 are on top, 0 at the bottom; now is at the right edge.
        "points=\"300.0,0.0 310.0,50.0 320.0,100.0 330.0,100.0 600.0,75.0\"",
        "now 5, at most 20 of 20",
        // Forty in ten seconds are the highest, two a second half of it.
        "<rect class=\"bar\" x=\"300.0\" width=\"9.4\" y=\"0.0\" height=\"100.0\">",
        "<rect class=\"dry\" x=\"310.0\" width=\"9.4\" y=\"50.0\" height=\"50.0\">",
        "at most 4/s",
    ] {
        assert!(page.contains(drawn), "no {drawn} in {page}");
    }
}

#[test]
fn degraded_counts_of_several_servers_are_told() {
    let shared = |degraded| Snapshot {
        shared: Some(Shared {
            degraded,
            degraded_seconds: 12,
            failure: Some("hung".into()),
            on_failure: "open".into(),
            ..Shared::default()
        }),
        ..Snapshot::default()
    };
    assert!(page(&shared(true)).contains("are degraded for 12 s (hung); on-failure=open."));
    assert!(page(&shared(false)).contains("are within reach."));
    assert!(!page(&Snapshot::default()).contains("servers share"));
}
