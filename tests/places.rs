//! C34: every place in which httpd takes directives takes a rule that works, under a name that
//! tells the place, and an inner `off` that works.

mod support;

use support::{Client, Httpd, Mpm};

/// Limits /NAME to one request, sets /NAME/free free, and is called so.
struct Place {
    name: &'static str,
    section: [&'static str; 2],
    free: [&'static str; 2],
    rule: &'static str,
}

/// `DOCROOT` stands for the directory itself: expressions and regexes are no place for variables.
const PLACES: &[Place] = &[
    Place {
        name: "directory",
        section: ["<Directory ${DOCROOT}/directory>", "</Directory>"],
        free: ["<Directory ${DOCROOT}/directory/free>", "</Directory>"],
        rule: "Directory:DOCROOT/directory",
    },
    Place {
        name: "dirmatch",
        section: ["<DirectoryMatch /htdocs/dirmatch>", "</DirectoryMatch>"],
        free: [
            "<DirectoryMatch /htdocs/dirmatch/free>",
            "</DirectoryMatch>",
        ],
        rule: "DirectoryMatch:/htdocs/dirmatch",
    },
    Place {
        name: "location",
        section: ["<Location /location>", "</Location>"],
        free: ["<Location /location/free>", "</Location>"],
        rule: "/location",
    },
    Place {
        name: "locmatch",
        section: ["<LocationMatch ^/locmatch/.*cgi$>", "</LocationMatch>"],
        free: ["<LocationMatch ^/locmatch/free/>", "</LocationMatch>"],
        rule: "LocationMatch:^/locmatch/.*cgi$",
    },
    Place {
        name: "files",
        section: [
            "<Directory ${DOCROOT}/files>\n<Files hold.cgi>",
            "</Files>\n</Directory>",
        ],
        free: [
            "<Directory ${DOCROOT}/files/free>\n<Files hold.cgi>",
            "</Files>\n</Directory>",
        ],
        rule: "Directory:DOCROOT/files>Files:hold.cgi",
    },
    Place {
        name: "filesmatch",
        section: [
            "<Directory ${DOCROOT}/filesmatch>\n<FilesMatch ^hold>",
            "</FilesMatch>\n</Directory>",
        ],
        free: [
            "<Directory ${DOCROOT}/filesmatch/free>\n<FilesMatch ^hold>",
            "</FilesMatch>\n</Directory>",
        ],
        rule: "Directory:DOCROOT/filesmatch>FilesMatch:^hold",
    },
    Place {
        name: "if",
        section: ["<If \"%{REQUEST_URI} =~ m#^/if/#\">", "</If>"],
        free: ["<If \"%{REQUEST_URI} =~ m#^/if/free/#\">", "</If>"],
        rule: "If:%{REQUEST_URI} =~ m#^/if/#",
    },
    Place {
        name: "nested",
        section: [
            "<Location /nested>\n<If \"%{QUERY_STRING} != 'x'\">",
            "</If>\n</Location>",
        ],
        free: [
            "<Location /nested/free>\n<If \"true\">",
            "</If>\n</Location>",
        ],
        rule: "/nested>If:%{QUERY_STRING} != 'x'",
    },
    Place {
        name: "htaccess",
        section: ["", ""],
        free: ["", ""],
        rule: ".htaccess:DOCROOT/htaccess/",
    },
];

/// One is admitted, the next is refused by this rule; in /NAME/free nobody is.
#[track_caller]
fn limits_and_frees(httpd: &Httpd, client: &Client, place: &Place) {
    let name = place.name;
    let before = httpd.log_lines("limitipconn(101): ").len();
    let held = client.hold(&format!("/{name}/hold.cgi"));
    assert_eq!(client.status(&format!("/{name}/hold.cgi")), 503, "{name}");
    let lines = httpd.log_lines("limitipconn(101): ");
    assert_eq!(lines.len(), before + 1, "{name}: {lines:?}");
    let docroot = httpd.dir().join("htdocs").display().to_string();
    let rule = format!(
        "rule MaxConnPerIP@{}, vhost ",
        place.rule.replace("DOCROOT", &docroot)
    );
    assert!(
        lines[before].contains(&rule),
        "{name}: no {rule:?} in {}",
        lines[before]
    );
    let free = [(); 2].map(|()| client.hold(&format!("/{name}/free/hold.cgi")));
    assert_eq!(
        client.status(&format!("/{name}/free/hold.cgi")),
        200,
        "{name}"
    );
    drop((held, free));
    httpd.wait_for_quiet();
}

#[test]
fn every_section_takes_a_rule() {
    let mut setup = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf("<Directory ${DOCROOT}/htaccess>\n AllowOverride Limit\n</Directory>");
    for place in PLACES {
        setup = setup
            .furnish(place.name)
            .furnish(&format!("{}/free", place.name));
        for ([open, close], line) in [
            (place.section, "MaxConnPerIP 1 scope=location"),
            (place.free, "MaxConnPerIP off"),
        ] {
            if !open.is_empty() {
                setup = setup.conf(&format!("{open}\n{line}\n{close}"));
            }
        }
    }
    let httpd = setup
        .file("htaccess/.htaccess", "MaxConnPerIP 1 scope=location\n")
        .file("htaccess/free/.htaccess", "MaxConnPerIP 0\n")
        .start();
    let client = httpd.client("127.0.0.2");
    for place in PLACES {
        limits_and_frees(&httpd, &client, place);
    }
}

/// So do the main server and a virtual host; one customer's domain is set free.
#[test]
fn server_and_virtual_host_take_a_rule() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .conf(
            "MaxConnPerIP 1 count=requests scope=vhost
             <VirtualHost *:${PORT}>
                 ServerName plain.example
             </VirtualHost>
             <VirtualHost *:${PORT}>
                 ServerName two.example
                 MaxConnPerIP 2 count=requests scope=vhost
             </VirtualHost>
             <VirtualHost *:${PORT}>
                 ServerName free.example
                 MaxConnPerIP off
             </VirtualHost>",
        )
        .start();
    let hold = |host: &str| {
        let gate = httpd.gate(host);
        let mut connection = httpd.client("127.0.0.2").connect();
        connection.send(connection.request(
            "GET",
            &format!("/hoge/hold.cgi?{host}"),
            &format!("Host: {host}\r\n"),
        ));
        let status = connection.head().status;
        (status, connection, gate)
    };
    let one = hold("plain.example");
    assert_eq!(one.0, 200);
    let ask = |host: &str| {
        let mut connection = httpd.client("127.0.0.2").connect();
        connection.send(connection.request(
            "GET",
            "/hoge/small.txt",
            &format!("Host: {host}\r\nConnection: close\r\n"),
        ));
        connection.response().status
    };
    assert_eq!(ask("plain.example"), 503);
    let _two = hold("two.example");
    assert_eq!(ask("two.example"), 200);
    let _free = hold("free.example");
    assert_eq!([(); 3].map(|()| ask("free.example")), [200; 3]);
}

/// Proxied requests pass the section of their backend.
#[test]
fn proxy_section_takes_a_rule() {
    let httpd = Httpd::on(Mpm::Event)
        .expect_refusals()
        .load(&["proxy", "proxy_http"])
        .conf(
            "Listen 127.0.0.1:${PORT2}
             <VirtualHost *:${PORT}>
                 ServerName front.example
                 ProxyPass /app http://127.0.0.1:${PORT2}/hoge disablereuse=On
                 <Proxy http://127.0.0.1:${PORT2}/hoge*>
                     MaxConnPerIP 1 scope=location
                 </Proxy>
             </VirtualHost>
             <VirtualHost *:${PORT2}>
                 ServerName back.example
             </VirtualHost>",
        )
        .start();
    let client = httpd.client("127.0.0.2");
    let _held = client.hold("/app/hold.cgi");
    assert_eq!(client.status("/app/small.txt"), 503);
    assert_eq!(client.status("/hoge/small.txt"), 200);
    assert!(
        httpd.wait_for_log("limitipconn(101): ")[0]
            .contains("rule MaxConnPerIP@Proxy:http://127.0.0.1:")
    );
}
