//! Proves the count window: tables of conversations, and oracles of another kind.

use super::super::{rate::MOST, units};
use super::*;
use proptest::prelude::*;

/// Some time of the clock, in milliseconds.
const T: u64 = 1_000_000_000;

/// A rule as it is written: `5/3s freeze=7s extend`.
fn window(rule: &str) -> Window {
    let mut words = rule.split(' ');
    Window {
        rate: Rate::parse(words.next().unwrap()).unwrap(),
        freeze: words.find_map(|word| units::time(word.strip_prefix("freeze=")?).ok()),
        extend: rule.ends_with("extend"),
    }
}

/// How many more could come and when the window ends, or how long nobody may come.
fn said(decision: Decision) -> String {
    match decision {
        Decision::Pass(pass) => format!("{}/{}", pass.left, pass.resets_in / MILLI),
        Decision::Over(over) if over.frozen => format!("frozen={}", over.wait / MILLI),
        Decision::Over(over) => format!("over={}", over.wait / MILLI),
    }
}

/// A hit at this millisecond, counted at once or (`on=`) where it was let in.
fn hit(window: &Window, word: &mut u64, at: u64, on: bool) -> String {
    let now = at * MILLI;
    let decide = if on { Window::check } else { Window::decide };
    let decision = decide(window, *word, now);
    *word = match decision {
        Decision::Pass(_) if on => window.charge(*word, now),
        Decision::Pass(pass) => pass.next,
        Decision::Over(over) => over.next.unwrap_or(*word),
    };
    said(decision)
}

#[test]
fn each_window_has_its_number_and_the_one_beyond_freezes() {
    // The rule; when hits come; how many are left until when, or how long nobody may come.
    for row in [
        "5/3s freeze=7s | 0 4/3000 3/3000 2/3000 1/3000 0/3000 over=7000 | 5000 frozen=2000 \
         | 6999 frozen=1 | 7000 4/3000 3/3000 2/3000 1/3000 0/3000 over=7000",
        "2/3s freeze=7s extend | 0 1/3000 | 2000 0/1000 over=7000 | 3000 frozen=7000 \
         | 9999 frozen=7000 | 16998 frozen=7000 | 23998 1/3000",
        // A freeze that ends before its window would.
        "2/3s freeze=1s | 0 1/3000 0/3000 over=1000 | 999 frozen=1 | 1000 1/3000",
        "2/3s | 0 1/3000 | 2999 0/1 over=1 | 3000 1/3000 | 5999 0/1 over=1 \
         | 7000 1/3000 | 7001 0/2999 over=2999 | 9999 over=1 | 10000 1/3000",
        // The sixth that is charged freezes, or is counted.
        "5/3s on=401 freeze=7s | 0 5/3000 4/3000 3/3000 2/3000 1/3000 0/3000 frozen=7000 \
         | 6999 frozen=1 | 7000 5/3000",
        "5/3s on=401 | 0 5/3000 4/3000 3/3000 2/3000 1/3000 0/3000 over=3000 \
         | 2999 over=1 | 3000 5/3000",
        "1/3s on=401 freeze=7s extend | 0 1/3000 0/3000 | 5000 frozen=7000 | 11999 frozen=7000",
    ] {
        let mut moments = row.split(" | ");
        let window = window(moments.next().unwrap());
        let mut word = 0;
        for moment in moments {
            let (at, words) = moment.split_once(' ').unwrap();
            let at = T + at.parse::<u64>().unwrap();
            let hit = |_| hit(&window, &mut word, at, row.contains("on="));
            let said: Vec<_> = words.split(' ').map(hit).collect();
            assert_eq!(said.join(" "), words, "{row}: {moment}");
        }
    }
}

#[test]
fn a_hit_is_taken_back_only_from_its_own_window() {
    let window = window("2/3s freeze=366d");
    let after = |mut word, at| {
        hit(&window, &mut word, T + at, false);
        word
    };
    let (one, two) = (after(0, 0), after(after(0, 0), 1));
    let (frozen, next) = (after(two, 2), after(two, 3000));
    let none = one - (1 << END_BITS);
    for (word, at, charged, expected) in [
        (two, 2, one, Some(one)),
        (two, 2999, two, Some(one)),
        (one, 0, two, Some(none)),
        (none, 0, two, None),
        (two, 3000, two, None),
        (next, 3000, two, None),
        (frozen, 2, two, None),
        (frozen, 2, frozen, None),
    ] {
        let refunded = window.refund(word, (T + at) * MILLI, charged);
        assert_eq!(refunded, expected, "{word:x} {at}");
    }
}

