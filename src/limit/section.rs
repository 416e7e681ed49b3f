//! Sections, as far as they can be told apart without a request: which of them surely
//! apply wherever another does, and in what order httpd merges them.
//!
//! A pattern may match where it does not look like it, so only plain paths, sections
//! within others and sections of equal name are known to go together.

/// A section with those around it, the outermost first; never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section(Vec<Step>);

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Step {
    kind: Kind,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Location,
    LocationMatch,
    Directory,
    DirectoryMatch,
    Files,
    If,
    Proxy,
}

/// Where a section comes when httpd merges all that apply to a request; what comes later
/// overrides. Sections of equal order come as they are written, those of the main server first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Order {
    stage: u8,
    outer: u8,
    depth: usize,
}

impl Section {
    /// The section of these names, as the names of rules have them: `/hoge`,
    /// `Directory:/srv`, `If:EXPR`. None for no names.
    pub fn of(names: &[String]) -> Option<Section> {
        (!names.is_empty()).then(|| Section(names.iter().map(|name| Step::of(name)).collect()))
    }

    /// Whether this section surely applies wherever `inner` does.
    pub fn is_around(&self, inner: &Section) -> bool {
        // Around, or of equal name.
        if inner.0.starts_with(&self.0) {
            return true;
        }
        match self.0.as_slice() {
            [only] => inner.0.iter().any(|step| only.is_around(step)),
            _ => false,
        }
    }

    /// Where it comes when httpd merges.
    pub fn order(&self) -> Order {
        let outermost = &self.0[0];
        let depth = match outermost.kind {
            Kind::Directory => outermost.components().count(),
            _ => 0,
        };
        match self.0.as_slice() {
            [only] => Order {
                stage: only.stage(),
                outer: 0,
                depth,
            },
            // A section within another waits for its turn, and comes after those without one.
            [first, .., last] => Order {
                stage: last.stage(),
                outer: 1 + first.stage(),
                depth,
            },
            [] => unreachable!("never empty"),
        }
    }
}

impl Step {
    fn of(name: &str) -> Step {
        const KINDS: [(&str, Kind); 10] = [
            ("LocationMatch", Kind::LocationMatch),
            ("Directory", Kind::Directory),
            ("DirectoryMatch", Kind::DirectoryMatch),
            ("Files", Kind::Files),
            ("FilesMatch", Kind::Files),
            ("If", Kind::If),
            ("ElseIf", Kind::If),
            ("Else", Kind::If),
            ("Proxy", Kind::Proxy),
            ("ProxyMatch", Kind::Proxy),
        ];
        let named = name.split_once(':').and_then(|(word, _)| {
            KINDS
                .into_iter()
                .find(|(kind, _)| *kind == word)
                .map(|(_, kind)| kind)
        });
        // What is no plain path keeps its whole name, so that Files:x is not FilesMatch:x.
        let text = match (named, name.split_once(':')) {
            (Some(Kind::Directory), Some((_, path))) => path,
            _ => name,
        };
        Step {
            kind: named.unwrap_or(Kind::Location),
            text: text.to_owned(),
        }
    }

    fn stage(&self) -> u8 {
        match self.kind {
            Kind::Directory | Kind::Proxy => 0,
            Kind::DirectoryMatch => 1,
            Kind::Files => 2,
            Kind::Location | Kind::LocationMatch => 3,
            Kind::If => 4,
        }
    }

    fn components(&self) -> impl Iterator<Item = &str> {
        self.text.split('/').filter(|part| !part.is_empty())
    }

    fn has_wildcard(&self) -> bool {
        self.text.contains(['*', '?', '['])
    }

    fn is_around(&self, inner: &Step) -> bool {
        let is_location = matches!(inner.kind, Kind::Location);
        match self.kind {
            Kind::Location if self.text == "/" => match inner.kind {
                // A URL is no path of this server.
                Kind::Location => inner.text.starts_with('/'),
                Kind::Proxy => false,
                _ => true,
            },
            Kind::Location if self.has_wildcard() => false,
            Kind::Location => {
                is_location
                    && inner.text.strip_prefix(&self.text).is_some_and(|rest| {
                        self.text.ends_with('/') || rest.is_empty() || rest.starts_with('/')
                    })
            }
            Kind::Directory => match inner.kind {
                Kind::Directory => {
                    let mut others = inner.components();
                    self.components().all(|part| others.next() == Some(part))
                }
                Kind::DirectoryMatch | Kind::Files => self.text == "/",
                _ => false,
            },
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(name: &str) -> Section {
        let names: Vec<String> = name.split('>').map(str::to_owned).collect();
        Section::of(&names).unwrap()
    }

    #[test]
    fn what_surely_goes_together_is_known() {
        for (outer, inner, expected) in [
            ("/", "/hoge", true),
            ("/hoge", "/hoge", true),
            ("/hoge", "/hoge/sub", true),
            ("/hoge/", "/hoge/sub", true),
            ("/hoge/", "/hoge", false),
            ("/hoge", "/hogehoge", false),
            ("/hoge/sub", "/hoge", false),
            ("/a", "/a/*", true),
            ("/a", "/a*", false),
            ("/a*", "/a*/b", false),
            ("/a*", "/a*", true),
            ("/", "LocationMatch:^/x", true),
            ("/x", "LocationMatch:^/x", false),
            ("/", "http://x/", false),
            ("/", "Proxy:*", false),
            ("/", "Directory:/srv", true),
            ("/srv", "Directory:/srv", false),
            ("Directory:/", "Directory:/srv", true),
            ("Directory:/srv/", "Directory:/srv/www", true),
            ("Directory:/srv", "Directory:/srvx", false),
            ("Directory:/home/*", "Directory:/home/*/www", true),
            ("Directory:/home/*", "Directory:/home/bob/www", false),
            ("Directory:/", "FilesMatch:x", true),
            ("Directory:/", "/", false),
            ("/hoge", "/hoge>If:x", true),
            ("/", "/hoge>If:x", true),
            ("If:x", "/hoge>If:x", false),
            ("/>If:x", "/hoge", false),
            ("Files:x", "FilesMatch:x", false),
        ] {
            let found = section(outer).is_around(&section(inner));
            assert_eq!(found, expected, "{outer} around {inner}");
        }
    }

    #[test]
    fn sections_merge_in_httpds_order() {
        let names = [
            "Directory:/",
            "Directory:/srv",
            "Directory:/srv/www/a",
            "DirectoryMatch:x",
            "Files:x",
            "Directory:/srv>Files:x",
            "/hoge",
            "If:x",
            "Directory:/srv>If:x",
            "/hoge>If:x",
        ];
        let orders: Vec<Order> = names.iter().map(|name| section(name).order()).collect();
        assert!(
            orders.windows(2).all(|pair| pair[0] < pair[1]),
            "{orders:?}"
        );
        assert_eq!(section("/").order(), section("LocationMatch:x").order());
    }

    #[test]
    fn nothing_is_no_section() {
        assert_eq!(Section::of(&[]), None);
    }
}
