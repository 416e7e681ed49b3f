//! The section in mod_status' page, and its lines for the programs that ask for `?auto`.

mod support;

use support::{Client, Httpd, Mpm, Setup, on_every_mpm};

on_every_mpm!(
    section_shows_totals_rules_and_holders,
    lines_for_programs_are_a_name_and_a_number,
);

const STATUS: &str = "
<Location /server-status>
    SetHandler server-status
    MaxConnPerIP off
    Require all granted
</Location>
";

/// A server that may refuse, with mod_status.
fn server(mpm: Mpm, lines: &str) -> Setup {
    Httpd::on(mpm)
        .load(&["status"])
        .expect_refusals()
        .conf(lines)
        .conf(STATUS)
}

/// The page as another client sees it.
fn page(httpd: &Httpd, query: &str) -> String {
    let answer = reader(httpd).get(&format!("/server-status{query}"));
    assert_eq!(answer.status, 200);
    answer.text()
}

fn reader(httpd: &Httpd) -> Client {
    httpd.client("127.0.0.98")
}

/// A place of two, of which one client has both and another one; and one refusal.
const LIMITED: &str = "
<Location /hoge>
    MaxConnPerIP 2 scope=location
</Location>
";

fn section_shows_totals_rules_and_holders(mpm: Mpm) {
    let httpd = server(mpm, LIMITED).start();
    let (one, two) = (httpd.client("127.0.0.2"), httpd.client("127.0.0.3"));
    let _one = [(); 2].map(|()| one.hold("/hoge/hold.cgi"));
    let _two = two.hold("/hoge/hold.cgi");
    assert_eq!(one.status("/hoge/small.txt"), 503);
    let text = page(&httpd, "");
    let (_, section) = text
        .split_once("<h2>Limits per client</h2>")
        .unwrap_or_else(|| panic!("no section: {text}"));
    for line in [
        "<dt>Rules: 1</dt>",
        "<dt>Passed: 3</dt>",
        "<dt>Refused: 1</dt>",
        "<dt>Keys used: 2</dt>",
        "<dt>Places held: 3</dt>",
        "<dt>Untracked: 0</dt>",
        "<dt>Faults: 0</dt>",
        "<tr><td>MaxConnPerIP@/hoge</td><td>-</td><td>2</td><td>location</td><td>requests</td><td>3</td><td>1</td><td>0</td><td>0</td></tr>",
        "<tr><td>MaxConnPerIP@/hoge</td><td>-</td><td>127.0.0.2</td><td>2</td></tr>\n\
         <tr><td>MaxConnPerIP@/hoge</td><td>-</td><td>127.0.0.3</td><td>1</td></tr>",
    ] {
        assert!(section.contains(line), "no {line} in {section}");
    }
    assert!(text.trim_end().ends_with("</html>"), "{text}");
    let text = page(&httpd, "?notable");
    let (_, section) = text
        .split_once("<h2>Limits per client</h2>")
        .unwrap_or_else(|| panic!("no section: {text}"));
    assert!(!section.contains("<table"), "{section}");
    assert!(
        section.contains("Client: 127.0.0.2, Requests: 2<br />"),
        "{section}"
    );
}

