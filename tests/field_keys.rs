//! Cases from the field about keys and many virtual hosts, each as somebody met it.

#![cfg(feature = "httpd")]

mod support;

use std::fs;
use std::time::{Duration, Instant};

use support::{Client, Httpd, Mpm, Process, Setup, at_once, in_time, on_every_mpm};

on_every_mpm!(
    hundred_addresses_have_thirty_two_places_together,
    crawlers_are_limited_by_kind_and_by_network,
    fourth_request_of_a_session_does_not_wait,
);

/// As many sites as this shared host has.
const SITES: usize = 600;

/// A server with so many virtual hosts, each with this line, and TLS.
fn shared_host(sites: usize, rule: &str) -> Setup {
    let site = |n: usize| {
        format!(
            "<VirtualHost *:${{PORT2}}>
                 ServerName site{n}.example
                 SSLEngine On
                 SSLCertificateFile ${{TMP}}/cert.pem
                 SSLCertificateKeyFile ${{TMP}}/key.pem
                 {rule}
             </VirtualHost>\n"
        )
    };
    Httpd::on(Mpm::Event)
        .load(&["socache_shmcb", "ssl"])
        // mod_ssl warns of a certificate that all share.
        .conf("LogLevel ssl:error\nListen 127.0.0.1:${PORT2}")
        .conf(&(0..sites).map(site).collect::<String>())
        .certificate()
}

/// What a server takes.
struct Cost {
    start: Duration,
    graceful: Duration,
    /// What the parent has written to after both, in KiB, whoever shares it.
    dirty: u64,
    /// The sizes of its mappings that are our segment, in KiB.
    segments: Vec<u64>,
}

fn cost(setup: Setup, rules: Option<usize>) -> Cost {
    let before = Instant::now();
    let httpd = setup.start();
    let start = before.elapsed();
    let before = Instant::now();
    httpd.graceful();
    let graceful = before.elapsed();
    if let Some(rules) = rules {
        let gauge = httpd.gauge();
        assert_eq!(gauge.rows("rules").count(), rules);
        assert!(
            gauge.rows("rules").all(|row| row["limit"] == 10),
            "{gauge:?}"
        );
    }
    Cost {
        start,
        graceful,
        dirty: dirty(httpd.parent()),
        segments: segments(httpd.parent()),
    }
}

/// The number of KiB on this line of /proc.
fn kib(line: &str, field: &str) -> Option<u64> {
    let rest = line.strip_prefix(field)?.trim();
    rest.trim_end_matches(" kB").parse().ok()
}

fn dirty(process: Process) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.0)).unwrap();
    let all = ["Shared_Dirty:", "Private_Dirty:"].map(|field| {
        let number = text.lines().find_map(|line| kib(line, field));
        number.expect("a line of smaps_rollup")
    });
    all.iter().sum()
}

fn segments(process: Process) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/{}/smaps", process.0)).unwrap();
    let mut is_ours = false;
    let mut sizes = Vec::new();
    for line in text.lines() {
        if line.contains("/memfd:") {
            is_ours = true;
        } else if let Some(size) = kib(line, "Size:").filter(|_| is_ours) {
            sizes.push(size);
            is_ours = false;
        }
    }
    sizes
}

/// C35: a rule in each of 600 virtual hosts is one segment, no larger than that of one of
/// them, and costs neither start nor graceful nor the parent's memory what would be felt.
#[test]
fn six_hundred_sites_with_a_rule_each_share_one_segment() {
    const RULE: &str = "MaxConnPerIP 10 scope=vhost";
    let of_one = cost(shared_host(1, RULE), Some(1));
    in_time(|| {
        let without = cost(shared_host(SITES, "").without_module(), None);
        let with = cost(shared_host(SITES, RULE), Some(SITES));
        assert!(without.segments.is_empty());
        assert_eq!(with.segments.len(), 1);
        assert_eq!(with.segments, of_one.segments);
        // Shared memory that was touched is in it.
        let more = with.dirty.saturating_sub(without.dirty);
        assert!(
            (1..4096).contains(&more),
            "{} KiB, without {}",
            with.dirty,
            without.dirty
        );
        // The machine may stand still for that time once.
        let more = Duration::from_secs(5);
        let is_fast = with.start < without.start + more && with.graceful < without.graceful + more;
        is_fast.then_some(())
    });
}

