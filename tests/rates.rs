//! Token buckets: how many pass, when the next may come, and what a refusal says.

mod support;

use std::time::{Duration, Instant};

use support::{Httpd, Mpm, on_every_mpm};

on_every_mpm!(six_at_once_give_four_and_two_refusals);

fn six_at_once_give_four_and_two_refusals(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(
            "<Location /hoge>
                 MaxRatePerIP 2/s burst=4
             </Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let start = Instant::now();
    let answers: Vec<_> = (0..6).map(|_| client.get("/hoge/small.txt")).collect();
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert!(
        start.elapsed() < Duration::from_millis(500),
        "too slow a machine"
    );
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
    assert_eq!(answers[5].header("retry-after"), Some("1"));
    let line = httpd
        .wait_for_log("limitipconn(101): ")
        .pop()
        .expect("a line");
    assert!(
        line.contains(
            "client 127.0.0.2 refused: too many requests: 5/4, rule MaxRatePerIP@/hoge, vhost "
        ),
        "{line}"
    );
    assert_eq!(client.status("/fuga/small.txt"), 200);
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/small.txt"), 200);
    let gauge = httpd.gauge();
    assert_eq!(
        (
            gauge.passed("MaxRatePerIP@/hoge"),
            gauge.refused("MaxRatePerIP@/hoge")
        ),
        (5, 2)
    );
}
