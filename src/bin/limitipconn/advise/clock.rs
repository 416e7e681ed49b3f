//! Times as access logs write them: the common form of `%t`, and what `%{...}t` makes by
//! strftime(3). All become microseconds since 1970.

/// A second in microseconds.
pub const SECOND: i64 = 1_000_000;

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// How long the common form is: `10/Oct/2000:13:55:36 -0700`.
pub const COMMON: usize = 26;

/// A date and a time of day as they are read, piece by piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Civil {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    /// East of Greenwich, in seconds.
    offset: i64,
    /// `%p` said so, for `%I`.
    afternoon: Option<bool>,
}

impl Civil {
    /// Seconds since 1970; none for what is no date. The leap second 60 is the next one.
    pub fn seconds(&self) -> Option<i64> {
        let Civil {
            year, month, day, ..
        } = *self;
        let hour = match self.afternoon {
            Some(afternoon) => self.hour % 12 + if afternoon { 12 } else { 0 },
            None => self.hour,
        };
        let is_date = (1970..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day);
        let is_time = hour < 24 && self.minute < 60 && self.second <= 60;
        let seconds = days_since_1970(year, month, day) * 86_400
            + hour * 3600
            + self.minute * 60
            + self.second
            - self.offset;
        (is_date && is_time).then_some(seconds)
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days of the proleptic Gregorian calendar, counted in years that begin in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// Date and time as UTC, `2026-11-30 12:00:00`.
pub fn written(micros: i64) -> String {
    let seconds = micros.div_euclid(SECOND);
    let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Howard Hinnant's civil_from_days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = (march_month + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Seconds since 1970 of `10/Oct/2000:13:55:36 -0700`.
pub fn common(text: &[u8; COMMON]) -> Option<i64> {
    let signs = [
        (2, b'/'),
        (6, b'/'),
        (11, b':'),
        (14, b':'),
        (17, b':'),
        (20, b' '),
    ];
    let fits = signs.iter().all(|(at, sign)| text[*at] == *sign);
    let civil = Civil {
        day: number(&text[0..2])?,
        month: month(&text[3..6])?,
        year: number(&text[7..11])?,
        hour: number(&text[12..14])?,
        minute: number(&text[15..17])?,
        second: number(&text[18..20])?,
        offset: offset(&text[21..26])?,
        afternoon: None,
    };
    civil.seconds().filter(|_| fits)
}

/// Digits, and nothing else.
fn number(text: &[u8]) -> Option<i64> {
    let mut number = 0;
    for byte in text {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number * 10 + i64::from(byte - b'0');
    }
    Some(number)
}

fn month(text: &[u8]) -> Option<i64> {
    let at = MONTHS
        .iter()
        .position(|name| name.eq_ignore_ascii_case(text))?;
    Some(at as i64 + 1)
}

/// `+0130`
fn offset(text: &[u8]) -> Option<i64> {
    let (hours, minutes) = (number(&text[1..3])?, number(&text[3..5])?);
    let seconds = hours * 3600 + minutes * 60;
    match text[0] {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

/// A piece of a strftime(3) format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece {
    Byte(u8),
    Year,
    ShortYear,
    Month,
    MonthName,
    /// `%e` has a blank where `%d` has a zero.
    Day,
    Hour,
    HalfDay,
    Minute,
    Second,
    Offset,
    /// A name, which may not change the time: `Mon`, `UTC`.
    Name,
    Epoch,
}

/// A strftime(3) format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern(Vec<Piece>);

/// What of strftime can be read back.
pub const READABLE: &str =
    "%Y %y %m %b %d %e %H %I %p %M %S %T %R %F %D %z %Z %s %a %A are understood";

impl Pattern {
    /// The error is the conversion that cannot be read back.
    pub fn parse(format: &[u8]) -> Result<Pattern, String> {
        let mut pieces = Vec::new();
        let mut bytes = format.iter().copied();
        while let Some(byte) = bytes.next() {
            if byte != b'%' {
                pieces.push(Piece::Byte(byte));
                continue;
            }
            let conversion = bytes.next().unwrap_or(b' ');
            let spelled: &[u8] = match conversion {
                b'T' => b"%H:%M:%S",
                b'R' => b"%H:%M",
                b'F' => b"%Y-%m-%d",
                b'D' => b"%m/%d/%y",
                _ => b"",
            };
            if !spelled.is_empty() {
                pieces.extend(Pattern::parse(spelled)?.0);
                continue;
            }
            pieces.push(match conversion {
                b'Y' => Piece::Year,
                b'y' => Piece::ShortYear,
                b'm' => Piece::Month,
                b'b' | b'B' | b'h' => Piece::MonthName,
                b'd' | b'e' => Piece::Day,
                b'H' | b'k' | b'I' | b'l' => Piece::Hour,
                b'p' | b'P' => Piece::HalfDay,
                b'M' => Piece::Minute,
                b'S' => Piece::Second,
                b'z' => Piece::Offset,
                b'Z' | b'a' | b'A' => Piece::Name,
                b's' => Piece::Epoch,
                b'n' => Piece::Byte(b'\n'),
                b't' => Piece::Byte(b'\t'),
                b'%' => Piece::Byte(b'%'),
                other => return Err(format!("%{}", other.escape_ascii())),
            });
        }
        Ok(Pattern(pieces))
    }

    /// Whether it tells a day, so that it is of use alone.
    pub fn tells_day(&self) -> bool {
        let has = |piece| self.0.contains(&piece);
        has(Piece::Epoch)
            || (has(Piece::Year) || has(Piece::ShortYear))
                && (has(Piece::Month) || has(Piece::MonthName))
                && has(Piece::Day)
    }

    pub fn tells_second(&self) -> bool {
        self.0.contains(&Piece::Epoch) || self.0.contains(&Piece::Second)
    }

    /// Reads what a text begins with and says how long that is. An epoch is given back in
    /// `epoch`, all else goes into `civil`.
    pub fn read(&self, text: &[u8], civil: &mut Civil, epoch: &mut Option<i64>) -> Option<usize> {
        let mut at = 0;
        for piece in &self.0 {
            let rest = text.get(at..)?;
            let taken = match piece {
                Piece::Byte(byte) => (rest.first() == Some(byte)).then_some(1)?,
                Piece::Year => digits(rest, 4, &mut civil.year)?,
                Piece::ShortYear => {
                    let taken = digits(rest, 2, &mut civil.year)?;
                    // As strptime: 69 to 99 are of the last century.
                    civil.year += if civil.year < 69 { 2000 } else { 1900 };
                    taken
                }
                Piece::Month => digits(rest, 2, &mut civil.month)?,
                Piece::MonthName => {
                    civil.month = month(rest.get(..3)?)?;
                    letters(rest)
                }
                Piece::Day => digits(rest, 2, &mut civil.day)?,
                Piece::Hour => digits(rest, 2, &mut civil.hour)?,
                Piece::Minute => digits(rest, 2, &mut civil.minute)?,
                Piece::Second => digits(rest, 2, &mut civil.second)?,
                Piece::HalfDay => {
                    let first = rest.first()?.to_ascii_uppercase();
                    civil.afternoon = Some(first == b'P');
                    matches!(first, b'A' | b'P').then_some(2)?
                }
                Piece::Offset => {
                    civil.offset = offset(rest.get(..5)?)?;
                    5
                }
                Piece::Name => Some(letters(rest)).filter(|taken| *taken > 0)?,
                Piece::Epoch => {
                    let taken = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    let seconds = number(rest.get(..taken).filter(|text| text.len() <= 12)?)?;
                    *epoch = Some(seconds);
                    Some(taken).filter(|taken| *taken > 0)?
                }
            };
            at += taken;
        }
        (at <= text.len()).then_some(at)
    }
}

/// A number of so many digits; a blank may stand for a leading zero.
fn digits(text: &[u8], length: usize, into: &mut i64) -> Option<usize> {
    let text = text.get(..length)?;
    *into = match text {
        [b' ', rest @ ..] => number(rest)?,
        _ => number(text)?,
    };
    Some(length)
}

fn letters(text: &[u8]) -> usize {
    text.iter()
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count()
}

#[cfg(test)]
#[path = "clock/tests.rs"]
mod tests;
