//! Whether the client of a connection that many responses share (HTTP/2) takes it too slowly,
//! or one of them.
//!
//! Two things tell, and either can be silent for seconds while all is well: what went out,
//! which stands while the kernel still has a lot to send, and what the client's machine
//! acknowledged, which tells nothing of a client that withholds a window. So over each
//! window the larger of the two counts. Time counts while the client is waited for, whatever
//! keeps it back: whoever changes from one to the other wins nothing.

use super::{Progress, Sample, Taken};

/// What was taken by two measures, of which the larger counts.
#[derive(Clone, Copy, Debug, Default)]
struct Larger([Progress; 2]);

impl Larger {
    fn look(&mut self, sample: Sample, taken: [u64; 2], window: u64) -> Option<Taken> {
        let [one, other] = &mut self.0;
        let look =
            |progress: &mut Progress, taken| progress.look(Sample { taken, ..sample }, window);
        let (one, other) = (look(one, taken[0]), look(other, taken[1]));
        one.into_iter().chain(other).max_by_key(|taken| taken.bytes)
    }
}

/// One look at a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// When it was, in nanoseconds.
    pub now: u64,
    /// Bytes of bodies that went out.
    pub out: u64,
    /// Bytes that were acknowledged, but for what is of no body; less for a while after some
    /// of that went out.
    pub acknowledged: u64,
    /// Whether more is to be sent than the line or the client's machine takes.
    pub is_full: bool,
    /// For how long so far there was something for the client's machine, in nanoseconds.
    pub busy: u64,
    /// How many responses wait for the client.
    pub waiting: u32,
    /// For how long so far all of them did, in nanoseconds.
    pub all_waited: u64,
}

/// What is known of a connection.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    last: Option<Look>,
    acknowledged: u64,
    /// What each of the responses that waited has got of it while it was full.
    share: u64,
    waited: u64,
    larger: Larger,
}

impl Connection {
    /// Adds a look: what the client took over the last window, in nanoseconds, if it was
    /// waited for during the whole of it.
    pub fn look(&mut self, look: Look, window: u64) -> Option<Taken> {
        let acknowledged = self.acknowledged.max(look.acknowledged);
        if let Some(last) = self.last.replace(look) {
            let time = look.now.saturating_sub(last.now);
            let full = match last.is_full && look.is_full {
                true => look.busy.saturating_sub(last.busy),
                false => 0,
            };
            let all = look.all_waited.saturating_sub(last.all_waited);
            self.waited += all.max(full).min(time);
            if last.is_full {
                let new = acknowledged - self.acknowledged;
                self.share += new / u64::from(look.waiting.max(1));
            }
        }
        self.acknowledged = acknowledged;
        let sample = Sample {
            now: look.now,
            taken: 0,
            waiting: self.waited,
            waits: look.waiting > 0,
        };
        self.larger.look(sample, [acknowledged, look.out], window)
    }

    /// What each response that waited has got so far while the connection was full.
    pub fn share(&self) -> u64 {
        self.share
    }
}

/// What is known of a response that shares its connection.
#[derive(Clone, Debug, Default)]
pub struct Stream(Larger);

impl Stream {
    /// Adds a look, whose `taken` is what of its body went out: what its client took over the
    /// last window, if it was waited for during the whole of it. `share` is its connection's.
    pub fn look(&mut self, sample: Sample, share: u64, window: u64) -> Option<Taken> {
        self.0.look(sample, [sample.taken, share], window)
    }
}

#[cfg(test)]
mod tests;
