//! The CGI scripts of the tests.
//!
//! A script that must wait reads a FIFO whose other end the test holds: it goes on when the
//! test closes it, and the kernel closes it when the test ends, however it ends.

use std::path::Path;

/// Answers at once.
pub const HELLO: &str = "#!/bin/sh
printf 'Content-Type: text/plain\\n\\nhello\\n'
";

/// Writes so many zeros, and says nothing when nobody takes them.
pub fn zeros(bytes: u64) -> String {
    format!("#!/bin/sh\nprintf 'Content-Type: x/y\\n\\n'\nhead -c {bytes} /dev/zero 2>&-\n")
}

/// Says `started`, then waits at the gate that its query names; a gate that is not there is open.
pub fn hold(gates: &Path) -> String {
    format!(
        "#!/bin/sh
printf 'Content-Type: text/plain\\n\\nstarted\\n'
gate={}/${{QUERY_STRING:-$REDIRECT_QUERY_STRING}}
if [ -p \"$gate\" ]; then {{ read -r line < \"$gate\"; }} 2>/dev/null; fi
printf 'ended\\n'
",
        gates.display()
    )
}
