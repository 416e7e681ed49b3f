//! The text as the manual shows it.

use super::*;

fn spot(line: u32) -> Spot {
    Spot {
        file: "/conf/httpd.conf".into(),
        line,
    }
}

fn rule(name: &str, number: &str, scope: (&str, Option<u32>), line: u32) -> Rule {
    Rule {
        name: name.into(),
        number: number.into(),
        choices: vec![
            Choice {
                text: format!("scope={}", scope.0),
                from: scope.1.map(spot),
            },
            Choice {
                text: "count=requests".into(),
                from: None,
            },
        ],
        spot: spot(line),
    }
}

fn written(name: &'static str, arguments: &str, line: u32) -> Written {
    Written {
        name,
        arguments: arguments.into(),
        spot: spot(line),
    }
}

fn foreign(what: &str, line: u32) -> Foreign {
    Foreign {
        what: what.into(),
        spot: spot(line),
    }
}

fn main_server() -> Server {
    let inner = Section {
        name: "/hoge".into(),
        spot: spot(20),
        says: vec![
            (written("MaxConnPerIP", "9", 21), true),
            (written("MaxConnPerIP", "3", 22), false),
            (written("NoIPLimit", "\"image/*\"", 23), false),
        ],
        rules: vec![(
            rule("MaxConnPerIP@/hoge", "3", ("location", Some(11)), 22),
            Fate::Own(vec![foreign("MaxConnPerIP@/: 9", 15)]),
        )],
        inherits: vec![foreign("OnlyIPLimit video of /", 16)],
        overrides: vec![foreign("NoIPLimit text of /", 17)],
    };
    let lost = Section {
        name: "Directory:/srv".into(),
        spot: spot(30),
        says: vec![(written("MaxConnPerIP", "off", 31), false)],
        rules: vec![
            (
                Rule {
                    choices: Vec::new(),
                    ..rule("MaxConnPerIP@Directory:/srv", "off", ("", None), 31)
                },
                Fate::Lost(foreign("MaxConnPerIP@/: 9", 15)),
            ),
            (
                rule("MaxConnPerIP@/", "9", ("location", Some(11)), 15),
                Fate::Inherited,
            ),
        ],
        inherits: Vec::new(),
        overrides: Vec::new(),
    };
    Server {
        label: "localhost:80".into(),
        spot: None,
        rules: vec![(
            rule("MaxConnPerIP@server", "50", ("server", None), 10),
            false,
        )],
        settings: vec![(written("IPLimitDefaults", "scope=location", 11), false)],
        sections: vec![inner, lost],
        main_sections: Vec::new(),
    }
}

#[test]
fn rules_are_told_with_their_places() {
    let main = main_server();
    let mut here = main.sections[0].clone();
    here.rules[0].0.choices[0].text = "scope=vhost".into();
    let host = Server {
        label: "site.example:80".into(),
        spot: Some(spot(40)),
        rules: vec![(main.rules[0].0.clone(), true)],
        settings: vec![
            (main.settings[0].0.clone(), true),
            (written("NoIPLimit", "text", 41), false),
        ],
        sections: Vec::new(),
        main_sections: vec![here, main.sections[1].clone()],
    };
    let expected = "\
mod_limitipconn: the rules in effect

main server localhost:80
  rule MaxConnPerIP@server: 50 scope=server count=requests (/conf/httpd.conf:10)
  setting IPLimitDefaults scope=location (/conf/httpd.conf:11)
  section /hoge (/conf/httpd.conf:20)
    says MaxConnPerIP 9 (/conf/httpd.conf:21), whose place a later line takes
    says MaxConnPerIP 3 (/conf/httpd.conf:22)
    says NoIPLimit \"image/*\" (/conf/httpd.conf:23)
    rule MaxConnPerIP@/hoge: 3 scope=location count=requests (/conf/httpd.conf:22)
      scope=location by IPLimitDefaults (/conf/httpd.conf:11)
      overrides MaxConnPerIP@/: 9 (/conf/httpd.conf:15)
    inherits OnlyIPLimit video of / (/conf/httpd.conf:16)
    overrides NoIPLimit text of / (/conf/httpd.conf:17)
    and the rules outside sections: MaxConnPerIP@server
  section Directory:/srv (/conf/httpd.conf:30)
    says MaxConnPerIP off (/conf/httpd.conf:31)
    rule MaxConnPerIP@Directory:/srv: off (/conf/httpd.conf:31) is not in effect
      overridden by MaxConnPerIP@/: 9 (/conf/httpd.conf:15), which is merged later
    inherits rule MaxConnPerIP@/: 9 scope=location count=requests (/conf/httpd.conf:15)
      scope=location by IPLimitDefaults (/conf/httpd.conf:11)
    and the rules outside sections: MaxConnPerIP@server

virtual host site.example:80 (/conf/httpd.conf:40)
  rule MaxConnPerIP@server: 50 scope=server count=requests (/conf/httpd.conf:10), inherited from the main server
  setting IPLimitDefaults scope=location (/conf/httpd.conf:11), inherited from the main server
  setting NoIPLimit text (/conf/httpd.conf:41)
  section /hoge (/conf/httpd.conf:20) of the main server
    rule MaxConnPerIP@/hoge: 3 scope=vhost count=requests (/conf/httpd.conf:22)
      scope=vhost by IPLimitDefaults (/conf/httpd.conf:11)
      overrides MaxConnPerIP@/: 9 (/conf/httpd.conf:15)
    inherits OnlyIPLimit video of / (/conf/httpd.conf:16)
    overrides NoIPLimit text of / (/conf/httpd.conf:17)
  section Directory:/srv (/conf/httpd.conf:30) of the main server, as there

Which sections of other kinds meet in one request (patterns, Directory under Location, Files, If) \
is not known before it comes.
.htaccess files are not read here.
";
    assert_eq!(text(&[main, host]), expected);
}

#[test]
fn a_server_without_a_rule_says_so() {
    let server = Server {
        rules: Vec::new(),
        settings: Vec::new(),
        sections: Vec::new(),
        ..main_server()
    };
    let text = text(&[server]);
    assert!(
        text.starts_with(
            "mod_limitipconn: the rules in effect\nno rule in the configuration files\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("\nmain server localhost:80\n  no rule outside sections\n"),
        "{text}"
    );
}

#[test]
fn no_text_of_the_configuration_leaves_its_line() {
    let mut server = main_server();
    let nasty = "a\nmain server b\u{1b}[2J\u{fc}";
    server.label = nasty.into();
    server.rules[0].0.name = nasty.into();
    server.rules[0].0.number = nasty.into();
    server.settings[0].0.arguments = nasty.into();
    server.settings[0].0.spot.file = nasty.into();
    server.sections[0].name = nasty.into();
    server.sections[0].inherits[0].what = nasty.into();
    let lines = text(&[main_server()]).lines().count();
    let text = text(&[server]);
    assert!(
        text.bytes()
            .all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)),
        "{text}"
    );
    assert_eq!(text.lines().count(), lines, "{text}");
}
