//! What was found, as plain values: the text for people and the JSON are made from it. Text
//! that came from a log is printable here already.

use mod_limitipconn::gauge;
use mod_limitipconn::limit::address::Prefix;
use serde::Serialize;

use super::advice::Advice;
use super::clients::Client;
use super::clock::{self, SECOND};
use super::escape;
use super::study::Study;
use super::tally::{Sample, Tally};
use super::weights::Weights;

/// All of it. The names are part of what is kept over versions.
#[derive(Serialize, Debug)]
pub struct Findings {
    pub input: Input,
    /// Who holds longest first; who asks most first where no duration is known.
    pub clients: Vec<Holder>,
    pub asks_most: Option<Asker>,
    /// None where no duration is known.
    pub concurrency: Option<Concurrency>,
    pub candidates: Vec<Candidate>,
    pub advice: Advice,
}

/// What was read.
#[derive(Serialize, Default, Debug)]
pub struct Input {
    pub logs: u64,
    pub formats: Vec<String>,
    pub lines: u64,
    pub bad_lines: u64,
    pub bad_lines_by_reason: Vec<Reason>,
    pub bad_line_samples: Vec<Sample>,
    pub unreadable_logs: Vec<String>,
    /// Lines about connections on which no request came, and about httpd's own.
    pub silent_connections: u64,
    /// The time that these took together, as far as the log tells, and who has held longest by them.
    pub silent_seconds: f64,
    pub silent_most: Option<Silent>,
    pub own_requests: u64,
    pub requests: u64,
    pub requests_with_duration: u64,
    pub clients: u64,
    /// The beginning of the first and the end of the last request; null without requests.
    pub first: Option<String>,
    pub last: Option<String>,
    pub held_seconds: f64,
    /// Whether times are whole seconds only, so that what is in flight at once is the most that
    /// can have been.
    pub whole_seconds: bool,
    /// Whether durations are whole seconds only, so that what is shorter is not in what was held.
    pub durations_in_whole_seconds: bool,
    /// What was beyond the bounds of memory.
    pub retired_clients: u64,
    pub untracked_requests: u64,
    pub late_requests: u64,
    pub times_the_log_went_back: u64,
}

impl Input {
    /// Whether what is in flight at once is an upper bound only.
    pub fn is_coarse(&self) -> bool {
        self.whole_seconds || self.durations_in_whole_seconds
    }
}

/// Why lines could not be used.
#[derive(Serialize, Debug)]
pub struct Reason {
    pub reason: &'static str,
    pub lines: u64,
}

/// A client.
#[derive(Serialize, Debug)]
pub struct Holder {
    pub client: String,
    pub held_seconds: f64,
    /// Of all that was held, 0 to 1.
    pub share: f64,
    pub requests: u64,
    pub peak: u32,
    pub longest_seconds: f64,
    pub longest_path: String,
}

/// The client that held longest by connections on which no request came.
#[derive(Serialize, Debug)]
pub struct Silent {
    pub client: String,
    pub connections: u64,
    pub held_seconds: f64,
}

/// The client with most requests.
#[derive(Serialize, Debug)]
pub struct Asker {
    pub client: String,
    pub requests: u64,
    /// Its place among those that hold longest.
    pub place: u64,
}

/// How many were in flight at once.
#[derive(Serialize, Debug)]
pub struct Concurrency {
    /// The most of each client, over clients.
    pub peak_per_client: Percentiles,
    /// What the client with most has, over time.
    pub busiest_client: Percentiles,
    /// All clients together, over time.
    pub server: Percentiles,
    /// For how long anything was in flight: the time that the last two are of.
    pub busy_seconds: f64,
}

/// What a half, nine tenths and 99 hundredths do not exceed, and the most.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Percentiles {
    pub p50: u32,
    pub p90: u32,
    pub p99: u32,
    pub max: u32,
}

impl From<&Weights> for Percentiles {
    fn from(weights: &Weights) -> Self {
        Percentiles {
            p50: weights.percentile(50),
            p90: weights.percentile(90),
            p99: weights.percentile(99),
            max: weights.most(),
        }
    }
}

/// A limit, and whom it would have met.
#[derive(Serialize, Clone, Debug)]
pub struct Candidate {
    /// As it is written in httpd's configuration.
    pub line: String,
    pub refused_requests: u64,
    pub refused_clients: u64,
    /// Of these clients the one that holds longest.
    pub refused_client: Option<String>,
}

