//! What `top` shows, as lines: the pool, what rules decide, and a row for each holder.

use std::time::Duration;

use mod_limitipconn::report::holder::Holder;
use mod_limitipconn::report::top::Top;

use crate::text::{bytes, shown, shown_bytes, table, time};

/// What there was at the look before, and how long ago.
pub struct Before<'a> {
    pub top: &'a Top,
    pub elapsed: Duration,
}

/// All of it.
pub fn lines(top: &Top, pid: u32, before: Option<Before<'_>>) -> Vec<String> {
    let mut lines = vec![
        format!(
            "mod_limitipconn {} in {}, process {pid}",
            top.version,
            shown(&top.httpd)
        ),
        pool(top),
        decisions(top, before),
        String::new(),
    ];
    if !top.holders_known {
        lines.push("no rule is in effect: without one nobody notes who holds which worker".into());
    } else if top.holders.is_empty() {
        lines.push("nobody holds a worker".into());
    } else {
        let rows: Vec<Vec<String>> = top.holders.iter().map(row).collect();
        let headings = [
            "CLIENT",
            ">WORKERS",
            ">OLDEST",
            ">TAKEN",
            ">PER SECOND",
            "RULE",
            "VHOST",
            "URI",
        ];
        lines.extend(table(&headings, &rows));
    }
    lines
}

/// How many workers do what.
fn pool(top: &Top) -> String {
    let pool = &top.pool;
    let states = [
        (pool.reading, "reading"),
        (pool.writing, "writing"),
        (pool.keepalive, "in keep-alive"),
        (pool.logging, "logging"),
        (pool.dns, "looking up a name"),
        (pool.closing, "closing"),
        (pool.gracefully_finishing, "finishing"),
    ];
    let states: Vec<String> = states
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, state)| format!("{number} {state}"))
        .collect();
    let by_state = match states.is_empty() {
        true => String::new(),
        false => format!(" ({})", states.join(", ")),
    };
    format!(
        "workers: {} of {} busy{by_state}, {} idle",
        pool.busy, pool.max_workers, pool.idle
    )
}

/// What rules decide, since start and now.
fn decisions(top: &Top, before: Option<Before<'_>>) -> String {
    let each = |what: &str, of: fn(&Top) -> u64| {
        let now = of(top);
        let rate = before.as_ref().map_or_else(String::new, |before| {
            let more = now.saturating_sub(of(before.top)) as f64;
            format!(
                " (+{:.0}/s)",
                more / before.elapsed.as_secs_f64().max(0.001)
            )
        });
        format!("{what} {now}{rate}")
    };
    let numbers = [
        each("passed", |top| top.passed),
        each("refused", |top| top.refused),
        each("dry run", |top| top.refused_dry_run),
        each("delayed", |top| top.delayed),
        each("cut", |top| {
            top.cut_too_slow.saturating_add(top.cut_too_long)
        }),
    ];
    format!("rules: {}", numbers.join(", "))
}

/// A holder; `-` for what is not known.
fn row(holder: &Holder) -> Vec<String> {
    let or = |text: Option<String>| text.unwrap_or_else(|| String::from("-"));
    vec![
        shown(&holder.client),
        holder.workers.to_string(),
        time(holder.oldest_seconds * 1000),
        or(holder.bytes_acknowledged.map(bytes)),
        or(holder.bytes_per_second.map(bytes)),
        or(holder.rule.as_deref().map(shown)),
        or(holder.vhost.as_deref().map(shown)),
        or(holder.uri.as_deref().map(shown_bytes)),
    ]
}

#[cfg(test)]
mod tests {
    use mod_limitipconn::report::snapshot::Pool;

    use super::*;

    fn top() -> Top {
        let holder = |client: &str, oldest, uri: &[u8]| Holder {
            client: client.into(),
            workers: 3,
            oldest_seconds: oldest,
            rule: Some("MaxConnPerIP@/hoge".into()),
            vhost: Some("localhost:80".into()),
            uri: Some(uri.into()),
            bytes_acknowledged: Some(2048),
            bytes_per_second: Some(17),
        };
        Top {
            version: "0.1.0".into(),
            httpd: "Apache/2.4.71 (Debian)".into(),
            pool: Pool {
                busy: 4,
                idle: 1,
                max_workers: 5,
                reading: 1,
                writing: 3,
                ..Pool::default()
            },
            holders_known: true,
            holders: vec![
                holder("127.0.0.9", 3600, "/a\u{1b}[2J\n\u{202e}b".as_bytes()),
                Holder {
                    client: "127.0.0.2".into(),
                    workers: 1,
                    ..Holder::default()
                },
            ],
            passed: 100,
            refused: 7,
            cut_too_slow: 1,
            cut_too_long: 2,
            ..Top::default()
        }
    }

    #[test]
    fn holders_stand_in_order_and_write_nothing_of_their_own() {
        assert_eq!(
            lines(&top(), 17, None),
            [
                "mod_limitipconn 0.1.0 in Apache/2.4.71 (Debian), process 17",
                "workers: 4 of 5 busy (1 reading, 3 writing), 1 idle",
                "rules: passed 100, refused 7, dry run 0, delayed 0, cut 3",
                "",
                "CLIENT     WORKERS  OLDEST    TAKEN  PER SECOND  RULE                VHOST         URI",
                "127.0.0.9        3   1h00m  2.0 KiB          17  MaxConnPerIP@/hoge  localhost:80  \
                 /a%1B[2J%0A%E2%80%AEb",
                "127.0.0.2        1      0s        -           -  -                   -             -",
            ]
        );
    }

    #[test]
    fn the_second_look_tells_how_fast_it_goes() {
        let (before, mut now) = (top(), top());
        (now.passed, now.refused) = (130, 7);
        let elapsed = Duration::from_secs(2);
        let before = Before {
            top: &before,
            elapsed,
        };
        assert_eq!(
            lines(&now, 17, Some(before))[2],
            "rules: passed 130 (+15/s), refused 7 (+0/s), dry run 0 (+0/s), delayed 0 (+0/s), cut 3 (+0/s)"
        );
    }

    #[test]
    fn nobody_is_told_of_in_words() {
        let mut top = top();
        top.holders.clear();
        assert_eq!(lines(&top, 1, None)[4..], ["nobody holds a worker"]);
        top.holders_known = false;
        assert!(lines(&top, 1, None)[4].starts_with("no rule is in effect"));
    }
}
