//! Forked children of the test program.

use std::io;

use super::steps;

/// How a child ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Exit(i32),
    Killed,
}

/// A child, ended and waited for at the latest when it is dropped.
pub struct Child {
    pid: libc::pid_t,
    over: bool,
}

/// Runs `work` in a child, whose exit code is the result. `work` must allocate
/// nothing and not print; a panic ends the child with 101.
pub fn fork(work: impl FnOnce() -> i32) -> Child {
    // SAFETY: the child runs `work` and _exit only, see above.
    match unsafe { libc::fork() } {
        0 => {
            struct Exit(i32);
            impl Drop for Exit {
                fn drop(&mut self) {
                    // SAFETY: ends the process and runs nothing on the way.
                    unsafe { libc::_exit(self.0) }
                }
            }
            let mut exit = Exit(101);
            exit.0 = work();
            drop(exit);
            unreachable!()
        }
        -1 => panic!("fork: {}", io::Error::last_os_error()),
        pid => Child { pid, over: false },
    }
}

/// Does `work` in a child that is killed at its `k`-th step; false where it has no such step.
/// As for [`fork`].
pub fn killed_at<R>(k: u32, work: impl FnOnce() -> R) -> bool {
    is_killed_in(|| _ = steps::at(k, &steps::die, work))
}

/// The same, but at the `k`-th step comes `then`, and so many steps `later` the end.
pub fn killed_later(k: u32, later: u32, then: impl Fn(), work: impl FnOnce()) -> bool {
    is_killed_in(|| {
        let then = || {
            then();
            steps::after(later, &steps::die);
        };
        steps::at(k, &then, work);
    })
}

fn is_killed_in(work: impl FnOnce()) -> bool {
    let end = fork(|| {
        work();
        0
    })
    .wait();
    assert!(matches!(end, End::Killed | End::Exit(0)), "{end:?}");
    end == End::Killed
}

impl Child {
    pub fn kill(&self) {
        // SAFETY: a child of ours that was not waited for.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }

    pub fn wait(mut self) -> End {
        self.wait_for()
    }

    fn wait_for(&mut self) -> End {
        self.over = true;
        let mut status = 0;
        // SAFETY: a child of ours; writes one int.
        while unsafe { libc::waitpid(self.pid, &mut status, 0) } != self.pid {
            let error = io::Error::last_os_error();
            assert_eq!(error.kind(), io::ErrorKind::Interrupted, "{error}");
        }
        if libc::WIFEXITED(status) {
            End::Exit(libc::WEXITSTATUS(status))
        } else {
            End::Killed
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.over {
            self.kill();
            self.wait_for();
        }
    }
}
