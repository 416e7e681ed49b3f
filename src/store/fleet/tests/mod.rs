//! The courier against another side that does as it is told, and what all children know of it:
//! by a clock of the test's own, round by round.

mod breaker;
mod courier;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Breaker, Command, Courier, Dial, Event, Fault, Fleet, Link, Reply, Tell};
use crate::limit::fleet::{Failure, OnFailure, Patience};
use crate::limit::key::Digest;
use crate::store::{Segment, Size};

const SECOND: u64 = 1_000_000_000;
const KEY: Digest = Digest { tag: 1, place: 2 };

const PATIENCE: Patience = Patience {
    timeout: Duration::from_millis(20),
    connect: Duration::from_millis(50),
    lease: Duration::from_secs(30),
};

/// A minute in which nothing is there to wait for.
const LONG: Duration = Duration::from_secs(60);

/// What the other side does with the next connection or exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Mood {
    #[default]
    Well,
    /// Does what it is told, but the answer is lost.
    Deaf,
    /// Does and says nothing.
    Gone,
    /// Has ended the connection while it was idle.
    Closed,
}

/// The other side.
#[derive(Default)]
struct World {
    mood: Mood,
    dials: u32,
    /// Who holds a place.
    places: BTreeMap<u64, BTreeSet<String>>,
    renewed: u32,
    told: Vec<String>,
}

#[derive(Clone, Default)]
struct Far(Arc<Mutex<World>>);

impl Far {
    fn with<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    fn is(&self, mood: Mood) {
        self.with(|world| world.mood = mood);
    }

    fn held(&self, key: Digest) -> usize {
        self.with(|world| world.places.get(&key.tag).map_or(0, BTreeSet::len))
    }

    fn told(&self) -> Vec<String> {
        self.with(|world| std::mem::take(&mut world.told))
    }
}

fn fault(failure: Failure, was_closed: bool) -> Fault {
    Fault {
        failure,
        detail: String::new(),
        was_closed,
    }
}

impl Dial for Far {
    fn dial(&mut self) -> Result<Box<dyn Link>, Fault> {
        let mood = self.with(|world| {
            world.dials += 1;
            if world.mood == Mood::Closed {
                world.mood = Mood::Well;
            }
            world.mood
        });
        match mood {
            Mood::Gone => Err(fault(Failure::Unreachable, false)),
            _ => Ok(Box::new(self.clone())),
        }
    }
}

impl Link for Far {
    fn run(&mut self, commands: &[Command<'_>]) -> Result<Vec<Reply>, Fault> {
        let mood = self.with(|world| world.mood);
        match mood {
            Mood::Gone => return Err(fault(Failure::Hung, false)),
            Mood::Closed => return Err(fault(Failure::Unreachable, true)),
            Mood::Well | Mood::Deaf => {}
        }
        let replies = commands
            .iter()
            .map(|command| self.with(|world| world.does(command)));
        let replies = replies.collect();
        match mood {
            Mood::Deaf => Err(fault(Failure::Hung, false)),
            _ => Ok(replies),
        }
    }

    fn probe(&mut self) -> Result<(), Fault> {
        match self.with(|world| world.mood) {
            Mood::Well => Ok(()),
            _ => Err(fault(Failure::Hung, false)),
        }
    }
}

impl World {
    fn does(&mut self, command: &Command<'_>) -> Reply {
        match *command {
            Command::Take { key, member, limit } => {
                let places = self.places.entry(key.tag).or_default();
                let taken = limit.is_none_or(|limit| places.len() < usize::from(limit));
                if taken {
                    places.insert(member.to_owned());
                }
                let count = places.len() as u32;
                Reply::Place { taken, count }
            }
            Command::Remove { key, members } => {
                let places = self.places.entry(key.tag).or_default();
                members.iter().for_each(|member| {
                    places.remove(member);
                });
                Reply::Done
            }
            Command::Renew { key, members } => {
                self.renewed += 1;
                let places = self.places.entry(key.tag).or_default();
                places.extend(members.iter().cloned());
                Reply::Done
            }
            Command::Rate { .. } => Reply::Rated { word: 7, now: 9 },
        }
    }
}

impl Tell for Far {
    fn event(&self, event: &Event) {
        let text = match event {
            Event::Down { fault, since } => {
                format!("down {} {}", fault.failure.word(), since.as_secs())
            }
            Event::Up(lasted) => format!("up {}", lasted.as_secs()),
        };
        self.with(|world| world.told.push(text));
    }

    fn fault(&self, text: &str) {
        panic!("{text}");
    }
}

thread_local! {
    /// The time of a test, which has a thread of its own.
    static NOW: Cell<u64> = const { Cell::new(1000 * SECOND) };
}

fn clock() -> u64 {
    NOW.get()
}

fn breaker() -> Breaker {
    segment().begin_breaker(Some(OnFailure::Local))
}

fn segment() -> &'static Segment {
    let size = Size {
        keys: 16,
        leases: 16,
        slots: 1,
        rules: 1,
    };
    Box::leak(Box::new(Segment::create(size).unwrap()))
}

/// A child's part and its courier.
fn child(far: &Far, breaker: Breaker) -> (&'static Fleet, Courier) {
    let fleet: &'static Fleet = Box::leak(Box::new(Fleet::new(PATIENCE, breaker, clock, 64)));
    let name = format!("host:boot:{:p}:", fleet);
    let courier = Courier::new(fleet, Box::new(far.clone()), Box::new(far.clone()), name);
    (fleet, courier)
}
