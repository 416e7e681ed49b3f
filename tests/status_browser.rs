//! The status page in a real browser: what it shows, that it refreshes without losing the
//! reader's place, that nothing a client wrote becomes a part of it, and that all can read it.
//!
//! The browser starts once, so all of it is one test; each step is a sentence of its own.

#[path = "status_browser/probes.rs"]
mod probes;
mod support;

use serde_json::Value;
use support::{Browser, Client, DEADLINE, Held, Httpd, Mpm, Setup, wait_until};

const PAGE: &str = "/limit-status";
/// What no text of a client may become.
const HOSTILE: &str = "<script>alert(1)</script>'\"&<b>";

#[test]
fn page_in_a_browser() {
    let browser = Browser::start();
    for (step, name) in [
        (
            numbers_on_the_page_are_those_of_the_json as fn(&Browser),
            "numbers",
        ),
        (
            refresh_keeps_place_focus_selection_and_open_parts,
            "refresh",
        ),
        (pause_stops_it_and_a_dead_server_makes_it_stale, "pause"),
        (page_that_a_limit_refuses_waits_as_it_is_told, "refused"),
        (hostile_texts_stay_texts, "hostile"),
        (page_works_without_scripts, "no scripts"),
        (all_can_read_it_in_both_schemes_and_on_a_phone, "reading"),
        (all_can_be_reached_by_keyboard, "keyboard"),
    ] {
        eprintln!("step: {name}");
        step(&browser);
        leave(&browser);
    }
}

/// Leaves the page, whose server is gone, and forgets what it has said of that.
fn leave(browser: &Browser) {
    browser.devtools("Page.navigate", serde_json::json!({ "url": "about:blank" }));
    wait_until(DEADLINE, || match browser.run("return location.href") {
        here if here == "about:blank" => Ok(()),
        here => Err(here),
    });
    browser.console();
}

/// A server with something of everything: rules of each kind, requests in flight, refusals,
/// a frozen client, exemptions, a guard.
fn scene() -> Setup {
    Httpd::on(Mpm::Event)
        .expect_refusals()
        // One child: a browser's connection belongs to one, and would wait for its workers.
        .conf("StartServers 1\nThreadsPerChild 25\nMaxRequestWorkers 25\nMinSpareThreads 1")
        .conf(
            "IPLimitZone agent key=%{HTTP:User-Agent}
             IPLimitZone token key=%{HTTP:X-Api-Key} secret
             IPLimitExempt 127.0.0.50
             IPLimitMinRate 1000 busy=80%
             <Location /hoge>
                 MaxConnPerIP 3 scope=location
                 MaxConnPerKey agent 9
                 MaxRatePerKey token 100/d burst=4 delay=4
             </Location>
             <Location /fuga>
                 MaxHitsPerIP 3/10min freeze=30min
                 MaxConnPerIP 2 scope=location
             </Location>
             <Location /dry>
                 IPLimitDryRun On
                 MaxRatePerIP 2/min
                 MaxConnPerIP 20 scope=location busy=10%
             </Location>",
        )
        .furnish("dry")
}

/// Visitors of that server; those who hold something hold it as long as this lives.
fn visit(httpd: &Httpd) -> Vec<Held> {
    let visitor = |n: u8| {
        httpd
            .client(&format!("127.0.0.{n}"))
            .header("User-Agent", "Mozilla/5.0")
    };
    let mut held = vec![];
    for (n, number) in [(2, 3), (3, 2), (4, 1)] {
        held.extend((0..number).map(|_| visitor(n).hold("/hoge/hold.cgi")));
    }
    assert_eq!(visitor(2).status("/hoge/small.txt"), 503);
    let statuses = [(); 5].map(|()| visitor(5).status("/fuga/small.txt"));
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    for _ in 0..4 {
        assert_eq!(visitor(6).status("/dry/small.txt"), 200);
        assert_eq!(visitor(50).status("/hoge/small.txt"), 200);
    }
    let token = visitor(7).header("X-Api-Key", "0123-secret");
    assert_eq!(token.status("/hoge/small.txt"), 200);
    held
}

#[track_caller]
fn is_quiet(browser: &Browser) {
    assert_eq!(browser.console(), Vec::<String>::new());
}

fn numbers_on_the_page_are_those_of_the_json(browser: &Browser) {
    let httpd = scene().start();
    let _held = visit(&httpd);
    browser.look(1280, 900, "light");
    let compared = wait_until(3 * DEADLINE, || {
        browser.open(&httpd, PAGE);
        let page = browser.run(probes::NUMBERS);
        let json = httpd.gauge().0;
        probes::compare(&page, &json).map_err(|differ| format!("{differ:#?}"))
    });
    for must in [
        "/pool/busy",
        "/holders/0/workers",
        "/rules/0/passed",
        "/rules/2/busiest/0/count",
        "/counts/0/count",
        "/frozen/0/seconds_left",
        "/keys/used",
        "/cut_too_slow",
    ] {
        assert!(
            compared.contains(&must.to_owned()),
            "no {must} in {compared:?}"
        );
    }
    let json = httpd.gauge();
    let rules = json.rows("rules").count();
    assert_eq!(rules, 7, "{json:?}");
    assert!(compared.len() > rules * 6 + 40, "{compared:?}");
    assert_eq!(
        json.number("counts_left_out") + json.number("holders_left_out"),
        0
    );
    let text = text_of(browser, "main");
    for shown in [
        "starts at 80% busy",
        "acts now: 10% busy or more",
        "dry run",
        "100/d, burst 4, of which 4 do not wait",
        "3/10min, then frozen for 30min",
        "digest:",
    ] {
        assert!(text.contains(shown), "no {shown:?} in {text}");
    }
    assert!(!text.contains("0123-secret"), "{text}");
    is_quiet(browser);
}

