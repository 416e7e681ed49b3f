//! The rules' records.

use super::processes::killed_at;
use super::*;

fn sized(rules: u32) -> Mapped {
    segment(Size { rules, ..SMALL })
}

/// Ids that are spread as hashes are.
fn id(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[test]
fn a_rule_is_found_again_by_its_id_and_keeps_its_counters() {
    let segment = sized(8);
    let ledger = segment.ledger();
    let hoge = ledger
        .register(id(1), [3; META], "MaxConnPerIP@/hoge", None)
        .unwrap();
    let fuga = ledger
        .register(
            id(2),
            [5; META],
            "MaxConnPerIP@/fuga",
            Some("localhost:8080"),
        )
        .unwrap();
    ledger.count(hoge, Fate::Passed);
    ledger.count(hoge, Fate::Passed);
    ledger.count(fuga, Fate::Refused);
    for _ in 0..3 {
        ledger.count(fuga, Fate::RefusedDryRun);
    }
    // As after a reload with another number: an old child goes on saying the old
    // one, and that it saw the rule in the old generation.
    assert_eq!(
        ledger.register(id(1), [9; META], "MaxConnPerIP@/hoge", None),
        Some(hoge)
    );
    ledger.redefine(hoge, [4; META]);
    assert!(ledger.begins_with(hoge, 4) && !ledger.begins_with(hoge, 9));
    assert_eq!(
        ledger.register(id(1), [3; META], "MaxConnPerIP@/hoge", None),
        Some(hoge)
    );
    ledger.touch(hoge, 2);
    ledger.touch(hoge, 1);
    let mut rules: Vec<RuleRecord> = ledger.iter().collect();
    rules.sort_by_key(|rule| rule.meta);
    let [first, second] = rules.as_slice() else {
        panic!("two rules, not {rules:?}")
    };
    assert_eq!(
        (first.id, first.meta, first.count(Fate::Passed)),
        (id(1), [4; META], 2)
    );
    assert_eq!(
        (first.name.as_str(), first.vhost.as_deref()),
        ("MaxConnPerIP@/hoge", None)
    );
    assert_eq!(first.generation, 2);
    let fates = |rule: &RuleRecord| {
        [Fate::Passed, Fate::Refused, Fate::RefusedDryRun].map(|fate| rule.count(fate))
    };
    assert_eq!((fates(first), fates(second)), ([2, 0, 0], [0, 1, 3]));
    let sums = [Fate::Passed, Fate::Refused, Fate::RefusedDryRun].map(|fate| ledger.sum(fate));
    assert_eq!(sums, [2, 1, 3]);
    assert_eq!(second.id, id(2));
    assert_eq!(second.vhost.as_deref(), Some("localhost:8080"));
    assert_eq!(read(&segment, 0).rules.len(), 2);
}

#[test]
fn a_full_ledger_says_so_and_known_rules_stay() {
    let segment = sized(8);
    let ledger = segment.ledger();
    let made: Vec<RecordIndex> = (1..=8)
        .map(|n| ledger.register(id(n), [n; META], "rule", None).unwrap())
        .collect();
    assert_eq!(
        ledger.register(id(9), [9; META], "one too many", None),
        None
    );
    for (n, index) in (1..).zip(made) {
        assert_eq!(ledger.register(id(n), [n; META], "rule", None), Some(index));
    }
    assert_eq!(
        sized(0).ledger().register(id(1), [1; META], "rule", None),
        None
    );
}

#[test]
fn long_texts_are_cut_between_characters() {
    let segment = sized(8);
    let ledger = segment.ledger();
    let name = "é".repeat(100); // 200 bytes: 160 fit, which is 80 of them.
    let vhost = format!("x{}", "é".repeat(50)); // An odd place: one byte stays unused.
    let index = ledger
        .register(id(1), [0; META], &name, Some(&vhost))
        .unwrap();
    let rule = ledger.get(index).unwrap();
    assert_eq!(rule.name, "é".repeat(80));
    assert_eq!(rule.vhost, Some(format!("x{}", "é".repeat(31))));
    let index = ledger.register(id(2), [0; META], "", Some("")).unwrap();
    let rule = ledger.get(index).unwrap();
    assert_eq!((rule.name.as_str(), rule.vhost.as_deref()), ("", Some("")));
}

#[test]
fn all_who_register_a_rule_at_once_get_the_same_record() {
    let segment = sized(64);
    let ledger = segment.ledger();
    let barrier = std::sync::Barrier::new(4);
    let register = |n| {
        // No assertion in here: it would leave the others at the barrier.
        barrier.wait();
        let index = ledger.register(id(n), [n; META], &format!("rule {n}"), None);
        let name = index.and_then(|index| Some(ledger.get(index)?.name));
        index.inspect(|index| ledger.count(*index, Fate::Passed));
        (index, name)
    };
    let made: Vec<Vec<(Option<RecordIndex>, Option<String>)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (1..=64).map(register).collect()))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().unwrap();
        threads.into_iter().map(join).collect()
    });
    for (n, (index, name)) in (1..).zip(&made[0]) {
        assert!(index.is_some());
        assert_eq!(*name, Some(format!("rule {n}")));
    }
    assert!(made.iter().all(|of_one| *of_one == made[0]));
    assert!(ledger.iter().all(|rule| rule.count(Fate::Passed) == 4));
}

#[test]
fn a_record_whose_writer_was_killed_is_finished_by_the_next() {
    for k in 1..=3 {
        let segment = sized(8);
        let ledger = segment.ledger();
        let register = || ledger.register(id(1), [7; META], "MaxConnPerIP@/hoge", Some("a:80"));
        assert!(killed_at(k, register));
        assert_eq!(ledger.iter().count(), 0, "nobody reads half a text");
        let index = register().unwrap();
        assert_eq!(ledger.get(index).unwrap().name, "MaxConnPerIP@/hoge");
        assert_eq!(ledger.iter().count(), 1);
    }
}