impl Findings {
    /// What the study has found, with so many of the clients.
    pub fn new(study: &Study, tally: &Tally, formats: Formats, most: usize) -> Findings {
        let has_durations = study.timed > 0;
        let known: Vec<(u32, &Client)> = study.clients.known().collect();
        let mut ranked = known.clone();
        // Of equals, the one that the log has first.
        ranked.sort_by_key(|(at, client)| {
            let first = if has_durations {
                client.held
            } else {
                client.requests
            };
            (std::cmp::Reverse((first, client.requests)), *at)
        });
        let holders = ranked.iter().take(most);
        let holder = |(at, client): &(u32, &Client)| Holder {
            client: name(study, *at, client, formats.prefix),
            held_seconds: seconds(client.held.into()),
            share: client.held as f64 / (study.held.max(1)) as f64,
            requests: client.requests,
            peak: client.peak,
            longest_seconds: seconds(client.longest.into()),
            longest_path: escape::text(study.clients.path(*at)),
        };
        let most_asking = ranked
            .iter()
            .enumerate()
            .max_by_key(|(place, (_, client))| (client.requests, std::cmp::Reverse(*place)));
        let mut peaks = study.clients.retired.peaks.clone();
        for (_, client) in known.iter().filter(|(_, client)| client.peak > 0) {
            peaks.add(client.peak, 1);
        }
        let input = Input {
            logs: tally.logs,
            lines: tally.lines,
            bad_lines: tally.bad_lines(),
            bad_lines_by_reason: reasons(tally),
            bad_line_samples: tally.samples.clone(),
            unreadable_logs: tally.failures.clone(),
            silent_connections: tally.silence.connections,
            silent_seconds: seconds(tally.silence.held),
            silent_most: tally.silence.worst().map(|(key, silent)| Silent {
                client: match &silent.name {
                    Some(name) => escape::text(name),
                    None => gauge::client(key, formats.prefix),
                },
                connections: silent.connections,
                held_seconds: seconds(silent.held.into()),
            }),
            own_requests: tally.dummies,
            requests: study.requests,
            requests_with_duration: study.timed,
            clients: known.len() as u64 + study.clients.retired.clients,
            first: study.span.map(|(first, _)| clock::written(first)),
            last: study.span.map(|(_, last)| clock::written(last)),
            held_seconds: seconds(study.held),
            whole_seconds: formats.is_coarse,
            durations_in_whole_seconds: formats.has_coarse_durations,
            retired_clients: study.clients.retired.clients,
            untracked_requests: study.clients.untracked + study.simulation.beyond,
            late_requests: study.late(),
            times_the_log_went_back: study.jumps,
            formats: formats.written,
        };
        let candidates = candidates(study, &ranked, formats.prefix);
        let clients: Vec<Holder> = holders.map(holder).collect();
        let asks_most = most_asking.map(|(place, (at, client))| Asker {
            client: name(study, *at, client, formats.prefix),
            requests: client.requests,
            place: place as u64 + 1,
        });
        Findings {
            advice: Advice::new(&study.candidates, &candidates, &input, asks_most.as_ref()),
            input,
            clients,
            asks_most,
            concurrency: has_durations.then(|| Concurrency {
                peak_per_client: (&peaks).into(),
                busiest_client: (&study.simulation.busiest_client).into(),
                server: (&study.simulation.server).into(),
                busy_seconds: seconds(study.simulation.server.total().into()),
            }),
            candidates,
        }
    }
}

/// What is known of the formats that were read.
pub struct Formats {
    pub written: Vec<String>,
    pub is_coarse: bool,
    pub has_coarse_durations: bool,
    pub prefix: Prefix,
}

fn candidates(study: &Study, ranked: &[(u32, &Client)], prefix: Prefix) -> Vec<Candidate> {
    let has_durations = study.timed > 0;
    let of_concurrency = study.candidates.concurrency.len();
    let lines = study.candidates.lines().into_iter().enumerate();
    lines
        .filter(|(bit, _)| has_durations || *bit >= of_concurrency)
        .map(|(bit, line)| {
            let is_refused = |(_, client): &&(u32, &Client)| client.refused >> bit & 1 == 1;
            let refused = ranked.iter().filter(is_refused).count() as u64;
            let first = ranked.iter().find(is_refused);
            Candidate {
                line,
                refused_requests: study.simulation.refused[bit],
                refused_clients: refused + study.clients.retired.refused[bit],
                refused_client: first.map(|(at, client)| name(study, *at, client, prefix)),
            }
        })
        .collect()
}

fn reasons(tally: &Tally) -> Vec<Reason> {
    let too_long = Reason {
        reason: "longer than 1 MiB",
        lines: tally.too_long,
    };
    tally
        .faults()
        .map(|(fault, lines)| Reason {
            reason: fault.name(),
            lines,
        })
        .chain((tally.too_long > 0).then_some(too_long))
        .collect()
}

/// A client as people write it: an address, a network, or the name in the log.
fn name(study: &Study, at: u32, client: &Client, prefix: Prefix) -> String {
    match study.clients.name(at) {
        Some(name) => escape::text(name),
        None => gauge::client(client.key, prefix),
    }
}

fn seconds(micros: u128) -> f64 {
    micros as f64 / SECOND as f64
}
