//! Who is spared: the lines of `IPLimitExempt` and `LocalIP`.

use super::running::Running;
use crate::httpd::expression::Expression;
use crate::httpd::request::Request;
use crate::limit::address::Address;
use crate::limit::network::{self, Network};

/// One line: all of its conditions must hold.
pub enum Exemption<'p> {
    /// `all`
    All,
    /// `preflight`: spared from rates, which concurrency rules do not have.
    Preflight,
    /// What fulfils every kind of condition that the line names.
    Where {
        /// One of these; empty for every client.
        networks: &'p [Network],
        /// One of these; empty for all methods.
        methods: &'p [&'p str],
        /// Holds, if there is one.
        expression: Option<Expression<'p>>,
    },
}

/// Whether one of these lines spares the request from concurrency rules.
#[inline]
pub fn spares(
    lines: &[&Exemption<'_>],
    running: Running,
    request: Request<'_>,
    client: Address,
) -> bool {
    !lines.is_empty()
        && lines
            .iter()
            .any(|line| line.holds(running, request, client))
}

/// Whether one of these lines spares a connection, of which only the peer is known.
pub fn spares_peer(lines: &[&Exemption<'_>], peer: Address) -> bool {
    spares_by_address(lines, |networks| network::any_contains(networks, peer))
}

/// Whether some line is by address alone.
pub fn names_addresses(lines: &[&Exemption<'_>]) -> bool {
    spares_by_address(lines, |networks| !networks.is_empty())
}

/// Whether some line asks nothing but the address, and spares by it.
fn spares_by_address(lines: &[&Exemption<'_>], spares: impl Fn(&[Network]) -> bool) -> bool {
    lines.iter().any(|line| match line {
        Exemption::All => true,
        Exemption::Where {
            networks,
            methods: [],
            expression: None,
        } => spares(networks),
        Exemption::Preflight | Exemption::Where { .. } => false,
    })
}

impl Exemption<'_> {
    fn holds(&self, running: Running, request: Request<'_>, client: Address) -> bool {
        match self {
            Exemption::All => true,
            Exemption::Preflight => false,
            Exemption::Where {
                networks,
                methods,
                expression,
            } => {
                let asked = request.initial().method();
                // Methods are case-sensitive: httpd knows no "head", and gives it a body.
                let is_one_of = |method: &&str| asked == method.as_bytes();
                (networks.is_empty() || network::any_contains(networks, client))
                    && (methods.is_empty() || methods.iter().any(is_one_of))
                    && expression.is_none_or(|expression| {
                        expression.holds(request).unwrap_or_else(|why| {
                            running.expression_failed(&why);
                            false
                        })
                    })
            }
        }
    }
}
