//! Keys that somebody names: what is known of them in all counts, to forget it, or to free them.

use std::collections::HashMap;

use super::names::{key, of_record};
use super::written::{Keys, Written};
use super::{Kind, Meta, Rate, What};
use crate::limit::hand::{self, Seen};
use crate::limit::key::CountId;
use crate::limit::rating::{frozen_for, is_spent};
use crate::report::key::KeyRow;
use crate::store::{About, META, RuleRecord, Segment, Spot};

const MILLI: u64 = 1_000_000;

/// A key that is looked for.
pub struct ByHand<'a> {
    pub(super) segment: &'a Segment,
    pub(super) about: &'a About,
    /// The zone that it is looked for in, case aside; none for everywhere.
    pub(super) zone: Option<String>,
    pub(super) text: &'a [u8],
    pub(super) written: Written,
    pub(super) records: HashMap<u64, RuleRecord>,
    pub(super) nanos: u64,
}

impl<'a> ByHand<'a> {
    /// The key that is written so: as it is, or as `zone:value`. `nanos` is of the clock of
    /// rates.
    pub fn new(segment: &'a Segment, about: &'a About, text: &'a [u8], nanos: u64) -> Self {
        let ledger = segment.ledger();
        let records: HashMap<u64, RuleRecord> =
            ledger.iter().map(|record| (record.id, record)).collect();
        let names = records.values().map(|record| record.name.as_str());
        let (zone, text) = in_zone(text, names).unwrap_or((None, text));
        ByHand {
            segment,
            about,
            zone,
            text,
            written: Written::parse(text),
            records,
            nanos,
        }
    }

    /// Whether keys of this count are those of the zone that is meant.
    pub(super) fn is_of_zone(&self, record: Option<&RuleRecord>) -> bool {
        let Some(wanted) = &self.zone else {
            return true;
        };
        let zone = record.and_then(|record| zone_of(&record.name));
        zone.is_some_and(|zone| zone.eq_ignore_ascii_case(wanted))
    }

    /// Where the key is in the table.
    pub(super) fn spots(&self) -> Vec<Spot> {
        let words = self.records.values().map(|record| record.keys);
        let kinds: Vec<Keys> = words.filter_map(Keys::unpack).collect();
        let (prefix, secret) = (self.about.prefix, self.segment.secret());
        let digests = self.written.digests(self.text, &kinds, prefix, secret);
        let is_key = |count: CountId, tag| match self.written {
            // As Digest::within makes it: the other half is not shown.
            Written::Digest(digest) => tag == (digest ^ count.0).max(1),
            _ => digests.iter().any(|key| key.within(count).tag == tag),
        };
        let mut spots = self.segment.spots(|count, tag| {
            is_key(count, tag) && self.is_of_zone(self.records.get(&count.0.max(1)))
        });
        spots.sort_by_cached_key(|spot| self.name_of(spot.count));
        spots
    }

    fn name_of(&self, count: CountId) -> (String, Option<String>) {
        of_record(self.records.get(&count.0.max(1)))
    }

    /// What is known of it: a row for each count that knows anything.
    pub fn rows(&self) -> Vec<KeyRow> {
        let spots = self.spots();
        let known = spots
            .iter()
            .filter(|spot| spot.in_flight > 0 || !is_spent(spot.rate, self.nanos));
        known.map(|spot| self.row(spot)).collect()
    }

    fn row(&self, spot: &Spot) -> KeyRow {
        let (rule, vhost) = self.name_of(spot.count);
        let of = self.records.get(&spot.count.0.max(1));
        let of = of.map_or([0; META], |record| record.of);
        let rate = rate_of(of);
        let limit = match Meta::unpack(of).map(|meta| meta.what) {
            Some(What::Places { limit, .. }) => Some(u64::from(limit)),
            _ => rate
                .map(|rate| rate.number.into())
                .filter(|number| *number > 0),
        };
        let period = rate.map(|rate| rate.period.as_millis() as u64);
        let row = KeyRow {
            zone: zone_of(&rule).map(str::to_owned),
            rule,
            vhost,
            key: key(&spot.name, self.about.prefix),
            limit,
            period_milliseconds: period,
            ..KeyRow::default()
        };
        let millis = |nanos: u64| nanos.div_ceil(MILLI);
        match hand::seen(spot.rate, self.nanos) {
            _ if spot.rate == 0 => KeyRow {
                in_flight: Some(spot.in_flight.into()),
                ..row
            },
            Seen::Nothing => row,
            Seen::Bucket { full_in } => KeyRow {
                requests_left: rate.and_then(|rate| left(rate, spot.rate, self.nanos)),
                full_in_milliseconds: Some(millis(full_in)),
                ..row
            },
            Seen::Window { count, ends_in } => KeyRow {
                requests_left: limit.map(|limit| limit.saturating_sub(count.into())),
                hits: Some(count.into()),
                window_ends_in_milliseconds: Some(millis(ends_in)),
                ..row
            },
            Seen::Frozen { left } => KeyRow {
                requests_left: Some(0),
                frozen_seconds_left: Some(left.div_ceil(1000 * MILLI)),
                ..row
            },
        }
    }

