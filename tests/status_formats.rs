//! The status handler in its three formats: what is sent with them, that a real parser takes
//! the metrics, what the example for Prometheus promises, and who sees what.

mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Client, Httpd, Mpm, Response, Setup};

const PAGE: &str = "/limit-status";
const METRICS: &str = "/limit-status?format=openmetrics";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// From an address that no test counts.
fn reader(httpd: &Httpd) -> Client {
    httpd.client("127.0.0.99")
}

/// A request with another method than GET.
#[track_caller]
fn ask(httpd: &Httpd, method: &str, path: &str) -> Response {
    let mut connection = reader(httpd).connect();
    connection.send(connection.request(method, path, "Connection: close\r\n"));
    let head = connection.head();
    match method {
        "HEAD" => head,
        _ => connection.body_of(head),
    }
}

#[test]
fn each_format_has_its_type_and_is_never_stored() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_log("no limits configured")
        .start();
    for (query, content_type) in [
        ("", "text/html; charset=utf-8"),
        ("?format=html", "text/html; charset=utf-8"),
        ("?format=json", "application/json"),
        ("?format=openmetrics", OPENMETRICS),
        ("?from=here&format=openmetrics", OPENMETRICS),
    ] {
        let path = format!("{PAGE}{query}");
        for method in ["GET", "HEAD"] {
            let answer = ask(&httpd, method, &path);
            let header = |name| answer.header(name);
            assert_eq!(answer.status, 200, "{method} {path}");
            assert_eq!(header("content-type"), Some(content_type), "{path}");
            assert_eq!(header("cache-control"), Some("no-store"), "{path}");
            assert_eq!(header("x-content-type-options"), Some("nosniff"), "{path}");
            assert_eq!(header("referrer-policy"), Some("no-referrer"), "{path}");
            let policy = header("content-security-policy");
            let is_page = content_type.starts_with("text/html");
            assert_eq!(policy.is_some(), is_page, "{path}: {policy:?}");
        }
    }
    let unknown = ask(&httpd, "GET", "/limit-status?format=%3Cpoem%3E");
    assert_eq!(unknown.status, 400);
    let text = unknown.text();
    assert!(text.contains("format=openmetrics"), "{text}");
    let posted = ask(&httpd, "POST", PAGE);
    assert_eq!(posted.status, 405);
    let allowed = posted.header("allow").expect("Allow");
    assert!(
        allowed.contains("GET") && !allowed.contains("POST"),
        "{allowed}"
    );
}

#[test]
fn without_ip_limit_status_page_nothing_is_shown() {
    let httpd = Httpd::on(Mpm::Event)
        .without_status()
        .conf("<Location /limit-status>\n SetHandler limitipconn-status\n</Location>")
        .expect_log("no limits configured")
        .expect_log("IPLimitStatusPage")
        .start();
    for query in ["", "?format=json", "?format=openmetrics"] {
        let answer = ask(&httpd, "GET", &format!("{PAGE}{query}"));
        assert_eq!(answer.status, 404, "{query}");
        assert!(!answer.text().contains("workers"), "{}", answer.text());
    }
    let log = httpd.error_log();
    let line = "limitipconn-status is not shown, since IPLimitStatusPage is Off";
    assert_eq!(log.matches(line).count(), 3, "{log}");
}

/// What Prometheus' own parser of OpenMetrics makes of the text: each sample with its name,
/// labels and value.
const PARSE: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
samples = []
for family in parse(sys.stdin.read()):
    assert family.documentation and family.type in ('counter', 'gauge', 'info'), family
    for sample in family.samples:
        samples.append([sample.name, sample.labels, sample.value])
json.dump(samples, sys.stdout)
";

