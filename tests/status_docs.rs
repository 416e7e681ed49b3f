//! docs/status.md has everything that is shown: each field of the JSON, each metric, each line
//! for mod_status' programs, each head and name on the page; and nothing that is not.

mod support;

use std::collections::BTreeSet;

use serde_json::Value;
use support::{DEADLINE, Held, Httpd, Mpm};

const DOCS: &str = include_str!("../docs/status.md");

/// A server of which everything has something to say.
fn talkative() -> (Httpd, Vec<Held>) {
    let httpd = Httpd::on(Mpm::Event)
        .load(&["status"])
        .expect_refusals()
        .conf(
            "IPLimitRedis unix:///nobody/asks
             <Location /shared>
                 MaxRatePerIP 9/h shared
             </Location>
             IPLimitMinRate 1000 busy=80%
             IPLimitMaxTime 1h
             <Location /hoge>
                 MaxConnPerIP 3 scope=location
                 MaxRatePerIP 100/min burst=9 delay=4
             </Location>
             <Location /fuga>
                 MaxHitsPerIP 1/h freeze=1h
             </Location>
             <Location /server-status>
                 SetHandler server-status
                 Require all granted
             </Location>",
        )
        .start();
    let held = vec![httpd.client("127.0.0.2").hold("/hoge/hold.cgi")];
    let statuses = [(); 2].map(|()| httpd.client("127.0.0.3").status("/fuga/small.txt"));
    assert_eq!(statuses, [200, 429]);
    // The parent's first look at it all comes after some ten seconds.
    httpd.wait_for_within(6 * DEADLINE, |gauge| gauge.rows("history").count() > 0);
    (httpd, held)
}

#[track_caller]
fn read(httpd: &Httpd, path: &str) -> String {
    let answer = httpd.client("127.0.0.99").get(path);
    assert_eq!(answer.status, 200, "{path}");
    answer.text()
}

/// A chapter of the page, up to the next of its level.
fn chapter(title: &str) -> &'static str {
    let (_, rest) = DOCS.split_once(&format!("\n## {title}\n")).expect(title);
    rest.split("\n## ").next().unwrap()
}

/// What stands in the first columns of a chapter's tables in backquotes.
fn documented(chapter: &str) -> BTreeSet<String> {
    let rows = chapter.lines().filter_map(|line| line.strip_prefix("| `"));
    let firsts = rows.map(|row| row.split(" | ").next().unwrap());
    firsts
        .flat_map(|names| names.split("`, `"))
        .map(|name| name.trim_end_matches('`').to_owned())
        .collect()
}

/// The places of all values, `rules[].busiest[].key`.
fn places(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if at.is_empty() { "" } else { "." };
                places(value, &format!("{at}{dot}{name}"), into);
            }
        }
        Value::Array(rows) => {
            into.insert(format!("{at}[]"));
            for row in rows {
                places(row, &format!("{at}[]"), into);
            }
        }
        _ => {
            into.insert(at.to_owned());
        }
    }
}

fn all_places(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    places(value, "", &mut found);
    // A row is no place of its own beside its fields.
    found.retain(|place| !place.is_empty());
    found
}

/// Texts between two marks.
fn between<'t>(text: &'t str, opening: &str, closing: &str) -> BTreeSet<&'t str> {
    let parts = text.split(opening).skip(1);
    let ends = parts.filter_map(|part| part.split_once('>')?.1.split_once(closing));
    ends.map(|(inner, _)| inner).collect()
}

#[test]
fn everything_that_is_shown_is_documented() {
    let (httpd, _held) = talkative();
    let json: Value = serde_json::from_str(&read(&httpd, "/limit-status?format=json")).unwrap();
    assert_eq!(
        all_places(&json),
        documented(chapter("The JSON")),
        "the table of the JSON"
    );
    let (_, example) = chapter("The JSON")
        .split_once("```json\n")
        .expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let example: Value = serde_json::from_str(example).expect("an example that is JSON");
    assert_eq!(
        all_places(&json),
        all_places(&example),
        "the example of the JSON"
    );

    let metrics = read(&httpd, "/limit-status?format=openmetrics");
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    let names = samples.map(|line| line.split(['{', ' ']).next().unwrap().to_owned());
    let names: BTreeSet<String> = names.collect();
    assert_eq!(names, documented(chapter("The metrics")), "the metrics");

    let auto = read(&httpd, "/server-status?auto");
    let lines = auto.lines().filter(|line| line.starts_with("IPLimit"));
    let names = lines.map(|line| line.split(':').next().unwrap());
    let section = chapter("The section in mod_status");
    for name in names {
        assert!(section.contains(&format!("`{name}`")), "{name}: {section}");
        assert!(
            section.contains(&format!("\n{name}: ")),
            "{name}: {section}"
        );
    }

    let page = read(&httpd, "/limit-status");
    let about = chapter("The page");
    let mut shown = between(&page, "<h2", "</h2>");
    shown.extend(between(&page, "<th scope=\"col\"", "</th>"));
    shown.extend(between(&page, "<dt", "</dt>"));
    shown.extend(between(&page, "<summary", "</summary>"));
    assert!(shown.len() > 55, "{shown:?}");
    for name in shown {
        assert!(
            about.contains(name),
            "{name:?} is shown, but not documented"
        );
    }
}
