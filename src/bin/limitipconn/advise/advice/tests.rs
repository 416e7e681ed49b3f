//! What is advised, by what each candidate would have refused.

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

#[test]
fn requests_without_a_place_are_warned_about() {
    let candidates = Candidates::parse("10", "", "").unwrap();
    for (untracked, is_warned) in [(0, false), (1000, false), (1001, true)] {
        let input = Input {
            requests: 100_000,
            clients: 500,
            untracked_requests: untracked,
            ..Input::default()
        };
        let advice = Advice::new(&candidates, &[], &input, None);
        let warned = advice
            .warnings
            .iter()
            .any(|warning| warning.contains("--max-clients"));
        assert_eq!(warned, is_warned, "{advice:?}");
    }
}
