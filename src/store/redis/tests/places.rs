//! Places: a count is what its members say, and they last for their lease.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{LEASE, Scripts};
use crate::limit::key::Digest;
use crate::store::fleet::{Command, Reply};
use crate::store::redis::names;

const KEY: Digest = Digest { tag: 1, place: 2 };

#[derive(Clone, Debug)]
enum Does {
    Takes(u8, Option<u16>),
    Renews(Vec<u8>),
    Returns(Vec<u8>),
}

fn any_step() -> impl Strategy<Value = (u64, Does)> {
    let member = 0u8..8;
    let members = prop::collection::vec(member.clone(), 1..4);
    let limit = prop::option::of(0u16..5);
    let does = prop_oneof![
        4 => (member, limit).prop_map(|(member, limit)| Does::Takes(member, limit)),
        1 => members.clone().prop_map(Does::Renews),
        2 => members.prop_map(Does::Returns),
    ];
    let gap = prop_oneof![3 => 0u64..2_000, 1 => 0u64..40_000];
    (gap, does)
}

/// Who is in the count, until when.
type Model = BTreeMap<u8, u64>;

fn taken(model: &mut Model, member: u8, limit: Option<u16>, now: u64) -> Reply {
    model.retain(|_, till| *till > now);
    let is_full = limit.is_some_and(|limit| model.len() >= usize::from(limit));
    let is_there = model.contains_key(&member);
    let taken = is_there || !is_full;
    if taken {
        model.insert(member, now + LEASE.as_millis() as u64);
    }
    let count = model.len() as u32;
    Reply::Place { taken, count }
}

#[test]
fn counts_are_what_their_members_say() {
    let scripts = RefCell::new((Scripts::new(), 0));
    proptest!(ProptestConfig::with_cases(300), |(steps in prop::collection::vec(any_step(), 1..30))| {
        let (scripts, number) = &mut *scripts.borrow_mut();
        *number += 1;
        let key = Digest { tag: *number, place: 7 };
        let mut model = Model::new();
        let mut now = 1_000_000_000;
        let names = |members: &[u8]| -> Vec<String> {
            members.iter().map(|member| format!("m{member}")).collect()
        };
        for (gap, does) in steps {
            now += gap;
            let clock = Some(now * 1_000_000);
            match does {
                Does::Takes(member, limit) => {
                    let member_name = format!("m{member}");
                    let command = Command::Take { key, member: &member_name, limit };
                    let reply = scripts.run(&command, clock);
                    prop_assert_eq!(reply, taken(&mut model, member, limit, now));
                }
                Does::Renews(members) => {
                    for member in &members {
                        model.insert(*member, now + LEASE.as_millis() as u64);
                    }
                    scripts.run(&Command::Renew { key, members: &names(&members) }, clock);
                }
                Does::Returns(members) => {
                    for member in &members {
                        model.remove(member);
                    }
                    scripts.run(&Command::Remove { key, members: &names(&members) }, clock);
                }
            }
        }
        let look = scripts.run(&Command::Take { key, member: "look", limit: Some(0) }, Some(now * 1_000_000));
        model.retain(|_, till| *till > now);
        prop_assert_eq!(look, Reply::Place { taken: false, count: model.len() as u32 });
    });
}

#[test]
fn a_count_is_gone_when_its_last_place_is_given_back_or_its_lease_is_over() {
    let mut scripts = Scripts::new();
    let take = Command::Take {
        key: KEY,
        member: "one",
        limit: Some(3),
    };
    assert_eq!(
        scripts.run(&take, None),
        Reply::Place {
            taken: true,
            count: 1
        }
    );
    let name = names::count("test:", KEY);
    let left = scripts.redis.number(&["PTTL", &name]);
    assert!((1..=LEASE.as_millis() as i64).contains(&left), "{left}");
    let members = [String::from("one")];
    scripts.run(
        &Command::Remove {
            key: KEY,
            members: &members,
        },
        None,
    );
    assert_eq!(scripts.redis.keys(), Vec::<String>::new());
}

/// Else places of servers that died would stay taken for as long as the clock went back.
#[test]
fn places_of_a_clock_that_was_set_back_are_dropped_when_they_are_in_the_way() {
    let mut scripts = Scripts::new();
    let hour = 3600 * 1_000_000_000;
    let mut take = |member, clock| {
        let limit = Some(1);
        let key = KEY;
        scripts.run(&Command::Take { key, member, limit }, Some(clock))
    };
    let [held, full] = [true, false].map(|taken| Reply::Place { taken, count: 1 });
    assert_eq!(take("dead", 9 * hour), held);
    assert_eq!(
        take("next", 8 * hour + hour / 60),
        full,
        "may be a long lease"
    );
    assert_eq!(take("next", 7 * hour), held);
    assert_eq!(take("last", 7 * hour), full);
}

#[test]
fn names_put_all_of_a_script_into_one_slot() {
    for name in [names::count("p:", KEY), names::rate("p:", KEY)] {
        let (open, close) = (name.find('{').unwrap(), name.find('}').unwrap());
        assert_eq!(close - open, 33, "{name}");
        assert!(name.starts_with("p:"));
    }
    assert_ne!(names::count("", KEY), names::rate("", KEY));
}
