//! What `httpd -t` says about lines whose places are to be named.

use std::fs;

use super::{Configtest, Httpd, Mpm, Setup};

/// What is told of one configuration: the verdict, and the line on which each text stands.
pub struct Verdict {
    /// What httpd said.
    pub said: Configtest,
    /// The whole configuration.
    pub conf: String,
    /// Its file.
    pub file: String,
}

/// The verdict on a server's configuration, and with which arguments after `-t`.
pub fn verdict_of(setup: Setup, arguments: &[&str]) -> Verdict {
    let setup = setup.without_status();
    let said = setup.configtest_with(arguments);
    let file = setup.dir().join("httpd.conf");
    Verdict {
        said,
        conf: fs::read_to_string(&file).expect("read httpd.conf"),
        file: file.display().to_string(),
    }
}

impl Verdict {
    /// The line that holds this text first, or last.
    pub fn line(&self, text: &str, last: bool) -> usize {
        let mut lines = (1..)
            .zip(self.conf.lines())
            .filter(|(_, line)| line.contains(text));
        let found = if last { lines.last() } else { lines.next() };
        found
            .unwrap_or_else(|| panic!("no {text} in the configuration"))
            .0
    }

    /// It is an error that holds these texts and names file and line of `at`.
    #[track_caller]
    pub fn is_error(&self, at: &str, texts: &[&str]) {
        let said = &self.said;
        assert_eq!(said.code, 1, "{at:?} is no error: {said:?}");
        let line = self.line(at, true);
        let places = [
            format!("on line {line} of {}", self.file),
            format!("line {line} of {}", self.file),
        ];
        assert!(
            places.iter().any(|place| said.stderr.contains(place)),
            "{at:?}: line {line} of {} is not named in {}",
            self.file,
            said.stderr
        );
        for text in texts {
            assert!(
                said.stderr.contains(text),
                "{at:?}: no {text:?} in {}",
                said.stderr
            );
        }
    }
}

/// Lines that are wrong, the text of the line that is to be named, and what is said of it.
#[track_caller]
pub fn all_are_errors(cases: &[(&str, &str, &[&str])]) {
    for (lines, at, texts) in cases {
        verdict_of(Httpd::on(Mpm::Event).conf(lines), &[]).is_error(at, texts);
    }
}
