//! The looks of the watches, of which nothing outside tells: their threads sleep once for each.

use std::fs;
use std::time::Duration;

use super::support::{Httpd, Process, wait_until};

/// How often the watch of this child has slept; 0 where there is none yet.
fn looks(child: Process) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.0));
    let is_watch = |task: &fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| name == "limitipconn\n")
    };
    let sleeps = |task: fs::DirEntry| -> Option<u64> {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let mut lines = status.lines();
        let sleeps = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        sleeps.trim().parse().ok()
    };
    let watches = tasks.into_iter().flatten().flatten().filter(is_watch);
    watches.filter_map(sleeps).sum()
}

/// Waits until the watch of each child has looked so often, twice a second at most.
#[track_caller]
pub fn let_watches_look(httpd: &Httpd, times: u64) {
    let begun = httpd.children().into_iter();
    let begun: Vec<_> = begun.map(|child| (child, looks(child))).collect();
    assert!(!begun.is_empty(), "no children");
    let patience = Duration::from_secs(60 + times);
    wait_until(patience, || {
        let mut behind = begun.clone();
        behind.retain(|(child, before)| child.is_alive() && looks(*child) < before + times);
        if behind.is_empty() {
            Ok(())
        } else {
            Err(behind)
        }
    });
}
