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

/// If more than one request of so many is in no limit's numbers, these are worth little.
const UNTRACKED: u64 = 100;

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
        if input.untracked_requests.saturating_mul(UNTRACKED) > input.requests {
            self.warnings.push(format!(
                "{} of the requests are of clients for whom there was no memory: no limit here knows of them. \
                 Give a greater --max-clients, or try no long times with --hits.",
                share(input.untracked_requests, input.requests)
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

/// The more, the narrower.
fn refuses(candidate: &Candidate) -> (u64, u64) {
    (candidate.refused_requests, candidate.refused_clients)
}

fn is_harmless(candidate: &Candidate, input: &Input) -> bool {
    candidate.refused_requests.saturating_mul(REQUESTS) <= input.requests
        && candidate.refused_clients.saturating_mul(CLIENTS) <= input.clients
}

#[cfg(test)]
#[path = "advice/tests.rs"]
mod tests;
