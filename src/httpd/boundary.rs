//! No panic crosses into C: every callback's body runs inside [`guard`].
//!
//! A fault of ours is told once per process; the request is served.

use std::panic::{self, AssertUnwindSafe};

use once_cell::race::OnceBox;

/// The first panic of this process, with its place in the source.
static FIRST: OnceBox<String> = OnceBox::new();

/// Runs a callback's body. After a panic httpd gets `fallback`, and `told` the
/// text of the first panic of this process.
pub fn guard<T>(fallback: T, told: impl FnOnce(&str), body: impl FnOnce() -> T) -> T {
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(_) => {
            // A second panic on the way must not escape either.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| {
                told(FIRST.get().map_or("a panic without a text", |text| text))
            }));
            fallback
        }
    }
}

/// Keeps the first panic's text for [`guard`] instead of printing every one.
///
/// For children only: std's hook would write a line per panic to the error log.
pub fn keep_panic_text() {
    panic::set_hook(Box::new(|info| {
        let _ = FIRST.set(Box::new(info.to_string().replace('\n', ": ")));
    }));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_panic_becomes_the_fallback_and_is_told() {
        let told = Cell::new(0);
        let run = |fault: bool| {
            let tell = |_: &str| told.set(told.get() + 1);
            guard(-1, tell, || if fault { panic!("planted") } else { 7 })
        };
        assert_eq!((run(true), run(true), run(false)), (-1, -1, 7));
        assert_eq!(told.get(), 2);
    }

    #[test]
    fn a_panic_while_telling_does_not_escape() {
        assert_eq!(guard(1, |_| panic!("planted"), || panic!("planted")), 1);
    }
}
