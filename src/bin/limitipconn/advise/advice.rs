//! Which of the candidates to begin with, and why.

use mod_limitipconn::limit::rating::Limit;
use serde::Serialize;

use super::candidates::Candidates;
use super::findings::{Asker, Candidate, Input};
use super::text::{count, share};

/// A candidate is harmless that refuses at most one request of so many, and at most one
/// client of so many.
const REQUESTS: u64 = 1000;
const CLIENTS: u64 = 100;

/// Browsers open so many connections at once, so that fewer refuse parts of ordinary pages.
const BROWSER: u16 = 6;

/// If one address makes so many of a hundred requests it is hardly one client.
const PROXY: u64 = 80;

/// The widest candidate is advised although it is not harmless, if it refuses but one client of
/// so many, or one alone: then it is that client that is out of the ordinary.
const FEW_CLIENTS: u64 = 1000;

/// With fewer requests there is not much to judge by.
const FEW: u64 = 1000;

/// What is recommended.
#[derive(Serialize, Debug, Default)]
pub struct Advice {
    /// Lines for httpd's configuration, outside sections; empty where there is no advice.
    pub configuration: Vec<String>,
    /// Why, in sentences.
    pub why: Vec<String>,
    /// What else should be looked at first, in sentences.
    pub warnings: Vec<String>,
}

impl Advice {
    pub fn new(
        candidates: &Candidates,
        tried: &[Candidate],
        input: &Input,
        asks_most: Option<&Asker>,
    ) -> Advice {
        let mut advice = Advice::default();
        if input.requests == 0 {
            return advice;
        }
        advice.warn(input, asks_most);
        let has_durations = input.requests_with_duration > 0;
        // Without durations these were not tried.
        let numbers = match has_durations {
            true => &candidates.concurrency[..],
            false => &[],
        };
        let (of_concurrency, of_rates) = tried.split_at(numbers.len());
        let wide = numbers.partition_point(|number| *number < BROWSER);
        let buckets = candidates
            .rates
            .iter()
            .take_while(|limit| matches!(limit, Limit::Bucket(_)))
            .count();
        let (of_buckets, of_windows) = of_rates.split_at(buckets);
        let mut lines = Vec::new();
        lines.extend(advice.choose(&of_concurrency[wide..], input));
        if wide > 0 && !lines.is_empty() {
            advice.why.push(format!(
                "Fewer than {BROWSER} is for single places, not for a whole site: a browser asks for {BROWSER} things at once."
            ));
        }
        let rate = advice.choose(of_buckets, input);
        lines.extend(rate.or_else(|| advice.choose(of_windows, input)));
        if lines.is_empty() {
            if !tried.is_empty() {
                advice.why.push(format!(
                    "None of these limits would have been harmless (at most 1 of {REQUESTS} requests and \
                     1 of {CLIENTS} clients refused): look at the clients above first, exempt those that \
                     are yours with IPLimitExempt, and try greater numbers with --concurrency and --rate."
                ));
            }
            return advice;
        }
        advice.configuration = vec!["IPLimitDryRun On".to_owned()];
        advice.configuration.extend(lines);
        advice
    }

    /// The narrowest of these that is harmless, or else the widest if it refuses hardly anybody;
    /// they are in order.
    fn choose(&mut self, tried: &[Candidate], input: &Input) -> Option<String> {
        let harmless = tried.iter().position(|one| is_harmless(one, input));
        let at = harmless.or_else(|| {
            let widest = tried.len().checked_sub(1)?;
            let refused = tried[widest].refused_clients;
            let is_few = refused == 1 && input.clients > 1
                || refused.saturating_mul(FEW_CLIENTS) <= input.clients;
            is_few.then_some(widest)
        })?;
        let one = &tried[at];
        let would = match one.refused_requests {
            0 => "would have refused nobody".to_owned(),
            _ => format!(
                "would have refused {} of {} requests and {} of {} clients",
                count(one.refused_requests),
                count(input.requests),
                count(one.refused_clients),
                count(input.clients)
            ),
        };
        let narrower = match at.checked_sub(1).map(|before| &tried[before]) {
            Some(before) => format!(
                "; the next narrower, {}, {} of the requests and {} of the clients",
                before.line,
                share(before.refused_requests, input.requests),
                share(before.refused_clients, input.clients)
            ),
            None => String::new(),
        };
        let question = match (&one.refused_client, harmless) {
            (Some(client), None) => format!(
                " Is {client} one client, or many behind one address? Such a one needs a number of its own: for={client}."
            ),
            _ => String::new(),
        };
        self.why
            .push(format!("{} {would}{narrower}.{question}", one.line));
        Some(one.line.clone())
    }

