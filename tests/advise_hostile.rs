//! `limitipconn advise` on logs that mean harm or are broken: it never panics, says what it
//! could not use in printable characters, and keeps its memory bounded.

#![cfg(feature = "command")]

#[path = "advise/command.rs"]
mod command;

use std::fmt::Write;
use std::process::Command;

use command::{Directory, Said, advise, gzip, run};

const TIMED: &str = "combined %D %{usec_frac}t";
const GOOD: &str =
    "192.0.2.1 - - [30/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" 1000 000000\n";

fn line(client: &str, time: &str, duration: &str) -> String {
    format!("{client} - - [{time}] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" {duration} 000000\n")
}

/// `limitipconn advise` with so many KiB of address space at most.
#[track_caller]
fn advise_within(kibibytes: u32, arguments: &[&str], stdin: &[u8]) -> Said {
    let script = format!("ulimit -v {kibibytes} && exec \"$0\" advise \"$@\"");
    run(
        Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_limitipconn")])
            .args(arguments),
        stdin,
    )
}

/// Reads with and without a format, as text and as JSON; gives back the text and the JSON
/// with the format.
#[track_caller]
fn survives(log: &[u8]) -> (Said, serde_json::Value) {
    for arguments in [&[][..], &["--json"]] {
        is_whole(&advise(arguments, log));
    }
    let text = advise(&["--format", TIMED], log);
    is_whole(&text);
    let json = advise(&["--format", TIMED, "--json"], log);
    is_whole(&json);
    let json = json.json();
    (text, json)
}

#[track_caller]
fn is_whole(said: &Said) {
    assert!(matches!(said.code, 0 | 1), "{said:?}");
    assert!(!said.stderr.contains("panicked"), "{said:?}");
    let sentences = said.stderr.lines();
    assert!(sentences.clone().count() <= 2, "{said:?}");
    assert!(
        sentences
            .clone()
            .all(|line| line.starts_with("limitipconn: ")),
        "{said:?}"
    );
    let is_printable = |byte: u8| byte == b'\n' || (b' '..=b'~').contains(&byte);
    assert!(said.stdout.bytes().all(is_printable), "{said:?}");
    assert!(said.stderr.bytes().all(is_printable), "{said:?}");
}

/// The numbers of lines, bad lines and requests.
fn numbers(json: &serde_json::Value) -> [u64; 3] {
    ["lines", "bad_lines", "requests"].map(|name| json["input"][name].as_u64().unwrap())
}

#[test]
fn nothing_at_all() {
    let (said, json) = survives(b"");
    assert_eq!((said.code, numbers(&json)), (1, [0, 0, 0]));
    assert_eq!(
        said.stderr,
        "limitipconn: there is no request in the logs\n"
    );
}

#[test]
fn nul_bytes_without_end() {
    let (said, json) = survives(&vec![0; 3 << 20]);
    assert_eq!((said.code, numbers(&json)), (1, [1, 1, 0]));
    assert!(said.stdout.contains("longer than 1 MiB: 1"), "{said:?}");
}

#[test]
fn a_line_that_does_not_end_between_good_ones() {
    let log = [
        GOOD.as_bytes(),
        &vec![b'a'; 5 << 20],
        b"\n",
        GOOD.as_bytes(),
    ]
    .concat();
    let (said, json) = survives(&log);
    assert_eq!((said.code, numbers(&json)), (0, [3, 1, 2]));
}

#[test]
fn gzip_that_ends_too_early_counts_as_far_as_it_goes() {
    let directory = Directory::new();
    let mut log = String::new();
    for nth in 0..20_000 {
        let _ = write!(
            log,
            "{}",
            line(
                &format!("10.0.{}.{}", nth / 250, nth % 250),
                "30/Nov/2026:12:00:00 +0000",
                "7"
            )
        );
    }
    let packed = gzip(log.as_bytes());
    survives(&packed[..packed.len() / 2]);
    let cut = directory.file("cut.gz", &packed[..packed.len() / 2]);
    let said = advise(&["--format", TIMED, &cut], b"");
    is_whole(&said);
    assert_eq!(said.code, 1);
    let sentence =
        format!("limitipconn: {cut} could be read in part only: the gzip data ends too early\n");
    assert_eq!(said.stderr, sentence);
    assert!(said.stdout.contains(" requests of "), "{said:?}");
    assert!(!said.stdout.starts_with("0 requests"), "{said:?}");
}

#[test]
fn gzip_that_is_damaged_or_none() {
    let mut packed = gzip(GOOD.repeat(5000).as_bytes());
    let middle = packed.len() / 2;
    packed[middle..middle + 8].fill(0xff);
    let (said, _) = survives(&packed);
    assert_eq!(said.code, 1, "{said:?}");
    survives(b"\x1f\x8b");
    survives(b"\x1f");
    survives(&[b"\x1f\x8b", GOOD.as_bytes()].concat());
}

#[test]
fn much_in_a_small_parcel() {
    let packed = gzip(&vec![0; 200 << 20]);
    let said = advise_within(160 << 10, &["--format", TIMED], &packed);
    is_whole(&said);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.contains("longer than 1 MiB: 1"), "{said:?}");
}

