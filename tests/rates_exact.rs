//! Exactness of rates: however many come together, to whatever child, as many are admitted as
//! the bucket holds.

mod support;

use std::collections::BTreeMap;

use support::{
    Client, Connection, DEADLINE, Httpd, Mpm, Response, at_once, on_every_mpm, wait_until,
};

on_every_mpm!(
    twenty_of_a_hundred_on_connections_of_their_own,
    twenty_of_a_hundred_on_kept_connections,
    every_client_has_its_own_twenty,
    charges_by_status_are_exact_too,
);

/// Eight children at first, each of which ends after five connections.
const CHILDREN: &str = "StartServers 8\nMaxConnectionsPerChild 5";

/// On event a child whose connections come before its main thread waits for the signal to end
/// misses it, and keeps its place in the scoreboard until the server stops: a place for each.
const PLACES: &str = "ServerLimit 64\nMaxRequestWorkers 1024\nMaxSpareThreads 1024";

/// Nothing grows back meanwhile.
const RATES: [&str; 3] = [
    "MaxRatePerIP 20/d",
    "MaxHitsPerIP 20/d freeze=2h",
    "MaxHitsPerIP 20/h\n MaxRatePerIP 25/d\n MaxRatePerIP 40/h",
];

fn server(mpm: Mpm, rate: &str) -> Httpd {
    let place = format!("<Location /hoge>\n {rate}\n</Location>");
    let setup = Httpd::on(mpm).expect_refusals().conf(&place);
    if rate != RATES[0] {
        return setup.start();
    }
    let places = if mpm == Mpm::Prefork { "" } else { PLACES };
    // Where such children come and go, some do not hear at a stop that they shall end.
    setup
        .conf(CHILDREN)
        .conf(places)
        .expect_log("AH00046")
        .expect_log("AH00047")
        .start()
}

/// One GET on a connection of its own. A child of event may end without looking at the last
/// connection that it took; what was not read is not charged, and is asked again.
#[track_caller]
fn get(client: &Client, path: &str) -> Response {
    wait_until(3 * DEADLINE, || client.try_get(path))
}

fn statuses(answers: impl Iterator<Item = Response>) -> BTreeMap<u16, usize> {
    let mut statuses = BTreeMap::new();
    for answer in answers {
        *statuses.entry(answer.status).or_default() += 1;
    }
    statuses
}

/// A hundred, twenty-five at a time, give these.
#[track_caller]
fn exactly_twenty(httpd: &Httpd, rate: &str, ask_four: impl Fn() -> Vec<Response> + Sync) {
    let answers = at_once(25, |_| ask_four());
    let expected = BTreeMap::from([(200, 20), (429, 80)]);
    assert_eq!(statuses(answers.into_iter().flatten()), expected, "{rate}");
    // By then other children serve.
    let answers = at_once(10, |_| ask_four());
    let expected = BTreeMap::from([(429, 40)]);
    assert_eq!(statuses(answers.into_iter().flatten()), expected, "{rate}");
    let gauge = httpd.wait_for(|_| true);
    let faults = ["untracked", "audit_mismatches", "faults"].map(|name| gauge.number(name));
    assert_eq!(faults, [0; 3], "{rate}: {gauge:?}");
}

fn twenty_of_a_hundred_on_connections_of_their_own(mpm: Mpm) {
    for rate in RATES {
        let httpd = server(mpm, rate);
        let client = httpd.client("127.0.0.2");
        exactly_twenty(&httpd, rate, || {
            (0..4).map(|_| get(&client, "/hoge/small.txt")).collect()
        });
    }
}

/// A connection that goes on for as long as its child does.
fn kept<'c>(client: &'c Client) -> impl FnMut() -> Response + 'c {
    let mut connection: Option<Connection> = None;
    move || loop {
        let mut open = connection.take().unwrap_or_else(|| client.connect());
        let sent = open.try_send(open.request("GET", "/hoge/small.txt", ""));
        // A child that ends closes what waits for another request.
        if let Ok(answer) = sent.and_then(|()| open.try_response()) {
            if answer.header("connection") != Some("close") {
                connection = Some(open);
            }
            return answer;
        }
    }
}

fn twenty_of_a_hundred_on_kept_connections(mpm: Mpm) {
    for rate in RATES {
        let httpd = server(mpm, rate);
        let client = httpd.client("127.0.0.2");
        exactly_twenty(&httpd, rate, || {
            let mut ask = kept(&client);
            (0..4).map(|_| ask()).collect()
        });
    }
}

fn every_client_has_its_own_twenty(mpm: Mpm) {
    let httpd = server(mpm, RATES[0]);
    let admitted = at_once(12, |n| {
        let client = httpd.client(&format!("127.0.1.{}", n % 4));
        let answers = (0..10).map(|_| get(&client, "/hoge/small.txt"));
        (n % 4, answers.filter(|answer| answer.status == 200).count())
    });
    for client in 0..4 {
        let of_client = admitted.iter().filter(|(n, _)| *n == client);
        assert_eq!(of_client.map(|(_, number)| number).sum::<usize>(), 20);
    }
}

/// Those that are under way together pass together; each of them is charged.
fn charges_by_status_are_exact_too(mpm: Mpm) {
    let httpd = server(mpm, "MaxHitsPerIP 39/h on=404 freeze=2h");
    let client = httpd.client("127.0.0.2");
    let answers = at_once(13, |_| [(); 3].map(|()| client.get("/hoge/none")));
    let expected = BTreeMap::from([(404, 39)]);
    assert_eq!(statuses(answers.into_iter().flatten()), expected);
    assert_eq!(client.status("/hoge/small.txt"), 200);
    assert_eq!(client.status("/hoge/none"), 404);
    assert_eq!(client.status("/hoge/small.txt"), 429);
}
