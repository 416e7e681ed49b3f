//! The lines about the counts that several servers share: that nobody answers, and that
//! somebody does again.

use std::fmt::{self, Display};
use std::time::Duration;

use super::message::Id;
use super::printable::on_one_line;
use crate::limit::fleet::Failure;

/// Nobody answers; its [`Display`] is the line of message 601.
#[derive(Clone, Copy, Debug)]
pub struct Down<'a> {
    /// The URL, without its password.
    pub server: &'a str,
    /// Why.
    pub failure: Failure,
    /// What was said.
    pub detail: &'a str,
    /// For how long already.
    pub since: Duration,
    /// What becomes of requests.
    pub consequence: &'a str,
}

/// Somebody answers again; its [`Display`] is the line of message 602.
#[derive(Clone, Copy, Debug)]
pub struct Up<'a> {
    /// The URL, without its password.
    pub server: &'a str,
    /// After which time.
    pub lasted: Duration,
}

/// How it is with the counts that servers share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Shared rules count over all servers.
    Within,
    /// They do not.
    Degraded {
        /// For so long.
        seconds: u64,
        /// Why.
        failure: Option<Failure>,
        /// What becomes of requests.
        consequence: &'static str,
    },
}

impl Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reach::Within => f.write_str("shared counts are within reach"),
            Reach::Degraded {
                seconds,
                failure,
                consequence,
            } => {
                let why = failure.map_or("unknown", Failure::word);
                write!(
                    f,
                    "shared counts are degraded for {seconds} s ({why}): {consequence}"
                )
            }
        }
    }
}

impl Display for Down<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: IPLimitRedis: {} {}",
            Id::RedisDown,
            self.server,
            self.failure.sentence()
        )?;
        if !self.detail.is_empty() {
            write!(f, " ({})", on_one_line(self.detail))?;
        }
        if self.since >= Duration::from_secs(1) {
            write!(f, ", for {} s already", self.since.as_secs())?;
        }
        write!(f, "; meanwhile {}", self.consequence)
    }
}

impl Display for Up<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: IPLimitRedis: {} answers again after {}.{} s; shared rules count over all servers",
            Id::RedisUp,
            self.server,
            self.lasted.as_secs(),
            self.lasted.subsec_millis() / 100
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_is_told_with_cause_and_consequence() {
        let down = Down {
            server: "redis://***@r:6379",
            failure: Failure::Hung,
            detail: "",
            since: Duration::ZERO,
            consequence: "shared rules limit nobody",
        };
        assert_eq!(
            down.to_string(),
            "limitipconn(601): IPLimitRedis: redis://***@r:6379 does not answer in time (is it overloaded or stopped?); \
             meanwhile shared rules limit nobody"
        );
        let down = Down {
            failure: Failure::Refused,
            detail: "ERR a\nb",
            since: Duration::from_millis(61_500),
            ..down
        };
        assert_eq!(
            down.to_string(),
            "limitipconn(601): IPLimitRedis: redis://***@r:6379 answers with an error (ERR a%0Ab), for 61 s already; \
             meanwhile shared rules limit nobody"
        );
    }

    #[test]
    fn reach_is_told_in_a_few_words() {
        assert_eq!(Reach::Within.to_string(), "shared counts are within reach");
        let degraded = Reach::Degraded {
            seconds: 12,
            failure: Some(Failure::Hung),
            consequence: "shared rules limit nobody",
        };
        assert_eq!(
            degraded.to_string(),
            "shared counts are degraded for 12 s (hung): shared rules limit nobody"
        );
    }

    #[test]
    fn end_of_an_outage_is_told_with_its_length() {
        let up = Up {
            server: "unix:///r",
            lasted: Duration::from_millis(1260),
        };
        assert_eq!(
            up.to_string(),
            "limitipconn(602): IPLimitRedis: unix:///r answers again after 1.2 s; shared rules count over all servers"
        );
    }
}
