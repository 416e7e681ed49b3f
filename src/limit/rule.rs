//! Rules as they are written, and what they mean once their defaults are known.
//!
//! A rule is one limiting directive in the place where it stands. What it does not
//! say itself stays `None` until the place's defaults decide.

use super::rating::Rating;

/// The directives that make rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Directive {
    /// `MaxConnPerIP`
    MaxConnPerIp,
    /// `MaxConnPerKey`
    MaxConnPerKey,
    /// `MaxRatePerIP`
    MaxRatePerIp,
    /// `MaxRatePerKey`
    MaxRatePerKey,
    /// `MaxHitsPerIP`
    MaxHitsPerIp,
    /// `MaxHitsPerKey`
    MaxHitsPerKey,
}

/// How far a rule looks when it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Everything the client has in flight on this server.
    Server,
    /// The same on this virtual host.
    Vhost,
    /// Only the requests that this very rule governs.
    Location,
    /// The requests that any rule of its zone governs.
    Zone,
}

/// What a rule counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// Busy workers in the scoreboard.
    Workers,
    /// Requests in flight, exactly.
    Requests,
    /// Connections of the TCP peer, whatever they carry.
    Connections,
}

/// Whether a rule stands outside or inside a section. A count is never shared by levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Outside sections: a hard cap that no section lifts.
    Server,
    /// In a section or .htaccess.
    Directory,
}

/// What a rule says itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Terms {
    /// How many at once.
    Concurrency(Concurrency),
    /// How many in which time.
    Rate(Rating),
}

/// What a concurrency rule says itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Concurrency {
    /// Over this many means refused; `None` is `off` (or 0).
    pub limit: Option<u16>,
    /// `scope=`
    pub scope: Option<Scope>,
    /// `count=`
    pub count: Option<Count>,
    /// `busy=`, 1..=100
    pub busy: Option<u8>,
}

/// `IPLimitDefaults`: what rules take when they do not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Defaults {
    /// `scope=`
    pub scope: Option<Scope>,
    /// `count=`, never connections
    pub count: Option<Count>,
    /// `busy=`, 1..=100
    pub busy: Option<u8>,
}

/// What a rule means where it is in effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meaning {
    /// How far it looks.
    pub scope: Scope,
    /// What it counts.
    pub count: Count,
    /// It refuses only while at least so many percent of the workers are busy.
    pub busy: Option<u8>,
}

impl Terms {
    /// Whether the rule has a number: `off` has none.
    pub fn is_on(&self) -> bool {
        match self {
            Terms::Concurrency(terms) => terms.limit.is_some(),
            Terms::Rate(rating) => rating.limit.is_some(),
        }
    }

    /// What a concurrency rule says.
    pub fn concurrency(&self) -> Option<&Concurrency> {
        match self {
            Terms::Concurrency(terms) => Some(terms),
            Terms::Rate(_) => None,
        }
    }

    /// What a rate rule says.
    pub fn rating(&self) -> Option<&Rating> {
        match self {
            Terms::Concurrency(_) => None,
            Terms::Rate(rating) => Some(rating),
        }
    }

    /// Whether the rule is about connections, not about requests.
    pub fn is_about_connections(&self) -> bool {
        self.concurrency()
            .is_some_and(Concurrency::is_about_connections)
    }

    /// Whether both are about the same time: a rate without one, `off`, is about all.
    pub fn is_of_like_period(&self, other: &Terms) -> bool {
        let period = |terms: &Terms| Some(terms.rating()?.limit?.rate().period);
        match (period(self), period(other)) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        }
    }
}

impl Concurrency {
    /// Whether this is the bare `MaxConnPerIP N` of mod_limitipconn 0.24, as far as the
    /// terms tell: one for some networks only is none.
    pub fn is_plain(&self) -> bool {
        self.scope.is_none() && self.count.is_none() && self.busy.is_none()
    }

    /// Whether the rule is about connections, not about requests: it says so itself,
    /// since no default can.
    pub fn is_about_connections(&self) -> bool {
        self.count == Some(Count::Connections)
    }

    /// What a rule about keys means under these defaults, of which only busy= speaks to it.
    pub fn meaning_for_keys(&self, defaults: &Defaults) -> Meaning {
        Meaning {
            scope: self.scope.unwrap_or(Scope::Zone),
            count: Count::Requests,
            busy: self.busy.or(defaults.busy),
        }
    }

