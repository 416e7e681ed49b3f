//! Restarts: counts are kept, new numbers apply at once, nothing of ours piles up or stays.

mod support;

use support::{DEADLINE, Httpd, Mpm, on_every_mpm, wait_until};

on_every_mpm!(
    held_over_graceful_still_counts,
    changed_number_applies_at_once,
    rule_that_was_away_for_a_while_still_counts,
    hard_restart_gives_back_what_its_children_held,
    many_gracefuls_leave_the_parent_as_it_was,
    nothing_of_ours_is_left_after_stop,
    another_table_size_waits_for_a_full_restart,
    connections_of_httpd_itself_are_not_counted,
);

const RULE: &str = "MaxConnPerIP@/hoge";

fn hoge(number: u32) -> String {
    format!("<Location /hoge>\n MaxConnPerIP {number} scope=location\n</Location>\n")
}

fn held_over_graceful_still_counts(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(&hoge(3))
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    let mut held: Vec<_> = (0..3)
        .map(|_| client.read_slowly("/hoge/big.bin"))
        .collect();
    for _ in 0..3 {
        httpd.graceful();
        assert_eq!(client.status("/hoge/small.txt"), 503);
        assert_eq!(client.status("/fuga/small.txt"), 200);
        assert_eq!(httpd.gauge().count_of(RULE, "127.0.0.2"), 3);
    }
    held.pop().expect("held").finish();
    httpd.wait_for(|gauge| gauge.count_of(RULE, "127.0.0.2") == 2);
    held.push(client.read_slowly("/hoge/big.bin"));
    assert_eq!(
        client.status("/hoge/small.txt"),
        503,
        "old and new generation share one count"
    );
    drop(held);
    httpd.wait_for(|gauge| gauge.total() == 0);
}

fn changed_number_applies_at_once(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(&hoge(3))
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    let mut held: Vec<_> = (0..3)
        .map(|_| client.read_slowly("/hoge/big.bin"))
        .collect();
    httpd.rewrite_conf(&hoge(5));
    httpd.graceful();
    held.extend((0..2).map(|_| client.read_slowly("/hoge/big.bin")));
    assert_eq!(client.status("/hoge/small.txt"), 503);
    httpd.rewrite_conf(&hoge(2));
    httpd.graceful();
    // One line a second is written about a client and a rule: the next may be it.
    wait_until(DEADLINE, || {
        assert_eq!(client.status("/hoge/small.txt"), 503);
        let lines = httpd.log_lines("limitipconn(101): ");
        let tells = |line: &String| line.contains("too many connections from this host: 6/2, ");
        lines.iter().any(tells).then_some(()).ok_or(lines)
    });
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
}

fn rule_that_was_away_for_a_while_still_counts(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_log("limitipconn(201): ")
        .conf(&hoge(2))
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 2].map(|()| client.read_slowly("/hoge/big.bin"));
    httpd.rewrite_conf("");
    httpd.graceful();
    assert_eq!(client.status("/hoge/small.txt"), 200, "no rule now");
    // Other rules before it: names do not shift.
    httpd.rewrite_conf(&format!(
        "<Location /other>\n MaxConnPerIP 9 scope=location\n</Location>\n{}",
        hoge(2)
    ));
    httpd.graceful();
    assert_eq!(client.status("/hoge/small.txt"), 503);
}

fn hard_restart_gives_back_what_its_children_held(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_log("AH00046")
        .expect_kills()
        .expect_log("limitipconn(305): ")
        .conf(&hoge(3))
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    let held: Vec<_> = (0..3)
        .map(|_| client.read_slowly("/hoge/big.bin"))
        .collect();
    assert_eq!(client.status("/hoge/small.txt"), 503);
    httpd.hard_restart();
    let gauge = httpd.wait_for(|gauge| gauge.total() == 0);
    assert_eq!(gauge.number("audit_mismatches"), 0, "{gauge:?}");
    assert_eq!(client.status("/hoge/small.txt"), 200);
    drop(held);
}

/// With one response held all the time, which must still count at the end.
fn many_gracefuls_leave_the_parent_as_it_was(mpm: Mpm) {
    let rounds = 200;
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(&hoge(1))
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.read_slowly("/hoge/big.bin");
    // httpd itself settles in the first few.
    (0..5).for_each(|_| httpd.graceful());
    let look = || {
        let parent = httpd.parent();
        (parent.open_files(), parent.threads(), parent.named_maps())
    };
    let (before, resident) = (look(), httpd.parent().resident_kib());
    for _ in 0..rounds {
        httpd.graceful();
    }
    let after = look();
    assert_eq!(
        (&after.0, after.1),
        (&before.0, before.1),
        "descriptors and threads"
    );
    assert!(
        after.2 == before.2,
        "maps: {} before, {} after: {:?}",
        before.2.len(),
        after.2.len(),
        after.2
    );
    let grown = httpd.parent().resident_kib().saturating_sub(resident);
    assert!(grown < 2048, "{rounds} gracefuls cost {grown} KiB");
    assert_eq!(client.status("/hoge/small.txt"), 503);
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
}

fn nothing_of_ours_is_left_after_stop(mpm: Mpm) {
    let mut httpd = Httpd::on(mpm).conf(&hoge(3)).start();
    let parent = httpd.parent().0;
    let held = httpd.client("127.0.0.2").hold("/hoge/hold.cgi");
    httpd.wait_for(|gauge| gauge.total() == 1);
    drop(held);
    httpd.stop().expect("nothing outlives the server");
    let system_v = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let made_by =
        |line: &str| line.split_ascii_whitespace().nth(4) == Some(parent.to_string().as_str());
    assert!(!system_v.lines().any(made_by), "{system_v}");
    let names = |place: &str| -> Vec<String> {
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    };
    assert!(
        !names("/dev/shm")
            .iter()
            .any(|name| name.contains("limitipconn")),
        "{:?}",
        names("/dev/shm")
    );
    let run = httpd.dir().join("run");
    let left = names(run.to_str().expect("a path in ASCII"));
    assert!(
        !left
            .iter()
            .any(|name| name.contains("limitipconn") || name == "httpd.pid"),
        "{left:?}"
    );
}

fn another_table_size_waits_for_a_full_restart(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_log("limitipconn(301): ")
        .conf(&format!("IPLimitTable keys=1024\n{}", hoge(1)))
        .big_file("hoge/big.bin", 20 << 20)
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.read_slowly("/hoge/big.bin");
    httpd.rewrite_conf(&format!("IPLimitTable keys=4096\n{}", hoge(1)));
    httpd.graceful();
    assert_eq!(httpd.log_lines("limitipconn(301): ").len(), 1);
    assert_eq!(httpd.gauge()["keys"]["capacity"], 1024);
    assert_eq!(client.status("/hoge/small.txt"), 503);
}

/// httpd wakes its old children by connections of its own.
fn connections_of_httpd_itself_are_not_counted(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .conf("MaxConnPerIP 50 count=requests")
        .start();
    let passed = || httpd.gauge().passed("MaxConnPerIP@server");
    let before = passed();
    (0..5).for_each(|_| httpd.graceful());
    assert_eq!(passed(), before + 1, "the gauge's own request and no other");
}
