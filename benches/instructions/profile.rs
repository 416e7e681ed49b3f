//! Reads what callgrind wrote: how many instructions a run took in all, and
//! how many of them in one shared object itself.

use std::collections::HashMap;
use std::ops::Sub;

/// Instructions of a run, or of the difference between two.
#[derive(Clone, Copy)]
pub struct Cost {
    pub all: i64,
    /// Executed in our module's own code, what it calls in httpd left out.
    pub ours: i64,
}

impl Cost {
    /// The share of one of so many, rounded.
    pub fn each(self, number: i64) -> Cost {
        let share = |sum: i64| (sum + number / 2).div_euclid(number);
        Cost {
            all: share(self.all),
            ours: share(self.ours),
        }
    }
}

impl Sub for Cost {
    type Output = Cost;

    fn sub(self, other: Cost) -> Cost {
        Cost {
            all: self.all - other.all,
            ours: self.ours - other.ours,
        }
    }
}

/// The cost in a profile; none if it has no sum of all.
pub fn cost(profile: &str, ours: &str) -> Option<Cost> {
    Some(Cost {
        all: total(profile)?,
        ours: within(profile, ours),
    })
}

/// The number on the `summary:` (or `totals:`) line.
fn total(profile: &str) -> Option<i64> {
    ["summary:", "totals:"].into_iter().find_map(|word| {
        let line = profile.lines().rev().find(|line| line.starts_with(word))?;
        line[word.len()..].split_whitespace().next()?.parse().ok()
    })
}

/// The sum of the cost lines that stand under an object of this file name. A
/// name is written once as `(number) name` and then as `(number)`; the cost
/// line after a `calls=` is the callee's and not counted.
fn within(profile: &str, file: &str) -> i64 {
    let mut objects: HashMap<&str, bool> = HashMap::new();
    let (mut inside, mut of_callee, mut sum) = (false, false, 0);
    for line in profile.lines() {
        let named = line.strip_prefix("ob=").or(line.strip_prefix("cob="));
        if let Some((number, name)) = named.and_then(|named| named.split_once(')')) {
            let known = objects
                .entry(number)
                .or_insert_with(|| name.ends_with(file));
            if line.starts_with("ob=") {
                inside = *known;
            }
        } else if line.starts_with("calls=") {
            of_callee = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            if inside && !of_callee {
                let cost = line.split_whitespace().nth(1);
                sum += cost.and_then(|cost| cost.parse::<i64>().ok()).unwrap_or(0);
            }
            of_callee = false;
        }
    }
    sum
}
