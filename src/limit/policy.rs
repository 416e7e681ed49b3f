//! Which rules are in effect: sections inherit, and override like with like.

use super::address::Address;
use super::network::{self, Network};
use super::rule::Directive;

/// What a rule must tell so that like can be put beside like.
pub trait Ruling {
    /// The directive that made it.
    fn directive(&self) -> Directive;

    /// The clients it is for; empty for everybody.
    fn networks(&self) -> &[Network];

    /// Like rules replace each other: same directive, same subject.
    fn like(&self, other: &Self) -> bool {
        self.directive() == other.directive()
    }
}

/// The rules in effect in a place that says `own` and inherits `base`:
/// the inherited ones that have no like among `own`, then `own`.
pub fn in_effect<'s, 'a, R: Ruling>(
    base: &'s [&'a R],
    own: &'s [&'a R],
) -> impl Iterator<Item = &'a R> + Clone + use<'s, 'a, R> {
    base.iter()
        .copied()
        .filter(move |inherited| !own.iter().any(|said| said.like(inherited)))
        .chain(own.iter().copied())
}

/// Whether nothing inherited is left beside what a place says itself.
pub fn replaces_all<R: Ruling>(own: &[&R], base: &[&R]) -> bool {
    base.iter()
        .all(|inherited| own.iter().any(|said| said.like(inherited)))
}

/// Whether `rule` is the one among these that is for this client: of like rules the
/// one with the longest network around the client, else the one for everybody.
pub fn is_for<R: Ruling>(rules: &[&R], rule: &R, client: Address) -> bool {
    let closeness = |rule: &R| match rule.networks() {
        [] => Some(0),
        networks => network::longest(networks, client).map(|length| u16::from(length) + 1),
    };
    match closeness(rule) {
        None => false,
        own => !rules.iter().any(|other| {
            !other.networks().is_empty() && other.like(rule) && closeness(other) > own
        }),
    }
}

/// What keeps two like rules from standing side by side in one section: the same
/// clients. `Some(None)`: both are for everybody.
pub fn conflict<R: Ruling>(one: &R, other: &R) -> Option<Option<Network>> {
    match (one.networks(), other.networks()) {
        ([], []) => Some(None),
        (ours, theirs) => ours
            .iter()
            .copied()
            .find(|network| theirs.contains(network))
            .map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(PartialEq, Debug)]
    struct Named(&'static str, Vec<Network>);

    impl Ruling for Named {
        fn directive(&self) -> Directive {
            Directive::MaxConnPerIp
        }
        fn networks(&self) -> &[Network] {
            &self.1
        }
    }

    fn named(name: &'static str) -> Named {
        Named(name, Vec::new())
    }

    fn for_clients(networks: &str) -> Named {
        Named("for", network::list(networks).unwrap())
    }

    #[test]
    fn the_longest_network_around_a_client_decides() {
        let (all, wide, near) = (
            named("all"),
            for_clients("10.0.0.0/8"),
            for_clients("10.1.0.0/16,::1"),
        );
        let rules = [&all, &wide, &near];
        for (client, chosen) in [
            ([192, 0, 2, 1], &all),
            ([10, 2, 0, 1], &wide),
            ([10, 1, 0, 1], &near),
        ] {
            let client = Address::from_v4(client);
            let found: Vec<_> = rules
                .iter()
                .filter(|rule| is_for(&rules, **rule, client))
                .collect();
            assert_eq!(found, [&chosen], "{client}");
        }
    }

    #[test]
    fn a_rule_for_some_leaves_others_alone() {
        let some = for_clients("10.0.0.0/8");
        assert!(!is_for(&[&some], &some, Address::from_v4([192, 0, 2, 1])));
    }

    #[test]
    fn rules_for_the_same_clients_are_in_conflict() {
        assert_eq!(conflict(&named("a"), &named("b")), Some(None));
        assert_eq!(conflict(&named("a"), &for_clients("10.0.0.0/8")), None);
        let shared = network::list("10.0.0.0/8").unwrap()[0];
        let (one, other) = (
            for_clients("10.0.0.0/8,::1"),
            for_clients("11.0.0.0/8 10.0.0.0/8"),
        );
        assert_eq!(conflict(&one, &other), Some(Some(shared)));
    }

    #[test]
    fn a_section_that_says_nothing_inherits() {
        let outer = named("outer");
        assert_eq!(in_effect(&[&outer], &[]).collect::<Vec<_>>(), [&outer]);
    }

    #[test]
    fn like_replaces_like() {
        let (outer, inner) = (named("outer"), named("inner"));
        assert_eq!(
            in_effect(&[&outer], &[&inner]).collect::<Vec<_>>(),
            [&inner]
        );
        assert!(replaces_all(&[&inner], &[&outer]) && replaces_all(&[&inner], &[]));
        assert!(!replaces_all(&[], &[&outer]));
    }
}
