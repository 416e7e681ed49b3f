//! `limitipconn check`: whether the running server's limits can do their work: who loads the
//! module, which rules are active, whether clients are told apart, and whether lines arrive.

pub mod clients;
mod loader;
mod log;
pub mod rules;
mod sinks;

use std::io::{self, IsTerminal, Write};

use clap::Args;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::server::{Server, Which};
use crate::text::{print, print_json, time};
use crate::{Answer, Outcome, clock};

/// Asks the running server: does its error log arrive, who loads the module, which rules are
/// active, do limits see the true clients
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    which: Which,

    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// How good what was found is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Perhaps not as it should be, or it cannot be seen from here.
    Doubt,
    /// Not as it should be: the exit code tells, too.
    Wrong,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Good => "ok",
            Verdict::Doubt => "doubt",
            Verdict::Wrong => "wrong",
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.word())
    }
}

/// One thing that was looked at. The text is shown as it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    about: &'static str,
    verdict: Verdict,
    text: String,
}

impl Finding {
    /// A finding.
    pub fn new(about: &'static str, verdict: Verdict, text: impl Into<String>) -> Finding {
        Finding {
            about,
            verdict,
            text: text.into(),
        }
    }

    /// As it is shown.
    pub fn line(&self) -> String {
        format!("{:<5}  {}: {}", self.verdict.word(), self.about, self.text)
    }
}

/// Looks at all of it.
pub fn run(arguments: Arguments) -> Answer {
    let mut server = arguments.which.find()?;
    let mut findings = Vec::new();
    let mut found = |more: Vec<Finding>| -> Result<(), String> {
        if !arguments.json {
            more.iter().try_for_each(|finding| print(&finding.line()))?;
        }
        findings.extend(more);
        Ok(())
    };
    found(vec![which(&server), loader::look(&server)])?;
    found(rules::look(&mut server)?)?;
    found(clients::look(&server))?;
    if !arguments.json && io::stderr().is_terminal() {
        let wait =
            "now the error log: the parent of httpd looks about every ten seconds, please wait";
        let _ = writeln!(io::stderr(), "{wait}");
    }
    found(log::look(&server)?)?;
    if arguments.json {
        print_json(&json!({ "pid": server.process.0, "findings": findings }))?;
    }
    let is_wrong = findings
        .iter()
        .any(|finding| finding.verdict == Verdict::Wrong);
    Ok(if is_wrong {
        Outcome::Failed
    } else {
        Outcome::Done
    })
}

/// Which server it is.
fn which(server: &Server) -> Finding {
    let about = &server.about;
    let up = u64::from(clock::seconds().saturating_sub(about.started));
    let text = format!(
        "{}, process {}, mod_limitipconn {}, configured {} ago, up to {} workers",
        crate::text::shown(&about.httpd),
        server.process.0,
        crate::text::shown(&about.module),
        time(up * 1000),
        about.max_workers
    );
    Finding::new("server", Verdict::Good, text)
}