    /// What a rule about addresses means under these defaults.
    ///
    /// A default that does not fit what the rule says itself is ignored, and a
    /// default count that does not fit the scope found so far likewise.
    pub fn meaning(&self, defaults: &Defaults) -> Meaning {
        let fits = |scope: &Scope| self.count != Some(Count::Workers) || *scope == Scope::Server;
        let scope = self
            .scope
            .or(defaults.scope.filter(fits))
            .unwrap_or(Scope::Server);
        let count = match (self.count.or(defaults.count), scope) {
            (Some(Count::Connections), _) => Count::Connections,
            (None | Some(Count::Workers), Scope::Server) => Count::Workers,
            _ => Count::Requests,
        };
        Meaning {
            scope: match count {
                Count::Connections => Scope::Server,
                _ => scope,
            },
            count,
            busy: self.busy.or(defaults.busy),
        }
    }
}

impl Defaults {
    /// Nothing is said.
    pub const NONE: Defaults = Defaults {
        scope: None,
        count: None,
        busy: None,
    };

    /// These defaults, and where they are silent those of the place around.
    pub fn or(self, around: Defaults) -> Defaults {
        Defaults {
            scope: self.scope.or(around.scope),
            count: self.count.or(around.count),
            busy: self.busy.or(around.busy),
        }
    }
}

impl Directive {
    /// The name as the manual writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Directive::MaxConnPerIp => "MaxConnPerIP",
            Directive::MaxConnPerKey => "MaxConnPerKey",
            Directive::MaxRatePerIp => "MaxRatePerIP",
            Directive::MaxRatePerKey => "MaxRatePerKey",
            Directive::MaxHitsPerIp => "MaxHitsPerIP",
            Directive::MaxHitsPerKey => "MaxHitsPerKey",
        }
    }

    /// Whether its rules are about the keys of a zone, not about addresses.
    pub const fn is_per_key(self) -> bool {
        matches!(
            self,
            Directive::MaxConnPerKey | Directive::MaxRatePerKey | Directive::MaxHitsPerKey
        )
    }

    /// Whether its rules are rates.
    pub const fn is_rate(self) -> bool {
        !matches!(self, Directive::MaxConnPerIp | Directive::MaxConnPerKey)
    }
}

impl Scope {
    /// The word after `scope=`.
    pub const fn word(self) -> &'static str {
        match self {
            Scope::Server => "server",
            Scope::Vhost => "vhost",
            Scope::Location => "location",
            Scope::Zone => "zone",
        }
    }

    /// The one of these scopes that this word says.
    pub(super) fn parse(word: &str, among: &[Scope]) -> Option<Scope> {
        among
            .iter()
            .copied()
            .find(|scope| word.eq_ignore_ascii_case(scope.word()))
    }
}

impl Count {
    /// The word after `count=`.
    pub const fn word(self) -> &'static str {
        match self {
            Count::Workers => "workers",
            Count::Requests => "requests",
            Count::Connections => "connections",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Count> {
        [Count::Workers, Count::Requests, Count::Connections]
            .into_iter()
            .find(|count| word.eq_ignore_ascii_case(count.word()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meaning_follows_the_rule_then_the_defaults_then_the_drop_in() {
        use Count::{Connections, Requests, Workers};
        use Scope::{Location, Server, Vhost};
        // scope= and count= of the rule, of the defaults, and the meaning
        for (scope, count, default_scope, default_count, meant_scope, meant_count) in [
            (None, None, None, None, Server, Workers),
            (Some(Server), None, None, None, Server, Workers),
            (Some(Vhost), None, None, None, Vhost, Requests),
            (Some(Location), None, None, None, Location, Requests),
            (None, Some(Requests), None, None, Server, Requests),
            (None, None, Some(Location), None, Location, Requests),
            (None, None, None, Some(Requests), Server, Requests),
            (None, Some(Workers), Some(Location), None, Server, Workers),
            (
                Some(Location),
                None,
                None,
                Some(Workers),
                Location,
                Requests,
            ),
            (
                None,
                None,
                Some(Location),
                Some(Workers),
                Location,
                Requests,
            ),
            (
                Some(Server),
                None,
                Some(Location),
                Some(Requests),
                Server,
                Requests,
            ),
            (
                Some(Server),
                Some(Workers),
                Some(Location),
                Some(Requests),
                Server,
                Workers,
            ),
            (
                None,
                Some(Connections),
                Some(Location),
                Some(Requests),
                Server,
                Connections,
            ),
        ] {
            let terms = Concurrency {
                limit: Some(1),
                scope,
                count,
                busy: None,
            };
            let defaults = Defaults {
                scope: default_scope,
                count: default_count,
                busy: Some(80),
            };
            let expected = Meaning {
                scope: meant_scope,
                count: meant_count,
                busy: Some(80),
            };
            assert_eq!(terms.meaning(&defaults), expected, "{terms:?} {defaults:?}");
        }
    }
}
