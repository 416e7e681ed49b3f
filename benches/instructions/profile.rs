//! Reads what callgrind wrote: how many instructions a run took, and whose.

use std::collections::HashMap;
use std::ops::Sub;

/// Shared objects that are measured; everything else is httpd's.
const MEASURED: &[&str] = &["libmod_limitipconn.so", "mod_yardstick.so"];

/// Instructions of a run, or of the difference between two.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    pub all: i64,
    /// In the measured objects' own code.
    pub own: i64,
    /// In the C library, called by anybody but the measured objects. Its text
    /// and memory functions take more or fewer instructions as their operands
    /// lie in memory, and loading a module moves all of httpd's: chance.
    pub chance: i64,
}

impl Cost {
    /// What is left without chance.
    pub fn certain(self) -> i64 {
        self.all - self.chance
    }

    /// The share of one of so many, rounded.
    pub fn each(self, number: i64) -> Cost {
        let share = |sum: i64| (sum + number / 2).div_euclid(number);
        Cost {
            all: share(self.all),
            own: share(self.own),
            chance: share(self.chance),
        }
    }
}

impl Sub for Cost {
    type Output = Cost;

    fn sub(self, other: Cost) -> Cost {
        Cost {
            all: self.all - other.all,
            own: self.own - other.own,
            chance: self.chance - other.chance,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Object {
    Measured,
    CLibrary,
    Other,
}

impl Object {
    fn named(path: &str) -> Object {
        if MEASURED.iter().any(|name| path.ends_with(name)) {
            Object::Measured
        } else if path.contains("/libc.so") || path.contains("/libc-2") {
            Object::CLibrary
        } else {
            Object::Other
        }
    }
}

/// Adds up a profile; none when a line is not as callgrind writes it.
///
/// `ob=` says in which object the following costs were met, `cob=` in which
/// one the next call went (the same, if it is not said), and the line after
/// `calls=` is what that call cost in all. An object is written once as
/// `(number) path`, then as `(number)`.
pub fn cost(profile: &str) -> Option<Cost> {
    let mut known = HashMap::new();
    let (mut here, mut callee, mut of_call) = (Object::Other, None, false);
    let mut cost = Cost::default();
    for line in profile.lines() {
        if let Some(text) = line.strip_prefix("ob=") {
            here = object(&mut known, text)?;
        } else if let Some(text) = line.strip_prefix("cob=") {
            callee = Some(object(&mut known, text)?);
        } else if line.starts_with("calls=") {
            of_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let number: i64 = line.split_whitespace().nth(1)?.parse().ok()?;
            match (of_call, here, callee.take()) {
                (true, Object::Measured, Some(Object::CLibrary)) => cost.chance -= number,
                (true, ..) => {}
                (false, from, _) => {
                    cost.all += number;
                    match from {
                        Object::Measured => cost.own += number,
                        Object::CLibrary => cost.chance += number,
                        Object::Other => {}
                    }
                }
            }
            of_call = false;
        }
    }
    (cost.all > 0).then_some(cost)
}

fn object<'a>(known: &mut HashMap<&'a str, Object>, text: &'a str) -> Option<Object> {
    let (number, path) = text.split_once(')')?;
    Some(*known.entry(number).or_insert_with(|| Object::named(path)))
}
