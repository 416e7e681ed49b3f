//! `httpd -t -D DUMP_IPLIMIT`: collects from httpd's configuration tree and the rules
//! what [`dump`](crate::report::dump) writes. Sections that say nothing of ours are left out.

mod places;
mod section;

use std::io::Write;

use self::places::{Line, Place, over};
use self::section::rule_row;
use super::MODULE;
use super::inventory::Inventory;
use crate::httpd::command::Context;
use crate::httpd::pool::Pool;
use crate::httpd::server::Server;
use crate::httpd::{state, tree};
use crate::report::dump::{self, Spot};

/// Settings that add to what is inherited, where others take its place.
const ADDING: [&str; 3] = ["IPLimitDefaults", "IPLimitExempt", "LocalIP"];

/// Prints the rules in effect, if httpd was asked to.
pub fn print_if_asked(pool: Pool<'static>, main: Server<'static>) {
    if !state::is_defined(c"DUMP_IPLIMIT") {
        return;
    }
    super::running::planted_fault();
    let text = dump::text(&servers(Inventory::of(pool), main));
    // Nobody who closes the pipe wants to read of it.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// What there is to tell of every server, the main server first.
fn servers(inventory: &Inventory<'static>, main: Server<'static>) -> Vec<dump::Server> {
    // httpd has the virtual hosts in the reverse of the order in which they are written.
    let mut servers: Vec<Server<'static>> = main.all().collect();
    servers[1..].reverse();
    let places = tree::with_all(|nodes| places::of_tree(nodes, inventory, &servers));
    (0..servers.len())
        .map(|at| server(at, servers[at], &places))
        .collect()
}

/// Everything about one server.
fn server(at: usize, server: Server<'static>, places: &[Place]) -> dump::Server {
    let site = server.config(MODULE);
    let here = |place: &&Place, of: usize| place.server == of && place.section.is_none();
    let main = places.iter().find(|place| here(place, 0));
    let own = places.iter().find(|place| at != 0 && here(place, at));
    let outside: Vec<&Place> = main.into_iter().chain(own).collect();
    let defaults = outside.iter().fold(<_>::default(), |around, place| {
        over(around, place.defaults())
    });
    let rules = site.into_iter().flat_map(|site| {
        let about_connections = site.connections.iter();
        about_connections.chain(site.level.rules)
    });
    let rules = rules.map(|rule| {
        let is_inherited = server.is_virtual() && rule.server != Some(server);
        (rule_row(rule, &defaults), is_inherited)
    });
    let settings = outside.iter().flat_map(|place| {
        let is_main = place.server == 0;
        let holds = move |line: &&Line| {
            let name = line.written.name;
            at == 0
                || !is_main
                || !matches!(line.context, Context::Main | Context::Server)
                    && (ADDING.contains(&name) || !own.is_some_and(|own| own.says(name)))
        };
        place
            .settings()
            .filter(holds)
            .map(move |line| (*place, line, at != 0 && is_main))
    });
    let settings: Vec<(&Place, &Line, bool)> = settings.collect();

    let mut applying: Vec<&Place> = places
        .iter()
        .filter(|place| (place.server == 0 || place.server == at) && place.section.is_some())
        .collect();
    // The main server's first: httpd puts those of a virtual host behind them.
    applying.sort_by_key(|place| place.server != 0);
    let effects = |of: usize| {
        let wanted = applying.iter().filter(|place| place.server == of);
        wanted
            .map(|place| section::of(place, &applying, &settings, &defaults))
            .collect()
    };
    dump::Server {
        label: site.map_or_else(String::new, |site| site.label.get().to_owned()),
        spot: server.written_at().map(|(file, line)| Spot {
            file: file.into_owned(),
            line,
        }),
        rules: rules.collect(),
        settings: settings
            .iter()
            .map(|(_, line, inherited)| (line.written.clone(), *inherited))
            .collect(),
        sections: effects(at),
        main_sections: if at == 0 { Vec::new() } else { effects(0) },
    }
}
