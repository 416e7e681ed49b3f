//! Which rules are in effect: sections inherit, and override like with like.

use super::rule::Directive;

/// What a rule must tell so that like can be put beside like.
pub trait Ruling {
    /// The directive that made it.
    fn directive(&self) -> Directive;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(PartialEq, Debug)]
    struct Named(&'static str);

    impl Ruling for Named {
        fn directive(&self) -> Directive {
            Directive::MaxConnPerIp
        }
    }

    #[test]
    fn a_section_that_says_nothing_inherits() {
        let outer = Named("outer");
        assert_eq!(in_effect(&[&outer], &[]).collect::<Vec<_>>(), [&outer]);
    }

    #[test]
    fn like_replaces_like() {
        let (outer, inner) = (Named("outer"), Named("inner"));
        assert_eq!(
            in_effect(&[&outer], &[&inner]).collect::<Vec<_>>(),
            [&inner]
        );
    }
}
