//! The marks of a dry run are the refusals of the same conversation, enforced: what was
//! marked goes on being served, and yet holds nothing that others are refused for.

mod support;

use support::{Client, Connection, Held, Httpd, Mpm, Setup, on_every_mpm};

on_every_mpm!(
    marks_of_requests_are_the_refusals,
    marks_of_workers_are_the_refusals,
    marks_of_connections_are_the_refusals,
);

/// One step of a conversation.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// This client asks for the script of this place, which waits.
    Hold(u8, &'static str),
    /// What began in this step ends, if it was let in.
    End(usize),
}

use Step::{End, Hold};

/// Several clients, places and scopes; wide counts that come to be full by other places, and
/// places that are taken again once they are free.
const SCRIPT: &[Step] = &[
    Hold(2, "/hoge"),
    Hold(2, "/hoge"),
    Hold(2, "/hoge"), // over 2 of the place
    Hold(3, "/hoge"),
    Hold(2, "/fuga"),
    Hold(2, "/fuga"), // over 1 of the place
    Hold(2, "/"),
    Hold(2, "/"), // over 4 of the server
    Hold(2, "/hoge"),
    End(0),
    Hold(2, "/fuga"),
    Hold(2, "/hoge"),
    Hold(3, "/fuga"),
    End(12),
    Hold(3, "/fuga"),
    Hold(3, "/"),
    End(2),
    End(4),
    Hold(2, "/fuga"),
    Hold(2, "/wide"),
    End(6),
    Hold(2, "/wide"),
    Hold(3, "/wide"),
    Hold(3, "/wide"),
    Hold(3, "/hoge"),
    End(1),
    End(3),
    Hold(3, "/wide"),
    Hold(2, "/hoge"),
    Hold(2, "/hoge"),
];

/// What is in flight of one conversation: a step's request, and whether it counts.
struct Talk<'h> {
    httpd: &'h Httpd,
    is_dry: bool,
    rules: &'static [&'static str],
    held: Vec<Option<(Held, bool)>>,
    refused: Vec<usize>,
}

impl Talk<'_> {
    /// Refusals of an enforced server, marks of a dry one.
    fn told(&self) -> u64 {
        let number = |rule: &&str| {
            if self.is_dry {
                self.httpd.gauge().marked(rule)
            } else {
                self.httpd.gauge().refused(rule)
            }
        };
        self.rules.iter().map(number).sum()
    }

    fn step(&mut self, number: usize, step: Step) {
        let held = match step {
            Hold(client, place) => {
                let before = self.told();
                let client = self.httpd.client(&format!("127.0.0.{client}"));
                let path = format!("{}/hold.cgi", place.trim_end_matches('/'));
                let held = client.try_hold(&path).ok();
                let is_refused = self.told() > before;
                assert!(
                    self.is_dry || held.is_none() == is_refused,
                    "{number}: {step:?}"
                );
                assert!(
                    !self.is_dry || held.is_some(),
                    "{number}: {step:?} is refused"
                );
                if is_refused {
                    self.refused.push(number);
                }
                held.map(|held| (held, !is_refused))
            }
            End(begun) => {
                if let Some((held, _)) = self.held[begun].take() {
                    held.finish();
                }
                None
            }
        };
        self.held.push(held);
        self.settle();
    }

    /// Waits until the server has forgotten all that ended.
    fn settle(&self) {
        let busy = self.held.iter().flatten().count() as u64;
        self.httpd.wait_for(|gauge| gauge.busy() == busy + 1);
    }
}

/// The steps that were refused, or marked.
fn refused(
    mpm: Mpm,
    is_dry: bool,
    conf: &str,
    rules: &'static [&'static str],
    script: &[Step],
) -> Vec<usize> {
    let switch = if is_dry { "IPLimitDryRun On" } else { "" };
    let setup: Setup = Httpd::on(mpm).expect_refusals().conf(conf).conf(switch);
    let httpd = setup.furnish("wide").start();
    let mut talk = Talk {
        httpd: &httpd,
        is_dry,
        rules,
        held: Vec::new(),
        refused: Vec::new(),
    };
    for (number, step) in script.iter().enumerate() {
        talk.step(number, *step);
    }
    talk.refused
}

