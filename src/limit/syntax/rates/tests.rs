//! What rates and their options mean, and what is said of wrong ones.

use super::*;
use crate::limit::rating::Statuses;
use crate::limit::syntax::rule;
use Directive::{MaxHitsPerIp, MaxHitsPerKey, MaxRatePerIp, MaxRatePerKey};
use std::time::Duration;

fn rating(directive: Directive, arguments: &str) -> Rating {
    let said = rule(directive, arguments);
    let said = said.unwrap_or_else(|fault| panic!("{arguments}: {fault}"));
    *said.terms.rating().expect("a rate")
}

fn on(statuses: &[u16]) -> Statuses {
    let mut on = Statuses::default();
    assert!(statuses.iter().all(|status| on.add(*status)));
    on
}

#[test]
fn good_buckets_are_understood() {
    use Scope::{Location, Vhost, Zone};
    for (directive, arguments, shown, burst, delay, scope, statuses) in [
        (MaxRatePerIp, "10/s", "10/s", 10, None, Location, &[][..]),
        (MaxRatePerIp, "1/MIN", "1/min", 1, None, Location, &[]),
        (
            MaxRatePerIp,
            "600/5min Burst=20",
            "600/5min",
            20,
            None,
            Location,
            &[],
        ),
        (
            MaxRatePerIp,
            "10/s delay=10",
            "10/s",
            10,
            Some(10),
            Location,
            &[],
        ),
        (
            MaxRatePerIp,
            "10/s delay=0 burst=1",
            "10/s",
            1,
            Some(0),
            Location,
            &[],
        ),
        (
            MaxRatePerIp,
            "10/s scope=VHOST",
            "10/s",
            10,
            None,
            Vhost,
            &[],
        ),
        (
            MaxRatePerIp,
            "5/h on=401,403",
            "5/h",
            5,
            None,
            Location,
            &[401, 403],
        ),
        (
            MaxRatePerIp,
            "5/h on=\"401, 403\"",
            "5/h",
            5,
            None,
            Location,
            &[401, 403],
        ),
        (
            MaxRatePerKey,
            "api 9/s burst=1000000",
            "9/s",
            1_000_000,
            None,
            Location,
            &[],
        ),
        (
            MaxRatePerKey,
            "api 9/s scope=zone",
            "9/s",
            9,
            None,
            Zone,
            &[],
        ),
        (
            MaxRatePerKey,
            "api 9/s scope=location",
            "9/s",
            9,
            None,
            Location,
            &[],
        ),
    ] {
        let said = rating(directive, arguments);
        let bucket = Bucket::new(Rate::parse(shown).unwrap(), burst, delay).unwrap();
        assert_eq!(said.limit, Some(Limit::Bucket(bucket)), "{arguments}");
        assert_eq!(said.scope, scope, "{arguments}");
        assert_eq!(said.on, on(statuses), "{arguments}");
    }
}

#[test]
fn good_windows_are_understood() {
    use Scope::{Location, Vhost, Zone};
    for (directive, arguments, shown, millis, extend, scope, statuses) in [
        (
            MaxHitsPerIp,
            "100/min",
            "100/min",
            None,
            false,
            Location,
            &[][..],
        ),
        (
            MaxHitsPerIp,
            "5/min freeze=10",
            "5/min",
            Some(10_000),
            false,
            Location,
            &[],
        ),
        (
            MaxHitsPerIp,
            "5/min freeze=1ms",
            "5/min",
            Some(1),
            false,
            Location,
            &[],
        ),
        (
            MaxHitsPerIp,
            "5/min Extend freeze=1H",
            "5/min",
            Some(3_600_000),
            true,
            Location,
            &[],
        ),
        (
            MaxHitsPerIp,
            "5/min on=401 scope=vhost",
            "5/min",
            None,
            false,
            Vhost,
            &[401],
        ),
        (
            MaxHitsPerKey,
            "api 5/d freeze=366d",
            "5/d",
            Some(31_622_400_000),
            false,
            Location,
            &[],
        ),
        (
            MaxHitsPerKey,
            "api 5/d scope=zone",
            "5/d",
            None,
            false,
            Zone,
            &[],
        ),
    ] {
        let said = rating(directive, arguments);
        let window = Window {
            rate: Rate::parse(shown).unwrap(),
            freeze: millis.map(Duration::from_millis),
            extend,
        };
        assert_eq!(said.limit, Some(Limit::Window(window)), "{arguments}");
        assert_eq!(said.scope, scope, "{arguments}");
        assert_eq!(said.on, on(statuses), "{arguments}");
    }
}

