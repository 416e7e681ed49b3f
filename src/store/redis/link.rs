//! The connection of a courier: how it is made, and how commands are said on it.
//!
//! Every wait has an end: the library's own timeouts are for one read each, so they are set
//! anew before each of them, to what is left of the whole.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use redis::{
    Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, Value,
};

use super::errors;
use super::scripts::{Caller, Script, reply};
use crate::limit::fleet::{Failure, Password, Patience};
use crate::limit::gcra::Bucket;
use crate::limit::key::Digest;
use crate::limit::rate::Rate;
use crate::limit::rating::Limit;
use crate::store::fleet::{Command, Dial, Fault, Link, Reply, Step};

/// The rate of a key that only probes charge; it is forgotten at once.
const PROBES: Rate = Rate {
    number: 1000,
    period: Duration::from_secs(1),
};

/// Where the server is.
#[derive(Clone, Debug)]
pub enum Target {
    /// At a name or address, and a port.
    Tcp {
        /// The name as written.
        host: String,
        /// The port.
        port: u16,
        /// Whether by TLS.
        tls: bool,
        /// What the name meant at the start.
        addresses: Vec<SocketAddr>,
    },
    /// At a socket of this machine.
    Unix(PathBuf),
}

/// Makes connections.
pub struct Dialer {
    /// Where to.
    pub target: Target,
    /// Who we are; none: the default user.
    pub user: Option<String>,
    /// How we prove it.
    pub password: Option<Password>,
    /// Which of its databases.
    pub database: u32,
    /// What our keys begin with.
    pub prefix: String,
    /// How long things may take.
    pub patience: Patience,
    /// Whether the name may mean something else by now.
    pub is_stale: bool,
}

/// A connection.
struct RedisLink {
    connection: Connection,
    loaded: Vec<String>,
    prefix: String,
    patience: Patience,
}

impl Target {
    /// Looks the name up; what it meant before stays where it means nothing now.
    pub fn resolve(&mut self) {
        if let Target::Tcp {
            host,
            port,
            addresses,
            ..
        } = self
            && let Ok(found) = (host.as_str(), *port).to_socket_addrs()
        {
            let found: Vec<SocketAddr> = found.collect();
            if !found.is_empty() {
                *addresses = found;
            }
        }
    }

    /// From now on the one that was reached is tried first.
    fn prefer(&mut self, at: usize) {
        if let Target::Tcp {
            tls: false,
            addresses,
            ..
        } = self
        {
            addresses.rotate_left(at);
        }
    }

    /// Where to try in turn. TLS needs the name itself, which the library then looks up.
    fn addresses(&self) -> Vec<ConnectionAddr> {
        match self {
            Target::Unix(path) => vec![ConnectionAddr::Unix(path.clone())],
            Target::Tcp {
                host,
                port,
                tls: true,
                ..
            } => vec![ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: false,
                tls_params: None,
            }],
            Target::Tcp { addresses, .. } => addresses
                .iter()
                .map(|address| ConnectionAddr::Tcp(address.ip().to_string(), address.port()))
                .collect(),
        }
    }
}

impl Dial for Dialer {
    fn dial(&mut self) -> Result<Box<dyn Link>, Fault> {
        // Here only the courier waits for the DNS: it was found out of reach before.
        if std::mem::take(&mut self.is_stale) {
            self.target.resolve();
        }
        let till = Instant::now() + self.patience.connect;
        let addresses = self.target.addresses();
        let number = addresses.len() as u32;
        let mut met = errors::fault(Failure::Unresolved, "");
        for (at, address) in (0..number).zip(addresses) {
            // One that swallows all it is sent leaves the others their share of the time.
            let now = Instant::now();
            let share = till.saturating_duration_since(now) / (number - at);
            match self.connect(address, now + share) {
                Ok(link) => {
                    self.target.prefer(at as usize);
                    return Ok(Box::new(link));
                }
                Err(fault) => met = fault,
            }
        }
        // It may have moved; to be looked up when nobody waits.
        self.is_stale = true;
        Err(Fault {
            was_closed: false,
            ..met
        })
    }
}

