//! The TCP socket of a client, looked at from outside of the thread that works on it.
//!
//! A number of a descriptor says little: the connection may be closed by now, and the
//! number another one's. So each look brings the socket's cookie, which the kernel gives
//! to no other socket, and the caller compares.

use std::mem::{MaybeUninit, size_of, size_of_val};

/// One look at a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// What the kernel calls the socket.
    pub cookie: u64,
    /// Bytes that the other side has acknowledged since it connected.
    pub taken: u64,
    /// For how long in all there was something for the other side, in nanoseconds.
    pub waiting: u64,
    /// Whether there is something for it now.
    pub waits: bool,
}

fn option<T: Copy>(fd: i32, level: i32, name: i32, least: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of the value.
    let failed =
        unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &mut length) != 0 };
    if failed || (length as usize) < least {
        return None;
    }
    // SAFETY: callers name types that any bytes are a value of; what was not written is 0.
    Some(unsafe { value.assume_init() })
}

fn cookie(fd: i32) -> Option<u64> {
    option(fd, libc::SOL_SOCKET, libc::SO_COOKIE, size_of::<u64>())
}

/// Looks at a socket; None where it is none of TCP, or not any more.
pub fn look(fd: i32) -> Option<Look> {
    const LEAST: usize = std::mem::offset_of!(libc::tcp_info, tcpi_busy_time) + size_of::<u64>();
    let info: libc::tcp_info = option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, LEAST)?;
    // What is on its way only waits for the line, unless it is sent again or asked for.
    let is_stuck = info.tcpi_retransmits > 0 || info.tcpi_probes > 0 || info.tcpi_backoff > 0;
    Some(Look {
        // After the rest: a socket that has this cookie now had it then.
        cookie: cookie(fd)?,
        taken: info.tcpi_bytes_acked,
        waiting: info.tcpi_busy_time.saturating_mul(1000),
        waits: info.tcpi_notsent_bytes > 0 || (info.tcpi_unacked > 0 && is_stuck),
    })
}

/// What became of an attempt to cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// The connection has ended.
    Done,
    /// The descriptor is another's by now, or it was not meant.
    NotIt,
    /// No descriptor was free.
    NoDescriptor,
}

/// What it takes to cut: two descriptors that are kept, so that there is one when httpd has
/// used up all others.
pub struct Knife {
    blank: i32,
    own: i32,
}

impl Knife {
    /// Takes the two, if there are some.
    pub fn new() -> Knife {
        // SAFETY: a constant text; each number is ours, or below 0.
        unsafe {
            let blank = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            let own = libc::fcntl(blank, libc::F_DUPFD_CLOEXEC, 0);
            Knife { blank, own }
        }
    }

    /// Ends the connection of this cookie at once: who works on it finds it closed, and what
    /// the kernel still has for the other side is thrown away. Not where `is_meant` says no.
    pub fn cut(&mut self, fd: i32, whose: u64, is_meant: impl FnOnce() -> bool) -> Cut {
        if self.own < 0 {
            // SAFETY: closes a number that is ours, or none.
            unsafe { libc::close(self.blank) };
            *self = Knife::new();
        }
        if self.own < 0 {
            return Cut::NoDescriptor;
        }
        // A copy of our own, so that the number cannot become another's between the look and
        // the deed. Whose it is the cookie tells, on the copy: device and inode would tell less,
        // since the kernel gives the inode of a socket that is gone to another one day. The copy is
        // there for an instant only, or closing the other would not tell the client.
        // SAFETY: makes our own number mean the same as the other, or fails.
        if unsafe { libc::dup3(fd, self.own, libc::O_CLOEXEC) } < 0 {
            return Cut::NotIt;
        }
        let is_it = cookie(self.own) == Some(whose) && is_meant();
        let at_once = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        // SAFETY: our own descriptors; the option is as long as said.
        unsafe {
            if is_it {
                libc::setsockopt(
                    self.own,
                    libc::SOL_SOCKET,
                    libc::SO_LINGER,
                    (&raw const at_once).cast(),
                    size_of_val(&at_once) as libc::socklen_t,
                );
                libc::shutdown(self.own, libc::SHUT_RDWR);
            }
            if libc::dup3(self.blank, self.own, libc::O_CLOEXEC) < 0 {
                libc::close(self.own);
                self.own = -1;
            }
        }
        if is_it { Cut::Done } else { Cut::NotIt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, client)
    }

