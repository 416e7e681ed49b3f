//! `httpd -t -D DUMP_IPLIMIT`: the rules in effect, where each is written, and what it
//! inherits.

mod support;

use std::fs;

use support::{Configtest, Httpd, Mpm, Setup};

/// A dump, with the configuration that it is of.
struct Dump {
    said: Configtest,
    conf: String,
    file: String,
}

/// What httpd prints about these lines.
fn dump(lines: &str) -> Dump {
    dump_of(Httpd::on(Mpm::Event).without_status().conf(lines))
}

fn dump_of(setup: Setup) -> Dump {
    let said = setup.configtest_with(&["-D", "DUMP_IPLIMIT"]);
    let file = setup.dir().join("httpd.conf");
    let conf = fs::read_to_string(&file).expect("read httpd.conf");
    Dump {
        said,
        conf,
        file: file.display().to_string(),
    }
}

impl Dump {
    /// The text, each `(@TEXT)` of which stands for file and line of the only line that is TEXT.
    #[track_caller]
    fn holds(&self, expected: &str) {
        assert_eq!(self.said.code, 0, "{:?}", self.said);
        let expected: Vec<String> = expected
            .trim()
            .lines()
            .map(|line| match line.trim().split_once(" (@") {
                None => line.trim().to_owned(),
                Some((before, rest)) => {
                    let (text, after) = rest.split_once("@)").expect("an end of the mark");
                    format!("{before} ({}:{}){after}", self.file, self.line(text))
                }
            })
            .collect();
        let found: Vec<&str> = self.said.stdout.lines().map(str::trim).collect();
        assert!(
            found.windows(expected.len()).any(|lines| lines == expected),
            "not in a row: {expected:#?}\nin\n{}",
            self.said.stdout
        );
    }

    #[track_caller]
    fn line(&self, text: &str) -> usize {
        let mut lines = (1..)
            .zip(self.conf.lines())
            .filter(|(_, line)| line.trim() == text);
        let (number, _) = lines.next().unwrap_or_else(|| panic!("no line {text}"));
        assert_eq!(lines.next(), None, "{text} stands twice");
        number
    }
}

const SITES: &str = "
MaxConnPerIP 50 count=requests
IPLimitTable keys=1024
IPLimitDefaults scope=location
<Location />
    MaxConnPerIP 9
    NoIPLimit text
    OnlyIPLimit application
</Location>
<Location /hoge>
    MaxConnPerIP 3
    NoIPLimit \"image/*\"
    <If \"%{REQUEST_METHOD} == 'POST'\">
        MaxConnPerIP 2 scope=server count=workers
    </If>
</Location>
<Location /hogehoge>
    MaxConnPerIP 4 scope=location
</Location>
<Directory ${DOCROOT}/fuga>
    IPLimitDefaults count=requests
</Directory>
<VirtualHost *:8080>
    ServerName first.example
</VirtualHost>
<VirtualHost *:8081>
    ServerName second.example:81
    MaxConnPerIP 20
    IPLimitDefaults scope=vhost
    <Location /hoge/sub>
        NoIPLimit off
    </Location>
</VirtualHost>
";

#[test]
fn rules_are_told_with_what_they_mean_and_where_they_stand() {
    let dump = dump(SITES);
    assert_eq!(dump.said.stderr.trim(), "Syntax OK");
    dump.holds(
        "mod_limitipconn: the rules in effect

         main server localhost:8080
         rule MaxConnPerIP@server: 50 scope=location count=requests (@MaxConnPerIP 50 count=requests@)
         scope=location by IPLimitDefaults (@IPLimitDefaults scope=location@)
         setting IPLimitTable keys=1024 (@IPLimitTable keys=1024@)
         setting IPLimitDefaults scope=location (@IPLimitDefaults scope=location@)
         section / (@<Location />@)
         says MaxConnPerIP 9 (@MaxConnPerIP 9@)
         says NoIPLimit text (@NoIPLimit text@)
         says OnlyIPLimit application (@OnlyIPLimit application@)
         rule MaxConnPerIP@/: 9 scope=location count=requests (@MaxConnPerIP 9@)
         scope=location by IPLimitDefaults (@IPLimitDefaults scope=location@)
         and the rules outside sections: MaxConnPerIP@server",
    );
    assert!(
        dump.said
            .stdout
            .ends_with("\n.htaccess files are not read here.\n"),
        "{}",
        dump.said.stdout
    );
}