#[track_caller]
fn assert_marks_are_refusals(mpm: Mpm, conf: &str, rules: &'static [&'static str]) {
    let enforced = refused(mpm, false, conf, rules, SCRIPT);
    let dry = refused(mpm, true, conf, rules, SCRIPT);
    assert!(enforced.len() > 4, "hardly a test: {enforced:?}");
    assert_eq!(dry, enforced, "marked, and refused");
}

fn marks_of_requests_are_the_refusals(mpm: Mpm) {
    assert_marks_are_refusals(
        mpm,
        "MaxConnPerIP 4 count=requests
         <Location /hoge>
             MaxConnPerIP 2 scope=location
         </Location>
         <Location /fuga>
             MaxConnPerIP 1 scope=location
         </Location>
         <Location /wide>
             MaxConnPerIP 3 scope=vhost
         </Location>",
        &[
            "MaxConnPerIP@server",
            "MaxConnPerIP@/hoge",
            "MaxConnPerIP@/fuga",
            "MaxConnPerIP@/wide",
        ],
    );
}

/// The rule of workers stands beside one of requests.
fn marks_of_workers_are_the_refusals(mpm: Mpm) {
    assert_marks_are_refusals(
        mpm,
        "IPLimitExempt 127.0.0.99
         MaxConnPerIP 3
         <Location /hoge>
             MaxConnPerIP 1 scope=location
         </Location>
         <Location /wide>
             MaxConnPerIP 2 scope=server
         </Location>",
        &[
            "MaxConnPerIP@server",
            "MaxConnPerIP@/hoge",
            "MaxConnPerIP@/wide",
        ],
    );
}

/// A connection over the number is closed, or stays and is told.
fn marks_of_connections_are_the_refusals(mpm: Mpm) {
    let run = |is_dry: bool| {
        let switch = if is_dry { "IPLimitDryRun On" } else { "" };
        let httpd = Httpd::on(mpm)
            .expect_refusals()
            .conf("AcceptFilter http none\nKeepAliveTimeout 300\nIPLimitExempt 127.0.0.99")
            .conf("MaxConnPerIP 2 count=connections")
            .conf(switch)
            .start();
        let rule = "MaxConnPerIP@server";
        let told = || {
            if is_dry {
                httpd.gauge().marked(rule)
            } else {
                httpd.gauge().refused(rule)
            }
        };
        let passed = || httpd.gauge().passed(rule);
        let mut open: Vec<Option<Connection>> = Vec::new();
        let mut refused = Vec::new();
        let connect = |client: u8, open: &mut Vec<_>, refused: &mut Vec<usize>| {
            let (told_before, passed_before) = (told(), passed());
            let client: Client = httpd.client(&format!("127.0.0.{client}"));
            let mut connection = client.connect();
            httpd.wait_for(|_| told() + passed() > told_before + passed_before);
            let is_refused = told() > told_before;
            if is_refused {
                refused.push(open.len());
            }
            if is_dry || !is_refused {
                assert_eq!(connection.get("/hoge/small.txt").status, 200);
                open.push(Some(connection));
            } else {
                assert!(connection.try_response().is_err(), "closed without a byte");
                open.push(None);
            }
        };
        let counted = |client: &str, count: u64| {
            httpd.wait_for(|gauge| gauge.count_of(rule, client) == count);
        };
        for client in [2, 2, 2, 3, 2, 3, 3] {
            connect(client, &mut open, &mut refused);
        }
        counted("127.0.0.2", 2);
        open[2] = None; // One that was marked counted for nobody.
        open[0] = None;
        counted("127.0.0.2", 1);
        for client in [2, 2, 3] {
            connect(client, &mut open, &mut refused);
        }
        open[3] = None;
        counted("127.0.0.3", 1);
        connect(3, &mut open, &mut refused);
        if is_dry {
            let lines = httpd.wait_for_log("limitipconn(101): ");
            let end = "would be refused (dry run): too many connections from this host: 3/2, rule MaxConnPerIP@server";
            assert!(lines[0].contains(end), "{}", lines[0]);
            assert!(!lines[0].contains("vhost"), "{}", lines[0]);
        }
        drop(open);
        counted("127.0.0.2", 0);
        counted("127.0.0.3", 0);
        refused
    };
    let enforced = run(false);
    assert_eq!(enforced, [2, 4, 6, 8, 9]);
    assert_eq!(run(true), enforced, "marked, and refused");
}