#[test]
fn whoever_is_cut_as_too_slow_can_be_charged() {
    for (directive, arguments, statuses) in [
        (MaxRatePerIp, "5/h on=slow", &[][..]),
        (MaxHitsPerIp, "5/h on=401,Slow freeze=1h", &[401]),
        (MaxHitsPerKey, "api 5/h on=slow,403", &[403]),
    ] {
        let mut expected = on(statuses);
        expected.add_slow();
        assert_eq!(rating(directive, arguments).on, expected, "{arguments}");
    }
}

#[test]
fn off_takes_a_scope_and_networks_only() {
    for (directive, arguments, scope, networks) in [
        (MaxRatePerIp, "off", Scope::Location, 0),
        (
            MaxRatePerIp,
            "OFF scope=vhost for=10.1,::1",
            Scope::Vhost,
            2,
        ),
        (MaxRatePerKey, "api off scope=zone", Scope::Zone, 0),
        (MaxHitsPerIp, "Off for=10.1", Scope::Location, 1),
        (MaxHitsPerKey, "api off", Scope::Location, 0),
    ] {
        let said = rule(directive, arguments).unwrap();
        let on = Statuses::default();
        let rating = Rating {
            limit: None,
            scope,
            on,
        };
        assert_eq!(said.terms, Terms::Rate(rating), "{arguments}");
        assert_eq!(said.networks.len(), networks, "{arguments}");
    }
    for (directive, arguments, value) in [
        (MaxRatePerIp, "off burst=3", "\"burst=3\""),
        (MaxRatePerIp, "off scope=vhost delay=1", "\"delay=1\""),
        (MaxRatePerKey, "api off on=401", "\"on=401\""),
        (MaxHitsPerIp, "off freeze=1h", "\"freeze=1h\""),
        (MaxHitsPerKey, "api off Extend", "\"Extend\""),
    ] {
        let message = rule(directive, arguments).unwrap_err().to_string();
        assert!(
            message.contains(value) && message.contains("does not go with \"off\""),
            "{arguments}: {message}"
        );
    }
}

