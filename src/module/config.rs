//! What a place or a server says, and what it says once merged with what is around.
//!
//! All of it is plain data in httpd's pools: nothing is ever dropped.

use std::cell::Cell;
use std::ops::Deref;
use std::time::Duration;

use super::client::ClientHeader;
use super::exempt::Exemption;
use super::fleet::Redis;
use super::rules::Placed;
use crate::httpd::pool::Pool;
use crate::httpd::server::Server;
use crate::limit::address::Prefix;
use crate::limit::key::CountId;
use crate::limit::mime::Filter;
use crate::limit::policy;
use crate::limit::rule::Defaults;
use crate::limit::settings::Settings;
use crate::limit::syntax::{Alarm, Who};
use crate::report::printable::printable;

/// The rules of one level, and what it says beside them. httpd merges places on every
/// request, so what is said seldom lies behind one pointer.
#[derive(Clone, Copy)]
pub struct Level<'p> {
    /// The rules in effect.
    pub rules: &'p [&'p Placed<'p>],
    pub(super) beside: &'p Beside<'p>,
}

/// What a level says beside its rules.
#[derive(Clone, Copy)]
pub struct Beside<'p> {
    /// The types they are about.
    pub types: Filter<'p>,
    /// What they take when they do not say.
    pub defaults: Defaults,
    /// How their refusals are answered and told.
    pub settings: Settings,
    /// Who is spared from them.
    pub exempt: &'p [&'p Exemption<'p>],
    /// Whether anything was said.
    is_said: bool,
}

impl Beside<'_> {
    /// Nothing said.
    const SILENT: &'static Beside<'static> = &Beside {
        types: Filter::NONE,
        defaults: Defaults::NONE,
        settings: Settings::NONE,
        exempt: &[],
        is_said: false,
    };
}

impl Default for Level<'_> {
    fn default() -> Self {
        Level {
            rules: &[],
            beside: Beside::SILENT,
        }
    }
}

impl<'p> Deref for Level<'p> {
    type Target = Beside<'p>;

    #[inline]
    fn deref(&self) -> &Beside<'p> {
        self.beside
    }
}

/// A server's configuration: its level, who it is, and what only the main server says.
pub struct Site<'p> {
    /// What stands outside sections.
    pub level: Level<'p>,
    /// The rules about connections, which only the main server has.
    pub connections: &'p [&'p Placed<'p>],
    /// `IPLimitClientHeader`
    pub client_header: Option<&'p ClientHeader<'p>>,
    /// `IPLimitAddress`
    pub address: Option<Who>,
    /// `IPLimitPrefix`
    pub prefix: Option<Prefix>,
    /// The server's name for counts; set when everything was read.
    pub id: Cell<CountId>,
    /// `name:port`, for logs and the status page; set when everything was read.
    pub label: Cell<&'p str>,
    /// `IPLimitTable`
    pub keys: Option<u32>,
    /// `IPLimitAlarm`; `Some(None)` is off.
    pub alarm: Option<Option<Alarm>>,
    /// `IPLimitHeartbeat`; `Some(None)` is off.
    pub heartbeat: Option<Option<Duration>>,
    /// `IPLimitStatusPage`
    pub status_page: Option<bool>,
    /// `IPLimitRedis`, which only the main server has.
    pub redis: Option<&'p Redis<'p>>,
    /// What shared counts know the server by; set when everything was read.
    pub fleet_id: Cell<CountId>,
}

