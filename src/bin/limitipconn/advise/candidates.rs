//! The limits that are tried on a log, as the module decides them, and how they are written
//! in its configuration.

use mod_limitipconn::limit::gcra::Bucket;
use mod_limitipconn::limit::rate::Rate;
use mod_limitipconn::limit::rating::Limit;
use mod_limitipconn::limit::window::Window;

/// The most of one kind, since each client keeps state for each.
pub const MOST: usize = 8;

/// What is tried unless the user says.
pub const CONCURRENCY: &str = "3,5,10,20,50";
pub const RATES: &str = "1/s burst=10,2/s burst=20,5/s burst=50,10/s burst=100";
pub const HITS: &str = "100/5min,300/5min,1000/5min";

/// What is tried.
#[derive(Clone, Default, Debug)]
pub struct Candidates {
    /// `MaxConnPerIP ... count=requests`, upwards.
    pub concurrency: Vec<u16>,
    /// `MaxRatePerIP` and `MaxHitsPerIP`, upwards each.
    pub rates: Vec<Limit>,
}

impl Candidates {
    /// The candidates of three lists, separated by commas; each may be empty. The error is a
    /// sentence that begins with the option.
    pub fn parse(concurrency: &str, rates: &str, hits: &str) -> Result<Candidates, String> {
        let mut numbers = list("--concurrency", concurrency, |word| {
            let number = word.parse().ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("\"{word}\" is no number from 1 to 65535"))
        })?;
        numbers.sort_unstable();
        let mut buckets = list("--rate", rates, bucket)?;
        buckets.sort_by_key(|bucket| (bucket.rate.interval().wrapping_neg(), bucket.burst));
        let mut windows = list("--hits", hits, |word| {
            Rate::parse(word).map(|rate| Window {
                rate,
                freeze: None,
                extend: false,
            })
        })?;
        windows.sort_by_key(|window| (window.rate.interval().wrapping_neg(), window.rate.number));
        let buckets = buckets.into_iter().map(Limit::Bucket);
        Ok(Candidates {
            concurrency: numbers,
            rates: buckets
                .chain(windows.into_iter().map(Limit::Window))
                .collect(),
        })
    }

    pub fn len(&self) -> usize {
        self.concurrency.len() + self.rates.len()
    }

    /// All of them as they are written in a configuration, in the order of their numbers.
    pub fn lines(&self) -> Vec<String> {
        let concurrency = self.concurrency.iter();
        concurrency
            .map(|number| format!("MaxConnPerIP {number} count=requests"))
            .chain(self.rates.iter().map(line_of))
            .collect()
    }
}

fn line_of(limit: &Limit) -> String {
    match limit {
        Limit::Bucket(bucket) => format!("MaxRatePerIP {} burst={}", bucket.rate, bucket.burst),
        Limit::Window(window) => format!("MaxHitsPerIP {}", window.rate),
    }
}

fn list<T>(
    option: &str,
    text: &str,
    each: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let words = text
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty());
    let list = words
        .map(each)
        .collect::<Result<Vec<T>, String>>()
        .map_err(|why| format!("{option}: {why}"))?;
    match list.len() {
        ..=MOST => Ok(list),
        count => Err(format!("{option}: {count} candidates; use {MOST} at most")),
    }
}

/// `10/s burst=50`
fn bucket(word: &str) -> Result<Bucket, String> {
    let (rate, options) = word.split_once(' ').unwrap_or((word, ""));
    let rate = Rate::parse(rate)?;
    let burst = match options.trim() {
        "" => rate.number,
        option => option
            .split_once('=')
            .filter(|(name, _)| name.eq_ignore_ascii_case("burst"))
            .and_then(|(_, number)| number.parse().ok())
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("\"{option}\" is no burst; use for example {rate} burst=50"))?,
    };
    Bucket::new(rate, burst, None)
        .ok_or_else(|| format!("\"{word}\" takes too long to fill; use a smaller burst"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_written_as_in_a_configuration() {
        let candidates = Candidates::parse("10, 3", "5/s  Burst=50,1/s", "1000/5min,300/5min");
        assert_eq!(
            candidates.unwrap().lines(),
            [
                "MaxConnPerIP 3 count=requests",
                "MaxConnPerIP 10 count=requests",
                "MaxRatePerIP 1/s burst=1",
                "MaxRatePerIP 5/s burst=50",
                "MaxHitsPerIP 300/5min",
                "MaxHitsPerIP 1000/5min",
            ]
        );
        assert_eq!(Candidates::parse("", "", "").unwrap().len(), 0);
        assert_eq!(
            Candidates::parse(CONCURRENCY, RATES, HITS).unwrap().len(),
            12
        );
    }

    #[test]
    fn what_is_none_is_quoted_with_what_works() {
        for (lists, helps) in [
            (
                ["0", "", ""],
                "--concurrency: \"0\" is no number from 1 to 65535",
            ),
            (["70000", "", ""], "--concurrency: \"70000\""),
            (["3,x", "", ""], "\"x\" is no number"),
            (["1,2,3,4,5,6,7,8,9", "", ""], "9 candidates; use 8 at most"),
            (["", "10", ""], "--rate: \"10\" is no rate; use a number"),
            (
                ["", "10/s burs=5", ""],
                "\"burs=5\" is no burst; use for example 10/s burst=50",
            ),
            (["", "10/s burst=0", ""], "is no burst"),
            (["", "1/366d burst=1000000", ""], "takes too long to fill"),
            (["", "", "10/q"], "--hits: \"10/q\" has unknown unit"),
        ] {
            let error = Candidates::parse(lists[0], lists[1], lists[2]).unwrap_err();
            assert!(error.contains(helps), "{lists:?}: {error}");
        }
    }
}
