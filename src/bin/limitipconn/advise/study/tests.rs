//! Logs of a few clients against an oracle that counts by brute force.

use std::net::IpAddr;

use mod_limitipconn::limit::address::{Address, Prefix};
use mod_limitipconn::limit::key::Secret;
use mod_limitipconn::limit::rating::Limit;
use proptest::prelude::*;

use super::super::batch::Keys;
use super::super::findings::Percentiles;
use super::super::line::Line;
use super::super::weights::Weights;
use super::*;

/// Client, beginning and duration, in units of 100 ms.
type Visit = (u8, i64, u64);

const UNIT: i64 = SECOND / 10;
const START: i64 = 1_796_040_000 * SECOND;

fn keys() -> Keys {
    Keys {
        prefix: Prefix::default(),
        secret: Secret([1, 2]),
    }
}

fn batch(visits: &[Visit]) -> Batch {
    let mut batch = Batch::default();
    for (client, at, duration) in visits {
        let client = format!("192.0.2.{client}");
        let line = Line {
            client: client.as_bytes(),
            time: START + at * UNIT,
            duration: Some(duration * UNIT as u64),
            path: b"/p",
            ..Line::default()
        };
        batch.add(&line, &keys());
    }
    batch
}

fn studied(visits: &[Visit], candidates: &Candidates, bounds: Bounds) -> Study {
    studied_with(visits, candidates, bounds, 0)
}

fn studied_with(visits: &[Visit], candidates: &Candidates, bounds: Bounds, slack: i64) -> Study {
    let mut study = Study::new(candidates.clone(), bounds, slack);
    study.take(&batch(visits));
    study.catch_up();
    study
}

fn candidates() -> Candidates {
    Candidates::parse("1,2,3", "1/s burst=2,2/s burst=4", "5/3s,8/10s").unwrap()
}

/// In the order of their ends, and those that end together in the order of their beginnings.
fn by_end(mut visits: Vec<Visit>) -> Vec<Visit> {
    visits.sort_by_key(|(_, at, duration)| (at + *duration as i64, *at));
    visits
}

fn by_beginning(mut visits: Vec<Visit>) -> Vec<Visit> {
    visits.sort_by_key(|(_, at, _)| *at);
    visits
}

fn visits() -> impl Strategy<Value = Vec<Visit>> {
    prop::collection::vec((0u8..4, 0i64..150, 0u64..60), 1..120).prop_map(by_end)
}

/// How many of these are in flight in the tenth of a second that begins then.
fn in_flight(visits: &[Visit], client: Option<u8>, then: i64) -> u32 {
    let is_there = |(of, at, duration): &&Visit| {
        client.is_none_or(|client| client == *of) && *at <= then && then < at + *duration as i64
    };
    visits.iter().filter(is_there).count() as u32
}

/// How many requests a concurrency limit refuses, and of whom: each request in turn, against
/// all that were admitted before and are there.
fn refused_by_number(visits: &[Visit], number: usize) -> (u64, Vec<u8>) {
    let mut admitted: Vec<Visit> = Vec::new();
    let mut refused = Vec::new();
    for visit in by_beginning(visits.to_vec()) {
        let there = admitted.iter().filter(|(client, at, duration)| {
            *client == visit.0 && *at <= visit.1 && visit.1 < at + *duration as i64
        });
        match there.count() < number {
            true => admitted.push(visit),
            false => refused.push(visit.0),
        }
    }
    tell(refused)
}

/// Tokens in a bucket, counted as fractions; hits in a window, kept as a list.
fn refused_by_rate(visits: &[Visit], limit: &Limit) -> (u64, Vec<u8>) {
    let mut refused = Vec::new();
    for client in 0..4 {
        let of_client = |visit: &&Visit| visit.0 == client;
        let ordered = by_beginning(visits.to_vec());
        let (mut tokens, mut last) = (None::<i128>, 0);
        let mut window: Option<(i64, u32)> = None;
        for (_, at, _) in ordered.iter().filter(of_client) {
            let passes = match limit {
                Limit::Bucket(bucket) => {
                    // A token is as many parts as the period has tenths of a second.
                    let token = bucket.rate.period.as_millis() as i128 / 100;
                    let full = token * i128::from(bucket.burst);
                    let grown = i128::from(bucket.rate.number) * i128::from(at - last);
                    let there = tokens.map_or(full, |tokens| (tokens + grown).min(full));
                    last = *at;
                    tokens = Some(if there >= token { there - token } else { there });
                    there >= token
                }
                Limit::Window(of) => {
                    let period = of.rate.period.as_millis() as i64 / 100;
                    let (end, count) = window
                        .filter(|(end, _)| *end > *at)
                        .unwrap_or((at + period, 0));
                    let passes = count < of.rate.number;
                    window = Some((end, count + u32::from(passes)));
                    passes
                }
            };
            if !passes {
                refused.push(client);
            }
        }
    }
    tell(refused)
}

