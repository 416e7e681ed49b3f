//! Where the directives about clients, exemptions, connections and answers may stand, and
//! what a .htaccess file gets that has one which may not.

mod support;

use support::{Configtest, Httpd, Mpm};

fn test(lines: &str) -> Configtest {
    Httpd::on(Mpm::Event).conf(lines).configtest()
}

/// Where nothing of the kind may stand, httpd or we say so by the directive's name.
#[test]
fn every_directive_knows_its_place() {
    let in_vhost = |line: &str| format!("<VirtualHost *:8080>\n {line}\n</VirtualHost>");
    let in_place = |line: &str| format!("<Location /hoge>\n {line}\n</Location>");
    let in_directory = |line: &str| format!("<Directory ${{DOCROOT}}>\n {line}\n</Directory>");
    let main = [
        "IPLimitAddress client",
        "IPLimitPrefix 32 64",
        "MaxConnPerIP 9 count=connections",
    ];
    let server = ["IPLimitClientHeader X-Real-IP trusted=10.0.0.1"];
    let sections = [
        "IPLimitExempt 127.0.0.1",
        "IPLimitExempt all",
        "LocalIP 127.0.0.1 ::1",
        "IPLimitErrorStatus 429 429",
        "IPLimitRetryAfter 1min",
        "IPLimitHeaders On",
        "IPLimitDryRun On",
        "IPLimitLogLevel info",
        "IPLimitDefaults busy=50%",
        "MaxConnPerIP 9 scope=location busy=50% for=10.0.0.0/8",
    ];
    let is_good = |lines: &str| {
        let said = test(&format!(
            "MaxConnPerIP 99 count=requests for=192.0.2.0/24\n{lines}"
        ));
        assert_eq!(
            (said.code, said.stderr.trim()),
            (0, "Syntax OK"),
            "{lines:?}"
        );
    };
    let is_bad = |line: &str, lines: &str| {
        let said = test(lines);
        let name = line.split(' ').next().expect("a name");
        assert!(
            said.code == 1 && said.stderr.contains(name),
            "{lines:?}: {said:?}"
        );
    };
    for line in main {
        is_good(line);
        is_bad(line, &in_vhost(line));
        is_bad(line, &in_place(line));
        is_bad(line, &in_directory(line));
    }
    for line in server {
        is_good(line);
        is_good(&in_vhost(line));
        is_bad(line, &in_place(line));
    }
    for line in sections {
        is_good(line);
        is_good(&in_vhost(line));
        is_good(&in_place(line));
        is_good(&in_directory(line));
        is_good(&in_place(&format!("<If \"true\">\n {line}\n</If>")));
    }
}

/// In .htaccess most are not allowed, and what is allowed can be wrong: 500, and a line that
/// says where.
#[test]
fn htaccess_with_a_wrong_line_is_a_500_and_a_line() {
    let files = [
        (
            "answers",
            "IPLimitDryRun On\n",
            "IPLimitDryRun not allowed here",
        ),
        (
            "status",
            "IPLimitErrorStatus 429\n",
            "IPLimitErrorStatus not allowed here",
        ),
        (
            "headers",
            "IPLimitHeaders On\n",
            "IPLimitHeaders not allowed here",
        ),
        (
            "after",
            "IPLimitRetryAfter 5s\n",
            "IPLimitRetryAfter not allowed here",
        ),
        (
            "level",
            "IPLimitLogLevel emerg\n",
            "IPLimitLogLevel not allowed here",
        ),
        (
            "exempt",
            "IPLimitExempt all\n",
            "IPLimitExempt not allowed here",
        ),
        ("local", "LocalIP 127.0.0.2\n", "LocalIP not allowed here"),
        (
            "prefix",
            "IPLimitPrefix 0 0\n",
            "IPLimitPrefix not allowed here",
        ),
        (
            "header",
            "IPLimitClientHeader X trusted=127.0.0.1\n",
            "IPLimitClientHeader not allowed here",
        ),
        (
            "connections",
            "MaxConnPerIP 9 count=connections\n",
            "MaxConnPerIP: \"9 count=connections\"",
        ),
        (
            "busy",
            "MaxConnPerIP 9 busy=1\n",
            "MaxConnPerIP: busy=\"1\" is not understood",
        ),
        (
            "for",
            "MaxConnPerIP 9 for=office\n",
            "MaxConnPerIP: for=\"office\" is not understood",
        ),
    ];
    let setup = Httpd::on(Mpm::Event).conf(
        "MaxConnPerIP 50 count=requests\n<Directory ${DOCROOT}>\n AllowOverride All\n</Directory>",
    );
    let setup = files.iter().fold(setup, |setup, (dir, text, said)| {
        setup
            .furnish(dir)
            .file(&format!("{dir}/.htaccess"), text)
            .expect_log(said)
    });
    let httpd = setup
        .furnish("good")
        .file(
            "good/.htaccess",
            "MaxConnPerIP 9 scope=location busy=50% for=10.1,::1\n",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    for (dir, _, said) in files {
        assert_eq!(client.status(&format!("/{dir}/small.txt")), 500, "{dir}");
        let line = httpd.wait_for_log(said).pop().expect("a line");
        assert!(line.contains(&format!("/{dir}/.htaccess: ")), "{line}");
    }
    assert_eq!(client.status("/good/small.txt"), 200);
}
