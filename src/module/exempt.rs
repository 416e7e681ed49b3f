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
    /// `preflight`: the browser's question before a request of another site, spared from
    /// rates.
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

/// What a request is spared from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Spared {
    /// Nothing.
    No,
    /// Rates only.
    Rates,
    /// Every rule.
    All,
}

/// What these lines spare the request from.
#[inline]
pub fn spares(
    lines: &[&Exemption<'_>],
    running: Running,
    request: Request<'_>,
    client: Address,
) -> Spared {
    if lines.is_empty() {
        return Spared::No;
    }
    let of_line = |line: &&Exemption<'_>| match line {
        Exemption::Preflight if is_preflight(request.initial()) => Spared::Rates,
        line if line.holds(running, request, client) => Spared::All,
        _ => Spared::No,
    };
    lines.iter().map(of_line).max().unwrap_or(Spared::No)
}

/// Whether a browser asks for leave to send what it has not sent yet (the Fetch standard,
/// section "CORS-preflight fetch").
fn is_preflight(request: Request<'_>) -> bool {
    request.method() == b"OPTIONS"
        && request.raw_header_in(c"Origin").is_some()
        && request
            .raw_header_in(c"Access-Control-Request-Method")
            .is_some()
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
                            running.expression_failed("IPLimitExempt", &why);
                            false
                        })
                    })
            }
        }
    }
}