    #[test]
    fn what_the_client_does_not_read_waits_for_it() {
        let (server, mut client) = pair();
        let fd = server.as_raw_fd();
        let first = look(fd).unwrap();
        assert!(!first.waits && first.taken <= 1, "{first:?}");
        server.set_nonblocking(true).unwrap();
        // What was just sent may be on its way still, and then there is room for more.
        while (&server).write(&[0; 65536]).is_ok() || !look(fd).unwrap().waits {}
        let full = look(fd).unwrap();
        assert!(full.waits && full.taken > 0 && full.cookie == first.cookie);
        let mut read = vec![0; 1 << 20];
        client.read_exact(&mut read).unwrap();
        // The kernel counts that time in ticks of some milliseconds.
        let deadline = Instant::now() + Duration::from_secs(20);
        let is_seen = |look: &Look| look.taken > full.taken && look.waiting > first.waiting;
        while !is_seen(&look(fd).unwrap()) {
            assert!(Instant::now() < deadline, "{:?}", look(fd));
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_cut_ends_a_blocked_write_and_nobody_else() {
        let ((mut server, _client), (other, _other_client)) = (pair(), pair());
        let (fd, whose) = (server.as_raw_fd(), look(server.as_raw_fd()).unwrap().cookie);
        let mut knife = Knife::new();
        assert_eq!(knife.cut(other.as_raw_fd(), whose, || true), Cut::NotIt);
        assert_eq!(knife.cut(fd, whose, || false), Cut::NotIt);
        assert_eq!(knife.cut(-1, whose, || true), Cut::NotIt);
        let writer = std::thread::spawn(move || {
            loop {
                if let Err(error) = server.write_all(&[0; 65536]) {
                    return error.kind();
                }
            }
        });
        assert_eq!(knife.cut(fd, whose, || true), Cut::Done);
        assert_eq!(writer.join().unwrap(), std::io::ErrorKind::BrokenPipe);
        assert!(look(other.as_raw_fd()).is_some());
        assert_eq!(look(-1), None);
    }

    /// The number that was looked at is a younger connection's, of the same client.
    #[test]
    fn who_has_the_number_now_is_not_cut_for_who_had_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (listener.accept().unwrap().0, client)
        };
        let (old, old_client) = connect();
        let (fd, whose) = (old.as_raw_fd(), look(old.as_raw_fd()).unwrap().cookie);
        let (young, mut client) = connect();
        let mut knife = Knife::new();
        // SAFETY: both descriptors are open and ours; `old` goes on to own its number.
        assert_eq!(unsafe { libc::dup2(young.as_raw_fd(), fd) }, fd);
        drop(old_client);
        for _ in 0..3 {
            assert_eq!(knife.cut(fd, whose, || panic!("it is meant")), Cut::NotIt);
        }
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(knife.cut(file.as_raw_fd(), whose, || true), Cut::NotIt);
        (&old).write_all(b"ok").unwrap();
        let mut read = [0; 2];
        client.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"ok");
        let whose = look(fd).unwrap().cookie;
        assert_eq!(knife.cut(fd, whose, || true), Cut::Done);
        assert!(!matches!(client.read(&mut [0]), Ok(1)), "it goes on");
    }

    /// Leaves this process, which is a copy made for this, no free descriptor.
    fn use_up_all(most: i32) {
        let limit = libc::rlimit {
            rlim_cur: most as libc::rlim_t,
            rlim_max: most as libc::rlim_t,
        };
        // SAFETY: lowers a limit, and opens a file until that fails.
        unsafe {
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
            while libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY) >= 0 {}
        }
    }

    /// What becomes of a cut in a process that has no free descriptor.
    fn without_descriptors(knife: impl FnOnce() -> Knife) -> i32 {
        let (server, _client) = pair();
        let (fd, whose) = (server.as_raw_fd(), look(server.as_raw_fd()).unwrap().cookie);
        // SAFETY: the copy only makes system calls, and ends without a word.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let mut knife = knife();
                use_up_all(knife.own.max(fd) + 1);
                libc::_exit(match knife.cut(fd, whose, || true) {
                    Cut::Done => 1,
                    Cut::NotIt => 2,
                    Cut::NoDescriptor => 3,
                });
            }
            let mut status = 0;
            libc::waitpid(child, &mut status, 0);
            libc::WEXITSTATUS(status)
        }
    }

    #[test]
    fn a_cut_needs_no_descriptor_that_is_free() {
        assert_eq!(without_descriptors(Knife::new), 1);
        let none = || Knife { blank: -1, own: -1 };
        assert_eq!(without_descriptors(none), 3);
    }
}