#[test]
fn time_that_runs_backward() {
    let log: String = (0..20_000)
        .rev()
        .map(|second: u32| {
            let (hour, minute) = (second / 3600, second / 60 % 60);
            let time = format!("30/Nov/2026:{hour:02}:{minute:02}:{:02} +0000", second % 60);
            line("192.0.2.1", &time, "1000")
        })
        .collect();
    let (said, json) = survives(log.as_bytes());
    assert_eq!((said.code, numbers(&json)), (0, [20_000, 0, 20_000]));
}

#[test]
fn times_from_the_first_to_the_last_day() {
    let days = [
        "01/Jan/1970:00:00:00 +0000",
        "31/Dec/9999:23:59:60 -9959",
        "01/Jan/1970:00:00:00 +9959",
        "29/Feb/2000:00:00:00 +0000",
        "30/Nov/2026:12:00:00 +0000",
    ];
    let durations = ["0", "31622400000000", "1", "999999999999"];
    let mut log = String::new();
    for nth in 0..400 {
        log += &line(
            &format!("10.0.0.{}", nth % 7),
            days[nth % 5],
            durations[nth % 4],
        );
    }
    let (said, json) = survives(log.as_bytes());
    assert_eq!((said.code, numbers(&json)), (0, [400, 0, 400]));
}

#[test]
fn numbers_that_nothing_can_hold() {
    let nines = "9".repeat(400);
    let mut log = String::new();
    for number in [
        nines.as_str(),
        "18446744073709551615",
        "9223372036854775808",
        "31622400000001",
        "-1",
        "1e9",
        "0x10",
        "",
    ] {
        log += &line("192.0.2.1", "30/Nov/2026:12:00:00 +0000", number);
    }
    log += &line("192.0.2.1", &format!("30/Nov/{nines}:12:00:00 +0000"), "1");
    log += &line("192.0.2.1", "99/Nov/2026:99:99:99 +9999", "1");
    log += &log.clone().replace(" 000000", &format!(" {nines}"));
    let (said, json) = survives(log.as_bytes());
    assert_eq!((said.code, numbers(&json)), (1, [20, 20, 0]), "{said:?}");
    for format in [
        "%h %{usec}t %{s}T",
        "%h %{sec}t %T",
        "%h %{msec}t %{ms}T",
        "%h %{begin:usec}t %{end:sec}t",
    ] {
        let log = format!(
            "h {nines} {nines}\nh 9223372036854775807 18446744073709551615\nh 1 9223372036854775807\n"
        );
        is_whole(&advise(&["--format", format], log.as_bytes()));
    }
}

#[test]
fn bytes_that_are_no_text() {
    let mut log = Vec::new();
    for byte in 0..=255u8 {
        log.extend_from_slice(&[byte; 9]);
        log.push(b'\n');
        let agent = [
            b"192.0.2.1 - - [30/Nov/2026:12:00:00 +0000] \"GET /".as_slice(),
            &[byte; 3],
        ];
        log.extend_from_slice(&agent.concat());
        log.extend_from_slice(b" HTTP/1.1\" 200 1 \"-\" \"-\" 1000 000000\n");
        log.extend_from_slice(&[byte, 0xff, 0x1b, b'[', byte]);
        log.extend_from_slice(&GOOD.as_bytes()[9..]);
    }
    let (said, json) = survives(&log);
    assert_eq!(said.code, 0, "{said:?}");
    let [lines, bad, requests] = numbers(&json);
    assert!(
        requests > 250 && bad > 100 && lines >= requests + bad,
        "{json:#}"
    );
}

