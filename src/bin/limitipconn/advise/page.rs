//! The findings as text for people.

use std::fmt::Write;

use super::findings::{Findings, Holder, Input, Percentiles};
use super::text::{count, percent, several, share, time, wrapped};

/// The line that a log needs, so that dwell and concurrency can be told.
pub const LOG_FORMAT: &str = r#"LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\" %D %{usec_frac}t" timed"#;
/// And what to say then.
pub const OPTION: &str = "--format 'combined %D %{usec_frac}t'";

/// All of it.
pub fn page(findings: &Findings, goes_on: Option<&str>) -> String {
    let mut page = String::new();
    let input = &findings.input;
    beginning(&mut page, input);
    if input.requests > 0 {
        match &findings.concurrency {
            Some(concurrency) => {
                holders(&mut page, findings);
                let rows = [
                    (
                        "one client, at its busiest",
                        concurrency.peak_per_client,
                        format!("of {}", several(input.clients, "client")),
                    ),
                    (
                        "the client with most just then",
                        concurrency.busiest_client,
                        "of the time".into(),
                    ),
                    (
                        "all clients together",
                        concurrency.server,
                        "of the time".into(),
                    ),
                ];
                at_once(
                    &mut page,
                    &rows,
                    concurrency.busy_seconds,
                    input.is_coarse(),
                );
            }
            None => {
                without_durations(&mut page, goes_on);
                askers(&mut page, findings);
            }
        }
        candidates(&mut page, findings);
        advice(&mut page, findings);
    }
    page
}

/// Adds a line.
macro_rules! line {
    ($page:expr) => { $page.push('\n') };
    ($page:expr, $($said:tt)+) => {{
        // To a String nothing can fail.
        let _ = writeln!($page, $($said)+);
    }};
}

fn beginning(page: &mut String, input: &Input) {
    line!(
        page,
        "{} of {} in {}",
        several(input.requests, "request"),
        several(input.clients, "client"),
        several(input.logs, "log")
    );
    if let (Some(first), Some(last)) = (&input.first, &input.last) {
        line!(page, "from {first} to {last} UTC");
    }
    for format in &input.formats {
        line!(page, "read as {}", super::escape::text(format.as_bytes()));
    }
    if input.bad_lines > 0 {
        line!(
            page,
            "{} of {} could not be used:",
            count(input.bad_lines),
            several(input.lines, "line")
        );
        for reason in &input.bad_lines_by_reason {
            line!(page, "  {}: {}", reason.reason, count(reason.lines));
        }
        for sample in &input.bad_line_samples {
            line!(page, "  for example: {sample}");
        }
    }
    let left_out = [
        (
            input.silent_connections,
            "connections on which no request came",
        ),
        (input.own_requests, "requests that httpd sends to itself"),
    ];
    for (number, what) in left_out.iter().filter(|(number, _)| *number > 0) {
        line!(page, "left out: {} {what}", count(*number));
    }
    let bounds = [
        (
            input.retired_clients,
            "clients were forgotten to save memory (--max-clients); if they came again they are counted again",
        ),
        (
            input.untracked_requests,
            "requests are in the totals only, since memory for their clients was full (--max-clients)",
        ),
        (
            input.late_requests,
            "requests lasted so long that they are in the limits below from their end only",
        ),
        (
            input.times_the_log_went_back,
            "times the log went back by an hour or more, and was taken as another log",
        ),
    ];
    for (number, what) in bounds.iter().filter(|(number, _)| *number > 0) {
        line!(page, "note: {} {what}", count(*number));
    }
    if input.requests_with_duration > 0 && input.requests_with_duration < input.requests {
        line!(
            page,
            "note: {} do not tell how long they took",
            several(input.requests - input.requests_with_duration, "request")
        );
    }
}

fn holders(page: &mut String, findings: &Findings) {
    line!(page);
    line!(page, "WHO HOLDS THE SERVER LONGEST");
    line!(
        page,
        "  held: the time that all its requests took together; at once: the most it had in flight"
    );
    let rows = findings.clients.iter().map(|client| {
        vec![
            time(client.held_seconds),
            percent(client.share),
            count(client.requests),
            count(client.peak.into()),
            time(client.longest_seconds),
            client.client.clone(),
            client.longest_path.clone(),
        ]
    });
    let heads = [
        "held",
        "of all",
        "requests",
        "at once",
        "longest",
        "client",
        "the longest was",
    ];
    table(page, &heads, rows.collect(), 5);
    most_asking(page, findings);
    if findings.input.durations_in_whole_seconds {
        line!(
            page,
            "  The log has durations in whole seconds (%T): what took less counts as nothing. %D tells it."
        );
    }
}

