//! `limitipconn advise` on a log of a gigabyte beside what everybody types first, `awk` counting
//! requests per client: one after the other, in turns, so that both meet the same machine.
//!
//! The log has 100,000 clients, few of which ask much, in `combined %D %{usec_frac}t`. It lies
//! in cargo's target directory while the bench runs.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const BYTES: u64 = 1_000_000_000;
const CLIENTS: u64 = 100_000;
const ROUNDS: usize = 5;

const COUNT: &str = "{n[$1]++} END{for (c in n) print n[c], c}";
const FORMAT: &str = "combined %D %{usec_frac}t";

fn main() -> ExitCode {
    // `cargo test --all-targets` runs this too, without the flag.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench advise: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The log, which goes away in the end.
struct Log(PathBuf);

impl Drop for Log {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn run() -> io::Result<()> {
    let log = Log(Path::new(env!("CARGO_TARGET_TMPDIR")).join("advise-bench.log"));
    let lines = make(&log.0)?;
    println!("A log of {BYTES} bytes, {lines} lines, {CLIENTS} clients; seconds of each round:\n");
    println!("{:>8} {:>22}", "awk", "limitipconn advise");
    let (mut of_awk, mut of_advise) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let awk = time(Command::new("mawk").arg(COUNT).arg(&log.0))?;
        let advise = time(
            Command::new(env!("CARGO_BIN_EXE_limitipconn"))
                .args(["advise", "--format", FORMAT])
                .arg(&log.0),
        )?;
        println!("{:>8.2} {:>22.2}", awk.as_secs_f64(), advise.as_secs_f64());
        of_awk.push(awk);
        of_advise.push(advise);
    }
    let (awk, advise) = (median(of_awk), median(of_advise));
    println!(
        "\nmedian: {:.2} and {:.2}, {:.0} % of what awk takes; at most {} MB of memory",
        awk.as_secs_f64(),
        advise.as_secs_f64(),
        100.0 * advise.as_secs_f64() / awk.as_secs_f64(),
        most_memory() / 1024,
    );
    Ok(())
}

fn time(command: &mut Command) -> io::Result<Duration> {
    let began = Instant::now();
    let status = command.stdout(Stdio::null()).status()?;
    match status.success() {
        true => Ok(began.elapsed()),
        false => Err(io::Error::other(format!("{command:?}: {status}"))),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// What the greatest of the programs that ran had in memory, in KiB.
fn most_memory() -> i64 {
    // SAFETY: all bytes 0 is a valid rusage, which has numbers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: usage is a live rusage for the kernel to fill in.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    usage.ru_maxrss
}

/// Writes the log; gives back how many lines it has. The same each time.
fn make(path: &Path) -> io::Result<u64> {
    const AGENTS: [&str; 3] = [
        "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36",
        "curl/8.5.0",
    ];
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut line = Vec::new();
    let (mut written, mut lines) = (0, 0);
    // Marsaglia's xorshift.
    let mut state = 88_172_645_463_325_252u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    // Microseconds of one day; a few hours of it pass.
    let mut now = 3_600_000_000;
    while written < BYTES {
        now += random(4000);
        // A few ask much.
        let third = random(1000) * random(1000) * random(1000);
        let client = (third * CLIENTS / 1_000_000_000) as u32;
        let [a, b, c, d] = client.wrapping_mul(2_654_435_761).to_be_bytes();
        let took = match random(20) {
            0 => random(20_000_000),
            _ => random(200_000),
        };
        let began = now - took;
        let seconds = began / 1_000_000;
        line.clear();
        writeln!(
            line,
            "{a}.{b}.{c}.{d} - - [30/Nov/2026:{:02}:{:02}:{:02} +0000] \"GET /articles/{}/item-{}.html?x={} \
             HTTP/1.1\" 200 {} \"https://www.example.org/articles/\" \"{}\" {took} {:06}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            client % 1000,
            random(10_000),
            random(100),
            random(100_000),
            AGENTS[random(3) as usize],
            began % 1_000_000,
        )?;
        file.write_all(&line)?;
        written += line.len() as u64;
        lines += 1;
    }
    file.flush()?;
    Ok(lines)
}
