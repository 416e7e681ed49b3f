//! A private httpd and raw clients for the integration tests and the demo.
//!
//! Every server has its own directory, port and session on loopback, shows its
//! configuration in the test that starts it, and is gone when its guard drops,
//! also after a panic. Nothing here sleeps where a state can be waited for.

// Each test file compiles this module on its own and uses its own part of it.
#![allow(dead_code, unused_imports, unused_macros)]

mod backend;
mod base;
mod browser;
mod client;
mod files;
mod gauge;
mod h2;
mod held;
mod in_time;
mod load;
mod log;
mod model;
mod process;
mod program;
mod recipe;
mod redis;
mod response;
mod scripts;
mod server;
mod setup;
mod shared;
mod tunnel;
mod verdict;
mod windows;

use std::fmt::Debug;
use std::time::{Duration, Instant};

pub use backend::Backend;
pub use browser::Browser;
pub use client::{Client, Connection};
pub use files::{noise, temporary_dir};
pub use gauge::Gauge;
pub use h2::{H2, Stream, count};
pub use held::{Gate, Held};
pub use in_time::{before, in_time, so_by};
pub use load::{Load, under_load};
pub use model::{Between, Tokens, sleep_until};
pub use process::Process;
pub use program::{Program, curl};
pub use recipe::Mpm;
pub use redis::{Redis, Value, port_of_our_own};
pub use response::Response;
pub use server::Httpd;
pub use setup::{Configtest, Setup};
pub use tunnel::Tunnel;
pub use verdict::{Verdict, all_are_errors, verdict_of};
pub use windows::Windows;

/// How long a test waits for a state that should come at once, on a machine that may have no
/// time for it for a while.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// How soon a place must be free again after its request has ended.
pub const A_SECOND: Duration = Duration::from_secs(1);

/// Asks until the answer is `Ok`; panics with the last `Err` at the deadline.
#[track_caller]
pub fn wait_until<T, E: Debug>(deadline: Duration, ask: impl FnMut() -> Result<T, E>) -> T {
    let start = Instant::now();
    wait_by(|| start.elapsed(), deadline, ask)
}

/// As [`wait_until`], by a clock of its own. It asks less and less often: a gauge that is asked
/// too often is what keeps the workers busy.
#[track_caller]
pub fn wait_by<T, E: Debug>(
    clock: impl Fn() -> Duration,
    deadline: Duration,
    mut ask: impl FnMut() -> Result<T, E>,
) -> T {
    let mut pause = Duration::from_millis(10);
    loop {
        // Looked at first: whoever was held up in between asks once more.
        let is_last = clock() > deadline;
        match ask() {
            Ok(value) => return value,
            Err(last) if is_last => {
                panic!("not so within {deadline:?}; the last answer was {last:#?}")
            }
            Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 5 / 4).min(Duration::from_millis(200));
    }
}

/// Runs `work(0)`, `work(1)`, ... in `n` threads that start together.
pub fn at_once<T: Send>(n: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = std::sync::Barrier::new(n);
    let (barrier, work) = (&barrier, &work);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n)
            .map(|i| {
                scope.spawn(move || {
                    barrier.wait();
                    work(i)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    })
}

/// Makes of each `fn name(mpm: Mpm)` one test for each of the MPMs in the brackets.
macro_rules! on_mpms {
    (@one [$($mpm:ident $variant:ident),+] $test:ident) => {
        mod $test {
            use super::support::Mpm;
            $(
                #[test]
                fn $mpm() {
                    super::$test(Mpm::$variant);
                }
            )+
        }
    };
    ($mpms:tt $($test:ident),+) => {
        $($crate::support::on_mpms!(@one $mpms $test);)+
    };
}
pub(crate) use on_mpms;

/// Makes of each `fn name(mpm: Mpm)` three tests: `name::prefork`, `name::worker`, `name::event`.
macro_rules! on_every_mpm {
    ($($test:ident),+ $(,)?) => {
        $crate::support::on_mpms!([prefork Prefork, worker Worker, event Event] $($test),+);
    };
}
pub(crate) use on_every_mpm;

/// As `on_every_mpm`, for what prefork does not offer: `name::worker` and `name::event`.
macro_rules! on_threaded_mpms {
    ($($test:ident),+ $(,)?) => {
        $crate::support::on_mpms!([worker Worker, event Event] $($test),+);
    };
}
pub(crate) use on_threaded_mpms;
