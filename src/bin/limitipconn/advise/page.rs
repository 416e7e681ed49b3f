//! The findings as text for people.

use std::fmt::Write;

use super::findings::{Findings, Holder, Input, Percentiles};
use super::tally::GoesOn;
use super::text::{count, percent, several, share, table, time, wrapped};

/// The line that a log needs, so that dwell and concurrency can be told.
pub const LOG_FORMAT: &str = r#"LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\" %D %{usec_frac}t" timed"#;
/// And what to say then.
pub const OPTION: &str = "--format 'combined %D %{usec_frac}t'";

/// All of it.
pub fn page(findings: &Findings, goes_on: Option<&GoesOn>) -> String {
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
            line!(
                page,
                "  for example {}:{}, {}: {}",
                sample.log,
                sample.line,
                sample.reason,
                sample.text
            );
        }
    }
    silent(page, input);
    if input.own_requests > 0 {
        let own = several(input.own_requests, "request");
        line!(page, "left out: {own} that httpd sends to itself");
    }
    let notes = [
        (
            input.retired_clients,
            "client",
            "forgotten to save memory (--max-clients); one that came again is counted again",
        ),
        (
            input.untracked_requests,
            "request",
            "in the totals only, since memory for their clients was full (--max-clients)",
        ),
        (
            input.late_requests,
            "request",
            "so long that they count in the limits below from later on than they began",
        ),
        (
            input.times_the_log_went_back,
            "time",
            "the log went back by more than an hour (a day, where durations are not told), and was taken as another log",
        ),
    ];
    for (number, what, said) in notes.iter().filter(|(number, ..)| *number > 0) {
        line!(page, "note: {} {said}", several(*number, what));
    }
    if input.requests_with_duration > 0 && input.requests_with_duration < input.requests {
        line!(
            page,
            "note: {} without a word on how long they took",
            several(input.requests - input.requests_with_duration, "request")
        );
    }
}

/// Connections that never sent a request: no limit on requests meets them.
fn silent(page: &mut String, input: &Input) {
    if input.silent_connections == 0 {
        return;
    }
    let all = several(input.silent_connections, "connection");
    let held = match input.silent_seconds > 0.0 {
        true => format!(", {} together", time(input.silent_seconds)),
        false => String::new(),
    };
    line!(page, "left out: {all} on which no request came{held}");
    if let Some(most) = &input.silent_most {
        let own = several(most.connections, "connection");
        let held = match most.held_seconds > 0.0 {
            true => format!(", {}", time(most.held_seconds)),
            false => String::new(),
        };
        line!(
            page,
            "  most by {}: {own}{held}. MaxConnPerIP with count=connections",
            most.client
        );
        line!(page, "  and mod_reqtimeout are for these.");
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
        "longest request",
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

fn without_durations(page: &mut String, goes_on: Option<&GoesOn>) {
    line!(page);
    if let Some(GoesOn { name, guess, log }) = goes_on {
        line!(
            page,
            "The lines go on after what {name} has. If that is {guess}, say:"
        );
        line!(page, "  limitipconn advise --format '{name} {guess}' {log}");
        line!(page);
        line!(
            page,
            "As it was read this log does not tell how long requests take. Who holds the server, and"
        );
        line!(
            page,
            "how many are in flight at once, can be told only with %D. If it is not there, log it:"
        );
    } else {
        line!(
            page,
            "This log does not tell how long requests take. Who holds the server, and how many"
        );
        line!(
            page,
            "are in flight at once, can be told only with %D. Log it, for example so:"
        );
    }
    line!(page, "  {LOG_FORMAT}");
    line!(page, "  GlobalLog logs/timed.log timed");
    line!(
        page,
        "(on Debian ${{APACHE_LOG_DIR}}/timed.log; before httpd 2.4.19 a CustomLog in each virtual host)"
    );
    line!(page, "and then say: limitipconn advise {OPTION} timed.log");
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
        &["50 %", "90 %", "99 %", "most", "who", ""],
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
    if advice.warnings.is_empty() && advice.why.is_empty() {
        return;
    }
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
