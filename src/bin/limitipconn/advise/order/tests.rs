//! Order against sorting.

use proptest::prelude::*;

use super::super::clock::SECOND;
use super::*;

fn requests() -> impl Strategy<Value = Vec<Began>> {
    let request = (0i64..60 * SECOND, 0u64..20 * SECOND as u64, 0u32..5);
    let request = request.prop_map(|(at, duration, client)| Began {
        at,
        duration,
        client,
    });
    prop::collection::vec(request, 0..200)
}

/// As httpd writes them: by their ends.
fn by_end(mut requests: Vec<Began>) -> Vec<Began> {
    requests.sort_by_key(|request| request.at + request.duration as i64);
    requests
}

fn through(order: &mut Order, requests: &[Began]) -> Vec<Began> {
    let mut given = Vec::new();
    for request in requests {
        if order.take(*request) {
            order.give(|began| given.push(began));
        }
    }
    order.give_all(|began| given.push(began));
    given
}

#[test]
fn who_outlasts_the_window_is_late() {
    let request = |at, duration| Began {
        at,
        duration,
        client: 0,
    };
    // Four ended while the last one ran, and the window is of two.
    let lines: Vec<Began> = (1..=4)
        .map(|at| request(at * 10, 1))
        .chain([request(5, 100)])
        .collect();
    let mut order = Order::new(2);
    let given = through(&mut order, &lines);
    assert_eq!(order.late, 1);
    // It is taken to have begun with the last that was given out, and ends when it did.
    assert!(given.contains(&request(20, 85)), "{given:?}");
    assert!(given.is_sorted_by_key(|began| began.at));
    let mut wide = Order::new(100);
    assert_eq!(through(&mut wide, &lines)[0], request(5, 100));
    assert_eq!(wide.late, 0);
}

proptest! {
    #[test]
    fn a_window_that_is_long_enough_sorts(requests in requests(), window in 200usize..300) {
        let lines = by_end(requests);
        let given = through(&mut Order::new(window), &lines);
        let mut sorted = lines;
        sorted.sort_by_key(|request| request.at);
        prop_assert_eq!(given, sorted);
    }

    #[test]
    fn a_short_window_loses_nothing_and_stays_in_order(requests in requests(), window in 0usize..20) {
        let mut order = Order::new(window);
        let given = through(&mut order, &requests);
        prop_assert_eq!(given.len(), requests.len());
        prop_assert!(given.is_sorted_by_key(|began| began.at));
        let end = |began: &Began| began.at + began.duration as i64;
        let (mut ends, mut expected): (Vec<i64>, Vec<i64>) =
            (given.iter().map(end).collect(), requests.iter().map(end).collect());
        ends.sort();
        expected.sort();
        if order.late == 0 {
            prop_assert_eq!(ends, expected);
        }
    }
}
