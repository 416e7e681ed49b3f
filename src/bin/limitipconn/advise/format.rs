//! httpd's LogFormat, compiled to the steps by which a line is read.
//!
//! A step is a field and the text that follows it. What is of no use is skipped by that
//! text, and reading stops after the last field that is of use.

use super::clock::Pattern;
use directive::{field, unknown};

mod directive;
mod paste;

/// The formats that httpd's documentation and Debian give a name.
pub const NAMED: [(&str, &str); 3] = [
    (
        "vhost_combined",
        "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"",
    ),
    (
        "combined",
        "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"",
    ),
    ("common", "%h %l %u %t \"%r\" %>s %b"),
];

/// What a field tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Field {
    /// The client; of several in a format the one with the lowest number counts.
    Client(u8),
    /// `%{X-Forwarded-For}i`, the client where the format has no other.
    Forwarded,
    /// When the request began, or ended.
    Time { end: bool, form: TimeForm },
    /// How long it took, in units of so many microseconds.
    Duration(u64),
    /// `%r`
    Request,
    /// `%U`
    Path,
    /// `%U%q`
    PathAndQuery,
    /// `%q`
    Query,
    /// A header that is of no use, and may be a list: `a, b`.
    List,
    /// A number that is of no use, or a minus sign.
    Number,
    /// Anything else.
    Other,
}

/// How a time is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TimeForm {
    /// `10/Oct/2000:13:55:36 -0700`, in brackets.
    Common,
    /// Since 1970, in units of so many microseconds.
    Since1970(i64),
    /// What is beyond the second, in units of so many microseconds.
    Fraction(i64),
    /// strftime(3)
    Pattern(Pattern),
}

/// A field and the text that follows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    pub field: Field,
    /// Whether it stands in quotes, so that a quote in it has a backslash.
    pub quoted: bool,
    /// Empty at the end, and after what tells its own end.
    pub after: Vec<u8>,
}

/// A compiled LogFormat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format {
    /// What it was made from.
    pub written: String,
    /// What each line begins with.
    pub before: Vec<u8>,
    pub steps: Vec<Step>,
    /// The number of steps up to the last that is of use, but for those of the tail.
    pub front: usize,
    /// The first of the steps at the end of a line that are numbers and can be read backwards,
    /// so that nothing between has to be looked at; the number of steps where there is none.
    pub tail: usize,
    /// Whether a duration can be told.
    pub has_duration: bool,
    /// Whether times are finer than a second.
    pub has_fraction: bool,
    /// Durations are cut to whole seconds.
    pub coarse_duration: bool,
}

impl Format {
    /// A LogFormat, or one of the names with what follows it: `combined %D`; a line of the
    /// configuration will do. The error is the rest of a sentence that begins with the option's name.
    pub fn parse(given: &str) -> Result<Format, String> {
        let spelled = paste::spelled(given);
        if !spelled.contains('%') {
            return Err(format!(
                "\"{given}\" is no LogFormat; use what stands in httpd's configuration (for example \
                 '%h %l %u %t \"%r\" %>s %b %D'), or common, combined or vhost_combined, with \
                 more after it or not (for example 'combined %D %{{usec_frac}}t')"
            ));
        }
        // As in httpd's configuration, where quotes in quotes have a backslash.
        let spelled = spelled.replace("\\\"", "\"");
        Compiler::default().compile(&spelled)
    }
}

/// A format as it grows.
#[derive(Default)]
struct Compiler {
    before: Vec<u8>,
    steps: Vec<Step>,
}