/// Shows the page as it is now: to go on refreshes at once.
#[track_caller]
fn refresh(browser: &Browser) {
    let before = browser.run(probes::SHOWN);
    wait_until(6 * DEADLINE, || {
        browser.run(probes::GO_ON);
        let now = browser.run(probes::SHOWN);
        if now["as_of"] != before["as_of"] {
            Ok(())
        } else {
            Err(format!("{now}"))
        }
    });
}

fn refresh_keeps_place_focus_selection_and_open_parts(browser: &Browser) {
    let httpd = scene()
        // Of one name: nothing in the tables tells their rows apart.
        .conf("MaxConnPerIP 31 scope=location\nMaxConnPerIP 30 count=connections")
        .start();
    let mut held = visit(&httpd);
    browser.look(1000, 500, "light");
    browser.open(&httpd, PAGE);
    let before = browser.run(probes::SETTLE);
    // Above what is looked at rows come, go and change.
    held.remove(0);
    httpd.wait_for(|gauge| gauge.count_of("MaxConnPerIP@/hoge", "127.0.0.2") == 2);
    let _new: Vec<Held> = (60..66)
        .map(|n| httpd.client(&format!("127.0.0.{n}")).hold("/hold.cgi"))
        .collect();
    refresh(browser);
    wait_until(3 * DEADLINE, || {
        let shown =
            browser.run("return document.querySelectorAll('#holder-table tbody tr').length");
        if shown.as_u64() >= Some(9) {
            Ok(())
        } else {
            Err(shown)
        }
    });
    let after = browser.run(probes::SETTLED);
    for what in ["focus", "selection", "open", "top"] {
        assert_eq!(after[what], before[what], "{what}: {before:#} {after:#}");
    }
    assert!(after["scrolled"].as_f64() > Some(100.0), "{after:#}");
    // What was kept and changed is what a page made anew has.
    wait_until(3 * DEADLINE, || {
        refresh(browser);
        let rows = browser.run(probes::ROWS);
        if rows[0] == rows[1] && rows[0].as_array().map(Vec::len) > Some(20) {
            Ok(())
        } else {
            Err(format!("{rows:#}"))
        }
    });
    is_quiet(browser);
}

fn pause_stops_it_and_a_dead_server_makes_it_stale(browser: &Browser) {
    let mut httpd = scene().start();
    browser.open(&httpd, PAGE);
    assert_eq!(state(browser).0, "live");
    browser.run("document.getElementById('pause').click()");
    let (name, text) = state(browser);
    assert!(name == "paused" && text.starts_with("Paused at "), "{text}");
    httpd.stop().expect("a server that stops");
    browser.run("document.getElementById('pause').click()");
    let text = wait_until(3 * DEADLINE, || match state(browser) {
        (name, text) if name == "stale" => Ok(text),
        other => Err(other),
    });
    assert!(
        text.starts_with("Stale since ") && text.ends_with("the server cannot be reached"),
        "{text}"
    );
    // The browser's own word for a server that is away.
    for line in browser.console() {
        assert!(
            line.contains("ERR_CONNECTION_REFUSED") || line.contains("net::ERR"),
            "{line}"
        );
    }
}

/// The state of the page: its name and what it says.
fn state(browser: &Browser) -> (String, String) {
    let said = browser
        .run("const s = document.getElementById('state'); return [s.dataset.state, s.textContent]");
    let text = |at: usize| said[at].as_str().expect("a text").to_owned();
    (text(0), text(1))
}

fn page_that_a_limit_refuses_waits_as_it_is_told(browser: &Browser) {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf("<Location /limit-status>\nMaxHitsPerIP 2/d freeze=20min extend\n</Location>")
        .start();
    browser.open(&httpd, PAGE);
    // Twice it is answered; each look asks for it again.
    let text = wait_until(6 * DEADLINE, || match state(browser) {
        (name, text) if name == "stale" => Ok(text),
        other => {
            browser.run(probes::GO_ON);
            Err(other)
        }
    });
    let (_, next) = text.split_once("(status 429); next try in ").expect(&text);
    let seconds: u64 = next.trim_end_matches(" s").parse().expect(next);
    assert!((1100..=1200).contains(&seconds), "{text}");
    // The browser's own word for the refusal.
    for line in browser.console() {
        assert!(line.contains("429"), "{line}");
    }
}

