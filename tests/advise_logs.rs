//! `limitipconn advise` on many logs, on logs that are packed or written otherwise than they were
//! said to be, and on terminals that take nothing.

#![cfg(feature = "command")]

#[path = "advise/command.rs"]
mod command;

use std::process::Command;

use command::{Directory, Said, advise, gzip, run};

const TIMED: &str = "combined %D %{usec_frac}t";

/// A line of that format.
fn line(client: &str, second: usize, milliseconds: u64) -> String {
    let rest = "\"GET /a HTTP/1.1\" 200 1 \"-\" \"-\"";
    format!(
        "{client} - - {} {rest} {milliseconds}000 000000\n",
        time(second)
    )
}

/// The same without what is behind combined.
fn combined(client: &str, second: usize) -> String {
    format!(
        "{client} - - {} \"GET /a HTTP/1.1\" 200 1 \"-\" \"-\"\n",
        time(second)
    )
}

fn time(second: usize) -> String {
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "[30/Nov/2026:{hour:02}:{minute:02}:{:02} +0000]",
        second % 60
    )
}

/// `limitipconn advise`, after a line of shell.
#[track_caller]
fn advise_after(shell: &str, arguments: &[&str]) -> Said {
    let script = format!("{shell} && exec \"$0\" advise \"$@\"");
    run(
        Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_limitipconn")])
            .args(arguments),
        b"",
    )
}

#[test]
fn logs_of_many_virtual_hosts_are_open_at_once() {
    let directory = Directory::new();
    let logs: Vec<String> = (0..300)
        .map(|host| {
            let lines: String = (0..40)
                .map(|nth| line(&format!("192.0.2.{nth}"), nth * 100 + host, 100))
                .collect();
            directory.file(&format!("{host}.log"), lines)
        })
        .collect();
    let mut arguments = vec!["--format", TIMED, "--json"];
    arguments.extend(logs.iter().map(String::as_str));
    // 256 MB: with a buffer of 1 MiB each they would not fit.
    let said = advise_after("ulimit -v 262144 && ulimit -S -n 64", &arguments);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    let input = &said.json()["input"];
    assert_eq!(
        (&input["logs"], &input["requests"]),
        (&300.into(), &12_000.into())
    );
    assert_eq!(input["times_the_log_went_back"], 0);
    let said = advise_after("ulimit -n 64", &arguments);
    assert_eq!(said.code, 1, "{said:?}");
    let sentence = "cannot be read: too many logs of the same time are open; raise the limit";
    assert!(
        said.stderr.lines().all(|line| line.contains(sentence)),
        "{said:?}"
    );
}

#[test]
fn great_logs_of_the_same_hours_are_read_side_by_side() {
    // A block of each is hours long, so that one after the other would go back by hours.
    let lines = |odd: usize| -> String {
        (0..20_000)
            .map(|nth| line(&format!("192.0.2.{}", nth % 7), 4 * nth + odd, 5000))
            .collect()
    };
    let (one, other) = (lines(0), lines(2));
    assert!(one.len() > 3 << 19);
    let directory = Directory::new();
    let both: String = one
        .split_inclusive('\n')
        .zip(other.split_inclusive('\n'))
        .flat_map(|(one, other)| [one, other])
        .collect();
    let arguments = ["--format", TIMED, "--json"];
    let mut as_one = advise(&arguments, both.as_bytes()).json();
    let (one, other) = (
        directory.file("one.log", one),
        directory.file("other.log", other),
    );
    let mut as_two = advise(&[&arguments[..], &[&other, &one]].concat(), b"").json();
    assert_eq!(as_two["input"]["times_the_log_went_back"], 0);
    for json in [&mut as_one, &mut as_two] {
        json["input"].as_object_mut().unwrap().remove("logs");
    }
    assert_eq!(as_one, as_two);
}

#[test]
fn a_file_counts_once_however_often_it_is_named() {
    let directory = Directory::new();
    let log = directory.file("access.log", line("192.0.2.1", 0, 1).repeat(5));
    let link = format!("{log}.link");
    std::os::unix::fs::symlink(&log, &link).unwrap();
    let said = advise(&["--format", TIMED, &log, &link], b"");
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.stdout.starts_with("5 requests of 1 client in 1 log\n"),
        "{said:?}"
    );
    let sentence = format!("limitipconn: {link} is the same file as {log}; it counts once\n");
    assert_eq!(said.stderr, sentence);
}

#[test]
fn other_packers_are_named_with_what_unpacks_them() {
    let directory = Directory::new();
    for (magic, packer, reader) in [
        (&b"\xFD7zXZ\0\0\x04"[..], "xz", "xzcat"),
        (b"\x28\xB5\x2F\xFD\x04", "zstd", "zstdcat"),
        (b"BZh91AY&SY\x01", "bzip2", "bzcat"),
    ] {
        let log = directory.file("access.log.1", [magic, &[7; 3000]].concat());
        let said = advise(&[&log], b"");
        assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{said:?}");
        let sentence = format!(
            "limitipconn: {log} cannot be read: it is packed by {packer}; use {reader} {log} | limitipconn advise -\n"
        );
        assert_eq!(said.stderr, sentence);
    }
    // Text, though it begins like bzip2.
    let said = advise(
        &["--format", TIMED],
        line("BZh9.example.org", 0, 1).as_bytes(),
    );
    assert_eq!(said.code, 0, "{said:?}");
}

