//! The inventory of all that the server's files hold: rules, zones, guards, and what can be
//! told about them before serving.

use std::cell::Cell;

use super::rules::Placed;
use super::zones::Zone;
use crate::gauge::Guard;
use crate::httpd::command::Command;
use crate::httpd::pool::Pool;
use crate::httpd::server::Server;
use crate::limit::rule::Defaults;

/// All rules of the server's files, and what can be told about them before serving.
pub struct Inventory<'p> {
    pool: Pool<'p>,
    rules: Cell<Option<&'p Placed<'p>>>,
    /// What some place says for rules that do not say, each once.
    defaults: Cell<&'p [Defaults]>,
    sections_give_scope: Cell<bool>,
    warnings: Cell<&'p [&'p str]>,
    zones: Cell<&'p [&'p Zone<'p>]>,
    guards: Cell<Option<&'p PlacedGuard<'p>>>,
}

/// What a place says about slow clients.
pub struct PlacedGuard<'p> {
    /// The name of the place, as in a rule's.
    pub place: &'p str,
    /// The server it is written in.
    pub server: Server<'p>,
    /// None for `off`.
    pub guard: Option<Guard>,
    /// The directive.
    pub directive: &'static str,
    /// What was written before it.
    next: Option<&'p PlacedGuard<'p>>,
}

impl<'p> Inventory<'p> {
    /// The inventory of the configuration that this pool holds.
    pub fn of(pool: Pool<'p>) -> &'p Inventory<'p> {
        let make = || Inventory {
            pool,
            rules: Cell::new(None),
            defaults: Cell::new(&[]),
            sections_give_scope: Cell::new(false),
            warnings: Cell::new(&[]),
            zones: Cell::new(&[]),
            guards: Cell::new(None),
        };
        // SAFETY: nothing else is stored under this key.
        unsafe { pool.shared(c"limitipconn.inventory", make) }
    }

    /// Adds a rule.
    pub fn add(&self, rule: &'p Placed<'p>) {
        rule.next.set(self.rules.replace(Some(rule)));
    }

    /// Adds a zone; `Err` is the one that has its name.
    pub fn declare(&self, zone: &'p Zone<'p>) -> Result<(), &'p Zone<'p>> {
        if let Some(first) = zone_named(self.zones.get(), zone.name) {
            return Err(first);
        }
        let known = self.zones.get().iter().copied();
        self.zones.set(self.pool.slice(known.chain([zone])));
        Ok(())
    }

    /// Notes how slow a client may be in some place, or how long a response may last.
    pub fn note_guard(&self, command: Command<'p>, directive: &'static str, guard: Option<Guard>) {
        self.guards.set(Some(self.pool.alloc(PlacedGuard {
            place: self.pool.text(&super::place::name(command)),
            server: command.server(),
            guard,
            directive,
            next: self.guards.get(),
        })));
    }

    /// What places say about slow clients, last written first: of several lines of a place
    /// the last counts.
    pub fn guards(&self) -> impl Iterator<Item = &'p PlacedGuard<'p>> {
        std::iter::successors(self.guards.get(), |said| said.next)
    }

    /// Whether some line does not say `off`.
    pub fn watches(&self) -> bool {
        self.guards().any(|said| said.guard.is_some())
    }

    /// The zones, in the order in which they were declared.
    pub fn zones(&self) -> &'p [&'p Zone<'p>] {
        self.zones.get()
    }

    /// Notes what some place says for rules that do not say.
    pub fn note_defaults(&self, defaults: Defaults, in_section: bool) {
        if in_section && defaults.scope.is_some() {
            self.sections_give_scope.set(true);
        }
        let known = self.defaults.get();
        if !known.contains(&defaults) {
            self.defaults
                .set(self.pool.slice(known.iter().copied().chain([defaults])));
        }
    }

    /// Notes a warning for the end of the reading.
    pub fn warn(&self, text: &str) {
        let text = self.pool.text(text);
        self.warnings.set(
            self.pool
                .slice(self.warnings.get().iter().copied().chain([text])),
        );
    }

    /// The warnings noted so far.
    pub fn warnings(&self) -> &'p [&'p str] {
        self.warnings.get()
    }

    /// The rules, last written first.
    pub fn rules(&self) -> impl Iterator<Item = &'p Placed<'p>> {
        std::iter::successors(self.rules.get(), |rule| rule.next.get())
            .filter(|rule| !rule.superseded.get())
    }

    /// Whether some section gives the rules in it another scope.
    pub fn sections_give_scope(&self) -> bool {
        self.sections_give_scope.get()
    }

    /// What some place says for rules that do not say.
    pub fn defaults(&self) -> &'p [Defaults] {
        self.defaults.get()
    }
}

/// The zone of this name; names ignore case.
pub fn zone_named<'p>(zones: &[&'p Zone<'p>], name: &str) -> Option<&'p Zone<'p>> {
    let is_it = |zone: &&&Zone<'_>| zone.name.eq_ignore_ascii_case(name);
    zones.iter().find(is_it).copied()
}
