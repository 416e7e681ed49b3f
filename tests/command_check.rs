//! `limitipconn check`: a line that it asks for is found where the error log leads, and what
//! keeps limits from their work is told.

#![cfg(feature = "command")]

mod support;

// Each of its users has its own part of it.
#[allow(dead_code)]
#[path = "command/run.rs"]
mod run;

use std::fs;
use std::path::Path;

use run::{Said, ask, path};
use serde_json::Value;
use support::{DEADLINE, Httpd, Mpm, Setup, wait_until};

const HOGE: &str = "<Location /hoge>\n MaxConnPerIP 10 scope=location\n</Location>";
/// The line that was asked for.
const CANARY: &str = "limitipconn(508): ";

fn server() -> Setup {
    Httpd::on(Mpm::Event).conf(HOGE).expect_log(CANARY)
}

/// It logs through a shell. On prefork, where that is a child like others.
#[track_caller]
fn piped(script: &str) -> Httpd {
    Httpd::on(Mpm::Prefork)
        .conf(HOGE)
        .expect_log(CANARY)
        .conf(&format!("ErrorLog \"|/bin/sh -c '{script}'\""))
        .start()
}

/// The verdict and the text about this.
#[track_caller]
fn about(said: &Value, what: &str) -> (String, String) {
    let findings = said["findings"].as_array().expect("findings");
    let finding = findings.iter().find(|finding| finding["about"] == what);
    let finding = finding.unwrap_or_else(|| panic!("nothing about {what}: {said:#}"));
    let text = |name: &str| finding[name].as_str().expect("a text").to_owned();
    (text("verdict"), text("text"))
}

/// The exit code, and the document.
#[track_caller]
fn check(httpd: &Httpd) -> (i32, Value) {
    let said: Said = ask(httpd, &["check", "--json"]);
    assert!(said.err.is_empty(), "{said:#?}");
    let document = serde_json::from_str(&said.out);
    (
        said.code,
        document.unwrap_or_else(|error| panic!("{error}: {said:#?}")),
    )
}

#[test]
fn all_is_well_with_a_file() {
    let httpd = server().start();
    assert_eq!(httpd.client("127.0.0.2").status("/hoge/small.txt"), 200);
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
    let text = ask(&httpd, &["check"]).done();
    assert_eq!(httpd.log_lines(CANARY).len(), 1);
    let lines: Vec<&str> = text.lines().collect();
    let module = Httpd::module();
    let conf = fs::read_to_string(httpd.dir().join("httpd.conf")).expect("read it");
    let line = conf
        .lines()
        .position(|line| line.starts_with("LoadModule limitipconn_module"));
    let (dir, pid) = (path(httpd.dir()), httpd.parent().0);
    let beginnings = [
        String::from("ok     server: Apache/"),
        format!(
            "ok     module: {}, loaded by line {} of {dir}/httpd.conf",
            path(&fs::canonicalize(module).expect("a file")),
            line.expect("a line") + 1
        ),
        String::from("ok     rules: 1 active, 0 refusals since start: MaxConnPerIP@/hoge 10"),
        String::from("ok     clients: "),
        format!("ok     error log: the line that was asked for came in {dir}/error_log"),
    ];
    assert_eq!(lines.len(), beginnings.len(), "{text}");
    for (line, beginning) in lines.iter().zip(&beginnings) {
        assert!(line.starts_with(beginning.as_str()), "{text}");
    }
    assert!(
        lines[0].contains(&format!("process {pid}, mod_limitipconn ")),
        "{text}"
    );
}

#[test]
fn a_pipe_is_followed_to_its_file() {
    let httpd = piped("exec cat >>${TMP}/error_log");
    let (code, said) = check(&httpd);
    let (verdict, text) = about(&said, "error log");
    let file = format!("in {}/error_log", path(httpd.dir()));
    assert!(
        code == 0 && verdict == "ok" && text.contains("through the pipe") && text.ends_with(&file),
        "{said:#}"
    );
}