impl<'p> Level<'p> {
    /// Whether nothing is said here at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && !self.beside.is_said
    }

    /// Whether some rule here has a number: `off` alone limits nobody.
    pub fn limits(&self) -> bool {
        self.rules.iter().any(|rule| rule.terms.is_on())
    }

    /// Says something beside the rules; it is about those that stand before it too.
    pub fn say(&mut self, pool: Pool<'p>, say: impl FnOnce(&mut Beside<'p>)) {
        let mut beside = *self.beside;
        say(&mut beside);
        beside.is_said = true;
        self.beside = pool.alloc(beside);
        for rule in self.rules {
            rule.beside.set(self.beside);
        }
    }

    /// Whether nothing of the place around is left within this one.
    #[inline]
    pub fn replaces(&self, around: &Level<'p>) -> bool {
        !around.beside.is_said
            && !self.rules.is_empty()
            && policy::replaces_all(self.rules, around.rules)
    }

    /// This place within the one around it: like overrides like.
    pub fn within(&self, around: &Level<'p>, pool: Pool<'p>) -> Level<'p> {
        let rules = if self.rules.is_empty() {
            around.rules
        } else if policy::replaces_all(self.rules, around.rules) {
            self.rules
        } else {
            pool.slice(policy::in_effect(around.rules, self.rules))
        };
        let beside = match (around.beside.is_said, self.beside.is_said) {
            (false, _) => self.beside,
            (_, false) => around.beside,
            (true, true) => pool.alloc(self.beside.within(around.beside, pool)),
        };
        Level { rules, beside }
    }
}

impl<'p> Beside<'p> {
    fn within(&self, around: &Beside<'p>, pool: Pool<'p>) -> Beside<'p> {
        Beside {
            types: self.types.or(around.types),
            defaults: self.defaults.or(around.defaults),
            settings: self.settings.or(around.settings),
            exempt: match (around.exempt, self.exempt) {
                ([], own) => own,
                (inherited, []) => inherited,
                // Each line is one more exemption.
                (inherited, own) => pool.slice(inherited.iter().chain(own).copied()),
            },
            is_said: true,
        }
    }
}

impl<'p> Site<'p> {
    /// A server that says nothing yet.
    pub fn new() -> Self {
        Site {
            level: Level::default(),
            connections: &[],
            client_header: None,
            address: None,
            prefix: None,
            id: Cell::new(CountId(0)),
            label: Cell::new("-"),
            keys: None,
            alarm: None,
            heartbeat: None,
            status_page: None,
            redis: None,
            fleet_id: Cell::new(CountId(0)),
        }
    }

    /// When the pool of workers is told of; on unless it is switched off.
    pub fn alarm(&self) -> Option<Alarm> {
        self.alarm.unwrap_or_else(|| Some(Alarm::default()))
    }

    /// A virtual host within the main server.
    pub fn within(&self, main: &Site<'p>, pool: Pool<'p>) -> Site<'p> {
        Site {
            level: self.level.within(&main.level, pool),
            connections: main.connections,
            client_header: self.client_header.or(main.client_header),
            address: self.address.or(main.address),
            prefix: self.prefix.or(main.prefix),
            keys: self.keys.or(main.keys),
            status_page: self.status_page.or(main.status_page),
            ..Site::new()
        }
    }

    /// Gives the server the names by which counts and people know it.
    ///
    /// The id is made of what is written, never of a running number, so that it is
    /// the same after a reload: the names, and the addresses with their ports.
    pub fn settle(&self, server: Server<'p>, pool: Pool<'p>) {
        let name = match server.name() {
            name if name.is_empty() => String::from("-"),
            name => printable(&name),
        };
        self.label.set(match server.port() {
            0 => pool.text(&name),
            port => pool.text(&format!("{name}:{port}")),
        });
        // Never by address or port: those differ from server to server.
        let fleet_name = name.to_ascii_lowercase();
        self.fleet_id
            .set(CountId::named(&["fleet server", &fleet_name]));
        if !server.is_virtual() {
            self.id.set(CountId::named(&["main server"]));
            return;
        }
        // A virtual host may be known by its aliases only.
        let addresses: Vec<String> = server
            .addresses()
            .map(|(name, port)| format!("{name}|{port}"))
            .collect();
        let names = [
            "virtual host",
            &server.name(),
            &server.aliases().join(" "),
            &addresses.join(" "),
        ];
        self.id.set(CountId::named(&names));
    }
}