impl Dialer {
    fn connect(&self, address: ConnectionAddr, till: Instant) -> Result<RedisLink, Fault> {
        let mut who = RedisConnectionInfo::default()
            .set_db(i64::from(self.database))
            .set_skip_set_lib_name();
        if let Some(user) = &self.user {
            who = who.set_username(user);
        }
        if let Some(password) = &self.password {
            who = who.set_password(password.expose());
        }
        let at = address
            .into_connection_info()
            .map(|info: ConnectionInfo| info.set_redis_settings(who));
        let client = at
            .and_then(redis::Client::open)
            .map_err(|error| errors::of_client(&error))?;
        let connection = client
            .get_connection_with_timeout(left(till))
            .map_err(|error| errors::of_client(&error))?;
        let mut link = RedisLink {
            connection,
            loaded: Vec::new(),
            prefix: self.prefix.clone(),
            patience: self.patience,
        };
        link.load(till)?;
        Ok(link)
    }
}

impl RedisLink {
    /// Tells the server the scripts, which it calls by digests of its own.
    fn load(&mut self, till: Instant) -> Result<(), Fault> {
        let mut packed = Vec::new();
        for script in Script::ALL {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script.text());
            packed.extend(load.get_packed_command());
        }
        self.loaded = self
            .exchange(&packed, Script::ALL.len(), till)?
            .into_iter()
            .map(|value| match value {
                Value::BulkString(digest) => {
                    String::from_utf8(digest).map_err(|_| errors::not_ours())
                }
                Value::SimpleString(digest) => Ok(digest),
                Value::ServerError(error) => Err(errors::of_server(&error)),
                _ => Err(errors::not_ours()),
            })
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Sends, and reads so many answers.
    fn exchange(
        &mut self,
        packed: &[u8],
        number: usize,
        till: Instant,
    ) -> Result<Vec<Value>, Fault> {
        let failed = |error: redis::RedisError| errors::of_client(&error);
        let connection = &mut self.connection;
        connection
            .set_write_timeout(Some(left(till)))
            .map_err(failed)?;
        connection.send_packed_command(packed).map_err(failed)?;
        let mut values = Vec::with_capacity(number);
        for at in 0..number {
            connection
                .set_read_timeout(Some(left(till)))
                .map_err(failed)?;
            // An answer that is an error is a value, too.
            let value = connection.recv_response().map_err(|error| {
                let fault = errors::of_client(&error);
                Fault {
                    was_closed: fault.was_closed && at == 0,
                    ..fault
                }
            })?;
            values.push(value);
        }
        Ok(values)
    }

    fn run_once(&mut self, commands: &[Command<'_>], till: Instant) -> Result<Vec<Value>, Fault> {
        let caller = Caller {
            prefix: &self.prefix,
            lease: self.patience.lease,
            loaded: &self.loaded,
            clock: None,
        };
        let packed: Vec<u8> = commands
            .iter()
            .flat_map(|command| caller.cmd(command).get_packed_command())
            .collect();
        self.exchange(&packed, commands.len(), till)
    }
}

impl Link for RedisLink {
    fn run(&mut self, commands: &[Command<'_>]) -> Result<Vec<Reply>, Fault> {
        let till = Instant::now() + self.patience.timeout;
        let mut values = self.run_once(commands, till)?;
        let is_forgotten = |value: &Value| matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT");
        if values.iter().any(is_forgotten) {
            // A restart or SCRIPT FLUSH has made it forget them. It has done none of those.
            self.load(till)?;
            let again: Vec<usize> = (0..values.len())
                .filter(|at| is_forgotten(&values[*at]))
                .collect();
            let repeated: Vec<Command<'_>> = again.iter().map(|at| commands[*at]).collect();
            for (at, value) in again.into_iter().zip(self.run_once(&repeated, till)?) {
                values[at] = value;
            }
        }
        let reply = |(command, value): (&Command<'_>, &Value)| match value {
            Value::ServerError(error) => Err(errors::of_server(error)),
            value => reply(command, value).ok_or_else(errors::not_ours),
        };
        commands.iter().zip(&values).map(reply).collect()
    }

    /// By what requests ask for: where only some of it can be done all of it is.
    fn probe(&mut self) -> Result<(), Fault> {
        // No key of anybody has this digest.
        let (key, member) = (Digest { place: 0, tag: 0 }, String::from("probe"));
        let mut commands = vec![
            Command::Take {
                key,
                member: &member,
                limit: None,
            },
            Command::Remove {
                key,
                members: std::slice::from_ref(&member),
            },
        ];
        commands.extend(Bucket::new(PROBES, 1, None).map(|bucket| Command::Rate {
            key,
            limit: Limit::Bucket(bucket),
            step: Step::Charge,
        }));
        self.run(&commands).map(drop)
    }
}

/// What is left of the time; never nothing, since that would be for ever, and so that an answer
/// which is there is read.
fn left(till: Instant) -> Duration {
    till.saturating_duration_since(Instant::now())
        .max(Duration::from_millis(1))
}