#[test]
fn section_tells_what_it_inherits_and_overrides() {
    let dump = dump(SITES);
    dump.holds(
        "section /hoge (@<Location /hoge>@)
         says MaxConnPerIP 3 (@MaxConnPerIP 3@)
         says NoIPLimit \"image/*\" (@NoIPLimit \"image/*\"@)
         rule MaxConnPerIP@/hoge: 3 scope=location count=requests (@MaxConnPerIP 3@)
         scope=location by IPLimitDefaults (@IPLimitDefaults scope=location@)
         overrides MaxConnPerIP@/: 9 (@MaxConnPerIP 9@)
         inherits OnlyIPLimit application of / (@OnlyIPLimit application@)
         overrides NoIPLimit text of / (@NoIPLimit text@)
         and the rules outside sections: MaxConnPerIP@server",
    );
    dump.holds(
        "section /hoge>If:%{REQUEST_METHOD} == 'POST' (@<If \"%{REQUEST_METHOD} == 'POST'\">@)
         says MaxConnPerIP 2 scope=server count=workers (@MaxConnPerIP 2 scope=server count=workers@)
         rule MaxConnPerIP@/hoge>If:%{REQUEST_METHOD} == 'POST': 2 scope=server count=workers (@MaxConnPerIP 2 scope=server count=workers@)
         overrides MaxConnPerIP@/hoge: 3 (@MaxConnPerIP 3@)
         inherits OnlyIPLimit application of / (@OnlyIPLimit application@)
         inherits NoIPLimit \"image/*\" of /hoge (@NoIPLimit \"image/*\"@)",
    );
    dump.holds(
        "rule MaxConnPerIP@/hogehoge: 4 scope=location count=requests (@MaxConnPerIP 4 scope=location@)
         overrides MaxConnPerIP@/: 9 (@MaxConnPerIP 9@)",
    );
    // <Location /> is merged after every <Directory>.
    dump.holds(
        "says IPLimitDefaults count=requests (@IPLimitDefaults count=requests@)
         inherits rule MaxConnPerIP@/: 9 scope=location count=requests (@MaxConnPerIP 9@)
         scope=location by IPLimitDefaults (@IPLimitDefaults scope=location@)
         count=requests by IPLimitDefaults (@IPLimitDefaults count=requests@)
         inherits NoIPLimit text of / (@NoIPLimit text@)",
    );
}