fn most_asking(page: &mut String, findings: &Findings) {
    let Some(asker) = findings.asks_most.as_ref() else {
        return;
    };
    line!(
        page,
        "  {} asks most: {}. Among those that hold longest it is number {}.",
        asker.client,
        several(asker.requests, "request"),
        count(asker.place)
    );
}

fn without_durations(page: &mut String, goes_on: Option<&str>) {
    line!(page);
    line!(
        page,
        "This log does not tell how long requests take. Who holds the server, and how many"
    );
    line!(
        page,
        "are in flight at once, can be told only with %D. Log it, for example so:"
    );
    line!(page, "  {LOG_FORMAT}");
    line!(page, "  CustomLog ${{APACHE_LOG_DIR}}/timed.log timed");
    line!(page, "and then say: limitipconn advise {OPTION} timed.log");
    if let Some(name) = goes_on {
        line!(
            page,
            "The lines go on after what {name} has. If %D follows, say: --format '{name} %D'"
        );
    }
}

fn askers(page: &mut String, findings: &Findings) {
    line!(page);
    line!(page, "WHO ASKS MOST");
    let requests = findings.input.requests;
    let row = |client: &Holder| {
        vec![
            count(client.requests),
            share(client.requests, requests),
            client.client.clone(),
        ]
    };
    let rows = findings.clients.iter().map(row).collect();
    table(page, &["requests", "of all", "client"], rows, 2);
}

fn at_once(page: &mut String, rows: &[(&str, Percentiles, String)], busy: f64, is_coarse: bool) {
    line!(page);
    line!(page, "HOW MANY REQUESTS ARE IN FLIGHT AT ONCE");
    line!(
        page,
        "  50 %: for half of the clients, or in half of the time, not more than this"
    );
    if is_coarse {
        line!(
            page,
            "  The log has whole seconds: these are the most that can have been, each request counted"
        );
        line!(
            page,
            "  for all of the seconds it touched. The truth may be many times less."
        );
    }
    let rows = rows.iter().map(|(what, of, whole)| {
        let numbers = [of.p50, of.p90, of.p99, of.max].map(|number| count(number.into()));
        numbers
            .into_iter()
            .chain([(*what).to_owned(), whole.clone()])
            .collect()
    });
    table(
        page,
        &["50 %", "90 %", "99 %", "most", "of whom", ""],
        rows.collect(),
        4,
    );
    line!(
        page,
        "  the time is that in which anything was in flight: {}",
        time(busy)
    );
}

fn candidates(page: &mut String, findings: &Findings) {
    if findings.candidates.is_empty() {
        return;
    }
    let input = &findings.input;
    line!(page);
    line!(
        page,
        "WHAT A LIMIT WOULD HAVE REFUSED, each tried alone on the whole server"
    );
    let rows = findings.candidates.iter().map(|candidate| {
        let clients = format!(
            "{} ({})",
            count(candidate.refused_clients),
            share(candidate.refused_clients, input.clients)
        );
        vec![
            count(candidate.refused_requests),
            share(candidate.refused_requests, input.requests),
            clients,
            candidate.line.clone(),
            candidate.refused_client.clone().unwrap_or_default(),
        ]
    });
    table(
        page,
        &["requests", "of all", "clients", "limit", "among them"],
        rows.collect(),
        3,
    );
    if input.whole_seconds {
        line!(
            page,
            "  The log has whole seconds: all of a second are taken to have begun with it, so that"
        );
        line!(
            page,
            "  numbers about rates per second are rather too high. With %{{usec_frac}}t they are exact."
        );
    }
}

fn advice(page: &mut String, findings: &Findings) {
    let advice = &findings.advice;
    line!(page);
    line!(page, "TO BEGIN WITH");
    for warning in &advice.warnings {
        line!(page, "{}", wrapped(&format!("First: {warning}"), 2));
    }
    for why in &advice.why {
        line!(page, "{}", wrapped(why, 2));
    }
    if advice.configuration.is_empty() {
        return;
    }
    line!(page, "  In httpd's configuration, outside sections:");
    line!(page);
    for said in &advice.configuration {
        line!(page, "    {said}");
    }
    line!(page);
    line!(
        page,
        "  IPLimitDryRun On refuses nobody: for some days look in the error log for whom it would"
    );
    line!(
        page,
        "  have met (\"would be refused\"), then take that line away."
    );
}

/// Columns: so many numbers to the right, then texts to the left.
fn table(page: &mut String, heads: &[&str], rows: Vec<Vec<String>>, numbers: usize) {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].len());
        cells.chain([heads[at].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let head = heads.iter().map(|head| (*head).to_owned()).collect();
    for row in std::iter::once(head).chain(rows) {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match at < numbers {
                true => write!(line, "  {cell:>width$}"),
                false => write!(line, "  {cell:<width$}"),
            };
        }
        line!(page, "{}", line.trim_end());
    }
}