#[track_caller]
fn parsed(text: &str) -> Vec<Value> {
    let mut python = Command::new("/usr/bin/python3")
        .args(["-c", PARSE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("cannot run python3: {e}; install python3-prometheus-client"));
    let mut input = python.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("write to python3");
    drop(input);
    let said = python.wait_with_output().expect("wait for python3");
    let wrong = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{wrong}\n{text}");
    serde_json::from_slice(&said.stdout).unwrap_or_else(|e| panic!("{e}: {wrong}"))
}

/// The one sample of this name whose labels have these values.
#[track_caller]
fn value(samples: &[Value], name: &str, labels: &[(&str, &str)]) -> f64 {
    let is_it = |sample: &&Value| {
        let has = |(label, value): &(&str, &str)| sample[1][*label] == *value;
        sample[0] == name && labels.iter().all(has)
    };
    let found: Vec<&Value> = samples.iter().filter(is_it).collect();
    match found[..] {
        [sample] => sample[2].as_f64().expect("a number"),
        _ => panic!("{name} {labels:?}: {found:?} of {samples:#?}"),
    }
}

fn busy_server() -> Setup {
    Httpd::on(Mpm::Event).expect_refusals().conf(
        "IPLimitZone token key=%{HTTP:X-Api-Key}
             IPLimitExempt 127.0.0.50
             IPLimitMinRate 1000 busy=80%
             <Location /hoge>
                 MaxConnPerIP 2 scope=location
                 MaxRatePerIP 100/s
                 MaxRatePerIP 1000/h
             </Location>
             <LocationMatch \"^/(\\\"<script>\\d|fuga)\">
                 MaxConnPerKey token 9
             </LocationMatch>
             <VirtualHost *:${PORT}>
                 ServerName host.example
                 DocumentRoot ${DOCROOT}
                 MaxHitsPerIP 3/10min freeze=30min
             </VirtualHost>",
    )
}

#[test]
fn parser_of_prometheus_reads_the_same_numbers_as_the_json() {
    let httpd = busy_server().start();
    let client = httpd
        .client("127.0.0.2")
        .header("X-Api-Key", "token-of-a-client");
    let _held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
    let _keyed = httpd
        .client("127.0.0.3")
        .header("X-Api-Key", "token-of-a-client")
        .hold("/fuga/hold.cgi");
    assert_eq!(httpd.client("127.0.0.50").status("/hoge/small.txt"), 200);
    let frozen = httpd.client("127.0.0.4");
    let statuses = [(); 4].map(|()| frozen.status("/small.txt"));
    assert_eq!(statuses, [200, 200, 200, 429]);

    let answer = reader(&httpd).get(METRICS);
    let (text, json) = (answer.text(), httpd.gauge());
    for shown in ["127.0.0", "token-of", "/hold.cgi"] {
        assert!(!text.contains(shown), "{shown} in {text}");
    }
    let samples = parsed(&text);
    for row in json.rows("rules") {
        let rule = row["rule"].as_str().expect("a name");
        let vhost = row["vhost"].as_str().unwrap_or("");
        let labels = [("rule", rule), ("vhost", vhost)];
        let alike: Vec<&Value> = json
            .rows("rules")
            .filter(|other| (&other["rule"], &other["vhost"]) == (&row["rule"], &row["vhost"]))
            .collect();
        for field in ["passed", "refused", "refused_dry_run", "delayed", "exempt"] {
            let sum: f64 = alike.iter().map(|row| row[field].as_f64().unwrap()).sum();
            // The reader of the JSON has come after that of the metrics.
            let own = if vhost.is_empty() || field != "passed" {
                0.0
            } else {
                1.0
            };
            let told = value(
                &samples,
                &format!("limitipconn_rule_{field}_total"),
                &labels,
            );
            assert!(
                (told..=told + own).contains(&sum),
                "{field} of {rule}: {told} but {sum}"
            );
        }
    }
    let of = |rule| {
        value(
            &samples,
            "limitipconn_rule_nearest_ratio",
            &[("rule", rule)],
        )
    };
    assert_eq!(of("MaxConnPerIP@/hoge"), 1.0);
    // What stands in the configuration comes through the quotes of the labels.
    let hostile = "MaxConnPerKey:token@LocationMatch:^/(%22<script>\\d|fuga)";
    assert_eq!(of(hostile), 1.0 / 9.0);
    for (name, place) in [
        ("limitipconn_keys_capacity", "/keys/capacity"),
        ("limitipconn_keys_frozen", "/keys/frozen"),
        ("limitipconn_workers_max", "/pool/max_workers"),
        ("limitipconn_evictions_total", "/evictions"),
        ("limitipconn_exempt_requests_total", "/exempt"),
        ("limitipconn_cut_too_slow_total", "/cut_too_slow"),
    ] {
        let told = json.pointer(place).and_then(Value::as_f64);
        assert_eq!(told, Some(value(&samples, name, &[])), "{name}");
    }
    let writing = value(&samples, "limitipconn_workers", &[("state", "writing")]);
    assert!(writing >= 3.0, "{writing}");
    let guard = [("rule", "IPLimitMinRate@server")];
    assert_eq!(value(&samples, "limitipconn_guard_acts", &guard), 0.0);
}

#[test]
fn empty_server_is_read_too() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_log("no limits configured")
        .conf("IPLimitAlarm off")
        .start();
    let text = reader(&httpd).get(METRICS).text();
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let samples = parsed(&text);
    assert_eq!(value(&samples, "limitipconn_keys_used", &[]), 0.0);
}

/// The example for Prometheus: the collector reads the metrics and nothing else, and what the
/// comments name is there.
#[test]
fn prometheus_reads_the_metrics_and_nobody_s_address() {
    const EXAMPLE: &str = include_str!("../conf/examples/prometheus.conf");
    let httpd = Httpd::on(Mpm::Event)
        .without_status()
        .expect_refusals()
        .expect_log("client denied by server configuration")
        .conf("MaxConnPerIP 1 count=requests")
        .conf(
            &EXAMPLE
                .replace("192.0.2.30", "127.0.0.30")
                // To which all clients of the test belong.
                .replace("Require local", "Require ip 127.0.0.1"),
        )
        .start();
    let said = |name: &str| -> &str {
        let (_, rest) = EXAMPLE.split_once(name).expect("a line of prometheus.yml");
        rest.lines().next().unwrap().trim().trim_matches(['[', ']'])
    };
    let path = format!("{}?format={}", said("metrics_path: "), said("format: "));
    let collector = httpd.client("127.0.0.30");
    // It is spared, whatever else comes from there.
    let _held = [(); 3].map(|()| collector.hold("/hold.cgi"));
    let answer = collector.get(&path);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some(OPENMETRICS));
    let samples = parsed(&answer.text());
    let words = EXAMPLE.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut named = 0;
    for name in words.filter(|word| word.starts_with("limitipconn_")) {
        named += 1;
        assert!(samples.iter().any(|sample| sample[0] == name), "{name}");
    }
    assert!(named > 5);
    let page = said("metrics_path: ");
    for closed in [
        page,
        &format!("{page}?format=json"),
        &format!("{path}&format=json"),
    ] {
        assert_eq!(collector.status(closed), 403, "{closed}");
        assert_eq!(httpd.client("127.0.0.1").status(closed), 200, "{closed}");
    }
    for closed in [page, &path] {
        assert_eq!(httpd.client("127.0.0.31").status(closed), 403, "{closed}");
    }
}
