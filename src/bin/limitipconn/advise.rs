//! `limitipconn advise`: reads access logs and says which limits would have met whom.
//!
//! One thread reads and takes lines apart, the other counts; memory is bounded, however long
//! the logs are and whatever is in them.

mod advice;
mod batch;
mod blocks;
mod candidates;
mod clients;
mod clock;
mod escape;
mod findings;
mod format;
mod line;
mod logs;
mod order;
mod page;
mod recognize;
mod silence;
mod simulation;
mod study;
mod tally;
mod text;
mod weights;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use mod_limitipconn::limit::address::Prefix;
use mod_limitipconn::limit::key::Secret;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::text::print;
use crate::{Answer, Outcome};
use batch::{Batch, Keys};
use blocks::{Place, Progress};
use candidates::{CONCURRENCY, Candidates, HITS, RATES};
use clock::SECOND;
use findings::{Findings, Formats};
use format::Format;
use logs::Logs;
use study::{Bounds, Study};

/// Read access logs: who holds the server, and whom which limit would have refused
#[derive(Args)]
#[command(after_help = "\
Without %D in the LogFormat only rates can be told, not who holds the server; without
%{usec_frac}t how many requests are in flight is an upper bound. Have both: %D %{usec_frac}t
Exit codes: 0 done; 1 a log could not be read, or not one request is in them; 2 wrong usage.")]
pub struct Arguments {
    /// Access logs, plain or gzip, rotated ones in any order; - or nothing is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The lines' LogFormat as httpd's configuration has it; or common, combined or
    /// vhost_combined, and what follows it: 'combined %D %{usec_frac}t'. Without this option
    /// one of these three is recognized
    #[arg(long, value_name = "LOGFORMAT")]
    format: Option<String>,

    /// How many clients to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Numbers of requests in flight to try for MaxConnPerIP
    #[arg(long, value_name = "N,...", default_value = CONCURRENCY)]
    concurrency: String,

    /// Rates to try for MaxRatePerIP
    #[arg(long, value_name = "RATE,...", default_value = RATES)]
    rate: String,

    /// Numbers in a time to try for MaxHitsPerIP
    #[arg(long, value_name = "N/TIME,...", default_value = HITS)]
    hits: String,

    /// How much of an address is one client, as IPLimitPrefix says it
    #[arg(long, num_args = 2, value_names = ["V4", "V6"], default_values_t = [32, 64])]
    prefix: Vec<u8>,

