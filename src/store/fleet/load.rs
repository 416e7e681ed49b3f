//! What the courier sends in one round: places that are given back, orders, places that are
//! renewed, and in which commands.

use super::inbox::Entry;
use super::order::{Command, Order};
use super::places::PlaceIndex;
use crate::limit::key::Digest;

/// A place that the child holds, or may hold.
#[derive(Clone)]
pub struct Known {
    pub key: Digest,
    pub member: String,
}

/// One that is to be given back.
pub struct Leaving {
    pub place: PlaceIndex,
    pub known: Known,
    /// How often still, and not before when.
    pub times: u8,
    pub due: u64,
}

/// What one round sends.
#[derive(Default)]
pub struct Load {
    pub removals: Vec<(Digest, Vec<String>)>,
    pub leaving: Vec<Leaving>,
    pub orders: Vec<Entry>,
    pub members: Vec<String>,
    pub renewals: Vec<(Digest, Vec<String>)>,
}

impl Load {
    pub fn is_empty(&self) -> bool {
        self.removals.is_empty() && self.orders.is_empty() && self.renewals.is_empty()
    }

    /// In the order in which they are to be done: what is given back makes room.
    pub fn commands(&self) -> Vec<Command<'_>> {
        let removals = self
            .removals
            .iter()
            .map(|(key, members)| Command::Remove { key: *key, members });
        let orders = self.orders.iter().zip(&self.members);
        let orders = orders.map(|(entry, member)| match entry.order {
            Order::Take { key, limit, .. } => Command::Take { key, member, limit },
            Order::Rate { key, limit, step } => Command::Rate { key, limit, step },
        });
        let renewals = self
            .renewals
            .iter()
            .map(|(key, members)| Command::Renew { key: *key, members });
        removals.chain(orders).chain(renewals).collect()
    }
}

/// The members of each key.
pub fn grouped<'k>(all: impl Iterator<Item = &'k Known>) -> Vec<(Digest, Vec<String>)> {
    let mut all: Vec<&Known> = all.collect();
    all.sort_by_key(|known| (known.key.place, known.key.tag));
    all.chunk_by(|one, other| one.key == other.key)
        .map(|same| {
            let members = same.iter().map(|known| known.member.clone());
            (same[0].key, members.collect())
        })
        .collect()
}