fn hostile_texts_stay_texts(browser: &Browser) {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "IPLimitZone agent key=%{HTTP:User-Agent}
             MaxConnPerKey agent 1
             <LocationMatch \"^/(<script>alert\\(2\\)</script>|hoge)\">
                 MaxConnPerIP 5 scope=location
             </LocationMatch>
             <VirtualHost *:${PORT}>
                 ServerName \"<img src=x onerror=alert(3)>'&\"
                 DocumentRoot ${DOCROOT}
             </VirtualHost>",
        )
        .start();
    let client: Client = httpd.client("127.0.0.2").header("User-Agent", HOSTILE);
    let path = format!(
        "/hoge/hold.cgi/{}",
        HOSTILE.replace(' ', "%20").replace('"', "%22")
    );
    let _held = client.hold(&path);
    assert_eq!(client.status("/hoge/small.txt"), 503);
    browser.look(1280, 900, "light");
    browser.open(&httpd, PAGE);
    let strange = browser.run(probes::STRANGERS);
    assert_eq!(strange, Value::Array(vec![]), "{strange:#}");
    let json = httpd.gauge();
    let text = text_of(browser, "main");
    // The browser may hold a worker, too.
    let holder = json
        .rows("holders")
        .find(|row| row["client"] == "127.0.0.2");
    let holder = holder.unwrap_or_else(|| panic!("no holder in {json:?}"));
    let (key, uri) = (&json["counts"][0]["key"], &holder["uri"]);
    for raw in [key, uri, &holder["vhost"]] {
        let raw = raw.as_str().expect("a text");
        assert!(text.contains(raw), "no {raw:?} in {text}");
    }
    assert!(uri.as_str().unwrap().contains("<script>"), "{uri}");
    refresh(browser);
    let strange = browser.run(probes::STRANGERS);
    assert_eq!(strange, Value::Array(vec![]), "{strange:#}");
    is_quiet(browser);
}

fn page_works_without_scripts(browser: &Browser) {
    let httpd = scene().start();
    let _held = visit(&httpd);
    let switch = |off: bool| {
        browser.devtools(
            "Emulation.setScriptExecutionDisabled",
            serde_json::json!({ "value": off }),
        );
    };
    switch(true);
    browser.open(&httpd, PAGE);
    // The probe is the test's own, which runs all the same.
    let text = text_of(browser, "body");
    switch(false);
    for shown in [
        "Without scripts the page stays as it is",
        "127.0.0.2",
        "MaxConnPerIP@/hoge",
    ] {
        assert!(text.contains(shown), "no {shown:?} in {text}");
    }
    assert!(!text.contains("Pause"), "{text}");
    is_quiet(browser);
}

fn all_can_read_it_in_both_schemes_and_on_a_phone(browser: &Browser) {
    let httpd = scene().start();
    // Between two samples, so that there is something to draw.
    httpd.wait_for_within(6 * DEADLINE, |gauge| gauge.rows("history").count() >= 1);
    let _held = visit(&httpd);
    httpd.wait_for_within(6 * DEADLINE, |gauge| gauge.rows("history").count() >= 2);
    for (width, height) in [(1280, 900), (820, 1000), (360, 740)] {
        for scheme in ["light", "dark"] {
            browser.look(width, height, scheme);
            browser.open(&httpd, PAGE);
            let case = format!("{scheme}-{width}");
            browser.picture(&case);
            let faint = browser.run(probes::FAINT);
            assert_eq!(faint["faint"], Value::Array(vec![]), "{case}: {faint:#}");
            assert!(faint["texts"].as_u64() > Some(100), "{case}: {faint}");
            let cut = browser.run("return [document.documentElement.scrollWidth, innerWidth]");
            assert!(cut[0].as_u64() <= cut[1].as_u64(), "{case}: {cut}");
            let faults = browser.run(probes::STRUCTURE);
            assert_eq!(faults["faults"], Value::Array(vec![]), "{case}: {faults:#}");
            assert_eq!(faults["tables"], 4, "{case}");
            assert_eq!(faults["drawings"], 2, "{case}");
        }
    }
    is_quiet(browser);
}

fn all_can_be_reached_by_keyboard(browser: &Browser) {
    const TAB: &str = "\u{e004}";
    const SPACE: &str = " ";
    let httpd = scene().start();
    browser.look(1280, 900, "light");
    browser.open(&httpd, PAGE);
    let wanted = browser.run(probes::INTERACTIVE);
    let wanted = wanted.as_array().unwrap();
    assert!(wanted.len() > 8, "{wanted:?}");
    let mut reached = vec![];
    for _ in wanted {
        browser.press(TAB);
        let here = browser.run(probes::FOCUS);
        assert_eq!(here["ring"], true, "nothing shows the focus: {here}");
        reached.push(here["name"].clone());
    }
    assert_eq!(&reached, wanted);
    browser.run("document.getElementById('pause').focus()");
    browser.press(SPACE);
    let state = browser.run("return document.getElementById('state').dataset.state");
    assert_eq!(state, "paused");
    is_quiet(browser);
}

fn text_of(browser: &Browser, selector: &str) -> String {
    let text = browser.run(&format!(
        "return document.querySelector('{selector}').innerText"
    ));
    text.as_str().expect("a text").to_owned()
}
