//! The connection against servers that are not as they should be: each is one kind of failure,
//! within the time that was set.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::server::Redis;
use crate::limit::fleet::{Failure, Password, Patience};
use crate::limit::gcra::Bucket;
use crate::limit::key::Digest;
use crate::limit::rate::Rate;
use crate::limit::rating::Limit;
use crate::store::fleet::{Command, Dial, Fault, Reply, Step};
use crate::store::redis::{Dialer, Target, errors};

const PATIENCE: Patience = Patience {
    timeout: Duration::from_secs(10),
    connect: Duration::from_secs(10),
    lease: Duration::from_secs(30),
};

/// As much as matters of a hung server.
const SHORT: Duration = Duration::from_millis(200);

const TAKE: Command<'static> = Command::Take {
    key: Digest { tag: 1, place: 2 },
    member: "one",
    limit: Some(3),
};

const ONE: Reply = Reply::Place {
    taken: true,
    count: 1,
};

fn to_port(port: u16) -> Dialer {
    Dialer {
        target: Target::Tcp {
            host: String::from("127.0.0.1"),
            port,
            tls: false,
            addresses: vec![([127, 0, 0, 1], port).into()],
        },
        user: None,
        password: None,
        database: 0,
        prefix: String::from("test:"),
        patience: PATIENCE,
        is_stale: false,
    }
}

/// What comes of one place taken there.
fn take(dialer: &mut Dialer) -> Result<Reply, Fault> {
    let mut link = dialer.dial()?;
    link.probe()?;
    Ok(link.run(&[TAKE])?[0])
}

#[track_caller]
fn assert_fails(dialer: &mut Dialer, expected: Failure) {
    match take(dialer) {
        Err(fault) => assert_eq!(fault.failure, expected, "{fault:?}"),
        Ok(reply) => panic!("{reply:?}"),
    }
}

#[test]
fn place_is_taken_by_port_and_by_socket() {
    let redis = Redis::start();
    let mut by_socket = Dialer {
        target: Target::Unix(redis.socket().into()),
        database: 3,
        ..to_port(0)
    };
    for _ in 0..2 {
        // In a database of its own: the first there, too.
        assert_eq!(take(&mut to_port(redis.port())), Ok(ONE));
        assert_eq!(take(&mut by_socket), Ok(ONE));
    }
}

/// Else it would be taken for one that answers again, from one probe to the next request.
#[test]
fn probe_gets_through_only_where_all_is_done_that_requests_ask_for() {
    let redis = Redis::start();
    let mut link = to_port(redis.port()).dial().unwrap();
    for command in [
        "evalsha", "zadd", "zrem", "zcard", "pexpire", "get", "set", "time",
    ] {
        let allow =
            |sign: &str| redis.ask(&["ACL", "SETUSER", "default", &format!("{sign}{command}")]);
        allow("-");
        let fault = link.probe().expect_err(command);
        assert_eq!(fault.failure, Failure::Forbidden, "{command}: {fault:?}");
        allow("+");
        assert_eq!(link.probe(), Ok(()), "{command}");
    }
    assert_eq!(link.run(&[TAKE]), Ok(vec![ONE]));
}

/// An address at which nobody listens, nor can while the socket is there.
fn closed() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

#[test]
fn several_addresses_are_tried_in_turn() {
    let redis = Redis::start();
    let (_socket, closed) = closed();
    let mut dialer = to_port(redis.port());
    let Target::Tcp { addresses, .. } = &mut dialer.target else {
        panic!();
    };
    addresses.insert(0, closed);
    assert_eq!(take(&mut dialer), Ok(ONE));
}

/// Somebody's firewall drops what is sent there.
#[test]
fn address_that_swallows_everything_leaves_time_for_the_next() {
    let redis = Redis::start();
    let (socket, silent) = closed();
    socket.listen(0).unwrap();
    // From when its queue is full the system drops connections.
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&silent, SHORT) {
        waiting.push(stream);
    }
    let mut dialer = to_port(redis.port());
    dialer.patience.connect = Duration::from_secs(16);
    let Target::Tcp { addresses, .. } = &mut dialer.target else {
        panic!();
    };
    addresses.insert(0, silent);
    assert_eq!(take(&mut dialer), Ok(ONE));
    // And the one that was reached comes first the next time.
    let Target::Tcp { addresses, .. } = &dialer.target else {
        panic!();
    };
    assert_eq!(addresses[1], silent);
}

#[test]
fn nobody_there_and_names_without_address_are_told_apart() {
    let (_socket, closed) = closed();
    let port = closed.port();
    assert_fails(&mut to_port(port), Failure::Unreachable);
    let mut nameless = to_port(port);
    nameless.target = Target::Tcp {
        host: String::from("no-such-host.invalid"),
        port,
        tls: false,
        addresses: Vec::new(),
    };
    assert_fails(&mut nameless, Failure::Unresolved);
    let mut no_socket = to_port(port);
    no_socket.target = Target::Unix("/nonexistent/socket".into());
    assert_fails(&mut no_socket, Failure::Unreachable);
}

#[test]
fn hung_server_costs_no_more_than_the_time_that_was_set() {
    let redis = Redis::start();
    let mut dialer = to_port(redis.port());
    let mut link = dialer.dial().unwrap();
    redis.freeze();
    dialer.patience = Patience {
        timeout: SHORT,
        connect: SHORT,
        ..PATIENCE
    };
    let start = Instant::now();
    assert_fails(&mut dialer, Failure::Hung);
    // A generous bound: the machine may be loaded. It would hang for ever.
    assert!(start.elapsed() < Duration::from_secs(30));
    redis.thaw();
    assert_eq!(link.run(&[TAKE]).map(|replies| replies[0]), Ok(ONE));
}