fn tell(mut refused: Vec<u8>) -> (u64, Vec<u8>) {
    let count = refused.len() as u64;
    refused.sort();
    refused.dedup();
    (count, refused)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_study_says_what_the_oracle_says(visits in visits()) {
        let candidates = candidates();
        let study = studied(&visits, &candidates, Bounds::default());
        let (mut server, mut busiest) = (Weights::default(), Weights::default());
        for then in 0..250 {
            let all = in_flight(&visits, None, then);
            if all > 0 {
                server.add(all, 1);
                busiest.add((0..4).map(|client| in_flight(&visits, Some(client), then)).max().unwrap(), 1);
            }
        }
        prop_assert_eq!(study.simulation.server.total(), server.total() * UNIT as u64);
        prop_assert_eq!(Percentiles::from(&study.simulation.server), Percentiles::from(&server));
        prop_assert_eq!(Percentiles::from(&study.simulation.busiest_client), Percentiles::from(&busiest));
        let mut expected = Vec::new();
        for number in [1, 2, 3] {
            expected.push(refused_by_number(&visits, number));
        }
        expected.extend(candidates.rates.iter().map(|limit| refused_by_rate(&visits, limit)));
        for (bit, (requests, clients)) in expected.iter().enumerate() {
            prop_assert_eq!(study.simulation.refused[bit], *requests, "{}", &candidates.lines()[bit]);
            let refused = study.clients.known().filter(|(_, client)| client.refused >> bit & 1 == 1);
            let mut refused: Vec<String> = refused.map(|(_, client)| client.key.to_string()).collect();
            refused.sort();
            let clients: Vec<String> = clients.iter().map(|client| format!("192.0.2.{client}")).collect();
            prop_assert_eq!(refused, clients);
        }
        for (_, client) in study.clients.known() {
            let name = |of: &u8| Address::from(format!("192.0.2.{of}").parse::<IpAddr>().unwrap());
            let of = (0..4).find(|of| name(of) == client.key).unwrap();
            let own: Vec<&Visit> = visits.iter().filter(|visit| visit.0 == of).collect();
            prop_assert_eq!(client.requests, own.len() as u64);
            prop_assert_eq!(client.held, own.iter().map(|visit| visit.2 * UNIT as u64).sum::<u64>());
            prop_assert_eq!(client.longest, own.iter().map(|visit| visit.2 * UNIT as u64).max().unwrap());
            prop_assert_eq!(client.active, 0);
            // One that takes no time is there when it comes, and gone before the next.
            let ordered = by_beginning(own.iter().map(|visit| **visit).collect());
            let peak = (0..ordered.len()).map(|nth| {
                let (_, then, _) = ordered[nth];
                in_flight(&ordered[..nth], None, then) + 1
            });
            prop_assert_eq!(Some(client.peak), peak.max());
        }
    }

    /// A log of whole seconds never makes a number look harmless that is not.
    #[test]
    fn whole_seconds_are_taken_at_their_worst(visits in visits(), has_whole_durations: bool) {
        let cut: Vec<Visit> = visits.iter().map(|(client, at, duration)| match has_whole_durations {
            true => (*client, at / 10 * 10, duration / 10 * 10),
            false => (*client, at / 10 * 10, *duration),
        }).collect();
        let slack = SECOND * (1 + i64::from(has_whole_durations));
        let (exact, coarse) = (
            studied(&visits, &candidates(), Bounds::default()),
            studied_with(&by_end(cut), &candidates(), Bounds::default(), slack),
        );
        for number in 0..3 {
            let [true_, said] = [&exact, &coarse].map(|study| study.simulation.refused[number]);
            prop_assert!(said > 0 || true_ == 0, "{} {}", true_, said);
        }
        prop_assert!(coarse.simulation.server.most() >= exact.simulation.server.most());
        let peak = |study: &Study, key| study.clients.known().find(|(_, client)| client.key == key).unwrap().1.peak;
        for (_, client) in exact.clients.known() {
            prop_assert!(peak(&coarse, client.key) >= client.peak);
        }
    }

    /// Clients that retire take nothing with them that decides.
    #[test]
    fn a_small_table_refuses_as_a_great_one_does(
        bursts in prop::collection::vec((0u8..8, prop::collection::vec((0i64..30, 0u64..60), 1..12)), 8..40),
    ) {
        // Between bursts, each of one client, all windows run out and all buckets fill.
        let mut visits = Vec::new();
        for (nth, (client, burst)) in (0..).zip(&bursts) {
            let burst = burst.iter().map(|(at, duration)| (*client, nth * 300 + at, *duration));
            visits.extend(by_end(burst.collect()));
        }
        let [small, great] = [3, 1000].map(|clients| {
            studied(&visits, &candidates(), Bounds { clients, window: 1 })
        });
        prop_assert_eq!(great.clients.retired.clients, 0);
        prop_assert_eq!(small.clients.untracked + great.clients.untracked, 0);
        let different = great.clients.known().count() as u64;
        let known = small.clients.known().count() as u64;
        prop_assert!(known <= 3 && small.clients.retired.clients >= different - known);
        prop_assert_eq!(&small.simulation.refused, &great.simulation.refused);
        prop_assert_eq!(small.requests, great.requests);
        prop_assert_eq!(small.held, great.held);
    }
}

