//! What a place says about the answers of its rules: dry run, status, headers, log; and
//! about slow clients.
//!
//! What is not said stays `None` until all places around have been asked; the
//! defaults apply here and nowhere else.

use super::slow::{MaxTime, MinRate};

/// A level of httpd's error log, by its number: 0 is `emerg`, 15 is `trace8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Severity(pub u8);

/// The settings of one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// `IPLimitDryRun`
    pub dry_run: Option<bool>,
    /// `IPLimitHeaders`
    pub headers: Option<bool>,
    /// `IPLimitRetryAfter`, in seconds, at least 1.
    pub retry_after: Option<u32>,
    /// The first number of `IPLimitErrorStatus`, 400..=599.
    pub concurrency_status: Option<u16>,
    /// The second number of `IPLimitErrorStatus`, 400..=599.
    pub rate_status: Option<u16>,
    /// `IPLimitLogLevel`
    pub log_level: Option<Severity>,
    /// `IPLimitMinRate`; `Some(None)` is `off`.
    pub min_rate: Option<Option<MinRate>>,
    /// `IPLimitMaxTime`; `Some(None)` is `off`.
    pub max_time: Option<Option<MaxTime>>,
}

/// The settings of a place within its server: merged only when they are needed, since
/// most requests need one or two of them.
#[derive(Clone, Copy, Debug)]
pub struct Within<'s> {
    /// What the place says.
    pub place: &'s Settings,
    /// What its server says.
    pub server: &'s Settings,
}

const NAMES: [&str; 16] = [
    "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug", "trace1", "trace2",
    "trace3", "trace4", "trace5", "trace6", "trace7", "trace8",
];

impl Severity {
    /// What refusals are logged at unless a place says otherwise.
    pub const WARN: Severity = Severity(4);

    /// The level with this name.
    pub(super) fn parse(word: &str) -> Option<Severity> {
        let at = NAMES
            .iter()
            .position(|name| word.eq_ignore_ascii_case(name))?;
        u8::try_from(at).ok().map(Severity)
    }
}

impl Settings {
    /// Nothing is said.
    pub const NONE: Settings = Settings {
        dry_run: None,
        headers: None,
        retry_after: None,
        concurrency_status: None,
        rate_status: None,
        log_level: None,
        min_rate: None,
        max_time: None,
    };

    /// These settings, and where they are silent those of the place around.
    #[must_use]
    pub fn or(self, around: Settings) -> Settings {
        Settings {
            dry_run: self.dry_run.or(around.dry_run),
            headers: self.headers.or(around.headers),
            retry_after: self.retry_after.or(around.retry_after),
            concurrency_status: self.concurrency_status.or(around.concurrency_status),
            rate_status: self.rate_status.or(around.rate_status),
            log_level: self.log_level.or(around.log_level),
            min_rate: self.min_rate.or(around.min_rate),
            max_time: self.max_time.or(around.max_time),
        }
    }

    /// Whether refusals are only marked.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run == Some(true)
    }

    /// Whether governed answers tell their limits.
    pub fn has_headers(&self) -> bool {
        self.headers == Some(true)
    }

    /// When a client that was refused for what it has in flight may try again, in
    /// seconds: a place can become free at any time.
    pub fn retry_after(&self) -> u32 {
        self.retry_after.unwrap_or(5)
    }

    /// The status of a refusal by a concurrency rule.
    pub fn concurrency_status(&self) -> u16 {
        self.concurrency_status.unwrap_or(503)
    }

    /// The status of a refusal by a rate rule.
    pub fn rate_status(&self) -> u16 {
        self.rate_status.unwrap_or(429)
    }

    /// The level of a refusal's line in the log.
    pub fn log_level(&self) -> Severity {
        self.log_level.unwrap_or(Severity::WARN)
    }

    /// What clients have to take, if there is any minimum.
    pub fn min_rate(&self) -> Option<MinRate> {
        self.min_rate.flatten()
    }

    /// The longest that a response may hold its place, if there is any such time.
    pub fn max_time(&self) -> Option<MaxTime> {
        self.max_time.flatten()
    }
}

impl Within<'_> {
    /// All of them.
    pub fn merged(&self) -> Settings {
        self.place.or(*self.server)
    }

    /// As [`Settings::is_dry_run`].
    #[inline]
    pub fn is_dry_run(&self) -> bool {
        self.place.dry_run.or(self.server.dry_run) == Some(true)
    }

    /// As [`Settings::has_headers`].
    #[inline]
    pub fn has_headers(&self) -> bool {
        self.place.headers.or(self.server.headers) == Some(true)
    }

    /// As [`Settings::min_rate`].
    #[inline]
    pub fn min_rate(&self) -> Option<MinRate> {
        self.place.min_rate.or(self.server.min_rate).flatten()
    }

    /// As [`Settings::max_time`].
    #[inline]
    pub fn max_time(&self) -> Option<MaxTime> {
        self.place.max_time.or(self.server.max_time).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_place_that_is_silent_takes_what_is_around() {
        let around = Settings {
            dry_run: Some(true),
            retry_after: Some(9),
            ..Settings::default()
        };
        let place = Settings {
            dry_run: Some(false),
            concurrency_status: Some(429),
            ..Settings::default()
        };
        let both = place.or(around);
        assert!(!both.is_dry_run());
        assert_eq!((both.retry_after(), both.concurrency_status()), (9, 429));
        assert_eq!(both.log_level(), Severity::WARN);
    }

    #[test]
    fn off_in_a_place_lifts_what_its_server_says() {
        let rate = MinRate {
            bytes: 1000,
            after: Duration::ZERO,
            window: Duration::from_secs(30),
            busy: Some(80),
        };
        let time = MaxTime {
            time: Duration::from_secs(600),
            busy: None,
        };
        let silent = Settings::default();
        let server = Settings {
            min_rate: Some(Some(rate)),
            max_time: Some(Some(time)),
            ..silent
        };
        let off = Settings {
            min_rate: Some(None),
            ..silent
        };
        for (place, server, min_rate, max_time) in [
            (silent, silent, None, None),
            (silent, server, Some(rate), Some(time)),
            (off, server, None, Some(time)),
            (server, off, Some(rate), Some(time)),
        ] {
            let within = Within {
                place: &place,
                server: &server,
            };
            assert_eq!((within.min_rate(), within.max_time()), (min_rate, max_time));
            let merged = within.merged();
            assert_eq!((merged.min_rate(), merged.max_time()), (min_rate, max_time));
        }
    }

    #[test]
    fn levels_are_known_by_httpds_names() {
        assert_eq!(Severity::parse("EMERG"), Some(Severity(0)));
        assert_eq!(Severity::parse("warn"), Some(Severity::WARN));
        assert_eq!(Severity::parse("trace8"), Some(Severity(15)));
        assert_eq!(Severity::parse("loud"), None);
    }
}
