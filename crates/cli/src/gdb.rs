//! What an installed gdb can do.

use std::path::Path;
use std::process::Command;

/// Why the commands of retake cannot run in this gdb; `None` if they can.
pub fn trouble(gdb: &Path) -> Option<String> {
    let shown = gdb.display();
    match Command::new(gdb).arg("--configuration").output() {
        Err(error) => Some(format!("{shown} does not start: {error}")),
        Ok(output) if !output.status.success() => {
            let errors = String::from_utf8_lossy(&output.stderr);
            let reason = errors.lines().next().map_or(output.status.to_string(), str::to_owned);
            Some(format!("{shown} does not start: {reason}"))
        }
        Ok(output) if says_no_python(&output.stdout) => {
            Some(format!("{shown} was built without Python, which retake's commands for gdb need"))
        }
        Ok(_) => None,
    }
}

fn says_no_python(configuration: &[u8]) -> bool {
    String::from_utf8_lossy(configuration).contains("--without-python")
}
