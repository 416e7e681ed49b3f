//! Instructions that one request costs, as callgrind counts them:
//! (I(1100) - I(100)) / 1000 keep-alive GETs of a file of three bytes, so that
//! what starting and stopping costs cancels out. One table: httpd alone, httpd
//! with our module, and a walk of the scoreboard in C as the yardstick. The
//! median of three measurements is shown; they differ by a few instructions.
//! The profiles stay in target/callgrind for `callgrind_annotate`.

mod httpd;

use std::path::Path;
use std::process::ExitCode;

use httpd::Httpd;

/// What is measured: httpd's common configuration plus these lines.
struct Case {
    name: &'static str,
    label: &'static str,
    slots: u32,
    loads: Loads,
    lines: &'static str,
    /// The name of the row above that this one is compared with, and how many
    /// instructions it may add to that.
    against: Option<&'static str>,
    budget: Option<i64>,
}

#[derive(Clone, Copy)]
enum Loads {
    Nothing,
    Ours,
    Yardstick,
    /// Ours, on a scoreboard that the yardstick fills with strangers.
    OursAndYardstick,
}

/// A section costs httpd a merge of all modules' configuration, whatever it
/// says, so rules in sections are compared with the same sections, empty.
const CASES: &[Case] = &[
    Case {
        name: "httpd",
        label: "httpd alone",
        slots: 256,
        loads: Loads::Nothing,
        lines: "",
        against: None,
        budget: None,
    },
    Case {
        name: "section",
        label: "httpd alone, one empty section",
        slots: 256,
        loads: Loads::Nothing,
        lines: "<Location /b>\n</Location>\n",
        against: Some("httpd"),
        budget: None,
    },
    Case {
        name: "sections",
        label: "httpd alone, four empty sections",
        slots: 256,
        loads: Loads::Nothing,
        lines: "<Directory />\n</Directory>\n<FilesMatch txt>\n</FilesMatch>\n\
                <Location />\n</Location>\n<Location /b>\n</Location>\n",
        against: Some("httpd"),
        budget: None,
    },
    Case {
        name: "no-rule",
        label: "loaded, no rule",
        slots: 256,
        loads: Loads::Ours,
        lines: "",
        against: Some("httpd"),
        budget: Some(60),
    },
    Case {
        name: "location",
        label: "one rule in <Location>",
        slots: 256,
        loads: Loads::Ours,
        lines: "<Location /b>\nMaxConnPerIP 100 scope=location\n</Location>\n",
        against: Some("section"),
        budget: Some(600),
    },
    Case {
        name: "mime",
        label: "the same with NoIPLimit image/*",
        slots: 256,
        loads: Loads::Ours,
        lines: "<Location /b>\nMaxConnPerIP 100 scope=location\nNoIPLimit image/*\n</Location>\n",
        against: Some("location"),
        budget: Some(80),
    },
    Case {
        name: "five",
        label: "five rules (two in effect)",
        slots: 256,
        loads: Loads::Ours,
        lines: "MaxConnPerIP 100 scope=location\n\
                <Directory />\nMaxConnPerIP 90 scope=location\n</Directory>\n\
                <FilesMatch txt>\nMaxConnPerIP 80 scope=location\n</FilesMatch>\n\
                <Location />\nMaxConnPerIP 70 scope=location\n</Location>\n\
                <Location /b>\nMaxConnPerIP 60 scope=location\n</Location>\n",
        against: Some("sections"),
        budget: Some(1700),
    },
    Case {
        name: "workers-256",
        label: "workers, 256 slots",
        slots: 256,
        loads: Loads::OursAndYardstick,
        lines: "YardstickFill On\nMaxConnPerIP 100 scope=server\n",
        against: Some("httpd"),
        budget: Some(900),
    },
    Case {
        name: "workers-4096",
        label: "workers, 4096 slots",
        slots: 4096,
        loads: Loads::OursAndYardstick,
        lines: "YardstickFill On\nMaxConnPerIP 100 scope=server\n",
        against: Some("httpd"),
        budget: Some(6500),
    },
    Case {
        name: "yardstick-256",
        label: "yardstick: C walk, 256 slots",
        slots: 256,
        loads: Loads::Yardstick,
        lines: "YardstickFill On\nYardstickWalk 100\n",
        against: Some("httpd"),
        budget: None,
    },
    Case {
        name: "yardstick-4096",
        label: "yardstick: C walk, 4096 slots",
        slots: 4096,
        loads: Loads::Yardstick,
        lines: "YardstickFill On\nYardstickWalk 100\n",
        against: Some("httpd"),
        budget: None,
    },
];

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
    let ours = deps.join("libmod_limitipconn.so");
    if !ours.is_file() {
        return Err(format!("the module is not at {}", ours.display()));
    }
    let httpd = Httpd::find(target.join("callgrind"))?;
    let yardstick = httpd.compile(include_str!("yardstick.c"))?;

    println!(
        "Instructions per request: (I(1100) - I(100)) / 1000 keep-alive GETs under callgrind\n"
    );
    println!(
        "{:34} {:>12} {:>9}  {:32} {:>7}",
        "", "a request", "added", "compared with", "budget"
    );
    let mut measured: Vec<(&Case, i64)> = Vec::new();
    for case in CASES {
        let lines = case.configuration(&ours, &yardstick);
        let cost = case.measure(&httpd, &lines)?;
        let base = case
            .against
            .and_then(|name| measured.iter().find(|(other, _)| other.name == name));
        println!("{}", row(case, cost, base.copied()));
        measured.push((case, cost));
    }
    println!("\nSlots are full of other clients' requests, as far as the scoreboard says.");
    println!("A client's first request on a connection is not in these numbers.");
    Ok(())
}

impl Case {
    fn configuration(&self, ours: &Path, yardstick: &Path) -> String {
        let load = |module: &str, path: &Path| {
            format!("LoadModule {module}_module \"{}\"\n", path.display())
        };
        let loads = match self.loads {
            Loads::Nothing => String::new(),
            Loads::Ours => load("limitipconn", ours),
            Loads::Yardstick => load("yardstick", yardstick),
            Loads::OursAndYardstick => load("limitipconn", ours) + &load("yardstick", yardstick),
        };
        loads + self.lines
    }

    /// The median of three.
    fn measure(&self, httpd: &Httpd, lines: &str) -> Result<i64, String> {
        let mut costs = Vec::new();
        for _ in 0..3 {
            let few = httpd.instructions(self.name, self.slots, lines, 100)?;
            let many = httpd.instructions(self.name, self.slots, lines, 1100)?;
            let whole = i64::try_from(many).unwrap_or(i64::MAX) - i64::try_from(few).unwrap_or(0);
            costs.push((whole + 500) / 1000);
        }
        costs.sort_unstable();
        Ok(costs[1])
    }
}

fn row(case: &Case, cost: i64, base: Option<(&Case, i64)>) -> String {
    let (added, with) = match base {
        Some((other, other_cost)) => (Some(cost - other_cost), other.label),
        None => (None, ""),
    };
    let verdict = match (added, case.budget) {
        (Some(added), Some(budget)) if added <= budget => "met",
        (Some(_), Some(_)) => "MISSED",
        _ => "",
    };
    let added = added.map(grouped).unwrap_or_default();
    let budget = case.budget.map(grouped).unwrap_or_default();
    let line = format!(
        "{:34} {:>12} {added:>9}  {with:32} {budget:>7}  {verdict}",
        case.label,
        grouped(cost)
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