#[test]
fn zeros_behind_gzip_data_are_no_damage() {
    let packed = gzip(line("192.0.2.1", 0, 1).as_bytes());
    let zeros = vec![0; 300_000];
    for (parts, requests) in [
        (&[&packed[..], &zeros][..], "1 request of"),
        (&[&packed, &zeros, &packed, &zeros[..1]], "2 requests of"),
    ] {
        let said = advise(&["--format", TIMED], &parts.concat());
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
        assert!(said.stdout.starts_with(requests), "{said:?}");
    }
    let said = advise(&["--format", TIMED], &[&packed[..], b"\0\0x"].concat());
    assert_eq!(said.code, 1, "{said:?}");
}

#[test]
fn logs_of_another_format_are_named_with_the_one_they_have() {
    let directory = Directory::new();
    let old = directory.file("access.log.1", combined("192.0.2.1", 0).repeat(3));
    let new = directory.file("access.log", line("192.0.2.1", 60, 1));
    let said = advise(&["--format", TIMED, &old, &new], b"");
    assert_eq!(said.code, 1, "{said:?}");
    let fault = "no line has the format that --format says; the lines are combined, without %D";
    assert_eq!(said.stderr, format!("limitipconn: {old}: {fault}\n"));
    assert!(
        said.stdout.starts_with("1 request of 1 client in 2 logs\n"),
        "{said:?}"
    );
    let said = advise(&["--format", TIMED, &old], b"");
    assert_eq!(
        (said.code, said.stderr),
        (1, format!("limitipconn: {old}: {fault}\n"))
    );
    // As it stands on a server that logs as httpd comes: the first thing that is tried.
    let said = advise(&[&old], b"");
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
}

#[test]
fn who_holds_connections_without_a_request_is_told() {
    let mut log = line("192.0.2.1", 0, 1);
    for (client, count) in [("192.0.2.7", 3), ("192.0.2.8", 5)] {
        let silent = format!("{client} - - {} \"-\" 408 - \"-\" \"-\" ", time(1));
        let milliseconds = if client == "192.0.2.7" { 20_000 } else { 1 };
        log += &format!("{silent}{milliseconds}000 000000\n").repeat(count);
    }
    let said = advise(&["--format", TIMED], log.as_bytes());
    for text in [
        "left out: 8 connections on which no request came, 1 min 0 s together\n",
        "most by 192.0.2.7: 3 connections, 1 min 0 s. MaxConnPerIP with count=connections\n",
        "mod_reqtimeout",
    ] {
        assert!(said.stdout.contains(text), "{text}: {}", said.stdout);
    }
    let json = advise(&["--format", TIMED, "--json"], log.as_bytes()).json();
    let most = &json["input"]["silent_most"];
    assert_eq!(
        (&most["client"], &most["connections"]),
        (&"192.0.2.7".into(), &3.into())
    );
}

#[test]
fn whole_seconds_are_an_upper_bound_and_are_warned_about() {
    // Twenty at once and twenty one after the other look the same.
    let log = line("192.0.2.1", 0, 40).replace(" 000000", "").repeat(20);
    let said = advise(&["--format", "combined %D", "--json"], log.as_bytes());
    let json = said.json();
    assert_eq!(
        json["concurrency"]["peak_per_client"]["max"], 20,
        "{json:#}"
    );
    assert_eq!(json["candidates"][3]["refused_requests"], 0, "{json:#}");
    assert_eq!(json["candidates"][2]["refused_requests"], 10, "{json:#}");
    let warnings = json["advice"]["warnings"].as_array().unwrap();
    let is_warning =
        |text: &serde_json::Value| text.as_str().unwrap().contains("whole seconds only");
    assert!(warnings.iter().any(is_warning), "{json:#}");
}

#[test]
fn without_anything_to_try_there_is_nothing_to_begin_with() {
    let log = line("192.0.2.1", 0, 1).repeat(600) + &line("192.0.2.2", 0, 1).repeat(600);
    let lists = ["--concurrency", "", "--rate", "", "--hits", ""];
    let said = advise(&[&["--format", TIMED][..], &lists].concat(), log.as_bytes());
    assert_eq!(said.code, 0, "{said:?}");
    assert!(!said.stdout.contains("TO BEGIN WITH"), "{said:?}");
}

#[test]
fn nobody_who_reads_is_no_panic() {
    let limitipconn = env!("CARGO_BIN_EXE_limitipconn");
    for (script, code) in [
        ("{ \"$0\" --help; echo $? >&2; } | true", 0),
        ("{ \"$0\" advise --help; echo $? >&2; } | true", 0),
        ("\"$0\" advise /nowhere 2>/dev/full; echo $? >&2", 1),
        ("\"$0\" advise --tpo 2>/dev/full; echo $? >&2", 2),
        ("\"$0\" 2>/dev/full; echo $? >&2", 2),
    ] {
        let said = run(Command::new("sh").args(["-c", script, limitipconn]), b"");
        assert_eq!(said.stderr, format!("{code}\n"), "{script}: {said:?}");
    }
}