#[test]
fn virtual_hosts_tell_what_is_the_main_servers() {
    let dump = dump(SITES);
    let hosts: Vec<usize> = ["first.example:8080", "second.example:81"]
        .map(|name| {
            dump.said
                .stdout
                .find(&format!("virtual host {name} ("))
                .unwrap_or_else(|| panic!("no {name}: {}", dump.said.stdout))
        })
        .to_vec();
    assert!(hosts[0] < hosts[1], "{}", dump.said.stdout);
    dump.holds(
        "virtual host first.example:8080 (@<VirtualHost *:8080>@)
         rule MaxConnPerIP@server: 50 scope=location count=requests (@MaxConnPerIP 50 count=requests@), inherited from the main server
         scope=location by IPLimitDefaults (@IPLimitDefaults scope=location@)
         setting IPLimitDefaults scope=location (@IPLimitDefaults scope=location@), inherited from the main server
         section / (@<Location />@) of the main server, as there
         section /hoge (@<Location /hoge>@) of the main server, as there",
    );
    dump.holds(
        "virtual host second.example:81 (@<VirtualHost *:8081>@)
         rule MaxConnPerIP@vhost: 20 scope=vhost count=requests (@MaxConnPerIP 20@)
         scope=vhost by IPLimitDefaults (@IPLimitDefaults scope=vhost@)
         setting IPLimitDefaults scope=location (@IPLimitDefaults scope=location@), inherited from the main server
         setting IPLimitDefaults scope=vhost (@IPLimitDefaults scope=vhost@)
         section /hoge/sub (@<Location /hoge/sub>@)
         says NoIPLimit off (@NoIPLimit off@)
         inherits rule MaxConnPerIP@/hoge: 3 scope=vhost count=requests (@MaxConnPerIP 3@)
         scope=vhost by IPLimitDefaults (@IPLimitDefaults scope=vhost@)
         inherits OnlyIPLimit application of / (@OnlyIPLimit application@)
         overrides NoIPLimit text of / (@NoIPLimit text@)
         overrides NoIPLimit \"image/*\" of /hoge (@NoIPLimit \"image/*\"@)
         and the rules outside sections: MaxConnPerIP@vhost
         section / (@<Location />@) of the main server
         rule MaxConnPerIP@/: 9 scope=vhost count=requests (@MaxConnPerIP 9@)
         scope=vhost by IPLimitDefaults (@IPLimitDefaults scope=vhost@)",
    );
}

/// One of the most frequent slips: httpd merges Locations in the order of the file.
#[test]
fn section_that_a_later_one_overrides_says_so() {
    let dump = dump(
        "<Location /hoge>
             MaxConnPerIP 8 scope=location
         </Location>
         <Location />
             MaxConnPerIP 9 scope=location
         </Location>",
    );
    dump.holds(
        "rule MaxConnPerIP@/hoge: 8 scope=location count=requests (@MaxConnPerIP 8 scope=location@) is not in effect
         overridden by MaxConnPerIP@/: 9 (@MaxConnPerIP 9 scope=location@), which is merged later
         inherits rule MaxConnPerIP@/: 9 scope=location count=requests (@MaxConnPerIP 9 scope=location@)",
    );
    // And so it is.
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .expect_log("limitipconn(206): ")
        .without_status()
        .conf(
            "<Location /hoge>\n MaxConnPerIP 1 scope=location\n</Location>\n\
             <Location />\n MaxConnPerIP 2 scope=location\n</Location>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = [(); 2].map(|()| client.hold("/hoge/hold.cgi"));
    assert_eq!(client.status("/hoge/small.txt"), 503);
}

#[test]
fn superseded_rule_is_not_in_effect() {
    let dump = dump(
        "<Location /hoge>
             IPLimitDefaults scope=location
             maxconnperip 9
             MaxConnPerIP 8
         </Location>",
    );
    assert!(dump.said.stderr.contains("limitipconn(203): "));
    dump.holds(
        "says IPLimitDefaults scope=location (@IPLimitDefaults scope=location@)
         says MaxConnPerIP 9 (@maxconnperip 9@), whose place a later line takes
         says MaxConnPerIP 8 (@MaxConnPerIP 8@)
         rule MaxConnPerIP@/hoge: 8 scope=location count=requests (@MaxConnPerIP 8@)
         scope=location by IPLimitDefaults (@IPLimitDefaults scope=location@)",
    );
    assert!(!dump.said.stdout.contains("rule MaxConnPerIP@/hoge: 9"));
}

/// One file of lines in two sections, and one virtual host twice.
#[test]
fn included_files_are_told_apart() {
    let setup = Httpd::on(Mpm::Event).without_status().conf(
        "<Location /hoge>
             Include ${TMP}/lines
         </Location>
         <Location /fuga>
             Include ${TMP}/lines
         </Location>
         Define NAME first
         Include ${TMP}/site
         Define NAME second
         Include ${TMP}/site",
    );
    let lines = setup.dir().join("lines");
    fs::write(&lines, "MaxConnPerIP 7 scope=location\n").expect("write a file");
    let site = "<VirtualHost *:8080>\nServerName ${NAME}.example\n<Location /${NAME}>\n\
                MaxConnPerIP 6 scope=vhost\n</Location>\n</VirtualHost>\n";
    fs::write(setup.dir().join("site"), site).expect("write a file");
    let dump = dump_of(setup);
    let text = &dump.said.stdout;
    for name in ["hoge", "fuga"] {
        let expected = format!(
            "rule MaxConnPerIP@/{name}: 7 scope=location count=requests ({}:1)\n",
            lines.display()
        );
        assert!(text.contains(&expected), "{text}");
    }
    for name in ["first", "second"] {
        let host = format!("virtual host {name}.example:8080 (");
        let (_, host) = text.split_once(&host).expect("the virtual host");
        let expected = format!("rule MaxConnPerIP@/{name}: 6 scope=vhost");
        assert!(
            host.lines()
                .nth(2)
                .is_some_and(|line| line.contains(&format!("section /{name} ")))
                && host.contains(&expected),
            "{text}"
        );
    }
}

#[test]
fn server_without_a_rule_says_so() {
    dump("").holds(
        "mod_limitipconn: the rules in effect
         no rule in the configuration files

         main server localhost:8080
         no rule outside sections",
    );
}

#[test]
fn arguments_stay_on_their_line_and_show_no_control_characters() {
    let dump = dump(
        "<Location /hoge>\n MaxConnPerIP 8 scope=location\n NoIPLimit \"a\u{1b}[2Jb\" b\u{fc}\n</Location>",
    );
    let text = &dump.said.stdout;
    assert!(
        text.contains("says NoIPLimit \"a%1B[2Jb\" b%C3%BC ("),
        "{text}"
    );
    assert!(
        text.bytes()
            .all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)),
        "{text}"
    );
}

