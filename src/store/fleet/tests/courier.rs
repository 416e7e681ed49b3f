//! Places and questions on their way, and what becomes of them when the other side falls silent.

use super::*;
use crate::limit::gcra::Bucket;
use crate::limit::rate::Rate;
use crate::limit::rating::Limit;
use crate::store::fleet::{Answer, Order, PlaceIndex, Step};

/// Asks from a thread of its own, as a request does, while the courier goes its rounds.
fn takes(
    fleet: &'static Fleet,
    courier: &mut Courier,
    limit: Option<u16>,
) -> (Answer, Option<PlaceIndex>) {
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| fleet.take(KEY, limit, LONG));
        while !asking.is_finished() {
            courier.round();
            std::thread::yield_now();
        }
        asking.join().unwrap()
    })
}

/// A step of a rate of one in a second.
fn rate(step: Step) -> Order {
    let rate = Rate {
        number: 1,
        period: Duration::from_secs(1),
    };
    Order::Rate {
        key: KEY,
        limit: Limit::Bucket(Bucket::new(rate, 1, None).unwrap()),
        step,
    }
}

fn later(time: u64) {
    NOW.set(NOW.get() + time);
}

#[test]
fn places_are_counted_over_children_and_given_back() {
    let (far, breaker) = (Far::default(), breaker());
    let (one, mut of_one) = child(&far, breaker);
    let (two, mut of_two) = child(&far, breaker);
    let (held, place) = takes(one, &mut of_one, Some(2));
    assert_eq!(held, Answer::Held(1));
    assert_eq!(takes(two, &mut of_two, Some(2)).0, Answer::Held(2));
    assert_eq!(takes(two, &mut of_two, Some(2)), (Answer::Full(2), None));
    one.release(place.unwrap());
    of_one.round();
    assert_eq!(far.held(KEY), 1);
    assert_eq!(takes(two, &mut of_two, Some(2)).0, Answer::Held(2));
    assert_eq!(far.with(|world| world.dials), 2, "one connection a child");
}

#[test]
fn rates_are_answered_with_their_state() {
    let far = Far::default();
    let (fleet, mut courier) = child(&far, breaker());
    let order = rate(Step::Decide);
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| fleet.rate(order, LONG));
        while !asking.is_finished() {
            courier.round();
        }
        asking.join().unwrap()
    });
    assert_eq!(answer, Answer::Rated { word: 7, now: 9 });
}

/// A server that was restarted has forgotten what is held: the next renewal puts it back.
#[test]
fn what_is_held_is_renewed_every_third_of_its_lease() {
    let far = Far::default();
    let (fleet, mut courier) = child(&far, breaker());
    let (_, place) = takes(fleet, &mut courier, None);
    // What a new connection is told at once.
    courier.round();
    let before = far.with(|world| world.renewed);
    far.with(|world| world.places.clear());
    courier.round();
    assert_eq!(far.held(KEY), 0);
    later(10 * SECOND);
    courier.round();
    assert_eq!(
        (far.held(KEY), far.with(|world| world.renewed)),
        (1, before + 1)
    );
    fleet.release(place.unwrap());
    courier.round();
    later(20 * SECOND);
    courier.round();
    assert_eq!(
        (far.held(KEY), far.with(|world| world.renewed)),
        (0, before + 1)
    );
}

/// What it did while its answers were lost is taken back, twice: it may do late what it was told.
#[test]
fn place_that_was_taken_without_an_answer_is_taken_back() {
    let (far, breaker) = (Far::default(), breaker());
    let (fleet, mut courier) = child(&far, breaker);
    far.is(Mood::Deaf);
    assert_eq!(takes(fleet, &mut courier, Some(3)), (Answer::Missed, None));
    assert!(!breaker.is_up());
    assert_eq!(far.held(KEY), 1);
    assert_eq!(far.told(), ["down hung 0"]);
    far.is(Mood::Well);
    later(2 * SECOND);
    courier.round();
    assert!(breaker.is_up());
    assert_eq!(far.held(KEY), 0);
    assert_eq!(far.told().len(), 1, "the end is told, too");
    // It had been told before, and does it now.
    far.with(|world| {
        let names: Vec<String> = (1..=3)
            .map(|n| format!("host:boot:{fleet:p}:{n}"))
            .collect();
        world.places.entry(KEY.tag).or_default().extend(names);
    });
    later(2 * SECOND);
    courier.round();
    assert!(far.held(KEY) < 3, "the late one is gone");
}

#[test]
fn nobody_waits_while_the_other_side_is_out_of_reach() {
    let (far, breaker) = (Far::default(), breaker());
    let (fleet, mut courier) = child(&far, breaker);
    far.is(Mood::Gone);
    assert_eq!(takes(fleet, &mut courier, Some(3)).0, Answer::Missed);
    let dials = far.with(|world| world.dials);
    for _ in 0..100 {
        // No round of the courier, and yet an answer.
        assert_eq!(fleet.take(KEY, Some(3), LONG), (Answer::Missed, None));
        courier.round();
    }
    assert_eq!(far.with(|world| world.dials), dials, "not before its time");
    far.is(Mood::Well);
    later(3 * SECOND);
    courier.round();
    assert_eq!(takes(fleet, &mut courier, Some(3)).0, Answer::Held(1));
}