#[test]
fn bad_rates_name_the_value_and_what_works() {
    for (directive, arguments, value, helps) in [
        (MaxRatePerIp, "", "needs", "10/s"),
        (MaxRatePerIp, "10", "\"10\"", "10/s"),
        (MaxHitsPerIp, "10/q", "unknown unit \"q\"", "ms, s, min"),
        (MaxRatePerIp, "0", "\"0\"", "\"off\" for no limit"),
        (MaxHitsPerIp, "0/s", "\"0/s\"", "\"off\" for no limit"),
        (
            MaxHitsPerKey,
            "api 00/min",
            "\"00/min\"",
            "\"off\" for no limit",
        ),
        (MaxRatePerIp, "ten/s", "\"ten/s\"", "10/s"),
        (MaxRatePerIp, "-1/s", "\"-1/s\"", "10/s"),
        (MaxRatePerIp, "10/s 5", "\"5\"", "burst=N"),
        (MaxRatePerIp, "10/s # ten", "\"#\"", "line of its own"),
        (MaxRatePerIp, "burst=3 10/s", "\"burst=3\"", "10/s burst=3"),
        (MaxRatePerKey, "api burst=3", "\"burst=3\"", "10/s burst=3"),
        (MaxRatePerIp, "10/s burst=0", "burst=\"0\"", "1 to 1000000"),
        (
            MaxRatePerIp,
            "10/s burst=1000001",
            "burst=\"1000001\"",
            "burst=20",
        ),
        (MaxRatePerIp, "10/s burst=+1", "burst=\"+1\"", "burst=20"),
        (MaxRatePerIp, "10/s burst=", "burst=\"\"", "burst=20"),
        (MaxRatePerIp, "10/s burst=1 burst=1", "burst=", "twice"),
        (MaxRatePerIp, "10/s delay=11", "delay=\"11\"", "0 to 10"),
        (
            MaxRatePerIp,
            "10/s burst=5 delay=6",
            "delay=\"6\"",
            "0 to 5",
        ),
        (MaxRatePerIp, "10/s delay=x", "delay=\"x\"", "delay=5"),
        (MaxRatePerIp, "10/s delay=5 on=401", "delay=\"5\"", "on="),
        (
            MaxRatePerIp,
            "1/366d burst=1000",
            "burst=\"1000\" at 1/366d",
            "lower burst=",
        ),
        (MaxRatePerIp, "10/s on=4xx", "on=\"4xx\"", "on=401,403"),
        (MaxRatePerIp, "10/s on=slowly", "on=\"slowly\"", "\"slow\""),
        (MaxRatePerIp, "10/s delay=5 on=slow", "delay=\"5\"", "on="),
        (MaxRatePerIp, "10/s on=199", "on=\"199\"", "200 to 599"),
        (MaxRatePerIp, "10/s on=401 on=403", "on=", "twice"),
        (
            MaxRatePerIp,
            "10/s scope=server",
            "scope=\"server\"",
            "location|vhost",
        ),
        (
            MaxHitsPerIp,
            "10/s scope=zone",
            "scope=\"zone\"",
            "location|vhost",
        ),
        (
            MaxRatePerKey,
            "api 1/s scope=server",
            "\"server\"",
            "location|vhost|zone",
        ),
        (MaxRatePerIp, "10/s for=host", "for=\"host\"", "10.1.0.0/16"),
        (MaxRatePerIp, "10/s shared=1", "\"shared=1\"", "burst=N"),
        (
            MaxRatePerIp,
            "10/s freeze=1h",
            "\"freeze=1h\"",
            "freeze= belongs to MaxHitsPerIP",
        ),
        (
            MaxRatePerKey,
            "api 1/s extend",
            "\"extend\"",
            "extend belongs to MaxHitsPerIP",
        ),
        (
            MaxRatePerIp,
            "10/s busy=80%",
            "\"busy=80%\"",
            "busy= belongs to MaxConnPerIP",
        ),
        (
            MaxHitsPerKey,
            "a 1/s count=requests",
            "count=",
            "count= belongs to MaxConnPerIP",
        ),
        (
            MaxHitsPerIp,
            "10/s burst=3",
            "\"burst=3\"",
            "burst= belongs to MaxRatePerIP",
        ),
        (
            MaxHitsPerIp,
            "10/s delay=3",
            "\"delay=3\"",
            "delay= belongs to MaxRatePerIP",
        ),
        (
            MaxHitsPerIp,
            "10/s extend",
            "\"extend\"",
            "freeze=10min extend",
        ),
        (
            MaxHitsPerIp,
            "10/s extend=on",
            "\"extend=on\"",
            "freeze=TIME, extend",
        ),
        (
            MaxHitsPerIp,
            "10/s freeze=1h extend extend",
            "extend",
            "twice",
        ),
        (MaxHitsPerIp, "10/s freeze=0", "freeze=\"0\"", "1ms to 366d"),
        (
            MaxHitsPerIp,
            "10/s freeze=367d",
            "freeze=\"367d\"",
            "1ms to 366d",
        ),
        (
            MaxHitsPerIp,
            "10/s freeze=5q",
            "freeze=\"5q\"",
            "ms, s, min, h or d",
        ),
    ] {
        let message = rule(directive, arguments).unwrap_err().to_string();
        assert!(
            message.contains(value) && message.contains(helps),
            "{arguments}: {message}"
        );
    }
}
