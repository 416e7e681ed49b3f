//! One line of an access log, taken apart by its [`Format`]: nothing is copied and nothing
//! allocated. Any bytes may come; what does not fit is told apart, never trusted.

use super::clock::{self, COMMON, Civil, SECOND};
use super::format::{Field, Format, Step, TimeForm};
use pieces::{end, follow, split, split_where};

mod pieces;

/// The longest request that is believed, in microseconds: 366 days.
pub const LONGEST: u64 = 366 * 86_400 * 1_000_000;

/// What a line tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Line<'l> {
    pub client: &'l [u8],
    /// When it began or ended, in microseconds since 1970, as written.
    pub time: i64,
    /// Whether `time` is the end.
    pub ended: bool,
    /// In microseconds.
    pub duration: Option<u64>,
    /// The path, without its query; empty where it is not told.
    pub path: &'l [u8],
    /// What kind of line it is.
    pub kind: Kind,
}

/// What was logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    #[default]
    Request,
    /// A connection on which no request came: `"-" 408`.
    Silent,
    /// httpd waking its own children: `OPTIONS * HTTP/1.0`, from the machine itself.
    Dummy,
}

/// Why a line cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is not of this format.
    Shape,
    /// Its time is none.
    Time,
    /// Its duration is negative, no number, or longer than a year.
    Duration,
    /// It does not tell who the client is.
    Client,
}

impl Fault {
    pub const ALL: [Fault; 4] = [Fault::Shape, Fault::Time, Fault::Duration, Fault::Client];

    /// What is wrong with the line.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Shape => "not of this format",
            Fault::Time => "no valid time",
            Fault::Duration => "a duration that is negative, no number, or over a year",
            Fault::Client => "no client",
        }
    }
}

/// How much of a line must fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extent {
    /// What is of use, up to the last such field.
    Useful,
    /// The whole format, whatever follows.
    Beginning,
    /// The whole format, and nothing may follow.
    Whole,
}

/// Reads lines of one format; keeps the last time, since the next line has it mostly too.
#[derive(Clone)]
pub struct Reader {
    format: Format,
    last: ([u8; COMMON], i64),
    extent: Extent,
}

/// A time as its parts are found.
#[derive(Clone, Copy, Default)]
struct Moment {
    seconds: Option<i64>,
    micros: i64,
    civil: Civil,
    is_civil: bool,
}

impl Moment {
    fn micros(&self) -> Option<i64> {
        let seconds = match self.seconds {
            None if self.is_civil => self.civil.seconds(),
            seconds => seconds,
        };
        seconds.map(|seconds| seconds * SECOND + self.micros)
    }
}

impl Reader {
    pub fn new(format: Format) -> Reader {
        Reader {
            format,
            last: ([0; COMMON], 0),
            extent: Extent::Useful,
        }
    }

    /// One that takes only lines that fit from end to end.
    pub fn whole(format: Format) -> Reader {
        Reader {
            extent: Extent::Whole,
            ..Reader::new(format)
        }
    }

    /// One that takes only lines that begin with all of the format.
    pub fn beginning(format: Format) -> Reader {
        Reader {
            extent: Extent::Beginning,
            ..Reader::new(format)
        }
    }

    /// Takes a line apart.
    pub fn read<'l>(&mut self, line: &'l [u8]) -> Result<Line<'l>, Fault> {
        let mut rest = follow(line, &self.format.before).ok_or(Fault::Shape)?;
        let mut told = Line::default();
        let mut moments = [Moment::default(); 2];
        let Format {
            front, tail, steps, ..
        } = &self.format;
        let (count, tail) = match self.extent {
            Extent::Useful => (*front, *tail),
            _ => (steps.len(), steps.len()),
        };
        for (at, step) in steps.iter().enumerate() {
            if at == count {
                if tail == steps.len() {
                    break;
                }
                // What is between is of no use.
                rest = end(steps, tail, rest).ok_or(Fault::Shape)?;
            }
            if (count..tail).contains(&at) {
                continue;
            }
            let text;
            (text, rest) = match &step.field {
                Field::Time { end, form } => {
                    let moment = &mut moments[usize::from(*end)];
                    let taken = time(form, rest, moment, &mut self.last).ok_or(Fault::Time)?;
                    let after = follow(&rest[taken..], &step.after);
                    (&rest[..taken], after.ok_or(Fault::Shape)?)
                }
                Field::Duration(_) | Field::Number => number(step, rest)?,
                // A login name may have what stands before the time.
                _ if is_before_time(steps, at) => {
                    let last = &mut self.last;
                    let is_time = |_: &[u8], after: &[u8]| is_common(after, last);
                    let found = split_where(step, rest, is_time);
                    found.or_else(|| split(step, rest)).ok_or(Fault::Shape)?
                }
                // A list has blanks in it, each after a comma.
                Field::Forwarded | Field::List if !step.quoted => {
                    let is_whole = |text: &[u8], _: &[u8]| !text.trim_ascii_end().ends_with(b",");
                    let found = split_where(step, rest, is_whole);
                    found.or_else(|| split(step, rest)).ok_or(Fault::Shape)?
                }
                _ => split(step, rest).ok_or(Fault::Shape)?,
            };
            match step.field {
                Field::Client(_) => told.client = text,
                Field::Forwarded => {
                    // What a proxy in front has added stands last.
                    let mut hops = text.rsplit(|byte| *byte == b',').map(<[u8]>::trim_ascii);
                    told.client = hops.find(|hop| !hop.is_empty()).unwrap_or_default();
                }
                Field::Duration(unit) if text != b"-" => {
                    told.duration = Some(duration(text, unit).ok_or(Fault::Duration)?);
                }
                Field::Request => (told.path, told.kind) = request(text, told.path),
                Field::Path => told.path = text,
                Field::PathAndQuery => {
                    let end = memchr::memchr(b'?', text).unwrap_or(text.len());
                    told.path = &text[..end];
                }
                _ => {}
            }
        }
        if self.extent == Extent::Whole && !rest.is_empty() {
            return Err(Fault::Shape);
        }
        if told.client.is_empty() || told.client == b"-" {
            return Err(Fault::Client);
        }
        if told.kind == Kind::Dummy && !is_loopback(told.client) {
            told.kind = Kind::Request;
        }
        let [began, ended] = moments.map(|moment| moment.micros());
        told.time = began.or(ended).ok_or(Fault::Time)?;
        told.ended = began.is_none();
        if let (None, Some(began), Some(ended)) = (told.duration, began, ended) {
            let took = u64::try_from(ended - began).map_err(|_| Fault::Duration)?;
            told.duration = Some(took);
        }
        if told.duration.is_some_and(|duration| duration > LONGEST) {
            return Err(Fault::Duration);
        }
        Ok(told)
    }
}

