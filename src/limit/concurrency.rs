//! Names of the counts that concurrency rules share, and the one comparison.

use super::key::CountId;
use super::rule::{Level, Scope};

/// The request under decision included, over the number means refused.
pub const fn over(count: u32, limit: u16) -> bool {
    count > limit as u32
}

/// The count that a `MaxConnPerIP` of this scope and level adds to: all requests of the
/// client, governed by a rule or not, but for a location's.
///
/// `rule` is the rule's own id, `vhost` that of the virtual host the request is on.
/// A location's count is the rule's, so it needs no other name.
pub fn count_of(scope: Scope, level: Level, rule: CountId, vhost: CountId) -> CountId {
    let spread = match level {
        Level::Server => 0x9e37_79b9_7f4a_7c15,
        Level::Directory => 0xc2b2_ae3d_27d4_eb4f,
    };
    match scope {
        Scope::Location | Scope::Zone => rule,
        Scope::Vhost => CountId(vhost.0 ^ spread),
        Scope::Server => CountId(spread),
    }
}

/// The count or bucket that a rule about keys or rates of this scope adds to: requests
/// that such rules govern.
///
/// `rule` is the rule's own id, `shared` what it has in common with others of its zone or
/// kind, `vhost` as above.
pub fn shared_count_of(scope: Scope, rule: CountId, shared: CountId, vhost: CountId) -> CountId {
    match scope {
        Scope::Location => rule,
        Scope::Zone | Scope::Server => shared,
        Scope::Vhost => CountId(shared.0 ^ vhost.0.rotate_left(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_itself_is_included() {
        assert!(!over(3, 3));
        assert!(over(4, 3));
    }

    #[test]
    fn counts_are_shared_by_scope_and_never_by_level() {
        let (rule, other) = (CountId::named(&["a"]), CountId::named(&["b"]));
        let vhost = CountId::named(&["v"]);
        let of = |scope, level, rule| count_of(scope, level, rule, vhost);
        assert_eq!(
            of(Scope::Server, Level::Server, rule),
            of(Scope::Server, Level::Server, other)
        );
        assert_eq!(
            of(Scope::Vhost, Level::Directory, rule),
            of(Scope::Vhost, Level::Directory, other)
        );
        assert_ne!(
            of(Scope::Location, Level::Directory, rule),
            of(Scope::Location, Level::Directory, other)
        );
        assert_ne!(
            of(Scope::Server, Level::Server, rule),
            of(Scope::Server, Level::Directory, rule)
        );
        assert_ne!(
            of(Scope::Vhost, Level::Server, rule),
            of(Scope::Vhost, Level::Directory, rule)
        );
    }
}
