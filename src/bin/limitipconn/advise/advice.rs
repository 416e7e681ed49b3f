//! Which of the candidates to begin with, and why.

use std::cmp::Reverse;

use mod_limitipconn::limit::network;
use mod_limitipconn::limit::rating::Limit;
use serde::Serialize;

use super::candidates::Candidates;
use super::findings::{Asker, Candidate, Input};
use super::text::{count, several, share};

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
        let is_sure = !input.is_coarse();
        lines.extend(advice.choose(&of_concurrency[wide..], input, is_sure));
        if wide > 0 && !lines.is_empty() {
            advice.why.push(format!(
                "Fewer than {BROWSER} is for single places, not for a whole site: a browser asks for {BROWSER} things at once."
            ));
        }
        let rate = advice.choose(of_buckets, input, true);
        lines.extend(rate.or_else(|| advice.choose(of_windows, input, true)));
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

    /// The narrowest of these that is harmless, or else the widest if it refuses hardly anybody
    /// and that is sure. Narrow is what refuses much, whatever its numbers look like.
    fn choose(&mut self, tried: &[Candidate], input: &Input, is_sure: bool) -> Option<String> {
        // Of equals, the first.
        let narrowest_first = |at: &usize| (Reverse(refuses(&tried[*at])), *at);
        let mut by_width: Vec<usize> = (0..tried.len()).collect();
        by_width.sort_by_key(narrowest_first);
        let harmless = by_width
            .iter()
            .position(|at| is_harmless(&tried[*at], input));
        let rank = harmless.or_else(|| {
            let widest = tried[*by_width.last()?].refused_clients;
            let is_few = widest == 1 && input.clients > 1
                || widest.saturating_mul(FEW_CLIENTS) <= input.clients;
            (is_few && is_sure).then(|| by_width.len() - 1)
        })?;
        let one = &tried[by_width[rank]];
        let would = match one.refused_requests {
            0 => "would have refused nobody".to_owned(),
            _ => format!(
                "would have refused {} of {} and {} of {}",
                count(one.refused_requests),
                several(input.requests, "request"),
                count(one.refused_clients),
                several(input.clients, "client")
            ),
        };
        let before = by_width[..rank].iter().map(|at| &tried[*at]);
        let narrower = match before.rev().find(|before| refuses(before) > refuses(one)) {
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
                " Is {client} one client, or many behind one address?{}",
                match network::parse(client) {
                    Some(_) => format!(" Such a one needs a number of its own: for={client}."),
                    // for= takes no names.
                    None => String::new(),
                }
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
        if input.requests_with_duration > 0 && input.is_coarse() {
            self.warnings.push(
                "The log has whole seconds only. How many requests are in flight at once is then the most \
                 that can have been, and may be many times too high: do not take a number for MaxConnPerIP \
                 from it without need. With %D and %{usec_frac}t in the LogFormat it is exact."
                    .to_owned(),
            );
        }
        if input.requests < FEW {
            self.warnings.push(format!(
                "{} requests are few to judge by: a day or a week of logs tells more.",
                count(input.requests)
            ));
        }
    }
}

/// The more, the narrower.
fn refuses(candidate: &Candidate) -> (u64, u64) {
    (candidate.refused_requests, candidate.refused_clients)
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

    /// Those of a list, each with how many requests it would have refused of five clients.
    fn chosen(rates: &str, hits: &str, refused: &[(&str, u64)]) -> Advice {
        let candidates = Candidates::parse("", rates, hits).unwrap();
        let lines = candidates.lines().into_iter();
        let tried: Vec<Candidate> = lines
            .map(|line| Candidate {
                refused_requests: refused.iter().find(|(of, _)| line.contains(of)).unwrap().1,
                refused_clients: 5,
                refused_client: None,
                line,
            })
            .collect();
        let input = Input {
            requests: 100_000,
            clients: 500,
            ..Input::default()
        };
        Advice::new(&candidates, &tried, &input, None)
    }

    #[test]
    fn narrow_is_what_refuses_much_whatever_the_numbers_look_like() {
        for (rates, hits, refused, advised, narrower) in [
            // Many in a minute is wider than few in an hour.
            (
                "",
                "1000/1min,300/1h,50/1d",
                &[("1000/min", 0), ("300/h", 40), ("50/d", 400)][..],
                "MaxHitsPerIP 300/h",
                "MaxHitsPerIP 50/d,",
            ),
            // A slow rate with a great burst, and a fast one with none.
            (
                "1/s burst=1000,5/s burst=5,2/s burst=20",
                "",
                &[("1/s", 10), ("5/s", 90), ("2/s", 500)],
                "MaxRatePerIP 5/s burst=5",
                "MaxRatePerIP 2/s burst=20,",
            ),
        ] {
            let advice = chosen(rates, hits, refused);
            assert_eq!(advice.configuration[1], advised, "{advice:?}");
            let next = format!("the next narrower, {narrower}");
            assert!(advice.why[0].contains(&next), "{advice:?}");
        }
    }

    #[test]
    fn whole_seconds_are_warned_about_and_no_client_is_blamed_by_them() {
        let candidates = Candidates::parse("10,20", "", "").unwrap();
        for (requests, lines) in [(100, 2), (9000, 0)] {
            let tried = candidates.lines().into_iter().map(|line| Candidate {
                line,
                refused_requests: requests,
                refused_clients: 1,
                refused_client: Some("192.0.2.9".into()),
            });
            let input = Input {
                requests: 100_000,
                requests_with_duration: 100_000,
                clients: 500,
                whole_seconds: true,
                ..Input::default()
            };
            let advice = Advice::new(&candidates, &tried.collect::<Vec<_>>(), &input, None);
            assert!(advice.warnings[0].contains("whole seconds"), "{advice:?}");
            assert_eq!(advice.configuration.len(), lines, "{advice:?}");
        }
    }

    #[test]
    fn only_an_address_is_given_a_number_of_its_own() {
        let candidates = Candidates::parse("10", "", "").unwrap();
        for (client, is_told) in [
            ("192.0.2.9", true),
            ("2001:db8::/64", true),
            ("crawler.example.org", false),
        ] {
            let tried = Candidate {
                line: candidates.lines().remove(0),
                refused_requests: 9000,
                refused_clients: 1,
                refused_client: Some(client.into()),
            };
            let input = Input {
                requests: 100_000,
                requests_with_duration: 100_000,
                clients: 500,
                ..Input::default()
            };
            let advice = Advice::new(&candidates, &[tried], &input, None);
            assert!(
                advice.why[0].contains(&format!("Is {client} one client")),
                "{advice:?}"
            );
            assert_eq!(advice.why[0].contains("for="), is_told, "{advice:?}");
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
