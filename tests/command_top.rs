//! `limitipconn top` on a terminal: it is live, leaves by a key or a signal, and the terminal
//! is then as it was before.

#![cfg(feature = "command")]

mod support;

// Each of its users has its own part of it.
#[allow(dead_code)]
#[path = "command/run.rs"]
mod run;
#[path = "command/terminal.rs"]
mod terminal;

use support::{Httpd, Mpm};
use terminal::{Ended, Terminal};

fn server() -> Httpd {
    Httpd::on(Mpm::Event)
        .conf("<Location /hoge>\n MaxConnPerIP 10 scope=location\n</Location>")
        .start()
}

fn top(httpd: &Httpd) -> Terminal {
    let file = run::pid_file(httpd);
    let terminal = Terminal::run(&["top", "--every", "100ms", "--pid-file", &file], 120, 20);
    terminal.wait_for("q quits");
    assert!(terminal.is_raw(), "keys come at once");
    terminal
}

#[test]
fn it_is_live_and_quits_on_q() {
    let httpd = server();
    let terminal = top(&httpd);
    terminal.wait_for("nobody holds a worker");
    let held = httpd.client("127.0.0.2").hold("/hoge/hold.cgi");
    terminal.wait_for("127.0.0.2");
    terminal.wait_for("/hoge/hold.cgi");
    drop(held);
    terminal.forget();
    terminal.wait_for("nobody holds a worker");
    terminal.wait_for("(+0/s)");
    terminal.press("q");
    terminal.ends(Ended::Code(0));
}

#[test]
fn control_c_and_escape_quit_too() {
    let httpd = server();
    for key in ["\x03", "\x1b", "Q"] {
        let terminal = top(&httpd);
        terminal.press("x");
        terminal.press(key);
        terminal.ends(Ended::Code(0));
    }
}

#[test]
fn signals_end_it_and_the_terminal_is_as_before() {
    let httpd = server();
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        let terminal = top(&httpd);
        terminal.signal(signal);
        terminal.ends(Ended::Signal(signal));
    }
}

/// Control-Z gives the terminal back for a while.
#[test]
fn it_does_not_outlive_its_terminal() {
    let httpd = server();
    let ended = top(&httpd).hang_up();
    assert_eq!(ended, Ended::Signal(libc::SIGHUP));
}

#[test]
fn a_line_as_wide_as_the_screen_keeps_its_last_letter() {
    let httpd = server();
    let terminal = top(&httpd);
    terminal.forget();
    terminal.resize(30, 10);
    terminal.wait_for("mod_limitipconn ");
    // Cleared first: behind the last column the cursor still stands on it.
    terminal.wait_for("\x1b[1;1H\x1b[Kmod_limitipconn ");
    terminal.press("q");
    terminal.ends(Ended::Code(0));
}

#[test]
fn it_stops_and_goes_on() {
    let httpd = server();
    let terminal = top(&httpd);
    for by_key in [true, false] {
        if by_key {
            terminal.press("\x1a");
        } else {
            terminal.signal(libc::SIGTSTP);
        }
        terminal.wait_until_stopped();
        assert!(!terminal.is_raw());
        // The last that comes: a page from before must not be taken for the next.
        terminal.wait_for("\x1b[?25h");
        terminal.forget();
        terminal.signal(libc::SIGCONT);
        terminal.wait_for("q quits");
        assert!(terminal.is_raw());
    }
    terminal.press("q");
    terminal.ends(Ended::Code(0));
}

#[test]
fn it_follows_the_size_of_its_screen() {
    let httpd = server();
    let terminal = top(&httpd);
    terminal.forget();
    terminal.resize(12, 5);
    terminal.wait_for("q quits; no…");
    terminal.press("q");
    terminal.ends(Ended::Code(0));
}

/// Whether or not somebody has waited for its process, which till then is there still.
#[test]
fn it_ends_with_httpd() {
    for is_waited_for in [false, true] {
        let mut httpd = server();
        let terminal = top(&httpd);
        if is_waited_for {
            httpd.stop().expect("a good end");
        } else {
            httpd.parent().signal(libc::SIGTERM);
        }
        terminal.ends(Ended::Code(1));
        // On the first screen, with its cursor.
        let number = httpd.parent().0;
        let said = format!("\x1b[?25hlimitipconn: httpd (process {number}) has ended");
        terminal.wait_for(&said);
    }
}