#[test]
fn without_durations_who_has_asked_least_retires_first() {
    // The first asks thirty times, all others once.
    let visits: Vec<Visit> = (0..30)
        .map(|nth| (0, nth, 0))
        .chain((1..60).map(|client| (client, i64::from(client) * 400, 0)))
        .collect();
    let mut batch = Batch::default();
    for (client, at, _) in &visits {
        let client = format!("192.0.2.{client}");
        let time = START + at * UNIT;
        batch.add(
            &Line {
                client: client.as_bytes(),
                time,
                ..Line::default()
            },
            &keys(),
        );
    }
    let mut study = Study::new(
        candidates(),
        Bounds {
            clients: 8,
            window: 1,
        },
        0,
    );
    study.take(&batch);
    study.catch_up();
    let most = study
        .clients
        .known()
        .max_by_key(|(_, client)| client.requests);
    let most = most.map(|(_, client)| (client.key.to_string(), client.requests));
    assert_eq!(most, Some(("192.0.2.0".to_owned(), 30)));
    assert!(study.clients.retired.clients >= 52);
}

#[test]
fn who_has_held_least_retires_first() {
    let candidates = candidates();
    // One after the other, so that all are at rest; the first has held longest.
    let visits: Vec<Visit> = (0..40)
        .map(|client| {
            (
                client,
                i64::from(client) * 400,
                if client == 0 { 300 } else { 1 },
            )
        })
        .collect();
    let bounds = Bounds {
        clients: 8,
        window: 1,
    };
    let study = studied(&visits, &candidates, bounds);
    assert_eq!(study.clients.untracked, 0);
    let known: Vec<String> = study
        .clients
        .known()
        .map(|(_, client)| client.key.to_string())
        .collect();
    assert!(
        known.len() <= 8 && known.contains(&"192.0.2.0".to_owned()),
        "{known:?}"
    );
    assert_eq!(study.clients.retired.clients + known.len() as u64, 40);
}

#[test]
fn the_window_narrows_rather_than_that_clients_find_no_place() {
    // With the window that was asked for, all would wait in it to the end.
    let candidates = candidates();
    let visits: Vec<Visit> = (0..250).map(|nth| (nth, i64::from(nth) * 100, 1)).collect();
    let bounds = Bounds {
        clients: 40,
        ..Bounds::default()
    };
    let study = studied(&visits, &candidates, bounds);
    assert_eq!((study.clients.untracked, study.late()), (0, 0));
    assert!(study.clients.retired.clients >= 210);
}

#[test]
fn a_log_that_goes_back_is_another_log() {
    let candidates = candidates();
    let day: Vec<Visit> = (0..10).map(|nth| (1, nth * 2, 1)).collect();
    let later: Vec<Visit> = day
        .iter()
        .map(|(client, at, duration)| (*client, at + 864_000, *duration))
        .collect();
    let newest_first: Vec<Visit> = later.iter().chain(&day).copied().collect();
    let oldest_first: Vec<Visit> = day.iter().chain(&later).copied().collect();
    let (back, forth) = (
        studied(&newest_first, &candidates, Bounds::default()),
        studied(&oldest_first, &candidates, Bounds::default()),
    );
    assert_eq!((back.jumps, forth.jumps), (1, 0));
    assert_eq!(back.simulation.refused, forth.simulation.refused);
    assert_eq!(back.span, forth.span);
}

#[test]
fn a_line_without_duration_may_be_hours_late() {
    // Written when a request of two hours has ended, which the log does not tell.
    let mut batch = Batch::default();
    for at in [0, 7200, 1, 7201, 2, 7202] {
        let time = START + at * SECOND;
        batch.add(
            &Line {
                client: b"192.0.2.1",
                time,
                ..Line::default()
            },
            &keys(),
        );
    }
    let candidates = Candidates::parse("", "", "2/3s").unwrap();
    let mut study = Study::new(candidates, Bounds::default(), 0);
    study.take(&batch);
    study.catch_up();
    // Three within three seconds, twice.
    assert_eq!((study.jumps, &study.simulation.refused[..]), (0, &[2][..]));
}

#[test]
fn the_rates_clock_begins_anew_after_a_gap_that_no_rate_outlasts() {
    let candidates = Candidates::parse("", "", "1/366d").unwrap();
    for (days, refused, beginnings) in [(365, 1, 1), (399, 0, 1), (401, 0, 2)] {
        let visits = [(1, 0, 1), (1, days * 864_000, 1)];
        let study = studied(&visits, &candidates, Bounds::default());
        assert_eq!(study.simulation.refused, [refused], "{days}");
        assert_eq!(study.simulation.clock().1, beginnings, "{days}");
    }
}

#[test]
fn a_gap_of_centuries_is_bridged() {
    let candidates = candidates();
    let far = 2_000_000_000_000;
    let visits: Vec<Visit> = (0..6)
        .map(|nth| (1, nth, 1))
        .chain((0..6).map(|nth| (1, far / 100 + nth, 1)))
        .collect();
    let study = studied(&visits, &candidates, Bounds::default());
    // 1/s burst=2: four of six, twice.
    assert_eq!(study.simulation.refused[3], 8);
}