    /// Forgets what its rates know of it, freezes too; how it was. Places in flight stay.
    pub fn clear(&self) -> Vec<KeyRow> {
        self.change(|word| !is_spent(word, self.nanos))
    }

    /// Ends its freezes, after which all starts anew; how it was.
    pub fn unfreeze(&self) -> Vec<KeyRow> {
        self.change(|word| frozen_for(word, self.nanos).is_some())
    }

    fn change(&self, concerns: impl Fn(u64) -> bool) -> Vec<KeyRow> {
        let spots = self.spots();
        let changed = spots.iter().filter(|spot| {
            concerns(spot.rate)
                && self
                    .segment
                    .change_rate(spot, |word| concerns(word).then(|| hand::forgotten(word)))
        });
        changed.map(|spot| self.row(spot)).collect()
    }
}

/// The rate of which a count is; its number is 0 where rules of several share it.
fn rate_of(of: [u64; META]) -> Option<Rate> {
    match Meta::unpack(of)?.what {
        What::Rate(rate) => Some(rate),
        _ => None,
    }
}

/// The zone of a rule, or of what rules share, by its name: `MaxConnPerKey:api@server`.
pub(super) fn zone_of(name: &str) -> Option<&str> {
    let (kind, _) = name.split_once('@')?;
    kind.split_once(':').map(|(_, zone)| zone)
}

/// The zone, and the key in it, of a text that begins with the name of a zone of these rules and
/// a colon. An IPv6 address is one, whatever zones are called.
fn in_zone<'t, 'n>(
    text: &'t [u8],
    mut rules: impl Iterator<Item = &'n str>,
) -> Option<(Option<String>, &'t [u8])> {
    if matches!(
        Written::parse(text),
        Written::Address(_) | Written::Network(..)
    ) {
        return None;
    }
    let at = text.iter().position(|byte| *byte == b':')?;
    let (name, value) = (std::str::from_utf8(&text[..at]).ok()?, &text[at + 1..]);
    let is_zone =
        rules.any(|rule| zone_of(rule).is_some_and(|zone| zone.eq_ignore_ascii_case(name)));
    is_zone.then(|| (Some(name.to_owned()), value))
}

/// How many more may come at once from a bucket; None where its numbers are not known.
fn left(rate: Rate, word: u64, now: u64) -> Option<u64> {
    // A number of 0 says that rules of several share it.
    if rate.number == 0 || !matches!(rate.kind, Kind::Bucket { .. }) {
        return None;
    }
    let bucket = rate.limit()?.without_delay();
    Some(bucket.pass_without(word, now).left.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_name_its_zone() {
        let rules = [
            "MaxConnPerIP@/a:b",
            "MaxConnPerKey:api@zone",
            "MaxHitsPerKey:fe80@/x",
        ];
        for (text, expected) in [
            ("api:secret", Some(("api", "secret"))),
            ("API:a:b", Some(("API", "a:b"))),
            ("api:", Some(("api", ""))),
            ("api", None),
            ("other:secret", None),
            ("fe80::1", None),
            ("fe80:x", Some(("fe80", "x"))),
            ("digest:00000000000000ab", None),
            (
                "api:digest:00000000000000ab",
                Some(("api", "digest:00000000000000ab")),
            ),
        ] {
            let found = in_zone(text.as_bytes(), rules.iter().copied());
            let expected = expected.map(|(zone, key)| (Some(zone.to_owned()), key.as_bytes()));
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(zone_of("MaxConnPerIP@/a:b"), None);
        assert_eq!(zone_of("MaxRatePerKey:api@server (10s)"), Some("api"));
    }
}
