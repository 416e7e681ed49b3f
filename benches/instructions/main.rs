//! Instructions that one request costs, as callgrind counts them:
//! (I(1100) - I(100)) / 1000 keep-alive GETs of a file of three bytes, so that
//! what starting and stopping costs cancels out. One table: httpd alone, httpd
//! with our module, and a walk of the scoreboard in C as the yardstick. Two
//! runs differ by an instruction or two. The profiles stay in target/callgrind
//! for `callgrind_annotate`.

mod cases;
mod client;
mod httpd;
mod profile;

use std::process::ExitCode;

use cases::{CASES, Case};
use httpd::Httpd;
use profile::Cost;

/// As cargo names the module.
const MODULE: &str = "libmod_limitipconn.so";

const EXPLANATION: &str = "
added    to the row that it is compared with, without what httpd spends in the C library:
         text and memory functions vary by a hundred with where their operands happen to lie
itself   of that, in the module's own code; the rest is httpd calling hooks and allocating
slots    the scoreboard shows all but the server's own busy with strangers
What a connection costs once is in no row.";

fn main() -> ExitCode {
    // `cargo test --all-targets` runs this too, without the flag.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    // The executable is target/PROFILE/deps/instructions-HASH, with the module
    // beside it.
    let executable = std::env::current_exe().map_err(|error| error.to_string())?;
    let [_, deps, _, target] = [0, 1, 2, 3].map(|up| executable.ancestors().nth(up));
    let (deps, target) = deps
        .zip(target)
        .ok_or("this executable does not lie in cargo's target directory")?;
    let ours = deps.join(MODULE);
    if !ours.is_file() {
        return Err(format!("the module is not at {}", ours.display()));
    }
    let httpd = Httpd::find(target.join("callgrind"))?;
    let yardstick = httpd.compile(include_str!("yardstick.c"))?;

    println!(
        "Instructions per request: (I(1100) - I(100)) / 1000 keep-alive GETs under callgrind\n"
    );
    println!(
        "{:34} {:>10} {:>8} {:>8}  {:32} {:>7}",
        "", "a request", "added", "itself", "compared with", "budget"
    );
    let mut measured: Vec<(&Case, Cost)> = Vec::new();
    for case in CASES {
        let lines = case.configuration(&ours, &yardstick);
        let cost = measure(case, &httpd, &lines)?;
        let base = case
            .against
            .and_then(|name| measured.iter().find(|(other, _)| other.name == name));
        println!("{}", row(case, cost, base.copied()));
        measured.push((case, cost));
    }
    println!("{EXPLANATION}");
    Ok(())
}

fn measure(case: &Case, httpd: &Httpd, lines: &str) -> Result<Cost, String> {
    let run = |requests| httpd.cost(case.name, case.slots, lines, requests);
    let few = run(100)?;
    Ok((run(1100)? - few).each(1000))
}

fn row(case: &Case, cost: Cost, base: Option<(&Case, Cost)>) -> String {
    let added = base.map(|(_, other)| cost - other);
    let verdict = match (added, case.budget) {
        (Some(added), Some(budget)) if added.certain() <= budget => "met",
        (Some(_), Some(_)) => "MISSED",
        _ => "",
    };
    let line = format!(
        "{:34} {:>10} {:>8} {:>8}  {:32} {:>7}  {verdict}",
        case.label,
        grouped(cost.all),
        added
            .map(|added| grouped(added.certain()))
            .unwrap_or_default(),
        added.map(|added| grouped(added.own)).unwrap_or_default(),
        base.map(|(other, _)| other.label).unwrap_or_default(),
        case.budget.map(grouped).unwrap_or_default(),
    );
    line.trim_end().to_owned()
}

/// 12345 as "12 345".
fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}