/// What the program does with its lines cannot be seen: then it is told where to look.
#[test]
fn a_pipe_into_the_dark_is_doubted() {
    // Who reads the pipe never has the file open: the command could come upon it just then.
    let httpd =
        piped("while read -r line; do echo $line | tee -a ${TMP}/error_log >/dev/null; done");
    let (code, said) = check(&httpd);
    let (verdict, text) = about(&said, "error log");
    let canary = httpd.wait_for_log(CANARY).pop().expect("a line");
    let number = canary.rsplit(' ').next().expect("a number");
    assert!(code == 0 && verdict == "doubt", "{said:#}");
    assert!(
        text.contains(number) && text.contains("while read"),
        "{text}\n{canary}"
    );
}

#[test]
fn a_log_that_was_moved_or_deleted_is_noticed() {
    let [moved, deleted] = [server().start(), server().start()];
    let log = |httpd: &Httpd| httpd.dir().join("error_log");
    let aside = moved.dir().join("error_log.1");
    fs::rename(log(&moved), &aside).expect("rename");
    fs::remove_file(log(&deleted)).expect("remove");
    let [moved_said, deleted_said] = support::at_once(2, |n| check([&moved, &deleted][n]))
        .try_into()
        .expect("two");
    let (verdict, text) = about(&moved_said.1, "error log");
    assert!(moved_said.0 == 0 && verdict == "doubt", "{text}");
    assert!(
        text.contains(path(&aside)) && text.contains("httpd not reloaded"),
        "{text}"
    );
    let (verdict, text) = about(&deleted_said.1, "error log");
    assert!(
        deleted_said.0 == 1 && verdict == "wrong" && text.contains("deleted"),
        "{text}"
    );
    fs::rename(aside, log(&moved)).expect("rename");
}

/// Where no line can be looked for it is said where to look, or that nobody sees any.
#[test]
fn logs_that_cannot_be_read_from_here_are_told_of() {
    const LOGS: [(&str, &str, &str); 3] = [
        (
            "ErrorLog /dev/null",
            "wrong",
            "lines go to /dev/null (ErrorLog /dev/null): nobody sees them",
        ),
        (
            "ErrorLog syslog:local7\nLogLevel warn",
            "doubt",
            "lines go to syslog:local7, where LogLevel shows no notices",
        ),
        (
            "ErrorLog syslog:local7\nLogLevel notice",
            "doubt",
            "a line was written to syslog:local7; see whether it came: journalctl ",
        ),
    ];
    support::at_once(LOGS.len(), |n| {
        let (log, expected, told) = LOGS[n];
        // A server that starts with it would not be seen to have started.
        let httpd = server().start();
        let old = httpd.children();
        httpd.rewrite_conf(&format!("{HOGE}\n{log}"));
        httpd.parent().signal(libc::SIGUSR1);
        wait_until(DEADLINE, || {
            let now = httpd.children();
            let is_new = !now.is_empty() && !now.iter().any(|child| old.contains(child));
            if is_new { Ok(()) } else { Err(now) }
        });
        let (code, said) = check(&httpd);
        let (verdict, text) = about(&said, "error log");
        assert!(
            verdict == expected && text.starts_with(told),
            "{log}: {said:#}"
        );
        assert_eq!(code, i32::from(expected == "wrong"), "{said:#}");
    });
}

#[test]
fn a_parent_that_does_not_answer_is_noticed() {
    let httpd = server().start();
    httpd.parent().signal(libc::SIGSTOP);
    let (code, said) = check(&httpd);
    httpd.parent().signal(libc::SIGCONT);
    let (verdict, text) = about(&said, "error log");
    assert!(
        code == 1 && verdict == "wrong" && text.contains("did not write the line"),
        "{said:#}"
    );
    // It answers late, and the next question comes through.
    httpd.wait_for_log(CANARY);
}

/// A letter whose writer was killed is answered all the same, and the next one too.
#[test]
fn killed_while_it_waits_it_is_in_nobodys_way() {
    let httpd = server().start();
    for _ in 0..3 {
        let file = run::pid_file(&httpd);
        let mut command = std::process::Command::new(run::PROGRAM);
        let command = command.args(["check", "--pid-file", &file]);
        let mut child = command
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("run it");
        // It is done with all but the log.
        let mut first = [0; 1];
        let out = child.stdout.as_mut().expect("a pipe");
        std::io::Read::read_exact(out, &mut first).expect("a line");
        child.kill().expect("kill it");
        child.wait().expect("wait for it");
    }
    let (code, said) = check(&httpd);
    assert!(code == 0 && about(&said, "error log").0 == "ok", "{said:#}");
}