fn lines_for_programs_are_a_name_and_a_number(mpm: Mpm) {
    let httpd = server(mpm, LIMITED).start();
    let (one, two) = (httpd.client("127.0.0.2"), httpd.client("127.0.0.3"));
    let _one = [(); 2].map(|()| one.hold("/hoge/hold.cgi"));
    let _two = two.hold("/hoge/hold.cgi");
    assert_eq!(one.status("/hoge/small.txt"), 503);
    let answer = reader(&httpd).get("/server-status?auto");
    assert!(
        answer
            .header("content-type")
            .is_some_and(|text| text.starts_with("text/plain")),
        "{answer:?}"
    );
    let text = answer.text();
    let ours: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("IPLimit"))
        .collect();
    let capacity = httpd.gauge()["keys"]["capacity"].to_string();
    assert_eq!(
        ours,
        [
            "IPLimitRules: 1",
            "IPLimitPassed: 3",
            "IPLimitRefused: 1",
            "IPLimitRefusedDryRun: 0",
            "IPLimitDelayed: 0",
            "IPLimitExempt: 0",
            "IPLimitKeysUsed: 2",
            &format!("IPLimitKeysCapacity: {capacity}"),
            "IPLimitKeysFrozen: 0",
            "IPLimitPlacesHeld: 3",
            "IPLimitEvictions: 0",
            "IPLimitUntracked: 0",
            "IPLimitCutTooSlow: 0",
            "IPLimitCutTooLong: 0",
            "IPLimitUnwatched: 0",
            "IPLimitCutsPutOff: 0",
            "IPLimitFaults: 0",
            "IPLimitTop1: 2 127.0.0.2 - MaxConnPerIP@/hoge",
            "IPLimitTop2: 1 127.0.0.3 - MaxConnPerIP@/hoge",
        ],
        "{text}"
    );
    // httpd's own lines are still there, and whole.
    for name in ["Total Accesses: ", "BusyWorkers: ", "Scoreboard: "] {
        assert!(
            text.lines().any(|line| line.starts_with(name)),
            "no {name} in {text}"
        );
    }
    // A program that takes what follows the first colon for a number finds one, or none.
    let numbers = ours.iter().filter_map(|line| line.split_once(": "));
    let numbers = numbers.filter(|(_, number)| number.parse::<u64>().is_ok());
    assert_eq!(numbers.count(), 17, "{text}");
}

/// What an administrator writes is text, in HTML too.
#[test]
fn names_of_sections_are_escaped() {
    let httpd = server(
        Mpm::Event,
        "<LocationMatch \"^/hoge/(<script>alert('1')&amp;)?\">\n MaxConnPerIP 2 scope=location\n</LocationMatch>\n\
         <If \"%{REQUEST_URI} == '/<b>'\">\n MaxConnPerIP 2 scope=location\n</If>",
    )
    .start();
    let _held = httpd.client("127.0.0.2").hold("/hoge/hold.cgi");
    let text = page(&httpd, "");
    assert!(
        !text.contains("<script>") && !text.contains("<b>'"),
        "{text}"
    );
    let rule = "MaxConnPerIP@LocationMatch:^/hoge/(&lt;script&gt;alert(&#39;1&#39;)&amp;amp;)?";
    assert_eq!(
        text.matches(&format!("<td>{rule}</td>")).count(),
        2,
        "{text}"
    );
    let text = page(&httpd, "?auto");
    assert!(
        text.contains("IPLimitTop1: 1 127.0.0.2 - MaxConnPerIP@LocationMatch:^/hoge/(<script>"),
        "{text}"
    );
}

#[test]
fn page_without_the_module_is_httpds_own() {
    let httpd = Httpd::on(Mpm::Event)
        .load(&["status"])
        .without_module()
        .conf("<Location /server-status>\n SetHandler server-status\n Require all granted\n</Location>")
        .start();
    let text = page(&httpd, "");
    assert!(!text.contains("Limits per client"), "{text}");
    assert!(!page(&httpd, "?auto").contains("IPLimit"));
}

/// The section asks for nothing: not even for the handler's own page to be on.
#[test]
fn section_needs_no_rule_and_no_status_page() {
    let httpd = Httpd::on(Mpm::Event)
        .load(&["status"])
        .without_status()
        .expect_log("limitipconn(201): ")
        .conf("<Location /server-status>\n SetHandler server-status\n Require all granted\n</Location>")
        .start();
    let text = page(&httpd, "");
    assert!(text.contains("<dt>Rules: 0</dt>"), "{text}");
    assert!(!text.contains("<h3>Rules</h3>"), "{text}");
    assert!(page(&httpd, "?auto").contains("\nIPLimitRules: 0\n"));
}

/// Where nothing of the module runs, or it fails, the page is mod_status' own.
#[test]
fn fault_of_ours_leaves_the_page_whole() {
    if !cfg!(debug_assertions) {
        return;
    }
    let httpd = server(Mpm::Event, LIMITED)
        .env("LIMITIPCONN_PLANTED_FAULT", "1")
        .expect_log("the request is served: panicked at")
        .start();
    let text = page(&httpd, "");
    assert!(!text.contains("Limits per client"), "{text}");
    assert!(text.trim_end().ends_with("</html>"), "{text}");
}
