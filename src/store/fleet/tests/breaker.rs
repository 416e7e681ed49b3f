//! What all children of a server know: one goes down, one probes, one tells.

use super::*;

#[test]
fn first_fault_says_down_and_is_told_once_a_minute() {
    let breaker = breaker();
    let hung = fault(Failure::Hung, false);
    assert!(breaker.is_up());
    let now = 10 * SECOND;
    assert!(matches!(breaker.down(&hung, now), Some(Event::Down { .. })));
    assert!(!breaker.is_up());
    for seconds in [11, 40, 69] {
        let told = breaker.is_still_down(&hung, seconds * SECOND);
        assert!(told.is_none(), "{seconds}");
    }
    let Some(Event::Down { since, .. }) = breaker.is_still_down(&hung, 70 * SECOND) else {
        panic!("a minute later it is told again");
    };
    assert_eq!(since, Duration::from_secs(60));
    assert!(breaker.is_still_down(&hung, 71 * SECOND).is_none());
    let Some(Event::Up(lasted)) = breaker.up(75 * SECOND) else {
        panic!("the end of what was told is told");
    };
    assert_eq!(lasted, Duration::from_secs(65));
    assert!(breaker.is_up());
    // So soon again: a flapping server is no flood of lines.
    assert!(breaker.down(&hung, 76 * SECOND).is_none());
    assert!(breaker.up(77 * SECOND).is_none());
    let health = breaker.health(78 * SECOND).unwrap();
    assert_eq!((health.outages, health.down_for), (2, None));
    assert_eq!(health.failure, Some(Failure::Hung));
}

#[test]
fn one_of_all_children_probes_at_a_time_and_soon_enough() {
    let breaker = breaker();
    let takes = Duration::from_millis(70);
    let start = 10 * SECOND;
    let _ = breaker.down(&fault(Failure::Hung, false), start);
    assert!(!breaker.claims_probe(start, takes));
    let mut now = start + breaker.until_probe(start).as_nanos() as u64;
    assert!(now - start <= SECOND);
    assert!(breaker.claims_probe(now, takes));
    assert!(!breaker.claims_probe(now, takes), "another child");
    // However long it lasts, the pauses stay short, so that it heals soon after.
    for _ in 0..200 {
        let _ = breaker.is_still_down(&fault(Failure::Hung, false), now);
        let pause = breaker.until_probe(now).as_nanos() as u64;
        assert!((1..=2 * SECOND).contains(&pause), "{pause}");
        now += pause;
        assert!(breaker.claims_probe(now, takes));
    }
    // The one that probes may be killed: another takes over.
    let later = now + 2 * SECOND;
    assert!(breaker.claims_probe(later, takes));
}

#[test]
fn suspicion_stops_the_waiting_and_is_told_only_if_it_was_right() {
    let breaker = breaker();
    breaker.suspect(10 * SECOND);
    assert!(!breaker.is_up());
    assert!(breaker.up(11 * SECOND).is_none(), "nothing was told");
    breaker.suspect(20 * SECOND);
    let told = breaker.is_still_down(&fault(Failure::Hung, false), 21 * SECOND);
    assert!(matches!(told, Some(Event::Down { .. })));
}

#[test]
fn there_is_nothing_to_see_where_no_rule_is_shared() {
    let segment = segment();
    assert_eq!(segment.begin_breaker(None).health(SECOND), None);
    let health = segment.begin_breaker(Some(OnFailure::Closed));
    let health = health.health(2 * SECOND).unwrap();
    assert_eq!(
        (health.on_failure, health.down_for, health.failure),
        (OnFailure::Closed, None, None)
    );
}

/// After a reload that names another server the children before it still ask the old one.
#[test]
fn what_earlier_children_find_is_nothing_to_those_of_another_configuration() {
    let segment = segment();
    let before = segment.begin_breaker(Some(OnFailure::Local));
    let after = segment.begin_breaker(Some(OnFailure::Closed));
    let _ = before.down(&fault(Failure::Hung, false), SECOND);
    assert!(!before.is_up());
    assert!(after.is_up() && segment.breaker().is_up());
    let _ = after.down(&fault(Failure::Tls, false), 2 * SECOND);
    let _ = before.up(3 * SECOND);
    assert!(before.is_up());
    let health = segment.breaker().health(4 * SECOND).unwrap();
    assert_eq!(
        (health.down_for, health.failure),
        (Some(Duration::from_secs(2)), Some(Failure::Tls))
    );
}

/// A request that has waited in vain suspects it before the courier says what it met.
#[test]
fn end_of_an_outage_that_was_suspected_first_is_told() {
    let breaker = breaker();
    breaker.suspect(5);
    let fault = Fault {
        failure: Failure::Hung,
        detail: String::new(),
        was_closed: false,
    };
    assert!(breaker.down(&fault, 3).is_some(), "the outage is told");
    assert!(breaker.up(9).is_some(), "and its end");
}