    fn warn(&mut self, input: &Input, asks_most: Option<&Asker>) {
        if let Some(asker) = asks_most
            && input.requests >= FEW
            && asker.requests * 100 >= input.requests * PROXY
        {
            self.warnings.push(format!(
                "{} makes {} of all requests. If that is a proxy or load balancer, limits would meet \
                 everybody behind it: first read \"Behind a proxy\" in the manual.",
                asker.client,
                share(asker.requests, input.requests)
            ));
        }
        if input.requests < FEW {
            self.warnings.push(format!(
                "{} requests are few to judge by: a day or a week of logs tells more.",
                count(input.requests)
            ));
        }
    }
}

fn is_harmless(candidate: &Candidate, input: &Input) -> bool {
    candidate.refused_requests.saturating_mul(REQUESTS) <= input.requests
        && candidate.refused_clients.saturating_mul(CLIENTS) <= input.clients
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The advice where each candidate would have refused so many requests of so many clients,
    /// of 100,000 requests of `clients` clients.
    fn advice(clients: u64, refused: &[(u64, u64)]) -> Advice {
        let candidates = Candidates::parse("3,10,20", "1/s burst=10,5/s burst=50", "").unwrap();
        let lines = candidates.lines().into_iter();
        let tried: Vec<Candidate> = lines
            .zip(refused)
            .map(|(line, (requests, clients))| Candidate {
                line,
                refused_requests: *requests,
                refused_clients: *clients,
                refused_client: (*clients > 0).then(|| "192.0.2.9".to_owned()),
            })
            .collect();
        let input = Input {
            requests: 100_000,
            requests_with_duration: 100_000,
            clients,
            ..Input::default()
        };
        Advice::new(&candidates, &tried, &input, None)
    }

    #[test]
    fn the_narrowest_harmless_number_is_advised_or_the_widest_that_meets_one() {
        let none = (0, 0);
        for (clients, refused, advised) in [
            // 3 is for single places.
            (
                500,
                [none; 5],
                &[
                    "MaxConnPerIP 10 count=requests",
                    "MaxRatePerIP 1/s burst=10",
                ][..],
            ),
            // One in 1000 requests and one in 100 clients, and one more.
            (
                500,
                [(500, 50), (100, 5), none, (101, 5), none],
                &[
                    "MaxConnPerIP 10 count=requests",
                    "MaxRatePerIP 5/s burst=50",
                ],
            ),
            (
                500,
                [(500, 50), (100, 6), none, (9000, 90), none],
                &[
                    "MaxConnPerIP 20 count=requests",
                    "MaxRatePerIP 5/s burst=50",
                ],
            ),
            // One client alone makes so many requests.
            (
                500,
                [
                    (30_000, 9),
                    (20_000, 1),
                    (10_000, 1),
                    (50_000, 9),
                    (40_000, 2),
                ],
                &["MaxConnPerIP 20 count=requests"],
            ),
            // Two in 2000 clients.
            (
                2000,
                [
                    (30_000, 9),
                    (20_000, 2),
                    (10_000, 2),
                    (50_000, 9),
                    (40_000, 3),
                ],
                &["MaxConnPerIP 20 count=requests"],
            ),
            // The only one there is.
            (1, [(9000, 1); 5], &[]),
        ] {
            let advice = advice(clients, &refused);
            let lines: Vec<&str> = advice.configuration.iter().map(String::as_str).collect();
            match advised {
                [] => {
                    assert!(lines.is_empty(), "{refused:?}: {lines:?}");
                    assert!(advice.why[0].contains("None of these limits"), "{advice:?}");
                }
                _ => {
                    assert_eq!(lines[0], "IPLimitDryRun On");
                    assert_eq!(&lines[1..], advised, "{refused:?}");
                }
            }
        }
    }

    #[test]
    fn who_is_met_by_the_widest_is_asked_about() {
        let advice = advice(500, &[(9000, 1); 5]);
        let asked = advice
            .why
            .iter()
            .filter(|why| why.contains("for=192.0.2.9"));
        assert_eq!(asked.count(), 2, "{advice:?}");
    }
}
