//! What a worker does, as httpd's scoreboard says.

use crate::report::snapshot::Pool;

/// The status of a slot of the scoreboard. The numbers are httpd's: they have been the
/// same in all of 2.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Worker {
    /// There is none.
    Dead = 0,
    /// It comes up.
    Starting = 1,
    /// It waits for a connection.
    Ready = 2,
    /// It reads a request.
    Reading = 3,
    /// It makes or writes a response.
    Writing = 4,
    /// It waits for another request on its connection.
    KeepAlive = 5,
    /// It writes its access log.
    Logging = 6,
    /// It looks a name up.
    Dns = 7,
    /// It closes its connection.
    Closing = 8,
    /// It finishes what an earlier generation began.
    Finishing = 9,
    /// It goes away, since too many are idle.
    IdleCleanup = 10,
}

const ALL: [Worker; 11] = [
    Worker::Dead,
    Worker::Starting,
    Worker::Ready,
    Worker::Reading,
    Worker::Writing,
    Worker::KeepAlive,
    Worker::Logging,
    Worker::Dns,
    Worker::Closing,
    Worker::Finishing,
    Worker::IdleCleanup,
];

impl Worker {
    /// The status of this number; what no httpd has is nobody.
    pub fn from_status(status: u8) -> Worker {
        *ALL.get(usize::from(status)).unwrap_or(&Worker::Dead)
    }

    /// Whether it is busy the way mod_limitipconn 0.24 sees it: reading, writing, waiting in
    /// keep-alive, logging, looking up, closing or finishing.
    pub fn is_busy(self) -> bool {
        (Worker::Reading as u8..=Worker::Finishing as u8).contains(&(self as u8))
    }
}

/// How many workers do what.
pub fn pool(workers: &[Worker], max_workers: u32) -> Pool {
    let count = |wanted: Worker| workers.iter().filter(|worker| **worker == wanted).count() as u64;
    Pool {
        busy: workers.iter().filter(|worker| worker.is_busy()).count() as u64,
        idle: count(Worker::Ready),
        max_workers: max_workers.into(),
        starting: count(Worker::Starting),
        reading: count(Worker::Reading),
        writing: count(Worker::Writing),
        keepalive: count(Worker::KeepAlive),
        logging: count(Worker::Logging),
        dns: count(Worker::Dns),
        closing: count(Worker::Closing),
        gracefully_finishing: count(Worker::Finishing),
        idle_cleanup: count(Worker::IdleCleanup),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_is_in_one_number_and_busy_or_not() {
        let workers: Vec<Worker> = (0..=12).map(Worker::from_status).collect();
        assert_eq!(
            pool(&workers, 16),
            Pool {
                busy: 7,
                idle: 1,
                max_workers: 16,
                starting: 1,
                reading: 1,
                writing: 1,
                keepalive: 1,
                logging: 1,
                dns: 1,
                closing: 1,
                gracefully_finishing: 1,
                idle_cleanup: 1,
            }
        );
        assert_eq!(Worker::from_status(255), Worker::Dead);
    }
}
