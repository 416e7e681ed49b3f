//! What the instruction bench measures, a row of its table each, in order.

use std::path::Path;

/// What is measured: httpd's common configuration plus these lines.
pub struct Case {
    pub name: &'static str,
    pub label: &'static str,
    pub slots: u32,
    pub loads: Loads,
    pub lines: &'static str,
    /// The name of the row above that this one is compared with, and how many
    /// instructions it may add to that.
    pub against: Option<&'static str>,
    pub budget: Option<i64>,
}

#[derive(Clone, Copy)]
pub enum Loads {
    Nothing,
    Ours,
    Yardstick,
    /// Ours, on a scoreboard that the yardstick fills with strangers.
    OursAndYardstick,
}

/// A section costs httpd a merge of all modules' configuration, whatever it
/// says, so rules in sections are compared with the same sections, empty.
pub const CASES: &[Case] = &[
    Case {
        name: "httpd",
        label: "httpd alone",
        slots: 256,
        loads: Loads::Nothing,
        lines: "",
        against: None,
        budget: None,
    },
    Case {
        name: "section",
        label: "httpd alone, one empty section",
        slots: 256,
        loads: Loads::Nothing,
        lines: "<Location /b>\n</Location>\n",
        against: Some("httpd"),
        budget: None,
    },
    Case {
        name: "sections",
        label: "httpd alone, four empty sections",
        slots: 256,
        loads: Loads::Nothing,
        lines: "<Directory />\n</Directory>\n<FilesMatch txt>\n</FilesMatch>\n\
                <Location />\n</Location>\n<Location /b>\n</Location>\n",
        against: Some("httpd"),
        budget: None,
    },
    Case {
        name: "no-rule",
        label: "loaded, no rule",
        slots: 256,
        loads: Loads::Ours,
        lines: "",
        against: Some("httpd"),
        budget: Some(60),
    },
    Case {
        name: "location",
        label: "one rule in <Location>",
        slots: 256,
        loads: Loads::Ours,
        lines: "<Location /b>\nMaxConnPerIP 100 scope=location\n</Location>\n",
        against: Some("section"),
        budget: Some(600),
    },
    Case {
        name: "watched",
        label: "the same, watched for slow clients",
        slots: 256,
        loads: Loads::Ours,
        lines: "<Location /b>\nMaxConnPerIP 100 scope=location\nIPLimitMinRate 500 after=1h\n</Location>\n",
        against: Some("location"),
        budget: None,
    },
    Case {
        name: "mime",
        label: "the same with NoIPLimit image/*",
        slots: 256,
        loads: Loads::Ours,
        lines: "<Location /b>\nMaxConnPerIP 100 scope=location\nNoIPLimit image/*\n</Location>\n",
        against: Some("location"),
        budget: Some(80),
    },
    Case {
        name: "five",
        label: "five rules (two in effect)",
        slots: 256,
        loads: Loads::Ours,
        lines: "MaxConnPerIP 100 scope=location\n\
                <Directory />\nMaxConnPerIP 90 scope=location\n</Directory>\n\
                <FilesMatch txt>\nMaxConnPerIP 80 scope=location\n</FilesMatch>\n\
                <Location />\nMaxConnPerIP 70 scope=location\n</Location>\n\
                <Location /b>\nMaxConnPerIP 60 scope=location\n</Location>\n",
        against: Some("sections"),
        budget: Some(1700),
    },
    Case {
        name: "root",
        label: "httpd alone, empty <Location />",
        slots: 256,
        loads: Loads::Nothing,
        lines: "<Location />\n</Location>\n",
        against: Some("httpd"),
        budget: None,
    },
    Case {
        name: "rate",
        label: "one rate rule in <Location />",
        slots: 256,
        loads: Loads::Ours,
        lines: "<Location />\nMaxRatePerIP 1000000/s burst=1000000\n</Location>\n",
        against: Some("root"),
        budget: Some(450),
    },
    Case {
        name: "hits",
        label: "one rule of hits in <Location />",
        slots: 256,
        loads: Loads::Ours,
        lines: "<Location />\nMaxHitsPerIP 1000000/s\n</Location>\n",
        against: Some("root"),
        budget: None,
    },
    Case {
        name: "rate-key",
        label: "one rate per key (client/24,48)",
        slots: 256,
        loads: Loads::Ours,
        lines: "IPLimitZone nets key=client/24,48\n\
                <Location />\nMaxRatePerKey nets 1000000/s burst=1000000\n</Location>\n",
        against: Some("root"),
        budget: None,
    },
    Case {
        name: "rate-expression",
        label: "one rate per key (%{HTTP_HOST})",
        slots: 256,
        loads: Loads::Ours,
        lines: "IPLimitZone hosts \"key=%{HTTP_HOST} %{REQUEST_METHOD}\"\n\
                <Location />\nMaxRatePerKey hosts 1000000/s burst=1000000\n</Location>\n",
        against: Some("root"),
        budget: None,
    },
    Case {
        name: "workers-256",
        label: "workers, 256 slots",
        slots: 256,
        loads: Loads::OursAndYardstick,
        lines: "MaxConnPerIP 100 scope=server\n",
        against: Some("httpd"),
        budget: Some(900),
    },
    Case {
        name: "workers-4096",
        label: "workers, 4096 slots",
        slots: 4096,
        loads: Loads::OursAndYardstick,
        lines: "MaxConnPerIP 100 scope=server\n",
        against: Some("httpd"),
        budget: Some(6500),
    },
    Case {
        name: "yardstick-256",
        label: "yardstick: C walk, 256 slots",
        slots: 256,
        loads: Loads::Yardstick,
        lines: "",
        against: Some("httpd"),
        budget: None,
    },
    Case {
        name: "yardstick-4096",
        label: "yardstick: C walk, 4096 slots",
        slots: 4096,
        loads: Loads::Yardstick,
        lines: "",
        against: Some("httpd"),
        budget: None,
    },
];

impl Case {
    /// Its whole configuration beyond the common part.
    pub fn configuration(&self, ours: &Path, yardstick: &Path) -> String {
        let load = |module: &str, path: &Path| {
            format!("LoadModule {module}_module \"{}\"\n", path.display())
        };
        let loads = match self.loads {
            Loads::Nothing => String::new(),
            Loads::Ours => load("limitipconn", ours),
            Loads::Yardstick => {
                "Define YARDSTICK_WALK\n".to_owned() + &load("yardstick", yardstick)
            }
            Loads::OursAndYardstick => load("limitipconn", ours) + &load("yardstick", yardstick),
        };
        loads + self.lines
    }
}
