//! What the command `limitipconn` says where it cannot answer: one sentence, and an exit code.

#![cfg(feature = "command")]

mod support;

// Each of its users has its own part of it.
#[allow(dead_code)]
#[path = "command/run.rs"]
mod run;

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use run::{PROGRAM, Said, ask, limitipconn, path, pid_file};
use support::{DEADLINE, Httpd, Mpm, wait_until};

const HOGE: &str = "<Location /hoge>\n MaxConnPerIP 10 scope=location\n</Location>";

#[test]
fn wrong_words_are_told_in_one_sentence() {
    for (code, arguments, said) in [
        (2, &["tpo"][..], "tpo"),
        (2, &["top", "--every", "5x"], "unknown unit \"x\""),
        (2, &["top", "--every", "1ms"], "100ms to 1h"),
        (2, &["top", "--pid", "1"], "--once"),
        (2, &["freeze", "127.0.0.1", "0"], "from 1ms to 366d"),
        (2, &["freeze", "127.0.0.1"], "TIME"),
        (2, &["clear"], "KEY"),
        (2, &["show", "--pid", "0"], "--pid"),
        (2, &["show", "--pid", "1", "--pid-file", "x"], "--pid-file"),
        (
            1,
            &["show", "--pid-file", "/nowhere/x.pid"],
            "\"/nowhere/x.pid\" cannot be read",
        ),
        (
            1,
            &["show", "--pid", "4194304"],
            "no process has the number 4194304",
        ),
    ] {
        let sentence = limitipconn(arguments).failed(code);
        assert!(sentence.contains(said), "{sentence}");
    }
    for arguments in [
        &["--help"][..],
        &["top", "--help"],
        &["check", "-h"],
        &["--version"],
    ] {
        assert!(limitipconn(arguments).done().len() > 10);
    }
    assert!(limitipconn(&["--help"]).done().contains("Exit codes: 0"));
}

#[test]
fn a_server_without_the_module_and_a_child_are_told_of() {
    let bare = Httpd::on(Mpm::Prefork).without_module().start();
    let sentence = ask(&bare, &["show"]).failed(1);
    assert!(sentence.contains("has no mod_limitipconn"), "{sentence}");
    let httpd = Httpd::on(Mpm::Prefork).conf(HOGE).start();
    let child = httpd.children()[0];
    // It has the memory open until it is set up, which is another matter.
    wait_until(DEADLINE, || {
        let files = child.open_files();
        let has_memory = files
            .iter()
            .any(|file| file.starts_with("/memfd:limitipconn"));
        if has_memory { Err(files) } else { Ok(()) }
    });
    let child = child.0.to_string();
    let sentence = limitipconn(&["top", "--once", "--pid", &child]).failed(1);
    let advice = format!(
        "is a child of httpd; name the parent: --pid {}",
        httpd.parent().0
    );
    assert!(sentence.contains(&advice), "{sentence}");
    let parent = httpd.parent().0.to_string();
    assert!(
        limitipconn(&["top", "--once", "--pid", &parent])
            .done()
            .contains(&parent)
    );
    let file = httpd.dir().join("no.pid");
    fs::write(&file, "no number\n").expect("write a file");
    let sentence = limitipconn(&["show", "--pid-file", path(&file)]).failed(1);
    assert!(sentence.contains("holds no process number"), "{sentence}");
}

/// Where no PID file names one, all processes are looked at; two are too many.
#[test]
fn without_a_word_it_is_the_only_server_or_none() {
    let servers = [Mpm::Prefork, Mpm::Event].map(|mpm| Httpd::on(mpm).conf(HOGE).start());
    let said = limitipconn(&["show"]);
    if said.code == 0 {
        // This machine has a server of its own in the usual place.
        assert!(!servers.iter().any(|httpd| {
            said.out
                .contains(&format!("process {}\n", httpd.parent().0))
        }));
        return;
    }
    let sentence = said.failed(1);
    assert!(sentence.contains("there are several httpds"), "{sentence}");
    for httpd in &servers {
        assert!(
            sentence.contains(&httpd.parent().0.to_string()),
            "{sentence}"
        );
    }
}

#[test]
fn who_is_not_root_is_told_so() {
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let httpd = Httpd::on(Mpm::Prefork).conf(HOGE).start();
    let program = httpd.dir().join("limitipconn");
    // Not by ourselves: what another test forks meanwhile would have it open for writing, and
    // then it cannot be run.
    let copied = Command::new("cp").arg(PROGRAM).arg(&program).status();
    assert!(copied.expect("run cp").success());
    let parent = httpd.parent().0.to_string();
    for more in [&["--pid", &parent][..], &["--pid-file", &pid_file(&httpd)]] {
        for what in [
            &["show"][..],
            &["top", "--once"],
            &["freeze", "127.0.0.1", "1h"],
            &["check"],
        ] {
            let mut command = Command::new(&program);
            // Debian's nobody.
            let output = command.args(what).args(more).uid(65534).gid(65534).output();
            let said = Said::of(output.expect("run limitipconn"), Duration::ZERO);
            let sentence = said.failed(1);
            assert!(sentence.ends_with("run limitipconn as root"), "{sentence}");
        }
    }
}