impl Compiler {
    fn compile(mut self, written: &str) -> Result<Format, String> {
        let mut rest = written.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'%' => rest = self.directive(rest)?,
                b'\\' => {
                    let escaped = match rest.first() {
                        Some(b'n') => b'\n',
                        Some(b't') => b'\t',
                        Some(b'r') => b'\r',
                        _ => b'\\',
                    };
                    let taken = matches!(rest.first(), Some(b'n' | b't' | b'r' | b'\\'));
                    self.text(escaped);
                    rest = &rest[usize::from(taken)..];
                }
                byte => self.text(byte),
            }
        }
        self.finish(written)
    }

    /// A byte that stands for itself.
    fn text(&mut self, byte: u8) {
        match self.steps.last_mut() {
            Some(step) => step.after.push(byte),
            None => self.before.push(byte),
        }
    }

    fn field(&mut self, field: Field) {
        // %q begins with its question mark, or is empty.
        if let (Some(path), Field::Query) = (self.steps.last_mut(), &field)
            && path.field == Field::Path
            && path.after.is_empty()
        {
            path.field = Field::PathAndQuery;
            return;
        }
        let last = match self.steps.last() {
            Some(step) => step.after.last(),
            None => self.before.last(),
        };
        let quoted = last == Some(&b'"');
        self.steps.push(Step {
            field,
            quoted,
            after: Vec::new(),
        });
    }

    /// What follows a percent sign; gives back the rest.
    fn directive<'f>(&mut self, text: &'f [u8]) -> Result<&'f [u8], String> {
        let mut rest = text;
        let mut argument: &[u8] = b"";
        loop {
            let Some((&byte, after)) = rest.split_first() else {
                return Err(format!(
                    "\"%{}\" ends before its letter; use for example %h or %>s",
                    text.escape_ascii()
                ));
            };
            rest = after;
            match byte {
                b'%' => {
                    self.text(b'%');
                    return Ok(rest);
                }
                // Conditions and which of redirected requests: they change what is told, not
                // how it is written.
                b'<' | b'>' | b'!' | b',' | b'0'..=b'9' => {}
                b'{' => {
                    let end = memchr::memchr(b'}', rest).ok_or_else(|| {
                        format!(
                            "\"%{{{}\" has no closing brace; use for example %{{Referer}}i",
                            rest.escape_ascii()
                        )
                    })?;
                    argument = &rest[..end];
                    rest = &rest[end + 1..];
                }
                b'^' => {
                    let known = [&b"FB"[..], b"ti", b"to"];
                    let Some(name) = known.iter().find(|name| rest.starts_with(name)) else {
                        return Err(unknown(&text[..text.len().min(3)]));
                    };
                    self.field(Field::Other);
                    return Ok(&rest[name.len()..]);
                }
                letter => {
                    let length = text.len() - rest.len();
                    let field = field(letter, argument, &text[..length])?;
                    let is_common_time = matches!(
                        field,
                        Field::Time {
                            form: TimeForm::Common,
                            ..
                        }
                    );
                    if is_common_time {
                        self.text(b'[');
                    }
                    self.field(field);
                    if is_common_time {
                        self.text(b']');
                    }
                    return Ok(rest);
                }
            }
        }
    }

    fn finish(self, written: &str) -> Result<Format, String> {
        let Compiler { before, mut steps } = self;
        for at in 1..steps.len() {
            let step = &steps[at - 1];
            if step.after.is_empty() && !tells_its_end(&step.field) {
                return Err(format!(
                    "\"{written}\" has nothing between its {} and its {} field, so that where one ends \
                     cannot be told; use a format with a blank between them",
                    ordinal(at),
                    ordinal(at + 1)
                ));
            }
        }
        let best = steps
            .iter()
            .filter_map(|step| match step.field {
                Field::Client(rank) => Some(rank),
                Field::Forwarded => Some(u8::MAX),
                _ => None,
            })
            .min()
            .ok_or_else(|| {
                format!("\"{written}\" does not tell the client; use one with %h or %a")
            })?;
        for step in &mut steps {
            match step.field {
                Field::Client(rank) if rank != best => step.field = Field::Other,
                Field::Forwarded if best != u8::MAX => step.field = Field::List,
                _ => {}
            }
        }
        let tells = |what: &dyn Fn(&Field) -> bool| steps.iter().any(|step| what(&step.field));
        let tells_time = |end: bool, fraction: bool| {
            tells(&|field| match field {
                Field::Time { end: of, form } if *of == end => match form {
                    TimeForm::Fraction(_) => fraction,
                    TimeForm::Since1970(unit) => !fraction || *unit < super::clock::SECOND,
                    TimeForm::Pattern(pattern) => !fraction && pattern.tells_day(),
                    TimeForm::Common => !fraction,
                },
                _ => false,
            })
        };
        let (begins, ends) = (tells_time(false, false), tells_time(true, false));
        for end in [false, true] {
            if tells_time(end, false) && !tells_second(&steps, end) {
                return Err(format!(
                    "\"{written}\" has a time without seconds; use %t, or %T or %S in its braces"
                ));
            }
        }
        if !begins && !ends {
            return Err(format!(
                "\"{written}\" does not tell date and time; use one with %t, or with %{{sec}}t or %{{%Y-%m-%d %T}}t"
            ));
        }
        let unit = steps.iter().filter_map(|step| match step.field {
            Field::Duration(unit) => Some(unit),
            _ => None,
        });
        let finest = unit.min();
        // Of two durations the finer counts.
        for step in &mut steps {
            if matches!(step.field, Field::Duration(unit) if Some(unit) != finest) {
                step.field = Field::Number;
            }
        }
        let tail = tail(&steps);
        let front = useful(&steps[..tail]);
        // Nothing is between, or nothing behind is of use: read on, and stop early.
        let (front, tail) = match useful(&steps[tail..]) {
            0 => (front, steps.len()),
            _ if front == tail => (useful(&steps), steps.len()),
            _ => (front, tail),
        };
        Ok(Format {
            has_duration: finest.is_some() || begins && ends,
            has_fraction: tells_fraction(&steps, !begins),
            coarse_duration: finest
                .map_or(begins && ends && !tells_fraction(&steps, false), |unit| {
                    unit >= 1_000_000
                }),
            written: written.to_owned(),
            before,
            steps,
            front,
            tail,
        })
    }
}

