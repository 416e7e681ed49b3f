//! Where the fields of a line begin and end: by the texts between them, from the front or from
//! behind.

use super::super::format::Step;

/// The text of a field and what follows the text after it.
#[inline]
pub fn split<'l>(step: &Step, rest: &'l [u8]) -> Option<(&'l [u8], &'l [u8])> {
    split_where(step, rest, |_, _| true)
}

/// The same, at the first place that fits.
#[inline]
pub fn split_where<'l>(
    step: &Step,
    rest: &'l [u8],
    mut fits: impl FnMut(&[u8], &[u8]) -> bool,
) -> Option<(&'l [u8], &'l [u8])> {
    let Some(&first) = step.after.first() else {
        return Some((rest, &[]));
    };
    let mut from = 0;
    loop {
        let at = from + position(first, &rest[from..])?;
        // In quotes httpd writes \" for a quote and \\ for a backslash.
        let escaped = step.quoted && first == b'"' && is_escaped(&rest[..at]);
        if !escaped
            && let Some(after) = follow(&rest[at..], &step.after)
            && fits(&rest[..at], after)
        {
            return Some((&rest[..at], after));
        }
        from = at + 1;
    }
}

/// The end of a line from the step `tail` on: numbers, and the texts between them.
#[inline]
pub fn end<'l>(steps: &[Step], tail: usize, rest: &'l [u8]) -> Option<&'l [u8]> {
    let mut left = rest;
    for step in steps[tail..].iter().rev() {
        left = precede(left, &step.after)?;
        let digits = left.iter().rev().take_while(|byte| byte.is_ascii_digit());
        let digits = digits.count();
        // A minus sign alone is nothing; before digits it is for the step to refuse.
        let sign = usize::from(left[..left.len() - digits].last() == Some(&b'-'));
        left = &left[..left.len() - digits - sign];
    }
    precede(left, &steps[tail - 1].after)?;
    Some(&rest[left.len()..])
}

/// What precedes a text that the rest ends with.
#[inline]
fn precede<'l>(rest: &'l [u8], text: &[u8]) -> Option<&'l [u8]> {
    let (before, back) = rest.split_at_checked(rest.len().checked_sub(text.len())?)?;
    let fits = back.iter().zip(text).all(|(one, other)| one == other);
    fits.then_some(before)
}

/// Where a byte is: mostly within a few bytes, for which a call would cost more than a look.
#[inline]
fn position(byte: u8, text: &[u8]) -> Option<usize> {
    const NEAR: usize = 16;
    let near = &text[..text.len().min(NEAR)];
    match near.iter().position(|one| *one == byte) {
        None if text.len() > NEAR => memchr::memchr(byte, &text[NEAR..]).map(|at| at + NEAR),
        found => found,
    }
}

/// What follows a text that the rest begins with: a few bytes mostly, for which a call would
/// cost more than the comparison.
#[inline]
pub fn follow<'l>(rest: &'l [u8], text: &[u8]) -> Option<&'l [u8]> {
    let (front, after) = rest.split_at_checked(text.len())?;
    let fits = front.iter().zip(text).all(|(one, other)| one == other);
    fits.then_some(after)
}

/// Whether an odd number of backslashes is in front.
#[inline]
fn is_escaped(before: &[u8]) -> bool {
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}