#[test]
fn what_was_begun_under_a_longer_period_ends_under_the_present_one() {
    let (long, short) = (window("5/h"), window("5/3s"));
    for (before, on, expected) in [
        (4, false, ["0/3000", "over=1", "4/3000"]),
        (5, false, ["over=3000", "over=1", "4/3000"]),
        (5, true, ["0/3000", "over=1", "5/3000"]),
        (6, true, ["over=3000", "over=1", "5/3000"]),
    ] {
        let begun = |by: Window| (0..before).fold(0, |word, _| by.charge(word, T * MILLI));
        let mut word = begun(long);
        let said = [0, 2999, 3000].map(|at| hit(&short, &mut word, T + at, on));
        assert_eq!(said, expected, "{before}");
        assert_eq!(hit(&long, &mut begun(short), T, on), expected[0]);
    }
}

#[test]
fn nothing_is_lost_of_great_numbers() {
    let window = window("1000000/366d freeze=366d");
    let period = window.period();
    // Up to 34 years from the clock's beginning.
    for at in [0, T, 33 * period] {
        let mut word = (1..MOST).fold(0, |word, _| window.charge(word, at * MILLI));
        assert_eq!(hit(&window, &mut word, at, false), format!("0/{period}"));
        assert_eq!(hit(&window, &mut word, at, false), format!("over={period}"));
        assert_eq!(hit(&window, &mut word, at + period - 1, false), "frozen=1");
    }
    assert_eq!(window.charge(0, END * MILLI) & END, END);
}

/// The same, as one would write it down.
#[derive(Default)]
struct Plain {
    start: Option<u64>,
    count: u64,
    frozen_until: Option<u64>,
}

impl Plain {
    fn hit(&mut self, window: &Window, now: u64, on: bool) -> String {
        let number = u64::from(window.rate.number);
        let period = window.rate.period.as_millis() as u64;
        let freeze = window.freeze.map(|time| now + time.as_millis() as u64);
        if let Some(until) = self.frozen_until.filter(|until| now < *until) {
            let until = freeze.filter(|_| window.extend).unwrap_or(until);
            self.frozen_until = Some(until);
            return format!("frozen={}", until - now);
        }
        let is_over = |start| now >= start + period;
        if self.frozen_until.is_some() || self.start.is_some_and(is_over) {
            *self = Plain::default();
        }
        let rest = *self.start.get_or_insert(now) + period - now;
        if self.count > number {
            return format!("over={rest}");
        }
        self.count += 1;
        self.frozen_until = freeze.filter(|_| self.count > number);
        match number.checked_sub(self.count) {
            _ if on => format!("{}/{rest}", number + 1 - self.count),
            Some(left) => format!("{left}/{rest}"),
            None => format!("over={}", freeze.map_or(rest, |until| until - now)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn it_decides_as_a_plain_count_does(
        number in 1u32..6, period in 1u64..50, freeze in prop::option::of(1u64..100), extend: bool, on: bool,
        hits in prop::collection::vec((prop_oneof![Just(0), 0u64..9, 0u64..60], 0..MILLI), 1..100),
    ) {
        let rate = Rate { number, period: Duration::from_millis(period) };
        let window = Window { rate, freeze: freeze.map(Duration::from_millis), extend };
        let (mut word, mut now, mut plain) = (0, T, Plain::default());
        for (gap, nanos) in hits {
            now += gap;
            let nanos = now * MILLI + nanos;
            prop_assert_eq!(said(window.decide(word, nanos)), said(window.decide(word, now * MILLI)));
            prop_assert!(!matches!(window.check(word, nanos), Decision::Pass(pass) if pass.next != word));
            let said = hit(&window, &mut word, now, on);
            prop_assert_eq!(&said, &plain.hit(&window, now, on));
            if let Some((_, wait)) = said.split_once('=') {
                let free = now + wait.parse::<u64>().unwrap();
                prop_assert!(hit(&window, &mut word.clone(), free, on).contains('/'));
                prop_assert!(hit(&window, &mut word.clone(), free - 1, on).contains('='));
            }
            let left = plain.frozen_until.filter(|until| *until > now).map(|until| until - now);
            prop_assert_eq!(frozen_for(word, nanos), left.map(Duration::from_millis));
            prop_assert!(left.is_none() || window.charge(word, nanos) == word);
        }
    }
}