/// A field of digits, or a minus sign where there is nothing to tell.
#[inline]
fn number<'l>(step: &Step, rest: &'l [u8]) -> Result<(&'l [u8], &'l [u8]), Fault> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length = match rest {
        [b'-', next, ..] if next.is_ascii_digit() => 0,
        [b'-', ..] => 1,
        _ => digits,
    };
    match follow(&rest[length..], &step.after) {
        Some(after) if length > 0 => Ok((&rest[..length], after)),
        // Negative, or no number: told as such if the line goes on as it should.
        _ if matches!(step.field, Field::Duration(_)) && split(step, rest).is_some() => {
            Err(Fault::Duration)
        }
        _ => Err(Fault::Shape),
    }
}

fn duration(text: &[u8], unit: u64) -> Option<u64> {
    let mut number = 0u64;
    for byte in text {
        number = number
            .checked_mul(10)?
            .checked_add(u64::from(byte - b'0'))?;
    }
    number.checked_mul(unit)
}

/// Reads a time that the rest of a line begins with; gives back how long it is.
#[inline]
fn time(
    form: &TimeForm,
    rest: &[u8],
    moment: &mut Moment,
    last: &mut ([u8; COMMON], i64),
) -> Option<usize> {
    match form {
        TimeForm::Common => {
            moment.seconds = Some(common(rest, last)?);
            Some(COMMON)
        }
        TimeForm::Since1970(unit) => {
            let (length, number) = digits(rest)?;
            let micros = number.checked_mul(*unit)?;
            moment.seconds = Some(micros / SECOND).filter(|seconds| *seconds < 253_402_300_800);
            if *unit < SECOND {
                moment.micros = micros % SECOND;
            }
            moment.seconds.map(|_| length)
        }
        TimeForm::Fraction(unit) => {
            let (length, number) = digits(rest)?;
            moment.micros = number
                .checked_mul(*unit)
                .filter(|micros| *micros < SECOND)?;
            Some(length)
        }
        TimeForm::Pattern(pattern) => {
            moment.is_civil = true;
            pattern.read(rest, &mut moment.civil, &mut moment.seconds)
        }
    }
}

#[inline]
fn common(rest: &[u8], last: &mut ([u8; COMMON], i64)) -> Option<i64> {
    let text: &[u8; COMMON] = rest.first_chunk()?;
    if *text != last.0 {
        *last = (*text, clock::common(text)?);
    }
    Some(last.1)
}

/// Whether a `%t` follows, but for the bracket before it.
#[inline]
fn is_common(rest: &[u8], last: &mut ([u8; COMMON], i64)) -> bool {
    rest.get(COMMON) == Some(&b']') && common(rest, last).is_some()
}

#[inline]
fn is_before_time(steps: &[Step], at: usize) -> bool {
    let form = steps.get(at + 1).map(|next| &next.field);
    matches!(
        form,
        Some(Field::Time {
            form: TimeForm::Common,
            ..
        })
    )
}

fn digits(text: &[u8]) -> Option<(usize, i64)> {
    let mut number = 0i64;
    let mut length = 0;
    for byte in text.iter().take_while(|byte| byte.is_ascii_digit()) {
        number = number
            .checked_mul(10)?
            .checked_add(i64::from(byte - b'0'))?;
        length += 1;
    }
    (length > 0).then_some((length, number))
}

/// The path of a request line, unless `%U` has told it, and what kind of line it is.
#[inline]
fn request<'l>(line: &'l [u8], told: &'l [u8]) -> (&'l [u8], Kind) {
    if line == b"-" {
        return (told, Kind::Silent);
    }
    let Some(blank) = memchr::memchr(b' ', line) else {
        return (told, Kind::Request);
    };
    let target = &line[blank + 1..];
    let end = memchr::memchr2(b' ', b'?', target).unwrap_or(target.len());
    let path = &target[..end];
    let kind = match path {
        b"*" if line.starts_with(b"OPTIONS ") => Kind::Dummy,
        _ => Kind::Request,
    };
    (if told.is_empty() { path } else { told }, kind)
}

fn is_loopback(client: &[u8]) -> bool {
    client == b"::1" || client.starts_with(b"127.") || client.starts_with(b"::ffff:127.")
}

#[cfg(test)]
#[path = "line/tests.rs"]
mod tests;