/// How many steps there are up to the last that is of use.
fn useful(steps: &[Step]) -> usize {
    steps
        .iter()
        .rposition(|step| {
            !matches!(
                step.field,
                Field::Number | Field::Other | Field::List | Field::Query
            )
        })
        .map_or(0, |last| last + 1)
}

/// Where the numbers begin that a line ends with.
fn tail(steps: &[Step]) -> usize {
    let is_number = |step: &&Step| match &step.field {
        Field::Duration(_) | Field::Number => true,
        Field::Time { form, .. } => {
            matches!(form, TimeForm::Since1970(_) | TimeForm::Fraction(_))
        }
        _ => false,
    };
    let numbers = steps.iter().rev().take_while(is_number).count();
    let first = steps.len() - numbers;
    // Numbers that touch cannot be told apart from behind.
    let touch = |at: &usize| steps[at - 1].after.is_empty();
    (first.max(1)..steps.len())
        .rev()
        .find(touch)
        .map_or(first.max(1).min(steps.len()), |at| at + 1)
}

fn tells_second(steps: &[Step], of_end: bool) -> bool {
    steps.iter().any(|step| match &step.field {
        Field::Time { end, form } if *end == of_end => match form {
            TimeForm::Common | TimeForm::Since1970(_) => true,
            TimeForm::Fraction(_) => false,
            TimeForm::Pattern(pattern) => pattern.tells_second(),
        },
        _ => false,
    })
}

fn tells_fraction(steps: &[Step], of_end: bool) -> bool {
    steps.iter().any(|step| match &step.field {
        Field::Time { end, form } if *end == of_end => match form {
            TimeForm::Fraction(_) => true,
            TimeForm::Since1970(unit) => *unit < super::clock::SECOND,
            _ => false,
        },
        _ => false,
    })
}

/// Whether a field's own text says where it ends.
fn tells_its_end(field: &Field) -> bool {
    matches!(
        field,
        Field::Time { .. } | Field::Duration(_) | Field::Number
    )
}

fn ordinal(number: usize) -> String {
    match number {
        1 => "1st".into(),
        2 => "2nd".into(),
        3 => "3rd".into(),
        _ => format!("{number}th"),
    }
}

#[cfg(test)]
#[path = "format/tests.rs"]
mod tests;
