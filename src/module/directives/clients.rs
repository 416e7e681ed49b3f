//! The directives that say who a client is, and who is spared.

use super::{level, site};
use crate::httpd::command::Command;
use crate::limit::syntax::{self, Exempt};
use crate::module::MODULE;
use crate::module::client::ClientHeader;
use crate::module::exempt::Exemption;

pub(super) fn address(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let who = syntax::address(arguments).map_err(|fault| fault.to_string())?;
    // SAFETY: the only call in this handler.
    unsafe { site(command) }.address = Some(who);
    Ok(())
}

pub(super) fn prefix(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let prefix = syntax::prefix(arguments).map_err(|fault| fault.to_string())?;
    // SAFETY: the only call in this handler.
    unsafe { site(command) }.prefix = Some(prefix);
    Ok(())
}

pub(super) fn client_header(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let said = syntax::client_header(arguments).map_err(|fault| fault.to_string())?;
    let pool = command.pool();
    // SAFETY: the only call in this handler.
    let site = unsafe { site(command) };
    if let Some(first) = site.client_header {
        return Err(format!(
            "\"{arguments}\" is the second of this server; {} was said before; one header tells the client, \
             so keep one of them",
            first.name.to_string_lossy()
        ));
    }
    site.client_header = Some(pool.alloc(ClientHeader {
        name: pool.c_str(&said.name),
        trusted: pool.slice(said.trusted.iter().copied()),
    }));
    Ok(())
}

pub(super) fn exempt(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let said = syntax::exempt(arguments).map_err(|fault| fault.to_string())?;
    spare(command, said)
}

pub(super) fn local_ip(command: Command<'_>, arguments: &str) -> Result<(), String> {
    let said = syntax::local_ip(arguments).map_err(|fault| fault.to_string())?;
    spare(command, said)
}

/// Each line is one more exemption.
fn spare(command: Command<'_>, said: Exempt) -> Result<(), String> {
    let pool = command.pool();
    let line = match said {
        Exempt::All => Exemption::All,
        Exempt::Preflight => Exemption::Preflight,
        Exempt::Where {
            networks,
            methods,
            expression,
        } => {
            let methods: Vec<&str> = methods.iter().map(|method| pool.text(method)).collect();
            let parsed = expression.as_ref().map(|text| {
                command
                    .expression(text, MODULE)
                    .map_err(|why| format!("expr=\"{text}\" is no expression of httpd's: {why}; for example expr=\"%{{REQUEST_METHOD}} == 'GET'\""))
            });
            Exemption::Where {
                networks: pool.slice(networks.iter().copied()),
                methods: pool.slice(methods.iter().copied()),
                expression: parsed.transpose()?,
            }
        }
    };
    let line: &Exemption<'_> = pool.alloc(line);
    // SAFETY: the only call in this handler.
    let level = unsafe { level(command) };
    let lines = pool.slice(level.exempt.iter().copied().chain([line]));
    level.say(pool, |beside| beside.exempt = lines);
    Ok(())
}