#[test]
fn dry_runs_and_quiet_levels_are_told_of() {
    let httpd = server()
        .conf("IPLimitDryRun On\nLogLevel limitipconn:error")
        .conf("<VirtualHost *:${PORT}>\n ErrorLog ${TMP}/other_log\n</VirtualHost>")
        .start();
    let (code, said) = check(&httpd);
    assert_eq!(code, 0, "{said:#}");
    for (what, verdict, text) in [
        ("rules", "doubt", "all is a dry run"),
        ("log level", "doubt", "LogLevel hides warnings"),
        (
            "other logs",
            "ok",
            "1 virtual host with an ErrorLog of its own",
        ),
        ("error log", "ok", "error_log"),
    ] {
        let found = about(&said, what);
        assert!(found.0 == verdict && found.1.contains(text), "{said:#}");
    }
}

#[test]
fn a_proxy_whose_header_nobody_reads_is_wrong() {
    let httpd = server().expect_log("limitipconn(402): ").start();
    let proxy = httpd
        .client("127.0.0.2")
        .header("X-Forwarded-For", "192.0.2.1");
    for _ in 0..40 {
        assert_eq!(proxy.status("/hoge/small.txt"), 200);
    }
    httpd.wait_for_log("limitipconn(402): ");
    let (code, said) = check(&httpd);
    let (verdict, text) = about(&said, "clients");
    assert!(
        code == 1 && verdict == "wrong" && text.contains("message 402"),
        "{said:#}"
    );
}

/// One private address may be a proxy, as long as nothing reads what it forwards; without rules
/// nothing is limited at all.
#[test]
fn one_private_client_is_doubted_and_no_rule_is_wrong() {
    let quiet = server().without_status().start();
    assert_eq!(quiet.client("127.0.0.2").status("/hoge/small.txt"), 200);
    let read = server()
        .without_status()
        .conf("IPLimitClientHeader X-Forwarded-For trusted=127.0.0.2")
        .start();
    assert_eq!(read.client("127.0.0.2").status("/hoge/small.txt"), 200);
    let bare = Httpd::on(Mpm::Prefork)
        .without_status()
        .expect_log("no limits configured")
        .expect_log(CANARY)
        .start();
    let servers = [&quiet, &read, &bare];
    let said = support::at_once(3, |n| check(servers[n]));
    let found = said
        .iter()
        .map(|(code, said)| (*code, about(said, "clients")));
    let found: Vec<(i32, (String, String))> = found.collect();
    assert!(found[0].0 == 0 && found[0].1.0 == "doubt", "{found:#?}");
    assert!(
        found[0]
            .1
            .1
            .contains("one private address, 127.0.0.2, and neither"),
        "{found:#?}"
    );
    assert!(
        found[1].1.0 == "ok" && found[1].1.1.contains("IPLimitClientHeader is set"),
        "{found:#?}"
    );
    assert!(
        found[2].0 == 1 && found[2].1.1.contains("none was seen yet"),
        "{found:#?}"
    );
    let (verdict, text) = about(&said[2].1, "rules");
    assert!(
        verdict == "wrong" && text.starts_with("none is active"),
        "{text}"
    );
}

/// The file of the module may be another than the one that was loaded, or none.
#[test]
fn a_module_that_was_replaced_or_removed_is_noticed() {
    let setup = Httpd::on(Mpm::Event).without_module().expect_log(CANARY);
    let file = setup.dir().join("mod_limitipconn.so");
    let copy = |to: &Path| _ = fs::copy(Httpd::module(), to).expect("copy the module");
    copy(&file);
    let httpd = setup
        .conf("LoadModule limitipconn_module ${TMP}/mod_limitipconn.so")
        .conf(HOGE)
        .start();
    // As make install does it.
    let new = httpd.dir().join("new.so");
    copy(&new);
    fs::rename(&new, &file).expect("rename");
    let (code, said) = check(&httpd);
    let (verdict, text) = about(&said, "module");
    assert!(
        code == 0 && verdict == "doubt" && text.contains("the file was replaced since"),
        "{text}"
    );
    fs::remove_file(&file).expect("remove");
    let (code, said) = check(&httpd);
    let (verdict, text) = about(&said, "module");
    assert!(
        code == 1 && verdict == "wrong" && text.contains("the file is gone"),
        "{text}"
    );
    copy(&file);
}
