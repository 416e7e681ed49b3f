//! Shows on a private Apache what the limits do: real clients, real slow
//! downloads, and after each step what was said to happen beside what was
//! seen. Ends by itself, leaves nothing behind (Ctrl-C included), and exits
//! non-zero if anything went otherwise than said.

#[path = "../tests/support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use support::{A_SECOND, Client, Held, Httpd, Mpm, Response};

const PLAIN: &str = "<Location /hoge>\n    MaxConnPerIP 3\n</Location>";
const BY_LOCATION: &str = "<Location /hoge>\n    MaxConnPerIP 3 scope=location\n</Location>";
const RULE: &str = "MaxConnPerIP@/hoge";
const CLIENT: &str = "127.0.0.2";
const OTHER_CLIENT: &str = "127.0.0.3";
/// The status, and Retry-After in words.
const REFUSED: &str = "503 retry in 5 s";
/// More than the kernel buffers on the way to a client that does not read.
const DOWNLOAD: u64 = 20_000_000;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ctrl-C was pressed; whoever sees it returns, so that the server's guard ends it.
struct Interrupted;

fn main() -> ExitCode {
    on_interrupt();
    let mut table = Table::default();
    match show(&mut table) {
        Err(Interrupted) => {
            eprintln!("stopped; nothing is left behind");
            ExitCode::from(130)
        }
        Ok(()) if table.surprises == 0 => {
            println!("All {} steps went as said.", table.steps);
            ExitCode::SUCCESS
        }
        Ok(()) => {
            println!(
                "{} of {} steps did NOT go as said.",
                table.surprises, table.steps
            );
            ExitCode::FAILURE
        }
    }
}

fn show(table: &mut Table) -> Result<(), Interrupted> {
    let httpd = Httpd::on(Mpm::Prefork)
        .big_file("fuga/film.iso", DOWNLOAD)
        .big_file("hoge/film.iso", DOWNLOAD)
        .conf(PLAIN)
        // The start warns that PLAIN counts the whole server.
        .expect_log("limitipconn(205): ")
        .expect_refusals()
        .start();
    let client = httpd.client(CLIENT);
    println!(
        "A private Apache (prefork) on 127.0.0.1:{}; its client is {CLIENT} unless said otherwise.",
        httpd.port()
    );

    table.open(
        "A plain rule. It counts all that a client does on the server:",
        PLAIN,
    );
    let (fuga, answers) = download_three(&client, "/fuga/film.iso");
    table.row(
        "three slow downloads start in /fuga",
        "200 200 200",
        &answers,
    )?;
    table.row("meanwhile one request to /hoge", REFUSED, &get(&client))?;
    table.note("Refused, though nobody is in /hoge: the well-known pitfall.");

    httpd.rewrite_conf(BY_LOCATION);
    httpd.graceful();
    table.open(
        "With scope=location the rule counts only what is in its own place:",
        BY_LOCATION,
    );
    table.row(
        "downloads go on; one request to /hoge",
        "200",
        &get(&client),
    )?;
    let (mut hoge, answers) = download_three(&client, "/hoge/film.iso");
    table.row(
        "three slow downloads start in /hoge",
        "200 200 200",
        &answers,
    )?;
    table.row("a fourth request to /hoge", REFUSED, &get(&client))?;
    let answer = client.get("/fuga/small.txt").status.to_string();
    table.row("one more request to /fuga", "200", &answer)?;
    table.row(
        "another client's request to /hoge",
        "200",
        &get(&httpd.client(OTHER_CLIENT)),
    )?;
    hoge.pop();
    wait_for_count(&httpd, 2);
    table.row(
        "one download breaks off; then a request",
        "200",
        &get(&client),
    )?;

    httpd.graceful();
    table.open(
        "After a graceful restart, two downloads in /hoge still going on:",
        BY_LOCATION,
    );
    let third = client.try_read_slowly("/hoge/film.iso");
    table.row(
        "a third slow download starts in /hoge",
        "200",
        &status(&third),
    )?;
    table.row("a fourth request to /hoge", REFUSED, &get(&client))?;
    table.note("What began before the restart still counts.");
    drop((hoge, third));
    wait_for_count(&httpd, 0);
    table.row("the downloads end; then a request", "200", &get(&client))?;
    drop(fuga);
    Ok(())
}

/// What was said and what was seen, a line a step.
#[derive(Default)]
struct Table {
    steps: u32,
    surprises: u32,
}

impl Table {
    /// A new configuration.
    fn open(&self, what: &str, conf: &str) {
        println!("\n{what}\n");
        for line in conf.lines() {
            println!("    {line}");
        }
        println!("\n    {:<40}{:<18}seen", "what happens", "expected");
    }

    fn row(&mut self, what: &str, expected: &str, seen: &str) -> Result<(), Interrupted> {
        self.steps += 1;
        let as_said = seen == expected;
        let verdict = if as_said { "ok" } else { "NOT AS SAID" };
        self.surprises += u32::from(!as_said);
        println!(
            "{:>2}. {what:<40}{expected:<18}{seen:<18}{verdict}",
            self.steps
        );
        if INTERRUPTED.load(Ordering::Relaxed) {
            return Err(Interrupted);
        }
        Ok(())
    }

    fn note(&self, text: &str) {
        println!("    ({text})");
    }
}

/// Three downloads in flight, and what they were answered.
fn download_three(client: &Client, path: &str) -> (Vec<Held>, String) {
    let tried: Vec<_> = (0..3).map(|_| client.try_read_slowly(path)).collect();
    let answers: Vec<_> = tried.iter().map(status).collect();
    (tried.into_iter().flatten().collect(), answers.join(" "))
}

fn status(tried: &Result<Held, Response>) -> String {
    let head = match tried {
        Ok(held) => held.head(),
        Err(refusal) => refusal,
    };
    head.status.to_string()
}

/// One request to /hoge: its status, and when to come again if it was refused.
fn get(client: &Client) -> String {
    let answer = client.get("/hoge/small.txt");
    match answer.header("retry-after") {
        Some(seconds) => format!("{} retry in {seconds} s", answer.status),
        None => answer.status.to_string(),
    }
}

/// Waits until the rule counts so many requests of the client; a place must be
/// free within a second after its request has ended.
fn wait_for_count(httpd: &Httpd, count: u64) {
    httpd.wait_for_within(A_SECOND, |gauge| gauge.count_of(RULE, CLIENT) == count);
}

fn on_interrupt() {
    extern "C" fn interrupted(_signal: libc::c_int) {
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
    let handler: extern "C" fn(libc::c_int) = interrupted;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler has the signature that signal asks for, lives as long as the
        // program, and only stores to an atomic, which a signal handler may.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}