/// The locks lie in memory that workers write to, and what one writes there is not to be followed
/// by root.
#[test]
fn root_is_nobody_before_it_takes_a_lock() {
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let httpd = Httpd::on(Mpm::Prefork)
        .conf("MaxHitsPerIP 1000/h")
        .expect_log("frozen for")
        .start();
    let mut child = Command::new(PROGRAM)
        .args(["freeze", "127.0.0.2", "1h", "--pid-file", &pid_file(&httpd)])
        .env("LIMITIPCONN_SLOW_STEPS", "1000000")
        .stdout(Stdio::null())
        .spawn()
        .expect("run limitipconn");
    wait_until(DEADLINE, || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.expect("a child that nobody waited for");
        let users = [
            "Uid:\t65534\t65534\t65534\t65534\n",
            "Gid:\t65534\t65534\t65534\t65534\n",
        ];
        let is_nobody = users.iter().all(|line| status.contains(line))
            && status.contains("CapEff:\t0000000000000000");
        if is_nobody { Ok(()) } else { Err(status) }
    });
    assert!(child.wait().expect("wait for it").success());
    assert_eq!(httpd.client("127.0.0.2").status("/hoge/"), 429);
}

/// Where the shared memory of a server can be opened.
fn memory_of(httpd: &Httpd) -> PathBuf {
    let parent = httpd.parent().0;
    let fds = fs::read_dir(format!("/proc/{parent}/fd")).expect("root, or the same user");
    let place = fds.flatten().map(|entry| entry.path()).find(|path| {
        let target = fs::read_link(path).unwrap_or_default();
        target.to_string_lossy().starts_with("/memfd:limitipconn")
    });
    place.expect("shared memory")
}

/// A copy of the server's memory in which one word of its beginning is another.
fn memory_of_another(httpd: &Httpd, word: u64) -> OwnedFd {
    let mut bytes = fs::read(memory_of(httpd)).expect("read it");
    bytes[word as usize * 8] ^= 1;
    // SAFETY: the name is a C string; the new descriptor is ours alone.
    let copy = unsafe {
        let fd = libc::memfd_create(
            c"limitipconn".as_ptr(),
            libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
        );
        OwnedFd::from_raw_fd(fd)
    };
    let file = fs::File::from(copy);
    file.write_all_at(&bytes, 0).expect("write a memfd");
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: a plain system call on a descriptor that is open here.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    assert_eq!(sealed, 0);
    file.into()
}

/// A program that has this memory open, and no other: this one has threads, in which other tests
/// have such memory that is theirs.
struct Holder(Child);

impl Holder {
    fn of(memory: impl Into<Stdio>) -> Holder {
        let mut command = Command::new("sleep");
        Holder(command.arg("600").stdin(memory).spawn().expect("run sleep"))
    }

    fn number(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn another_version_is_told_of() {
    let httpd = Httpd::on(Mpm::Prefork).conf(HOGE).start();
    for (word, why) in [
        (0, "not a finished segment"),
        (1, "laid out by another version"),
    ] {
        let holder = Holder::of(memory_of_another(&httpd, word));
        for what in [
            &["show"][..],
            &["top", "--json"],
            &["clear", "127.0.0.1"],
            &["check"],
        ] {
            let sentence = limitipconn(&[what, &["--pid", &holder.number()]].concat()).failed(1);
            assert!(sentence.contains(why), "{sentence}");
            assert!(
                sentence.contains("restart httpd after an update"),
                "{sentence}"
            );
        }
    }
}

/// Whoever made the memory can have written anything there, whatever process has it open.
#[test]
fn memory_of_another_user_is_not_read() {
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let httpd = Httpd::on(Mpm::Prefork).conf(HOGE).start();
    let memory = memory_of_another(&httpd, 1);
    std::os::unix::fs::fchown(&memory, Some(65534), None).expect("root gives files away");
    let holder = Holder::of(memory);
    let sentence = limitipconn(&["freeze", "127.0.0.1", "1h", "--pid", &holder.number()]).failed(1);
    assert!(
        sentence.ends_with("made by a user who is neither root nor you"),
        "{sentence}"
    );
}

/// As a child of httpd has, until it is set up.
#[test]
fn who_only_holds_the_memory_is_no_server() {
    let httpd = Httpd::on(Mpm::Prefork).conf(HOGE).start();
    let memory = fs::File::open(memory_of(&httpd)).expect("open it");
    let holder = Holder::of(memory);
    let named = holder.number();
    let file = httpd.dir().join("holder.pid");
    fs::write(&file, &named).expect("write a file");
    let said = [
        limitipconn(&["show", "--pid", &named]),
        limitipconn(&["clear", "127.0.0.1", "--pid-file", path(&file)]),
    ];
    for said in said {
        let sentence = said.failed(1);
        assert!(sentence.contains("it is no parent of httpd"), "{sentence}");
    }
}

/// A reader that goes away is no failure.
#[test]
fn nobody_reads_the_answer() {
    let httpd = Httpd::on(Mpm::Prefork).conf(HOGE).start();
    let start = Instant::now();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(PROGRAM);
    let output = command
        .args(["show", "--pid-file", &pid_file(&httpd)])
        .stdout(writer)
        .output();
    let said = Said::of(output.expect("run limitipconn"), start.elapsed());
    assert!(said.code == 0 && said.err.is_empty(), "{said:?}");
}

/// A disk that is full: the exit code tells, whatever else could not be said.
#[test]
fn nothing_can_be_written() {
    let full = || {
        fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full")
    };
    for (arguments, expected) in [
        (&["show", "--pid", "4194304"][..], 1),
        (&["tpo"], 2),
        (&[], 2),
        (&["--help"], 1),
    ] {
        let mut command = Command::new(PROGRAM);
        let ended = command
            .args(arguments)
            .stdout(full())
            .stderr(full())
            .status();
        assert_eq!(
            ended.expect("run limitipconn").code(),
            Some(expected),
            "{arguments:?}"
        );
    }
    let help = Command::new(PROGRAM).arg("--help").stdout(full()).output();
    let sentence = Said::of(help.expect("run limitipconn"), Duration::ZERO).failed(1);
    assert!(
        sentence.starts_with("cannot write the answer"),
        "{sentence}"
    );
}