#[test]
fn without_the_word_or_without_t_nothing_is_printed() {
    let setup = Httpd::on(Mpm::Event).conf("MaxConnPerIP 50");
    assert_eq!(setup.configtest().stdout, "");
    let httpd = Httpd::on(Mpm::Event)
        .conf("Define DUMP_IPLIMIT\nMaxConnPerIP 50")
        .start();
    assert_eq!(httpd.client("127.0.0.2").status("/hoge/small.txt"), 200);
    assert!(!httpd.error_log().contains("the rules in effect"));
}

/// Debug builds panic while they make the text when they are told to.
#[test]
fn fault_of_ours_does_not_end_the_test() {
    if !cfg!(debug_assertions) {
        return;
    }
    let setup = Httpd::on(Mpm::Event)
        .env("LIMITIPCONN_PLANTED_FAULT", "1")
        .conf("MaxConnPerIP 50");
    let said = setup.configtest_with(&["-D", "DUMP_IPLIMIT"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""), "{said:?}");
    assert!(
        said.stderr.contains("planted") && said.stderr.contains("Syntax OK"),
        "{said:?}"
    );
}

#[test]
fn the_manual_shows_what_is_printed() {
    let manual = include_str!("../docs/manual.md");
    let (_, chapter) = manual
        .split_once("\n## Which rules a configuration has\n")
        .expect("the chapter");
    let block = |opening: &str, ends: &str| -> String {
        let (_, rest) = chapter.split_once(opening).expect("a block");
        let (text, _) = rest.split_once(ends).expect("its end");
        text.to_owned()
    };
    let setup = Httpd::on(Mpm::Event)
        .without_status()
        .conf("ServerName www.example.com:80\nInclude ${TMP}/example.conf");
    let example = setup.dir().join("example.conf");
    fs::write(&example, block("\n```apache\n", "```\n")).expect("write a file");
    let dump = dump_of(setup);
    assert_eq!(
        dump.said
            .stdout
            .replace(&example.display().to_string(), "/etc/httpd.conf"),
        block("it is\n\n```\n", "```\n")
    );
}
