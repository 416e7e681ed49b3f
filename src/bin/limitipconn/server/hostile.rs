//! Shared memory in which somebody has written anything: a worker of httpd that was taken over
//! can. What is shown is then nonsense, but nothing panics, and nothing moves a cursor.

use std::fs::File;
use std::os::unix::fs::FileExt;

use mod_limitipconn::gauge::{ByHand, Everybody, Scene, Worker, snapshot, top};
use mod_limitipconn::report::json::json;
use mod_limitipconn::store::{Segment, Size};

use super::{About, Process, Server};
use crate::text::shown;
use crate::{check, clock, show, top::view};

/// Magic, layout, length and sizes: what is checked when it is opened.
const CHECKED: usize = 40;

/// Numbers without an order, the same in each run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Mostly such that mean something.
    fn word(&mut self) -> u32 {
        const PLAIN: [u32; 12] = [
            0,
            0,
            0,
            1,
            1,
            2,
            3,
            8,
            0x0102_0304,
            0x1b1b_9bc2,
            1 << 31,
            u32::MAX,
        ];
        let at = self.next() as usize % (PLAIN.len() + 4);
        PLAIN.get(at).copied().unwrap_or(self.next() as u32)
    }
}

#[test]
fn hostile_memory_is_nonsense_and_no_panic() {
    let size = Size {
        keys: 64,
        leases: 64,
        slots: 16,
        rules: 16,
    };
    let segment = Segment::create(size).unwrap();
    let place = format!("/proc/self/fd/{}", segment.parts().fd);
    let file = File::options().write(true).open(place).unwrap();
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize - CHECKED];
    let process = Process(std::process::id());
    let mut server = Server {
        process,
        since: process.since(),
        segment,
        about: About::default(),
    };
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut looks = 0;
    for _ in 0..500 {
        for word in bytes.chunks_mut(4) {
            word.copy_from_slice(&numbers.word().to_le_bytes()[..word.len()]);
        }
        file.write_all_at(&bytes, CHECKED as u64).unwrap();
        let Some(about) = server.segment.about() else {
            continue;
        };
        looks += 1;
        server.about = about;
        let _ = server.look(top);
        let _ = check::rules::look(&mut server);
        let mut lines: Vec<String> = check::clients::look(&server)
            .iter()
            .map(|finding| finding.line())
            .collect();
        let workers: Vec<Worker> = (0..16)
            .map(|_| Worker::from_status(numbers.word() as u8))
            .collect();
        let scene = Scene {
            segment: &server.segment,
            workers: &workers,
            max_workers: server.about.max_workers,
            // So that some of the records count.
            generation: 1,
            prefix: server.about.prefix,
            has_rules: true,
            audience: &Everybody,
            httpd: &server.about.httpd,
            nanos: clock::nanos(),
            micros: clock::micros(),
        };
        lines.extend(view::lines(&top(&scene), 1, None));
        let all = snapshot(&scene);
        lines.extend(show::overview(&all, 1));
        lines.push(crate::text::json(&json(&all)));
        for key in ["127.0.0.1", "0.0.0.0/8", "digest:0000000000000001", "a"] {
            let by_hand = ByHand::new(
                &server.segment,
                &server.about,
                key.as_bytes(),
                clock::nanos(),
            );
            lines.extend(show::keys(&by_hand.rows()));
            lines.extend(show::keys(&by_hand.unfreeze()));
            lines.extend(show::keys(&by_hand.clear()));
        }
        for line in lines {
            assert_eq!(shown(&line), line);
        }
    }
    assert!(looks > 100, "only {looks} were whole");
}

#[test]
fn a_process_is_known_by_when_it_began() {
    let own = Process(std::process::id());
    assert!(own.since().is_some());
    assert_ne!(own.since(), Process(1).since());
    assert_eq!(Process(u32::MAX).since(), None);
}
