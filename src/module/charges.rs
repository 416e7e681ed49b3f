//! What a request was charged at rates, so that a later refusal of ours takes it back; and
//! what it may yet be charged, once its status is known (`on=`).

use super::running::Running;
use super::zones::Key;
use crate::httpd::pool::{List, Pool};
use crate::limit::key::{CountId, Digest};
use crate::limit::rating::{Limit, Statuses};
use crate::store::Name;
use crate::store::fleet::{Order, Step};

/// How a key was charged.
#[derive(Clone, Copy)]
pub struct Charged {
    /// The state that it made.
    pub state: u64,
    /// When, by the clock of rates.
    pub at: u64,
    /// Whether that was in a count of several servers, and by their clock.
    pub is_away: bool,
}

/// A token that was taken, or a hit that was counted.
#[derive(Clone, Copy)]
struct Charge {
    /// Of the key within its count.
    digest: Digest,
    limit: Limit,
    charged: Charged,
    /// Whether it stays whatever comes: the work was done.
    is_settled: bool,
    /// Whether it stays when a dry run marks the request.
    outlives_mark: bool,
}

/// A charge that waits for the status of the answer.
#[derive(Clone, Copy)]
struct Late<'r> {
    /// As in [`Charge`].
    is_settled: bool,
    /// As in [`Charge`].
    outlives_mark: bool,
    key: Key<'r>,
    count: CountId,
    limit: Limit,
    on: Statuses,
    /// Its name in the counts of several servers, where it is charged there too.
    away: Option<Digest>,
}

/// The charges of one client request.
pub struct Charges<'r> {
    pool: Pool<'r>,
    taken: List<'r, Charge, 2>,
    late: List<'r, Late<'r>, 1>,
}

impl<'r> Charges<'r> {
    /// None yet.
    pub fn new(pool: Pool<'r>) -> Charges<'r> {
        Charges {
            pool,
            taken: List::new(pool),
            late: List::new(pool),
        }
    }

    /// Whether this key was charged: one request is one token of a bucket, however many
    /// rules share it.
    pub fn has(&self, digest: Digest) -> bool {
        self.taken.iter().any(|charge| charge.digest == digest)
    }

    /// Notes that the key was charged.
    pub fn note(&self, digest: Digest, limit: Limit, charged: Charged, outlives_mark: bool) {
        self.taken.push(Charge {
            digest,
            limit,
            charged,
            is_settled: false,
            outlives_mark,
        });
    }

    /// What was charged so far stays: a handler begins its work, or has failed. Whoever is
    /// refused at an error page, or where a script has sent him, has had it.
    pub fn settle(&self) {
        while let Some(charge) = self.taken.take(|charge| !charge.is_settled) {
            self.taken.push(Charge {
                is_settled: true,
                ..charge
            });
        }
        while let Some(late) = self.late.take(|late| !late.is_settled) {
            self.late.push(Late {
                is_settled: true,
                ..late
            });
        }
    }

    /// Takes charges back: a refused request costs nothing.
    pub fn refund(&self, running: Running) {
        self.take_back(running, |_| true);
    }

    /// Takes back what a dry run's own rules have charged for a request that it marks.
    pub fn refund_marked(&self, running: Running) {
        self.take_back(running, |outlives_mark| !outlives_mark);
    }

    /// Takes back what is not settled and goes, by whether it outlives a mark.
    fn take_back(&self, running: Running, goes: impl Fn(bool) -> bool) {
        let is_taken = |charge: &Charge| !charge.is_settled && goes(charge.outlives_mark);
        while let Some(charge) = self.taken.take(is_taken) {
            refund(running, charge);
        }
        let is_late = |late: &Late<'_>| !late.is_settled && goes(late.outlives_mark);
        while self.late.take(is_late).is_some() {}
    }

    /// Notes that the key is to be charged if the answer has one of these statuses; and in the
    /// count of several servers, where it has the name `away` there.
    pub fn await_status(
        &self,
        (key, away): (Key<'_>, Option<Digest>),
        count: CountId,
        limit: Limit,
        on: Statuses,
        outlives_mark: bool,
    ) {
        let digest = key.digest.within(count);
        let is_known = |late: Late<'_>| late.key.digest.within(late.count) == digest;
        if self.late.iter().any(is_known) {
            return;
        }
        // A subrequest's pool is gone by then.
        let name = match key.name {
            Name::Text(text) => Name::Text(self.pool.slice(text.iter().copied())),
            Name::Client(address) => Name::Client(address),
            Name::Network(address, bits) => Name::Network(address, bits),
            Name::Hidden(digest) => Name::Hidden(digest),
        };
        self.late.push(Late {
            is_settled: false,
            outlives_mark,
            key: Key {
                digest: key.digest,
                name,
            },
            count,
            limit,
            on,
            away,
        });
    }

    /// Whether some charge waits for the status.
    pub fn awaits_status(&self) -> bool {
        self.late.iter().next().is_some()
    }

    /// The status of the answer is known. `seen` is when the request began.
    pub fn has_status(&self, running: Running, seen: u32, status: u16) {
        while let Some(late) = self.late.take(|late| late.on.contains(status)) {
            charge(running, late, seen);
        }
        // Those that wait for a slow client go on waiting.
        while self.late.take(|late| !late.on.contains_slow()).is_some() {}
    }

    /// The answer was cut because of a slow client.
    pub fn was_slow(&self, running: Running, seen: u32) {
        while let Some(late) = self.late.take(|late| late.on.contains_slow()) {
            charge(running, late, seen);
        }
    }
}

fn charge(running: Running, late: Late<'_>, seen: u32) {
    let now = running.nanos();
    let key = late.key.within(late.count);
    running
        .child
        .holder
        .change_rate(&key, seen, |word| (Some(late.limit.charge(word, now)), ()));
    if let Some(key) = late.away {
        tell_away(running, key, late.limit, Step::Charge);
    }
}

/// Tells the counts of several servers without waiting for them.
fn tell_away(running: Running, key: Digest, limit: Limit, step: Step) {
    if let Some(fleet) = running.child.fleet {
        let order = Order::Rate { key, limit, step };
        fleet.tell(order, || !running.child.is_interrupted());
    }
}

fn refund(running: Running, charge: Charge) {
    let Charge { digest, limit, .. } = charge;
    let Charged { state, at, is_away } = charge.charged;
    if is_away {
        let step = Step::Refund { charged: state, at };
        return tell_away(running, digest, limit, step);
    }
    let now = running.nanos();
    running
        .child
        .holder
        .change_known_rate(digest, |word| limit.refund(word, now, state, at));
}