#[test]
fn connection_that_ended_idle_costs_nobody_his_answer() {
    let (far, breaker) = (Far::default(), breaker());
    let (fleet, mut courier) = child(&far, breaker);
    assert_eq!(takes(fleet, &mut courier, Some(3)).0, Answer::Held(1));
    far.is(Mood::Closed);
    assert_eq!(takes(fleet, &mut courier, Some(3)).0, Answer::Held(2));
    assert!(breaker.is_up());
    assert!(far.told().is_empty());
}

/// A courier that is held up, in a look-up of a name for example, costs one wait and not one each.
#[test]
fn courier_that_does_not_come_is_waited_for_once() {
    let (far, breaker) = (Far::default(), breaker());
    let (fleet, mut courier) = child(&far, breaker);
    let longest = fleet.longest_wait();
    assert_eq!(fleet.take(KEY, Some(3), longest).0, Answer::Missed);
    assert!(!breaker.is_up());
    assert_eq!(fleet.take(KEY, Some(3), LONG).0, Answer::Missed);
    later(3 * SECOND);
    courier.round();
    assert!(breaker.is_up());
    assert_eq!(far.held(KEY), 0, "nobody wants it any more");
    // Whoever has little time left says nothing about the courier.
    assert_eq!(
        fleet.take(KEY, Some(3), Duration::from_millis(1)).0,
        Answer::Missed
    );
    assert!(breaker.is_up());
}

#[test]
fn place_is_taken_back_from_a_request_that_has_gone() {
    let far = Far::default();
    let (fleet, mut courier) = child(&far, breaker());
    assert_eq!(
        fleet.take(KEY, Some(3), Duration::from_millis(1)).0,
        Answer::Missed
    );
    for _ in 0..3 {
        courier.round();
    }
    assert_eq!(far.held(KEY), 0);
    // And the child has all of its places still.
    for number in 1..=64 {
        assert_eq!(takes(fleet, &mut courier, None).0, Answer::Held(number));
    }
    assert_eq!(fleet.take(KEY, None, LONG).0, Answer::Missed);
}

#[test]
fn child_that_ends_gives_everything_back() {
    let far = Far::default();
    let (fleet, mut courier) = child(&far, breaker());
    for _ in 0..5 {
        takes(fleet, &mut courier, None);
    }
    let works = std::thread::spawn(move || courier.run());
    fleet.close(LONG);
    works.join().unwrap();
    assert_eq!(far.held(KEY), 0);
}

/// A signal ends prefork's child while it waits for an answer.
#[test]
fn place_that_is_asked_for_at_the_end_is_given_back_too() {
    let far = Far::default();
    let (fleet, courier) = child(&far, breaker());
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| fleet.take(KEY, None, LONG));
        while fleet.inbox.is_empty() {
            std::thread::yield_now();
        }
        fleet.close(Duration::ZERO);
        courier.run();
        asking.join().unwrap().0
    });
    assert_eq!((answer, far.held(KEY)), (Answer::Held(1), 0));
}

/// What nobody waits for is not lost because somebody else is at the queue just then.
#[test]
fn tidings_wait_for_the_queue_but_not_in_a_signal_handler() {
    let breaker = breaker();
    let (fleet, mut courier) = child(&Far::default(), breaker);
    let order = rate(Step::Charge);
    let uncounted = || breaker.health(0).unwrap().uncounted;
    let (begins, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let queue = fleet.inbox.lock();
        fleet.tell(order, || false);
        assert_eq!(uncounted(), 1);
        scope.spawn(move || {
            fleet.tell(order, || begins.send(()).is_ok());
        });
        begun.recv().unwrap();
        drop(queue);
    });
    assert_eq!(uncounted(), 1);
    assert!(!fleet.inbox.is_empty());
    courier.round();
    assert!(fleet.inbox.is_empty());
}

/// The child that found it out of reach has ended, and nobody else's courier knows.
#[test]
fn request_wakes_a_courier_that_sleeps_over_a_probe() {
    let (far, breaker) = (Far::default(), breaker());
    let (fleet, courier) = child(&far, breaker);
    let works = std::thread::spawn(move || courier.run());
    let (_, place) = fleet.take(KEY, None, LONG);
    fleet.release(place.unwrap());
    while far.held(KEY) > 0 {
        std::thread::yield_now();
    }
    // Now it sleeps for an hour, or is about to.
    let _ = breaker.down(&fault(Failure::Hung, false), 900 * SECOND);
    let start = std::time::Instant::now();
    while !breaker.is_up() {
        assert!(start.elapsed() < LONG);
        let _ = fleet.take(KEY, None, LONG);
        std::thread::yield_now();
    }
    fleet.close(LONG);
    works.join().unwrap();
}
