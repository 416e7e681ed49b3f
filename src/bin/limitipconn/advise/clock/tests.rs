//! Times as tables, and against arithmetic by days.

use proptest::prelude::*;

use super::*;

fn common_of(text: &str) -> Option<i64> {
    common(text.as_bytes().try_into().ok()?)
}

#[test]
fn the_common_form_is_read() {
    for (text, expected) in [
        ("01/Jan/1970:00:00:00 +0000", Some(0)),
        ("10/Oct/2000:13:55:36 -0700", Some(971_211_336)),
        ("29/Feb/2024:23:59:59 +0000", Some(1_709_251_199)),
        ("30/Nov/2026:12:00:00 +0100", Some(1_796_036_400)),
        ("31/Dec/9999:23:59:59 +0000", Some(253_402_300_799)),
        // The leap second of 2016 is the first second of 2017.
        ("31/Dec/2016:23:59:60 +0000", Some(1_483_228_800)),
        ("29/Feb/2023:00:00:00 +0000", None),
        ("29/Feb/1900:00:00:00 +0000", None),
        ("31/Apr/2026:00:00:00 +0000", None),
        ("00/Jan/2026:00:00:00 +0000", None),
        ("01/Foo/2026:00:00:00 +0000", None),
        ("01/Jan/2026:24:00:00 +0000", None),
        ("01/Jan/2026:00:60:00 +0000", None),
        ("01/Jan/2026:00:00:61 +0000", None),
        ("01/Jan/2026:00:00:00 *0000", None),
        ("01/Jan/2026 00:00:00 +0000", None),
        ("01/Jan/-026:00:00:00 +0000", None),
        ("01/Jan/1969:00:00:00 +0000", None),
    ] {
        assert_eq!(common_of(text), expected, "{text}");
    }
}

#[test]
fn times_are_written_as_utc() {
    for (seconds, shown) in [
        (0, "1970-01-01 00:00:00"),
        (951_782_400, "2000-02-29 00:00:00"),
        (1_483_228_799, "2016-12-31 23:59:59"),
        (253_402_300_799, "9999-12-31 23:59:59"),
        (-1, "1969-12-31 23:59:59"),
    ] {
        assert_eq!(written(seconds * SECOND), shown);
    }
}

fn pattern(format: &str, text: &str) -> Option<(i64, usize)> {
    let mut civil = Civil::default();
    let mut epoch = None;
    let pattern = Pattern::parse(format.as_bytes()).expect("a test's own format");
    let length = pattern.read(text.as_bytes(), &mut civil, &mut epoch)?;
    Some((epoch.or_else(|| civil.seconds())?, length))
}

#[test]
fn what_strftime_writes_is_read() {
    let time = 1_796_043_845;
    for (format, text) in [
        ("%Y-%m-%d %H:%M:%S", "2026-11-30 13:04:05"),
        ("%F %T", "2026-11-30 13:04:05"),
        ("%FT%T%z", "2026-11-30T15:04:05+0200"),
        ("%d/%b/%Y:%T %z", "30/Nov/2026:13:04:05 +0000"),
        ("%a %B %e %T %Z %Y", "Mon November 30 13:04:05 UTC 2026"),
        ("%D %I:%M:%S %p", "11/30/26 01:04:05 PM"),
        ("%s", "1796043845"),
        ("%y%m%d%H%M%S%%", "261130130405%"),
    ] {
        assert_eq!(pattern(format, text), Some((time, text.len())), "{format}");
        assert_eq!(
            pattern(format, &text[..text.len() - 1]).filter(|got| got.0 == time),
            None,
            "{format}"
        );
    }
    assert_eq!(
        pattern("%Y-%m-%e", "2026-11- 3x"),
        Some((1_793_664_000, 10))
    );
    assert_eq!(
        pattern("%D %I %p", "11/30/26 12 AM"),
        pattern("%D", "11/30/26").map(|(time, _)| (time, 14))
    );
}

#[test]
fn what_cannot_be_read_back_is_named() {
    for (format, conversion) in [
        ("%Y-%j", "%j"),
        ("%c", "%c"),
        ("%Y%", "% "),
        ("%\u{1b}", "%\\x1b"),
    ] {
        assert_eq!(
            Pattern::parse(format.as_bytes()),
            Err(conversion.to_owned()),
            "{format}"
        );
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(seconds in 0i64..253_402_300_799) {
        let shown = written(seconds * SECOND);
        prop_assert_eq!(pattern("%F %T", &shown), Some((seconds, shown.len())));
    }

    #[test]
    fn days_follow_each_other(day in 0i64..2_900_000) {
        let (one, next) = (written(day * 86_400 * SECOND), written((day + 1) * 86_400 * SECOND));
        let number = |text: &str, range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
        let follows = number(&next, 8..10) == number(&one, 8..10) + 1 && one[..8] == next[..8];
        let month_ends = &next[8..10] == "01" && number(&one, 8..10) == days_in(number(&one, 0..4), number(&one, 5..7));
        prop_assert!(follows || month_ends, "{} {}", one, next);
    }

    #[test]
    fn nothing_panics(format in "(%[a-zA-Z%]|[ -~]){0,8}", text in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(pattern) = Pattern::parse(format.as_bytes()) {
            let mut civil = Civil::default();
            let mut epoch = None;
            let length = pattern.read(&text, &mut civil, &mut epoch);
            prop_assert!(length.unwrap_or(0) <= text.len());
            let _ = civil.seconds();
        }
        if let Some(text) = text.first_chunk() {
            let _ = common(text);
        }
    }
}