#[test]
fn noise() {
    // Marsaglia's xorshift: the same noise in each run.
    let mut state = 88_172_645_463_325_252u64;
    let noise: Vec<u8> = (0..1 << 20)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect();
    let (said, _) = survives(&noise);
    assert_eq!(said.code, 1, "{said:?}");
    let like_text: Vec<u8> = noise
        .iter()
        .map(|byte| b" \"[]\\%-\n0h"[usize::from(byte % 10)])
        .collect();
    survives(&like_text);
}

#[test]
fn quotes_and_brackets_that_do_not_match() {
    let log = [
        "192.0.2.1 - - [30/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\\\" 200 1 \"-\" \"-\" 5 000000\n",
        "192.0.2.1 - \" [30/Nov/2026:12:00:00 +0000] \"\"\"\" \"\"\" 200 1 \"-\" \"-\" 5 000000\n",
        "\"\n[[[[[[\n\\\\\\\\\\\"\n\r\n\r\r\r\n% %h %t\n\n\n",
    ]
    .concat()
        + &"\\\"".repeat(400_000)
        + "\n"
        + GOOD;
    let (said, json) = survives(log.as_bytes());
    assert_eq!(said.code, 0, "{said:?}");
    assert!(numbers(&json)[2] >= 1);
}

#[test]
fn names_of_any_length() {
    let mut log = String::new();
    for nth in 0..40 {
        log += &line(
            &format!("{}{nth}", "host.".repeat(20_000)),
            "30/Nov/2026:12:00:00 +0000",
            "5",
        );
    }
    let (said, json) = survives(log.as_bytes());
    assert_eq!((said.code, numbers(&json)[2]), (0, 40));
    assert_eq!(json["input"]["clients"], 40);
    assert!(said.stdout.lines().all(|line| line.len() < 500), "{said:?}");
}

/// 150,000 clients that come once, fifty a second, and one that holds long all the while.
fn a_crowd() -> String {
    let mut log = String::new();
    for nth in 0..150_000u32 {
        let [_, a, b, c] = nth.to_be_bytes();
        let seconds = nth / 50;
        let time = format!(
            "30/Nov/2026:{:02}:{:02}:{:02} +0000",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        );
        log += &line(&format!("10.{a}.{b}.{c}"), &time, "20000");
        if nth % 100 == 0 {
            log += &line("192.0.2.1", &time, "3000000");
        }
    }
    log
}

/// The crowd with place for a thousand, and these options.
#[track_caller]
fn crowded(options: &[&str]) -> serde_json::Value {
    let arguments = ["--format", TIMED, "--max-clients", "1000", "--json"];
    let said = advise_within(
        256 << 10,
        &[&arguments, options].concat(),
        a_crowd().as_bytes(),
    );
    is_whole(&said);
    assert_eq!(said.code, 0, "{said:?}");
    let json = said.json();
    assert_eq!(numbers(&json), [151_500, 0, 151_500]);
    // Who holds longest is not the one to be forgotten.
    assert_eq!(json["clients"][0]["client"], "192.0.2.1", "{json:#}");
    assert_eq!(json["clients"][0]["requests"], 1500, "{json:#}");
    assert_eq!(json["clients"][0]["held_seconds"], 4500.0, "{json:#}");
    json
}

fn is_warned(json: &serde_json::Value) -> bool {
    let warnings = json["advice"]["warnings"].as_array().unwrap();
    warnings
        .iter()
        .any(|warning| warning.as_str().unwrap().contains("--max-clients"))
}

#[test]
fn more_clients_than_memory_is_meant_for() {
    // Rates that are over in seconds let clients rest.
    let json = crowded(&["--hits", "10/2s"]);
    assert!(
        json["input"]["retired_clients"].as_u64() > Some(148_000),
        "{json:#}"
    );
    assert_eq!(json["input"]["untracked_requests"], 0, "{json:#}");
    assert!(!is_warned(&json), "{json:#}");
}

#[test]
fn more_clients_within_a_window_than_memory_is_meant_for() {
    // 15,000 come in the five minutes for which each must be known.
    let json = crowded(&["--hits", "100/5min"]);
    assert!(
        json["input"]["untracked_requests"].as_u64() > Some(100_000),
        "{json:#}"
    );
    assert!(
        json["input"]["retired_clients"].as_u64() > Some(1000),
        "{json:#}"
    );
    assert!(is_warned(&json), "{json:#}");
}
