//! Rules where they stand.

use std::cell::Cell;

use super::MODULE;
use super::config::Beside;
use super::zones::Zone;
use crate::httpd::command::Command;
use crate::httpd::server::Server;
use crate::limit::concurrency::{count_of, shared_count_of};
use crate::limit::key::CountId;
use crate::limit::network::Network;
use crate::limit::policy::Ruling;
use crate::limit::rate;
use crate::limit::rule::{
    Concurrency, Count, Defaults, Directive, Level as At, Meaning, Scope, Terms,
};
use crate::limit::syntax::Said;
use crate::store::RecordIndex;

/// A rule in its place.
pub struct Placed<'p> {
    /// The directive that made it.
    pub directive: Directive,
    /// What it says.
    pub terms: Terms,
    /// The clients it is for; empty for everybody.
    pub networks: &'p [Network],
    /// The zone of its keys, as written; None for a rule about addresses.
    pub zone_name: Option<&'p str>,
    /// That zone; set when everything was read.
    pub zone: Cell<Option<&'p Zone<'p>>>,
    /// Its one form everywhere: `MaxConnPerIP@/hoge`, and ` for=10.1.0.0/16` after it
    /// where it is for some clients only.
    pub name: &'p str,
    /// The name without the clients, which like rules of one place share.
    pub place: &'p str,
    /// The server it is written in; None for .htaccess, which is one place wherever it is met.
    pub server: Option<Server<'p>>,
    /// Outside or inside a section.
    pub at: At,
    /// The file it stands in.
    pub file: &'p str,
    /// The line it stands on.
    pub line: u32,
    /// What its own section says beside its rules.
    pub beside: Cell<&'p Beside<'p>>,
    // The cells are written while the configuration is read and before children are
    // made, by one thread; those of a .htaccess rule by the request that reads it.
    /// Its own name in shared memory; set when everything was read.
    pub id: Cell<CountId>,
    /// The name of the count that like rules of one place share, so that a client who
    /// is put into another network keeps what it has; set when everything was read.
    pub count: Cell<CountId>,
    /// What its count or bucket has in common with those of other places; set when
    /// everything was read.
    shared: Cell<CountId>,
    /// Whether it counts over all servers with the same IPLimitRedis.
    pub in_fleet: bool,
    /// The same two names, as all of those servers make them; set when everything was read, of
    /// a rule that counts over them.
    fleet: Cell<[CountId; 2]>,
    /// Its record in shared memory, when there was room.
    pub record: Cell<Option<RecordIndex>>,
    /// Whether a later plain rule of the same section took its place.
    pub(super) superseded: Cell<bool>,
    /// The rule that was written before it.
    pub(super) next: Cell<Option<&'p Placed<'p>>>,
}

impl Ruling for Placed<'_> {
    fn directive(&self) -> Directive {
        self.directive
    }

    fn networks(&self) -> &[Network] {
        self.networks
    }

    fn like(&self, other: &Self) -> bool {
        self.directive == other.directive
            && self.terms.is_about_connections() == other.terms.is_about_connections()
            && self.is_of_zone_of(other)
            && self.terms.is_of_like_period(&other.terms)
    }
}

impl<'p> Placed<'p> {
    /// A rule as it is read.
    pub fn new(
        command: Command<'p>,
        directive: Directive,
        said: &Said,
        beside: &'p Beside<'p>,
    ) -> &'p Placed<'p> {
        let pool = command.pool();
        let in_htaccess = command.htaccess_directory().is_some();
        let zone = said
            .zone
            .as_ref()
            .map_or_else(String::new, |zone| format!(":{zone}"));
        let place = format!("{}{zone}@{}", directive.name(), super::place::name(command));
        let name = match said.networks.as_slice() {
            [] => place.clone(),
            networks => format!("{place} for={}", shown(networks)),
        };
        pool.alloc(Placed {
            directive,
            terms: said.terms,
            networks: pool.slice(said.networks.iter().copied()),
            zone_name: said.zone.as_ref().map(|zone| pool.text(zone)),
            zone: Cell::new(None),
            name: pool.text(&name),
            place: pool.text(&place),
            server: (!in_htaccess).then(|| command.server()),
            at: if command.is_in_section() {
                At::Directory
            } else {
                At::Server
            },
            file: command.node().map_or("", |node| pool.text(&node.file())),
            line: command.node().map_or(0, |node| node.line()),
            beside: Cell::new(beside),
            id: Cell::new(CountId(0)),
            count: Cell::new(CountId(0)),
            shared: Cell::new(CountId(0)),
            in_fleet: said.shared,
            fleet: Cell::new([CountId(0); 2]),
            record: Cell::new(None),
            superseded: Cell::new(false),
            next: Cell::new(None),
        })
    }

