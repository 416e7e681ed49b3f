//! What servers that count together leave in their Redis.

use std::time::Duration;

use super::{Redis, wait_until};

impl Redis {
    /// Waits until no key has this text in its name: none at all where it is empty.
    #[track_caller]
    pub fn wait_for_no_keys(&self, within: Duration, text: &str) {
        wait_until(within, || {
            let mut keys = self.keys();
            keys.retain(|key| key.contains(text));
            if keys.is_empty() { Ok(()) } else { Err(keys) }
        });
    }
}
