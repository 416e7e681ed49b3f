//! `limitipconn advise` on logs whose truth is known, in many formats and packings, and on a
//! log that a real server has written.

#![cfg(all(feature = "command", feature = "httpd"))]

mod support;

#[path = "advise/command.rs"]
mod command;

use command::{Directory, advise, gzip};
use serde_json::Value;
use support::{DEADLINE, Httpd, Mpm, wait_until};

/// A request: client, beginning and duration in milliseconds, path.
type Visit = (String, u64, u64, &'static str);

/// One who holds four responses for ten minutes each; one who asks once a second, for 10 ms
/// each; one who asks for twelve things at once; and twenty who come once, for a second.
fn visits() -> Vec<Visit> {
    let visit = |client: &str, at, duration, path| (client.to_owned(), at, duration, path);
    let mut visits = Vec::new();
    for nth in 0..4 {
        visits.push(visit("192.0.2.9", nth * 1000, 600_000, "/film.mp4"));
    }
    for nth in 0..300 {
        visits.push(visit("192.0.2.1", nth * 1000 + 500, 10, "/poll"));
    }
    for nth in 0..12 {
        visits.push(visit("2001:db8::7", 800_000, 100 + nth, "/page"));
    }
    for nth in 0..20 {
        let client = format!("198.51.100.{nth}");
        visits.push(visit(&client, 700_000 + nth * 2000, 1000, "/"));
    }
    // httpd writes a line when a request ends.
    visits.sort_by_key(|(_, at, duration, _)| at + duration);
    visits
}

/// A log of these, whose lines are made by the second.
fn log_by(line: impl Fn(&Visit) -> String) -> String {
    visits().iter().map(|visit| line(visit) + "\n").collect()
}

/// As `%t` has it; all of it is in one hour.
fn common_time(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (minute, second) = (seconds / 60, seconds % 60);
    format!("[30/Nov/2026:12:{minute:02}:{second:02} +0000]")
}

/// The same since 1970, in milliseconds.
fn since_1970(milliseconds: u64) -> u64 {
    1_796_040_000_000 + milliseconds
}

const TIMED: &str = "combined %D %{usec_frac}t";

fn timed(visit: &Visit) -> String {
    let (client, at, duration, path) = visit;
    format!(
        "{client} - - {} \"GET {path}?q=1 HTTP/1.1\" 200 17 \"-\" \"a \\\"b\\\" c\" {} {:06}",
        common_time(*at),
        duration * 1000,
        at % 1000 * 1000
    )
}

/// What is to be said about them, reckoned by hand.
const TRUTH: &str = include_str!("advise/truth.txt");

/// The same in JSON, without what tells how the log was written and read.
const TRUTH_IN_JSON: &str = include_str!("advise/truth.json");

#[test]
fn a_log_of_known_truth_is_told_as_it_is() {
    let directory = Directory::new();
    let log = directory.file("access.log", log_by(timed));
    let said = advise(&["--format", TIMED, "--top", "4", &log], b"");
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    assert_eq!(said.stdout, TRUTH, "{}", said.stdout);
}

#[track_caller]
fn tells_the_truth(arguments: &[&str], stdin: &[u8]) {
    let mut arguments = arguments.to_vec();
    arguments.extend(["--json", "--top", "3"]);
    let said = advise(&arguments, stdin);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    let mut json = said.json();
    for name in ["formats", "logs"] {
        json["input"].as_object_mut().unwrap().remove(name);
    }
    let truth: Value = serde_json::from_str(TRUTH_IN_JSON).unwrap();
    assert_eq!(json, truth, "{arguments:?}: {json:#}");
}

#[test]
fn every_format_of_the_same_requests_tells_the_same() {
    tells_the_truth(&["--format", TIMED], log_by(timed).as_bytes());
    let us = log_by(|(client, at, duration, path)| {
        let at = since_1970(*at);
        format!("{at}000 {}000 {path} {client}", duration)
    });
    tells_the_truth(&["--format", "%{usec}t %{us}T %U %a"], us.as_bytes());
    let ms = log_by(|(client, at, duration, path)| {
        format!(
            "x:443\t{client}\t{}\t{duration}\t\"GET {path} HTTP/1.1\"",
            since_1970(*at)
        )
    });
    let format = r#"%v:%p\t%h\t%{begin:msec}t\t%{ms}T\t\"%r\""#;
    tells_the_truth(&["--format", format], ms.as_bytes());
    let ends = log_by(|(client, at, duration, path)| {
        let (began, ended) = (since_1970(*at), since_1970(at + duration));
        format!("{client} {began} {ended} {path}")
    });
    tells_the_truth(
        &["--format", "%h %{msec}t %{end:msec}t %U"],
        ends.as_bytes(),
    );
    let pattern = log_by(|(client, at, duration, path)| {
        let (minute, second) = (at / 60_000, at / 1000 % 60);
        format!(
            "{client} [2026-11-30T13:{minute:02}:{second:02}.{:03}+0100] {}000 {path}",
            at % 1000,
            duration
        )
    });
    let format = "%{c}h [%{%Y-%m-%dT%H:%M:%S}t.%{msec_frac}t%{%z}t] %D %U";
    tells_the_truth(&["--format", format], pattern.as_bytes());
}

#[test]
fn rotated_packed_and_piped_logs_are_one() {
    let directory = Directory::new();
    let log = log_by(timed);
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let part = |from: usize, to: usize| lines[from..to].concat();
    let newest = directory.file("access.log", part(250, lines.len()));
    let middle = directory.file("access.log.1", part(120, 250));
    let oldest = directory.file("access.log.2.gz", gzip(part(0, 120).as_bytes()));
    tells_the_truth(&["--format", TIMED, &newest, &oldest, &middle], b"");
    tells_the_truth(&["--format", TIMED, "-"], &gzip(log.as_bytes()));
    // Members of a packed log one after the other, as `cat *.gz` makes them.
    let members = [
        gzip(part(0, 100).as_bytes()),
        gzip(part(100, lines.len()).as_bytes()),
    ]
    .concat();
    tells_the_truth(&["--format", TIMED], &members);
    // Two virtual hosts of the same time, each with every second line.
    let every_second = |odd: usize| {
        lines
            .iter()
            .skip(odd)
            .step_by(2)
            .copied()
            .collect::<String>()
    };
    let one = directory.file("one.log", every_second(0));
    let other = directory.file("other.log", every_second(1));
    tells_the_truth(&["--format", TIMED, &other, &one], b"");
}

#[test]
fn without_durations_rates_are_told_and_what_to_log() {
    let log = log_by(|visit| {
        let line = timed(visit);
        line.rsplit_once("\" ").unwrap().0.to_owned() + "\""
    });
    let said = advise(&[], log.as_bytes());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    for text in [
        "read as %h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"\n",
        "This log does not tell how long requests take.",
        "LogFormat \"%h %l %u %t \\\"%r\\\" %>s %b \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\" %D %{usec_frac}t\" timed",
        "WHO ASKS MOST",
        "GlobalLog logs/timed.log timed",
        "MaxHitsPerIP 100/5min",
    ] {
        assert!(said.stdout.contains(text), "{text}: {}", said.stdout);
    }
    assert!(!said.stdout.contains("MaxConnPerIP"), "{}", said.stdout);
    // The same with the durations behind: first of all it is told how to read them.
    let directory = Directory::new();
    for (line, format) in [
        (timed as fn(&Visit) -> String, TIMED),
        (
            |visit| timed(visit).rsplit_once(' ').unwrap().0.to_owned(),
            "combined %D",
        ),
    ] {
        let log = directory.file("timed.log", log_by(line));
        let said = advise(&[&log], b"").stdout;
        let command = format!("  limitipconn advise --format '{format}' {log}\n");
        let (before, _) = said.split_once("LogFormat \"").expect(&said);
        assert!(before.contains(&command), "{said}");
    }
}

#[test]
fn networks_are_clients_when_the_prefix_says_so() {
    let log = log_by(timed);
    let arguments = ["--format", TIMED, "--prefix", "24", "48", "--json"];
    let json = advise(&arguments, log.as_bytes()).json();
    assert_eq!(json["input"]["clients"], 3);
    assert_eq!(json["clients"][0]["client"], "192.0.2.0/24");
    assert_eq!(json["clients"][0]["requests"], 304);
    assert_eq!(json["clients"][0]["peak"], 5);
    assert_eq!(json["clients"][1]["client"], "198.51.100.0/24");
    assert_eq!(json["clients"][2]["client"], "2001:db8::/48");
}

#[test]
fn bad_lines_are_counted_and_shown_without_what_moves_a_cursor() {
    let mut log = log_by(timed);
    log.push_str("nonsense \x1b[2J\n");
    log.push_str(
        "h - - [30/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" -5 000000\n",
    );
    log.push_str(
        "h - - [31/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" 5 000000\n",
    );
    let said = advise(&["--format", TIMED], log.as_bytes());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    for text in [
        "336 requests of 23 clients in 1 log\n",
        "3 of 339 lines could not be used:\n",
        "  not of this format: 1\n",
        "  no valid time: 1\n",
        "  a duration that is negative, no number, or over a year: 1\n",
        "  for example standard input:337, not of this format: nonsense \\x1B[2J\n",
        "  for example standard input:339, no valid time: h - - [31/Nov",
    ] {
        assert!(said.stdout.contains(text), "{text}: {}", said.stdout);
    }
}

#[test]
fn wrong_usage_is_one_sentence_and_two() {
    let directory = Directory::new();
    let log = directory.file("access.log", log_by(timed));
    for (arguments, helps) in [
        (
            &["--format", "combind"][..],
            "--format: \"combind\" is no LogFormat; use",
        ),
        (
            &["--format", "%h %t %Y"],
            "--format: \"%Y\" is no directive",
        ),
        (
            &["--prefix", "33", "64"],
            "--prefix: \"33 64\" is no length up to 32",
        ),
        (
            &["--concurrency", "ten"],
            "--concurrency: \"ten\" is no number",
        ),
        (&["--rate", "10/q"], "--rate: \"10/q\" has unknown unit"),
        (&["--top", "many"], "'many'"),
        (&["--tpo", "3"], "'--tpo'"),
        (&["--max-clients", "0"], "--max-clients: \"0\" keeps nobody"),
        (&["-", "-"], "standard input (-) is named twice"),
    ] {
        let mut all = vec![log.as_str()];
        all.extend(arguments);
        let said = advise(&all, b"");
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{said:?}");
        assert!(said.stderr.starts_with("limitipconn: "), "{said:?}");
        assert_eq!(said.stderr.lines().count(), 1, "{said:?}");
        assert!(said.stderr.contains(helps), "{helps}: {said:?}");
    }
}

#[test]
fn logs_that_cannot_be_read_are_told_and_the_others_count() {
    let directory = Directory::new();
    let log = directory.file("access.log", log_by(timed));
    let none = format!("{log}.none");
    let (itself, _) = log.rsplit_once('/').unwrap();
    let said = advise(&["--format", TIMED, &none, &log, itself], b"");
    assert_eq!(said.code, 1, "{said:?}");
    let sentences: Vec<&str> = said.stderr.lines().collect();
    assert_eq!(
        sentences,
        [
            format!("limitipconn: {none} cannot be read: there is no such file"),
            format!("limitipconn: {itself} cannot be read: it is a directory; name the logs in it"),
        ]
    );
    assert!(
        said.stdout
            .starts_with("336 requests of 23 clients in 1 log"),
        "{said:?}"
    );
}

#[test]
fn the_manual_has_all_options() {
    let help = advise(&["--help"], b"").stdout;
    let words = help.split(|letter: char| !(letter.is_ascii_lowercase() || letter == '-'));
    let options: Vec<&str> = words
        .filter(|word| word.starts_with("--") && *word != "--help")
        .collect();
    assert!(options.len() >= 8, "{options:?}");
    let page = include_str!("../docs/limitipconn.1");
    for option in options {
        assert!(
            include_str!("../docs/command.md").contains(&format!("`{option}")),
            "{option}"
        );
        assert!(
            page.contains(&format!(".It Fl {}", &option[1..])),
            "{option}"
        );
    }
}

#[test]
fn what_is_advised_and_tried_is_configuration() {
    let log = log_by(timed);
    let json = advise(&["--format", TIMED, "--json"], log.as_bytes()).json();
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let advised = texts(&json["advice"]["configuration"]).join("\n");
    let said = Httpd::on(Mpm::Event).conf(&advised).configtest();
    assert_eq!(
        (said.code, said.stderr.trim()),
        (0, "Syntax OK"),
        "{advised}"
    );
    let candidates = json["candidates"].as_array().unwrap().iter();
    let tried: String = candidates
        .enumerate()
        .map(|(nth, candidate)| {
            let line = candidate["line"].as_str().unwrap();
            format!("<Location /{nth}>\n{line} scope=location\n</Location>\n")
        })
        .collect();
    let said = Httpd::on(Mpm::Event).conf(&tried).configtest();
    assert_eq!((said.code, said.stderr.trim()), (0, "Syntax OK"), "{tried}");
}

#[test]
fn the_log_of_a_real_server_tells_who_held_it() {
    let httpd = Httpd::on(Mpm::Event)
        .load(&["log_config"])
        .conf(
            r#"LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\" %D %{usec_frac}t" timed
GlobalLog timed.log timed"#,
        )
        .start();
    let held: Vec<_> = (0..3)
        .map(|_| httpd.client("127.0.0.2").hold("/hoge/hold.cgi"))
        .collect();
    for _ in 0..5 {
        assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
    }
    for one in held {
        one.finish();
    }
    let log = httpd.dir().join("timed.log").display().to_string();
    let json = wait_until(DEADLINE, || {
        let json = advise(&["--format", TIMED, "--json", &log], b"").json();
        match json["input"]["requests"].as_u64() {
            Some(8..) => Ok(json),
            _ => Err(json),
        }
    });
    assert_eq!(json["input"]["bad_lines"], 0, "{json:#}");
    assert_eq!(json["clients"][0]["client"], "127.0.0.2", "{json:#}");
    assert_eq!(json["clients"][0]["requests"], 3, "{json:#}");
    assert_eq!(json["clients"][0]["peak"], 3, "{json:#}");
    assert_eq!(
        json["clients"][0]["longest_path"], "/hoge/hold.cgi",
        "{json:#}"
    );
    assert_eq!(json["asks_most"]["client"], "127.0.0.3", "{json:#}");
    assert_eq!(json["asks_most"]["place"], 2, "{json:#}");
}