    /// Gives the rule its name for counts. Sections of equal name in one server are
    /// one place; the rule of a .htaccess file is the same on every server.
    pub fn settle(&self) {
        let site = self
            .server
            .and_then(|server| server.config(MODULE))
            .map_or(CountId(0), |site| site.id.get());
        let kind = if self.terms.is_about_connections() {
            "rule about connections"
        } else {
            "rule"
        };
        let period = self
            .terms
            .rating()
            .and_then(|rating| rating.limit)
            .map_or_else(String::new, |limit| rate::written(limit.rate().period));
        // Names of zones ignore case, and so do the counts of their rules.
        let zone = self.zone_name.map(str::to_ascii_lowercase);
        let zone = zone.as_deref().unwrap_or("");
        let place_name = match self.place.split_once('@') {
            Some((_, place)) => place,
            None => self.place,
        };
        let directive = self.directive.name();
        let CountId(place) = CountId::named(&[kind, directive, zone, place_name, &period]);
        let count = CountId(place ^ site.0.rotate_left(1));
        // Those of a zone count for both levels; those of addresses each for its own.
        let level = match self.at {
            At::Server if !self.directive.is_per_key() => "server level",
            At::Directory if !self.directive.is_per_key() => "directory level",
            _ => "",
        };
        self.shared
            .set(CountId::named(&["shared", directive, zone, level, &period]));
        self.count.set(count);
        let networks: Vec<String> = self.networks.iter().map(Network::to_string).collect();
        let clients = networks.join(",");
        self.id.set(match networks.is_empty() {
            true => count,
            false => CountId(count.0 ^ CountId::named(&["for", &clients]).0),
        });
        if self.in_fleet {
            let home = self.server.and_then(|server| server.config(MODULE));
            let CountId(home) = home.map_or(CountId(0), |site| site.fleet_id.get());
            let CountId(own) =
                CountId::named(&["fleet", directive, zone, place_name, &period, &clients]);
            self.fleet.set([
                CountId(own ^ home.rotate_left(1)),
                CountId::named(&["fleet shared", directive, zone, level, &period]),
            ]);
        }
    }