    /// How many clients to keep in memory, about 250 bytes each
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    max_clients: usize,

    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// The arguments, understood.
struct Asked {
    format: Option<Format>,
    candidates: Candidates,
    prefix: Prefix,
    places: Vec<Place>,
}

impl Asked {
    fn new(arguments: &Arguments) -> Result<Asked, String> {
        if arguments.max_clients == 0 {
            return Err("--max-clients: \"0\" keeps nobody; use 1 or more".into());
        }
        let format = arguments.format.as_deref().map(Format::parse).transpose();
        Ok(Asked {
            format: format.map_err(|why| format!("--format: {why}"))?,
            candidates: Candidates::parse(
                &arguments.concurrency,
                &arguments.rate,
                &arguments.hits,
            )?,
            prefix: prefix(&arguments.prefix)?,
            places: places(&arguments.files)?,
        })
    }
}

/// Reads, and says what was found.
pub fn run(arguments: Arguments) -> Answer {
    let Asked {
        format,
        candidates,
        prefix,
        places,
    } = match Asked::new(&arguments) {
        Ok(asked) => asked,
        Err(sentence) => return Ok(crate::misused(&sentence)),
    };
    raise_limit();
    let progress = Progress::default();
    let keys = Keys {
        prefix,
        secret: secret(),
    };
    let mut logs = Logs::new(places, format.as_ref(), keys, progress.clone());
    let bar = bar(logs.length());
    logs.show(bar.clone());
    let known = logs.formats();
    if known.is_empty() {
        // What could not be read was told.
        return Ok(Outcome::Failed);
    }
    let is_coarse = known.iter().any(|format| !format.has_fraction);
    let has_coarse_durations = known.iter().any(|format| format.coarse_duration);
    // Each may hide what is beyond the second.
    let slack = SECOND * (i64::from(is_coarse) + i64::from(has_coarse_durations));
    let bounds = Bounds {
        clients: arguments.max_clients,
        ..Bounds::default()
    };
    let mut study = Study::new(candidates, bounds, slack);
    let (full, batches) = mpsc::sync_channel(8);
    let (empty, used) = mpsc::channel();
    let tally = thread::scope(|scope| {
        let reading = scope.spawn(move || {
            loop {
                let mut batch: Batch = used.try_recv().unwrap_or_default();
                if !logs.next_batch(&mut batch) || full.send(batch).is_err() {
                    return logs.tally;
                }
            }
        });
        for batch in batches {
            study.take(&batch);
            bar.set_position(progress.load(Ordering::Relaxed));
            // At the end nobody takes it any more.
            let _ = empty.send(batch);
        }
        reading.join()
    })
    .map_err(|_| "reading the logs failed by a fault of this program".to_owned())?;
    study.catch_up();
    bar.finish_and_clear();
    let formats = Formats {
        written: known.into_iter().map(|format| format.written).collect(),
        is_coarse,
        has_coarse_durations,
        prefix,
    };
    let findings = Findings::new(&study, &tally, formats, arguments.top);
    print(&match arguments.json {
        true => serde_json::to_string_pretty(&findings)
            .map_err(|error| format!("the JSON could not be made: {error}"))?,
        false => page::page(&findings, tally.goes_on.as_ref()),
    })?;
    let is_empty = findings.input.requests == 0;
    if is_empty && tally.failures.is_empty() {
        crate::complain("there is no request in the logs");
    }
    Ok(match is_empty || !tally.failures.is_empty() {
        true => Outcome::Failed,
        false => Outcome::Done,
    })
}

/// Logs of many virtual hosts are open at once: as many files as are allowed.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it fails, opening tells.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

fn prefix(lengths: &[u8]) -> Result<Prefix, String> {
    match *lengths {
        [v4 @ ..=32, v6 @ ..=128] => Ok(Prefix { v4, v6 }),
        _ => {
            let said: Vec<String> = lengths.iter().map(u8::to_string).collect();
            Err(format!(
                "--prefix: \"{}\" is no length up to 32 and one up to 128; use for example 32 64",
                said.join(" ")
            ))
        }
    }
}

fn places(files: &[PathBuf]) -> Result<Vec<Place>, String> {
    if files.is_empty() && io::stdin().is_terminal() {
        return Err("name access logs, or give one to standard input; --help says more".into());
    }
    let mut places: Vec<Place> = files
        .iter()
        .map(|file| match file.as_os_str() == "-" {
            true => Place::Stdin,
            false => Place::File(file.clone()),
        })
        .collect();
    if places.is_empty() {
        places.push(Place::Stdin);
    }
    if places
        .iter()
        .filter(|place| **place == Place::Stdin)
        .count()
        > 1
    {
        return Err("standard input (-) is named twice; name it once".into());
    }
    Ok(places)
}

/// A progress bar over so many bytes; where stderr is no terminal it shows nothing.
fn bar(length: Option<u64>) -> ProgressBar {
    let (bar, template) = match length {
        Some(length) => (
            ProgressBar::new(length),
            "reading {bar:40} {bytes} of {total_bytes}, {eta} left",
        ),
        None => (ProgressBar::no_length(), "reading {bytes}, {bytes_per_sec}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Of this run alone, so that nobody can make names that meet.
fn secret() -> Secret {
    use std::hash::{BuildHasher, Hasher};
    let random = || std::hash::RandomState::new().build_hasher().finish();
    Secret([random(), random()])
}