#[test]
fn connection_that_ended_idle_is_known_as_such() {
    let redis = Redis::start();
    let mut link = to_port(redis.port()).dial().unwrap();
    redis.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let fault = link.run(&[TAKE]).unwrap_err();
    assert!(fault.was_closed, "{fault:?}");
    assert_eq!(fault.failure, Failure::Unreachable);
}

/// As whoever is stopped amid a wait, and goes on, finds it.
#[test]
fn wait_that_was_interrupted_says_nothing_of_the_server() {
    const EINTR: i32 = 4;
    let error = std::io::Error::from_raw_os_error(EINTR);
    let fault = errors::of_client(&error.into());
    assert!(fault.was_closed, "{fault:?}");
}

#[test]
fn scripts_that_were_flushed_are_loaded_again() {
    let redis = Redis::start();
    let mut link = to_port(redis.port()).dial().unwrap();
    redis.ask(&["SCRIPT", "FLUSH"]);
    let members = [String::from("other")];
    let commands = [
        Command::Remove {
            key: Digest { tag: 1, place: 2 },
            members: &members,
        },
        TAKE,
        TAKE,
    ];
    assert_eq!(link.run(&commands), Ok(vec![Reply::Done, ONE, ONE]));
}

#[test]
fn passwords_are_sent_and_missed() {
    let redis = Redis::with(&["--requirepass", "s3cret"]);
    assert_fails(&mut to_port(redis.port()), Failure::Password);
    let with = |user: Option<&str>, password: &str| Dialer {
        user: user.map(str::to_owned),
        password: Some(Password::new(password.to_owned())),
        ..to_port(redis.port())
    };
    for (user, password, is_right) in [
        (None, "wrong", false),
        (None, "s3cret", true),
        (Some("default"), "s3cret", true),
        (Some("nobody"), "s3cret", false),
    ] {
        let said = take(&mut with(user, password));
        match is_right {
            true => assert_eq!(said, Ok(ONE), "{user:?} {password}"),
            false => {
                let fault = said.unwrap_err();
                assert_eq!(fault.failure, Failure::Password, "{user:?} {password}");
                assert!(!format!("{fault:?}").contains(password));
            }
        }
    }
}

#[test]
fn user_who_may_not_is_forbidden() {
    let redis = Redis::with(&["--user", "limits", "on", ">pw", "~other:*", "+@all"]);
    let mut dialer = Dialer {
        user: Some(String::from("limits")),
        password: Some(Password::new(String::from("pw"))),
        ..to_port(redis.port())
    };
    assert_fails(&mut dialer, Failure::Forbidden);
    dialer.prefix = String::from("other:");
    assert_eq!(take(&mut dialer), Ok(ONE));
}

#[test]
fn replicas_and_full_servers_take_no_writes() {
    let primary = Redis::start();
    let port = primary.port().to_string();
    let replica = Redis::with(&["--replicaof", "127.0.0.1", &port]);
    assert_fails(&mut to_port(replica.port()), Failure::ReadOnly);
    let full = Redis::with(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]);
    assert_fails(&mut to_port(full.port()), Failure::OutOfMemory);
    let mut link = to_port(primary.port()).dial().unwrap();
    primary.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    // A script that has begun to write may go on, so a place can still be taken.
    let rate = Rate {
        number: 1,
        period: Duration::from_secs(1),
    };
    let rate = Command::Rate {
        key: Digest { tag: 1, place: 2 },
        limit: Limit::Bucket(Bucket::new(rate, 1, None).unwrap()),
        step: Step::Decide,
    };
    let fault = link.run(&[rate]).unwrap_err();
    assert_eq!(fault.failure, Failure::OutOfMemory, "{fault:?}");
}

/// What a server says that still loads, hangs in a script, or sends elsewhere: by a listener that
/// says just that, since no real one can be held in such a state.
#[test]
fn answers_that_are_errors_are_told_apart() {
    for (answer, expected) in [
        (
            "LOADING Redis is loading the dataset in memory",
            Failure::Loading,
        ),
        ("BUSY Redis is busy running a script.", Failure::Hung),
        (
            "MISCONF Redis is configured to save RDB snapshots",
            Failure::ReadOnly,
        ),
        ("MOVED 3999 127.0.0.1:6381", Failure::Cluster),
        ("CLUSTERDOWN Hash slot not served", Failure::Cluster),
        ("ERR unknown command", Failure::Refused),
        ("NOPERM this user has no permissions", Failure::Forbidden),
    ] {
        says(format!("-{answer}\r\n").repeat(4), expected);
    }
}

/// A listener that says this, to whatever it is told.
#[track_caller]
fn says(text: String, expected: Failure) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut said = [0; 64];
            let _ = stream.read(&mut said);
            let _ = stream.write_all(text.as_bytes());
            // Until the other side has read it and goes.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        assert_fails(&mut to_port(port), expected);
    });
}

#[test]
fn somebody_elses_server_is_no_redis() {
    says(
        String::from("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
        Failure::NotRedis,
    );
    says(String::from(":1\r\n").repeat(4), Failure::NotRedis);
}