    /// `name:port` of the virtual host that it is written in; None for the main server.
    pub fn vhost(&self) -> Option<&'p str> {
        let server = self.server.filter(|server| server.is_virtual())?;
        server.config(MODULE).map(|site| site.label.get())
    }

    /// What a concurrency rule that says these terms means under these defaults.
    #[inline]
    pub fn meaning(&self, terms: &Concurrency, defaults: &Defaults) -> Meaning {
        match self.directive.is_per_key() {
            true => terms.meaning_for_keys(defaults),
            false => terms.meaning(defaults),
        }
    }

    /// What a concurrency rule means in its own place, for people who look before traffic
    /// comes; None for a rate.
    pub fn meaning_at_home(&self) -> Option<Meaning> {
        let around = self
            .server
            .and_then(|server| server.config(MODULE))
            .map(|site| site.level.defaults);
        let own = self.beside.get().defaults;
        let defaults = own.or(around.unwrap_or_default());
        Some(self.meaning(self.terms.concurrency()?, &defaults))
    }

    /// Whether it only marks in its own place, for people who look before traffic comes.
    pub fn is_dry_run_at_home(&self) -> bool {
        let site = self.server.and_then(|server| server.config(MODULE));
        let around = site.and_then(|site| site.level.settings.dry_run);
        let own = self.beside.get().settings.dry_run;
        own.or(around).unwrap_or(false)
    }

    /// What its counts under this scope have in common, on whichever virtual host.
    #[inline]
    pub fn family(&self, scope: Scope) -> u64 {
        if self.terms.is_about_connections() {
            return self.count.get().0;
        }
        family_of(scope, self.count_of(scope, self.at, CountId(0)))
    }

    /// The count or bucket that it adds to under this scope, for a request of this virtual
    /// host.
    #[inline]
    pub fn count_of(&self, scope: Scope, level: At, vhost: CountId) -> CountId {
        match self.directive {
            Directive::MaxConnPerIp => count_of(scope, level, self.count.get(), vhost),
            _ => shared_count_of(scope, self.count.get(), self.shared.get(), vhost),
        }
    }

    /// The same as all servers with the same IPLimitRedis name it; `vhost` is what they know
    /// the virtual host by.
    pub fn fleet_count_of(&self, scope: Scope, level: At, vhost: CountId) -> CountId {
        let [own, shared] = self.fleet.get();
        match self.directive {
            Directive::MaxConnPerIp => count_of(scope, level, own, vhost),
            _ => shared_count_of(scope, own, shared, vhost),
        }
    }

    /// Whether both are about the same zone, or neither about any.
    fn is_of_zone_of(&self, other: &Placed<'_>) -> bool {
        match (self.zone_name, other.zone_name) {
            (Some(ours), Some(theirs)) => ours.eq_ignore_ascii_case(theirs),
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether its bucket is one over all virtual hosts.
    pub fn shares_all_servers(&self) -> bool {
        let rating = self.terms.rating();
        rating.is_some_and(|rating| rating.scope == Scope::Zone)
    }

    /// Whether a request can be charged at the same bucket for both.
    pub fn shares_bucket_with(&self, other: &Placed<'_>) -> bool {
        if self.shared.get() != other.shared.get() {
            return false;
        }
        let (Some(ours), Some(theirs)) = (self.terms.rating(), other.terms.rating()) else {
            return false;
        };
        let is_main = |rule: &Placed<'_>| rule.server.is_none_or(|server| !server.is_virtual());
        let meet = match ours.scope {
            Scope::Location | Scope::Server => false,
            // Outside sections the rule of a virtual host takes the place of the main one's.
            Scope::Vhost if self.at == At::Server && other.at == At::Server => {
                self.server == other.server
            }
            Scope::Vhost => self.server == other.server || is_main(self) || is_main(other),
            Scope::Zone => true,
        };
        meet && ours.scope == theirs.scope && self.networks == other.networks
    }

    /// What a later plain rule of the same section replaces.
    pub fn supersede(&self) {
        self.superseded.set(true);
    }
}

/// The family of counts of this scope, by the name of the one that is on no virtual host.
#[inline]
pub fn family_of(scope: Scope, CountId(id): CountId) -> u64 {
    match scope {
        Scope::Location => id,
        // Those of a virtual host and of all have one name there.
        _ => id ^ (scope as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

/// Networks as a name shows them: the first few.
fn shown(networks: &[Network]) -> String {
    const MOST: usize = 3;
    let first: Vec<String> = networks.iter().take(MOST).map(Network::to_string).collect();
    let more = if networks.len() > MOST { ",..." } else { "" };
    first.join(",") + more
}

/// Whether a `MaxConnPerIP` of these terms counts requests over this scope, under any of
/// the defaults that stand anywhere. Too often rather than too seldom: it only decides whether requests
/// that no rule governs are counted too.
pub fn may_count(terms: &Concurrency, scope: Scope, anywhere: &[Defaults]) -> bool {
    let mut scopes = anywhere.iter().map(|defaults| defaults.scope).chain([None]);
    scopes.any(|default_scope| {
        anywhere
            .iter()
            .map(|defaults| defaults.count)
            .chain([None])
            .any(|default_count| {
                let defaults = Defaults {
                    scope: default_scope,
                    count: default_count,
                    busy: None,
                };
                let meaning = terms.meaning(&defaults);
                meaning.scope == scope && meaning.count == Count::Requests
            })
    })
}
