//! The places that say something of ours: what was written, from httpd's tree, with the
//! rules that were made of it. File, line and name bring the two together.

use std::collections::HashMap;

use super::super::directives::ROWS;
use super::super::inventory::Inventory;
use super::super::place;
use super::super::rules::Placed;
use crate::httpd::command::Context;
use crate::httpd::server::Server;
use crate::httpd::tree::Node;
use crate::limit::rule::Defaults;
use crate::limit::section::Section;
use crate::limit::syntax;
use crate::report::dump::{Foreign, Spot, Written};
use crate::report::printable::printable;

/// The setting that rules take what they do not say from.
pub const DEFAULTS: &str = "IPLimitDefaults";

/// A directive of ours, and whether it made a rule.
pub struct Line {
    pub written: Written,
    pub context: Context,
    pub kind: Kind,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Setting,
    Rule(&'static Placed<'static>),
    /// It would have made one, but a later line of the section did.
    Superseded,
}

/// A section that says something of ours, or what a server says outside sections.
pub struct Place {
    pub server: usize,
    /// None outside sections.
    pub section: Option<Section>,
    pub name: String,
    pub spot: Spot,
    pub lines: Vec<Line>,
}

impl Place {
    pub fn rules(&self) -> impl Iterator<Item = &'static Placed<'static>> {
        self.lines.iter().filter_map(|line| match line.kind {
            Kind::Rule(rule) => Some(rule),
            Kind::Setting | Kind::Superseded => None,
        })
    }

    pub fn settings(&self) -> impl Iterator<Item = &Line> {
        self.lines
            .iter()
            .filter(|line| matches!(line.kind, Kind::Setting))
    }

    pub fn says(&self, setting: &str) -> bool {
        self.settings().any(|line| line.written.name == setting)
    }

    /// What it says for rules that do not say, and where.
    pub fn defaults(&self) -> (Defaults, Origin) {
        let lines = self.settings().filter(|line| line.written.name == DEFAULTS);
        let said = lines.filter_map(|line| {
            let defaults = syntax::defaults(&line.written.arguments).ok()?;
            Some((defaults, Origin::of(defaults, &line.written.spot)))
        });
        said.fold(<_>::default(), over)
    }

    pub fn foreign(&self, line: &Line) -> Foreign {
        Foreign {
            what: format!(
                "{} {} of {}",
                line.written.name, line.written.arguments, self.name
            ),
            spot: line.written.spot.clone(),
        }
    }
}

/// Who says which default.
#[derive(Clone, Default)]
pub struct Origin {
    pub scope: Option<Spot>,
    pub count: Option<Spot>,
    pub busy: Option<Spot>,
}

impl Origin {
    fn of(said: Defaults, spot: &Spot) -> Origin {
        Origin {
            scope: said.scope.map(|_| spot.clone()),
            count: said.count.map(|_| spot.clone()),
            busy: said.busy.map(|_| spot.clone()),
        }
    }
}

/// What the later of two says, and where it is silent the earlier.
pub fn over(around: (Defaults, Origin), own: (Defaults, Origin)) -> (Defaults, Origin) {
    let origin = Origin {
        scope: own.1.scope.or(around.1.scope),
        count: own.1.count.or(around.1.count),
        busy: own.1.busy.or(around.1.busy),
    };
    (own.0.or(around.0), origin)
}

/// All places that say something of ours, in the order of the tree.
pub fn of_tree(
    nodes: &[Node<'_>],
    inventory: &Inventory<'static>,
    servers: &[Server<'static>],
) -> Vec<Place> {
    let mut rules: HashMap<(&str, &str, &str, u32), Vec<&'static Placed<'static>>> = HashMap::new();
    for rule in inventory.rules() {
        let place = rule.place.split_once('@').map_or("", |(_, place)| place);
        let key = (rule.directive.name(), place, rule.file, rule.line);
        rules.entry(key).or_default().push(rule);
    }
    let makes_rules = |name: &str| inventory.rules().any(|rule| rule.directive.name() == name);
    let names: Vec<(&'static str, Context, bool)> = ROWS
        .iter()
        .filter_map(|row| {
            let name = row.name.to_str().ok()?;
            Some((name, row.context, makes_rules(name)))
        })
        .collect();
    let hosts = hosts(nodes, servers);
    let mut places: Vec<(Option<Node<'_>>, Place)> = Vec::new();
    for &node in nodes {
        let Some(&(name, context, makes_rules)) = names
            .iter()
            .find(|(name, ..)| name.eq_ignore_ascii_case(node.name()))
        else {
            continue;
        };
        let mut around = std::iter::successors(node.parent(), |node| node.parent());
        let host = around.clone().find_map(|node| {
            let (_, at) = hosts.iter().find(|(host, _)| *host == node)?;
            Some(*at)
        });
        let server = host.unwrap_or(0);
        let section = around.find(|node| place::section(*node).is_some());
        let steps = place::sections_around(node);
        let name_of_place = match (steps.is_empty(), server) {
            (true, 0) => String::from("server"),
            (true, _) => String::from("vhost"),
            (false, _) => printable(&steps.join(">")),
        };
        let spot = spot_of(node);
        let kind = if makes_rules {
            let key = (name, name_of_place.as_str(), spot.file.as_str(), spot.line);
            let here = rules.get(&key);
            let mut here = here.into_iter().flatten().copied();
            here.find(|rule| rule.server == Some(servers[server]))
                .map_or(Kind::Superseded, Kind::Rule)
        } else {
            Kind::Setting
        };
        let line = Line {
            written: Written {
                name,
                arguments: node.arguments().trim().to_owned(),
                spot,
            },
            context,
            kind,
        };
        let known = places
            .iter_mut()
            .rev()
            .find(|(node, place)| *node == section && place.server == server);
        match known {
            Some((_, place)) => place.lines.push(line),
            None => places.push((
                section,
                Place {
                    server,
                    section: Section::of(&steps),
                    name: name_of_place,
                    spot: section.map_or_else(|| line.written.spot.clone(), spot_of),
                    lines: vec![line],
                },
            )),
        }
    }
    places.into_iter().map(|(_, place)| place).collect()
}

/// The `<VirtualHost>` sections, and which of the servers each is. A file that is
/// included twice makes two of one file and line, in the same order.
fn hosts<'t>(nodes: &[Node<'t>], servers: &[Server<'_>]) -> Vec<(Node<'t>, usize)> {
    let mut left: Vec<(usize, Spot)> = servers
        .iter()
        .enumerate()
        .filter_map(|(at, server)| {
            let (file, line) = server.written_at()?;
            let file = file.into_owned();
            Some((at, Spot { file, line }))
        })
        .collect();
    let hosts = nodes
        .iter()
        .filter(|node| node.name().eq_ignore_ascii_case("<VirtualHost"));
    hosts
        .filter_map(|node| {
            let spot = spot_of(*node);
            let found = left.iter().position(|(_, written)| *written == spot)?;
            Some((*node, left.remove(found).0))
        })
        .collect()
}

fn spot_of(node: Node<'_>) -> Spot {
    Spot {
        file: node.file().into_owned(),
        line: node.line(),
    }
}
