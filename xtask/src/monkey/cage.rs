//! Namespaces for one run. What the run starts cannot outlive it, and what it uses up is its own.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::bench::Result;
use crate::watched::Watched;

/// A run takes a few times the patience and some seconds. After this time the harness hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs this program with `--inside`. The text is what is wrong; empty if nothing is.
///
/// # Errors
/// The namespaces cannot be made, or the run does not end as it should.
pub fn run(folder: &Path, retake: &Path, patience: u64) -> Result<String> {
    let [told, errors] = ["told", "told-errors"].map(|name| folder.join(name));
    let mut command = Command::new("unshare");
    command.args(["--mount", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.arg("--").arg(std::env::current_exe()?).arg("monkey");
    command.arg("--inside").arg(folder).arg("--retake").arg(retake);
    command.args(["--patience", &patience.to_string()]);
    let mut watched = Watched::start(command, &told, &errors)?;
    let ended = watched.wait(LIMIT);
    let errors = std::io::read_to_string(File::open(errors)?)?;
    match ended {
        Some(status) if status.success() => Ok(std::io::read_to_string(File::open(told)?)?),
        Some(status) => Err(format!("the run ended with {status}: {errors}").into()),
        None => Ok(format!("the run did not end in {} s", LIMIT.as_secs())),
    }
}
