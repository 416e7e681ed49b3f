//! `limitipconn advise`: reads access logs and says which limits would have met whom.

use std::path::PathBuf;

use clap::Args;

use crate::Answer;

/// Which numbers to begin with: reads access logs and tells whom which limit would have met
#[derive(Args)]
pub struct Arguments {
    /// Access logs, plain or gzip, in any order; - or nothing is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The LogFormat of the lines as in httpd's configuration, or common, combined or
    /// vhost_combined, with more after it or not: --format 'combined %D'. Without it one of
    /// these three is recognized
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,

    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Reads, and says what was found.
pub fn run(_arguments: Arguments) -> Answer {
    Err("advise is not there yet".into())
}
