//! What lies in the directory of a server before its start: the files and scripts that it serves.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Setup, scripts};

impl Setup {
    /// A directory of the document root with `hold.cgi`, `hello.cgi`, `small.txt` and `index.html`.
    #[must_use]
    pub fn furnish(self, dir: &str) -> Setup {
        let title = if dir.is_empty() { "root" } else { dir };
        let hold = scripts::hold(&self.dir().join("gates"));
        self.script(&format!("{dir}/hold.cgi"), &hold)
            .script(&format!("{dir}/hello.cgi"), scripts::HELLO)
            .file(&format!("{dir}/small.txt"), "ok\n")
            .file(&format!("{dir}/index.html"), format!("{title}\n"))
    }

    /// Writes a file into the document root.
    #[must_use]
    pub fn file(self, path: &str, text: impl AsRef<[u8]>) -> Setup {
        let place = self.place(path);
        fs::write(&place, text).unwrap_or_else(|e| panic!("write {}: {e}", place.display()));
        set_mode(&place, 0o644);
        self
    }

    /// Writes a script into the document root.
    #[must_use]
    pub fn script(self, path: &str, text: &str) -> Setup {
        let place = self.place(path);
        let this = self.file(path, text);
        set_mode(&place, 0o755);
        this
    }

    /// Makes a file of so many bytes, all zero and taking no room.
    #[must_use]
    pub fn big_file(self, path: &str, bytes: u64) -> Setup {
        let place = self.place(path);
        let this = self.file(path, "");
        let file = fs::File::options().write(true).open(place);
        file.and_then(|file| file.set_len(bytes))
            .expect("make a big file");
        this
    }

    /// As [`Setup::big_file`], but a script writes it, so that a worker has to be with it.
    #[must_use]
    pub fn big_script(self, path: &str, bytes: u64) -> Setup {
        self.script(path, &scripts::zeros(bytes))
    }

    /// Makes a directory of the server's own into which its children may write.
    #[must_use]
    pub fn writable_dir(self, name: &str) -> Setup {
        let place = self.dir().join(name);
        make_dir(&place);
        set_mode(&place, 0o777);
        self
    }

    /// Where a file of the document root lies; its directory is there.
    fn place(&self, path: &str) -> PathBuf {
        let place = self.dir().join("htdocs").join(path.trim_start_matches('/'));
        let mut missing: Vec<_> = place
            .ancestors()
            .skip(1)
            .take_while(|dir| !dir.exists())
            .collect();
        missing.reverse();
        missing.into_iter().for_each(make_dir);
        place
    }
}

/// Whatever the umask: the server's children run as another user.
fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set the mode of a file");
}

pub(super) fn make_dir(path: &Path) {
    fs::create_dir(path).unwrap_or_else(|e| panic!("create {}: {e}", path.display()));
    set_mode(path, 0o755);
}

/// A new directory for temporary files; what a test left that was killed, and whose process
/// number came again, is in nobody's way.
pub fn temporary_dir(kind: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("limitipconn-{kind}{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        match fs::create_dir(&dir) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            made => {
                made.unwrap_or_else(|e| panic!("create {}: {e}", dir.display()));
                set_mode(&dir, 0o755);
                return dir;
            }
        }
    }
}

/// Bytes that are not like each other.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}
