//! Buckets, windows and freezes over restarts and deaths, and changed numbers.

mod support;

use support::{Client, DEADLINE, Gauge, Httpd, Mpm, on_every_mpm, wait_until};

on_every_mpm!(
    what_is_used_up_stays_so_over_restarts_and_deaths,
    changed_number_applies_at_once,
    off_lifts_what_was_used_up_or_frozen,
);

fn hoge(rule: &str) -> String {
    format!("<Location /hoge>\n {rule}\n</Location>\n")
}

#[track_caller]
fn statuses<const N: usize>(client: &Client, path: &str) -> [u16; N] {
    [(); N].map(|()| client.status(path))
}

const FROZEN: &str = "MaxHitsPerIP@/freeze";

fn seconds_left(gauge: &Gauge) -> u64 {
    let left = gauge.frozen(FROZEN, "127.0.0.2");
    left.unwrap_or_else(|| panic!("not frozen: {gauge:?}"))
}

fn what_is_used_up_stays_so_over_restarts_and_deaths(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .expect_kills()
        .expect_log("limitipconn(305): ")
        .conf(
            "<Location /bucket>
                 MaxRatePerIP 3/d
             </Location>
             <Location /window>
                 MaxHitsPerIP 3/d
             </Location>
             <Location /freeze>
                 MaxHitsPerIP 2/d freeze=2d
             </Location>
             <Location /half>
                 MaxRatePerIP 9/d
                 MaxHitsPerIP 10/d
             </Location>",
        )
        .furnish("bucket")
        .furnish("window")
        .furnish("freeze")
        .furnish("half")
        .start();
    let client = httpd.client("127.0.0.2");
    for place in ["bucket", "window"] {
        assert_eq!(
            statuses(&client, &format!("/{place}/small.txt")),
            [200, 200, 200, 429]
        );
    }
    assert_eq!(statuses(&client, "/freeze/small.txt"), [200, 200, 429]);
    let frozen = seconds_left(&httpd.gauge());
    let kill = || {
        let old = httpd.children();
        // All but the last: some child must be there to take what comes now.
        old.iter()
            .skip(1)
            .for_each(|child| child.signal(libc::SIGKILL));
        assert!(
            old.iter()
                .skip(1)
                .all(|child| child.is_gone_within(DEADLINE))
        );
        httpd.wait_for(|gauge| gauge.total() == 0);
        // The next signal must not meet those that take their places while they start.
        wait_until(DEADLINE, || {
            let threads = httpd.threads_of_children();
            let are_up = |threads: &usize| *threads >= mpm.threads_of_a_child();
            match threads.len() >= 2 && threads.iter().all(are_up) {
                true => Ok(()),
                false => Err(threads),
            }
        });
    };
    let steps: [&dyn Fn(); 4] = [
        &|| httpd.graceful(),
        &kill,
        &|| httpd.hard_restart(),
        &|| (0..3).for_each(|_| httpd.graceful()),
    ];
    for (n, step) in steps.iter().enumerate() {
        assert_eq!(statuses(&client, "/half/small.txt"), [200, 200], "step {n}");
        step();
        for place in ["bucket", "window", "freeze"] {
            let path = format!("/{place}/small.txt");
            assert_eq!(client.status(&path), 429, "step {n}: {place}");
            assert_eq!(httpd.client(&format!("127.0.1.{n}")).status(&path), 200);
        }
        let gauge = httpd.gauge();
        let now = seconds_left(&gauge);
        assert!(now <= frozen && now + 600 > frozen, "step {n}: {gauge:?}");
        assert_eq!(gauge.number("audit_mismatches"), 0, "step {n}: {gauge:?}");
    }
    assert_eq!(statuses(&client, "/half/small.txt"), [200, 429]);
}

/// From slower to faster, too: nobody stays locked out.
fn changed_number_applies_at_once(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(&hoge("MaxRatePerIP 2/d"))
        .start();
    // What is said next, and what comes of the requests of the same client.
    let steps: [(&str, &[u16]); 8] = [
        ("MaxRatePerIP 2/d", &[200, 200, 429]),
        // What was empty fills at the new rate.
        ("MaxRatePerIP 500000/d", &[]),
        ("MaxRatePerIP 1/d", &[429, 429]),
        ("MaxRatePerIP 500000/d burst=1", &[]),
        ("MaxHitsPerIP 2/d", &[200, 200, 429]),
        ("MaxHitsPerIP 5/d", &[200, 200, 200, 429]),
        ("MaxHitsPerIP 3/d", &[429, 429]),
        ("MaxHitsPerIP 7/d", &[200, 200, 429]),
    ];
    let client = httpd.client("127.0.0.2");
    for (n, (rule, expected)) in steps.into_iter().enumerate() {
        if n > 0 {
            httpd.rewrite_conf(&hoge(rule));
            httpd.graceful();
        }
        if expected.is_empty() {
            // By the slower rate it would be hours.
            wait_until(DEADLINE, || match client.status("/hoge/small.txt") {
                200 => Ok(()),
                status => Err(status),
            });
            continue;
        }
        let statuses: Vec<_> = expected
            .iter()
            .map(|_| client.status("/hoge/small.txt"))
            .collect();
        assert_eq!(statuses, expected, "{rule}");
    }
}

/// Turned on again, what has not grown back is still used up.
fn off_lifts_what_was_used_up_or_frozen(mpm: Mpm) {
    for rule in [
        "MaxRatePerIP 2/d",
        "MaxHitsPerIP 2/d",
        "MaxHitsPerIP 2/d freeze=2d",
    ] {
        let httpd = Httpd::on(mpm).expect_refusals().conf(&hoge(rule)).start();
        let client = httpd.client("127.0.0.2");
        assert_eq!(
            statuses(&client, "/hoge/small.txt"),
            [200, 200, 429],
            "{rule}"
        );
        let name = rule.split(' ').next().expect("a name");
        httpd.rewrite_conf(&hoge(&format!("{name} off")));
        httpd.graceful();
        assert_eq!(statuses(&client, "/hoge/small.txt"), [200; 5], "{rule}");
        httpd.rewrite_conf(&hoge(rule));
        httpd.graceful();
        assert_eq!(statuses(&client, "/hoge/small.txt"), [429; 2], "{rule}");
    }
}