/// C36: a hundred crawlers with an address each, on pages that cost much.
fn hundred_addresses_have_thirty_two_places_together(mpm: Mpm) {
    // More workers than there are clients, or httpd warns when it sees all of them at work.
    let pool = match mpm {
        Mpm::Prefork => "ServerLimit 128\nMaxRequestWorkers 128\nMaxSpareServers 128",
        Mpm::Worker | Mpm::Event => "MaxRequestWorkers 128\nMaxSpareThreads 128",
    };
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .conf(pool)
        .conf(
            "IPLimitZone everybody key=all
             IPLimitExempt 127.9.0.0/16
             <Location /git>
                 MaxConnPerKey everybody 32
                 IPLimitExempt expr=\"-n %{HTTP:Authorization}\"
             </Location>",
        )
        .furnish("git")
        .start();
    let client = |n: usize| httpd.client(&format!("127.1.{n}.1"));
    let exempt = httpd.client("127.9.0.1");
    let user = client(0).header("Authorization", "Basic bWU6c2VjcmV0");
    let spared = [&exempt, &user].map(|client| client.hold("/git/hold.cgi"));
    let answers = at_once(100, |n| {
        let answer = client(n).try_hold("/git/hold.cgi");
        answer.map_err(|refused| refused.status)
    });
    let refused: Vec<u16> = answers
        .iter()
        .filter_map(|answer| answer.as_ref().err().copied())
        .collect();
    assert_eq!(refused, [503; 68]);
    assert_eq!(httpd.gauge().refused("MaxConnPerKey:everybody@/git"), 68);
    // Meanwhile everything else is there for everybody, and all of it for some.
    at_once(10, |n| assert_eq!(client(n).status("/fuga/small.txt"), 200));
    for client in [&exempt, &user] {
        assert_eq!(client.status("/git/small.txt"), 200);
    }
    drop((answers, spared));
    httpd.wait_for_quiet();
    assert_eq!(client(50).status("/git/small.txt"), 200);
}

/// C36: and with keys that are neither an address nor everybody.
fn crawlers_are_limited_by_kind_and_by_network(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .load(&["setenvif"])
        .conf(
            "BrowserMatchNoCase \"GPTBot|ClaudeBot\" CRAWLER=ai
             BrowserMatchNoCase \"AhrefsBot|SemrushBot\" CRAWLER=seo
             IPLimitZone crawler key=%{reqenv:CRAWLER}
             IPLimitZone network key=client/16,48
             <Location /git>
                 MaxConnPerKey crawler 3
                 MaxConnPerKey network 4
             </Location>",
        )
        .furnish("git")
        .start();
    let bot = |network: usize, n: usize, agent: &str| {
        let address = format!("127.{network}.{n}.1");
        httpd.client(&address).header("User-Agent", agent)
    };
    let crawlers = at_once(8, |n| bot(n + 1, 1, "GPTBot/1.2").try_hold("/git/hold.cgi"));
    assert_eq!(crawlers.iter().filter(|answer| answer.is_ok()).count(), 3);
    assert_eq!(bot(4, 4, "claudebot").status("/git/small.txt"), 503);
    assert_eq!(bot(4, 4, "SemrushBot").status("/git/small.txt"), 200);
    assert_eq!(bot(4, 4, "Mozilla/5.0").status("/git/small.txt"), 200);
    drop(crawlers);
    httpd.wait_for_quiet();

    let browser = |network: usize, n: usize| bot(network, n, "Mozilla/5.0");
    let answers = at_once(10, |n| browser(5, n).try_hold("/git/hold.cgi"));
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 4);
    assert_eq!(browser(6, 1).status("/git/small.txt"), 200);
    let gauge = httpd.gauge();
    let refused = |zone: &str| gauge.refused(&format!("MaxConnPerKey:{zone}@/git"));
    assert_eq!((refused("crawler"), refused("network")), (6, 6));
}

/// C42: requests of one session wait for its lock, each in a worker, unless a fourth is
/// refused before it starts to.
fn fourth_request_of_a_session_does_not_wait(mpm: Mpm) {
    let httpd = Httpd::on(mpm)
        .expect_refusals()
        .load(&["setenvif"])
        .conf(
            "SetEnvIf Cookie \"(?:^|; *)MoodleSession=([^;]+)\" SESSION=$1
             IPLimitZone session key=%{reqenv:SESSION} secret
             <Location /hoge>
                 MaxConnPerKey session 3
                 <If \"-z reqenv('SESSION')\">
                     MaxConnPerIP 2 scope=location
                 </If>
             </Location>",
        )
        // All but the first wait for the lock, as PHP's sessions do.
        .script(
            "hoge/locked.cgi",
            "#!/bin/sh\nexec 9< \"$0\"\nflock 9\nexec \"${0%/*}/hold.cgi\"\n",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let of = |session: &str| {
        let cookie = format!("theme=dark; MoodleSession={session}");
        client.clone().header("Cookie", &cookie)
    };
    let (a, b) = (of("a"), of("b"));
    let lock = httpd.gate("lock");
    let ask = |client: &Client| {
        let mut connection = client.connect();
        let more = "Connection: close\r\n";
        connection.send(connection.request("GET", "/hoge/locked.cgi?lock", more));
        connection
    };
    let mut waiting: Vec<_> = (0..6).map(|_| ask(&a)).collect();
    // Three are refused while the lock is held and the others wait for it.
    let rule = "MaxConnPerKey:session@/hoge";
    httpd.wait_for(|gauge| gauge.refused(rule) == 3 && gauge.passed(rule) == 3);
    assert_eq!(a.status("/hoge/small.txt"), 503);
    assert_eq!(b.status("/hoge/hello.cgi"), 200);
    let _nobody = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/hello.cgi"), 503);
    assert_eq!(b.status("/hoge/hello.cgi"), 200);
    assert_eq!(httpd.client("127.0.0.3").status("/hoge/hello.cgi"), 200);
    drop(lock);
    let mut statuses: Vec<u16> = waiting
        .iter_mut()
        .map(|connection| connection.response().status)
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 503, 503, 503]);
    // The two that hold without a session.
    httpd.wait_for(|gauge| gauge.held() == 2);
    assert_eq!(a.status("/hoge/hello.cgi"), 200);
}
